//go:build ratelimit_collide

package ratelimit

import "github.com/puzpuzpuz/xsync/v3"

// With the tag ratelimit_collide both hash functions are constant: every key
// shares one chain of one shard. The tests are run this way too, since nothing
// may depend on keys being spread.

func shardHash(string, uint64) uint64 { return 42 }

func newKeymap() *keymap {
	return xsync.NewMapOfWithHasher[string, *bucket](func(string, uint64) uint64 { return 42 })
}
