package redislimit

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// notInPrefix are the characters that a prefix must not have: the ends of it, and what means
// something to a Cluster.
const notInPrefix = "=#{}"

// longestKey is the longest key that is part of the name of its bucket as it is.
const longestKey = 128 // bytes

// name returns the name in Redis of the bucket of key. It is the key behind the prefix,
// or its SHA-256 if the key is long, so that what is sent stays short; or if it has a
// brace in it, so that nobody can choose the slot of a Cluster that his keys are in. No
// key has the name of another one, or of one with another prefix: the first = or # ends the
// prefix, which has none.
func name(prefix, key string) string {
	if len(key) <= longestKey && !strings.ContainsAny(key, "{}") {
		return prefix + "=" + key
	}
	sum := sha256.Sum256([]byte(key))
	return prefix + "#" + hex.EncodeToString(sum[:])
}

// shortened returns key, or what stands for it in memory if it is long: its SHA-256, in
// more bytes than a key that is not long has.
func shortened(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return strings.Repeat("#", longestKey) + hex.EncodeToString(sum[:])
}
