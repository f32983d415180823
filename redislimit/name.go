package redislimit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// longestKey is the longest key that is part of the name of its bucket as it is.
const longestKey = 128 // bytes

// name returns the name in Redis of the bucket of key. It is the key behind the prefix,
// or its SHA-256 if the key is long, so that what is sent stays short; or if it has a
// brace in it, so that nobody can choose the slot of a Cluster that his keys are in. No
// key has the name of another one: the names begin with different letters.
func name(prefix, key string) string {
	if len(key) <= longestKey && !strings.ContainsAny(key, "{}") {
		return prefix + "k:" + key
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + "h:" + hex.EncodeToString(sum[:])
}
