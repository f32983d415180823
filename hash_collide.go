//go:build ratelimit_collide

package ratelimit

import (
	"hash/maphash"

	"github.com/puzpuzpuz/xsync/v3"
)

// With the tag ratelimit_collide both hash functions are constant: every key
// shares one chain of one shard. The tests are run this way too, since nothing
// may depend on keys being spread.

func shardHash(string, uint64) uint64 { return 42 }

func newKeymap() *keymap {
	return xsync.NewMapOfWithHasher[string, *bucket](func(string, uint64) uint64 { return 42 })
}

// The sets of a table are the same for all keys; the tags must differ, since they
// stand for the keys.
func tableHash(key string, _ uint64) (tag, hash uint64) {
	return max(1, maphash.String(tagSeed, key)), 42
}

var tagSeed = maphash.MakeSeed()
