//go:build !ratelimit_collide

package ratelimit

import (
	"github.com/puzpuzpuz/xsync/v3"
	"github.com/zeebo/xxh3"
)

// shardHash picks the shard of a key.
func shardHash(key string, seed uint64) uint64 { return xxh3.HashStringSeed(key, seed) }

// newKeymap returns the map of one shard, with the map's own hash function.
func newKeymap() *keymap { return xsync.NewMapOf[string, *bucket]() }
