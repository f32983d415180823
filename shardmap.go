package ratelimit

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
)

// shardCount is the number of shards, a power of two. It bounds what one call may
// have to wait for: a sweep or a resize touches one shard, 1/128 of the keys.
const shardCount = sweepParts

// A shardmap is the default store: exact keys, as many as memory holds.
//
// One hash function, seeded at random, picks the shard; the shard's map uses
// another (hash.go). With one hash for both, keys made to collide in it would
// share a shard and a chain of that shard's map.
//
// A lookup of a key takes no lock. Its first insertion locks one cache-line
// bucket of one shard's map, and waits while that map is resized.
type shardmap struct {
	layout *layout
	seed   uint64
	maps   [shardCount]atomic.Pointer[keymap] // made on the first insertion into each
	_      [64]byte                           // apart, so that insertions do not disturb lookups
	states [shardCount]shardState
	pace   pace
}

// A bucket is the word of one key. Nothing but the word ever changes in it, and only
// by compare-and-swap; once the word is removed it stays so.
type bucket struct {
	word atomic.Uint64
}

// A keymap is the map of one shard.
type keymap = xsync.MapOf[string, *bucket]

// A shardState is what a shard knows besides its map.
type shardState struct {
	// removedAt is the latest time at which a bucket of this shard was removed,
	// in nanoseconds. It is raised before the word is moved to removed, and no
	// bucket of this shard is created before it; so whoever finds the key absent,
	// or its bucket removed, sees a time at or after that removal.
	removedAt latest

	inserted atomic.Int64 // buckets created since the shard's last sweep
	kept     atomic.Int64 // buckets that its last sweep kept

	_ [40]byte // a cache line each
}

func newShardmap(l *layout) *shardmap {
	s := &shardmap{layout: l, seed: rand.Uint64()}
	s.pace.init(l, minRound)
	return s
}

func (s *shardmap) shardOf(key string) uint64 {
	return shardHash(key, s.seed) % shardCount
}

func (s *shardmap) find(key string) place {
	schedpoint("find", nil)
	shard := s.shardOf(key)
	if m := s.maps[shard].Load(); m != nil {
		if b, _ := m.Load(key); b != nil {
			return place{word: &b.word, hash: shard}
		}
	}
	return place{hash: shard}
}

func (s *shardmap) create(key string, at place, ns int64, charge uint64) (place, Decision, bool) {
	schedpoint("create", nil)
	shard := at.hash
	m := s.maps[shard].Load()
	if m == nil {
		s.maps[shard].CompareAndSwap(nil, newKeymap())
		m = s.maps[shard].Load()
	}
	state := &s.states[shard]
	created := new(bucket)
	var d Decision
	// The clone keeps no larger string alive of which key may be a part. The
	// function runs under a lock of the map, which a panic would never release:
	// nothing in it can panic.
	b, _ := m.Compute(strings.Clone(key), func(b *bucket, ok bool) (*bucket, bool) {
		if ok && b.word.Load() != removed {
			return b, false
		}
		var word uint64
		word, d = s.layout.first(max(ns, state.removedAt.load()), ns, charge)
		created.word.Store(word)
		return created, false
	})
	if b != created {
		return place{word: &b.word, hash: shard}, Decision{}, false
	}
	s.sweepAfterInsertion(shard, ns)
	return place{}, d, true
}

func (s *shardmap) absent(_ place, _ int64, now uint64) (uint64, time.Duration) {
	return s.layout.fresh(now), 0
}

func (s *shardmap) len() int {
	n := 0
	for i := range s.maps {
		if m := s.maps[i].Load(); m != nil {
			n += m.Size()
		}
	}
	return n
}

func (s *shardmap) sweep(now func() int64) int {
	swept := 0
	for shard := range s.maps {
		swept += s.sweepShard(uint64(shard), now())
	}
	return swept
}

// sweepShard removes the buckets of one shard that are forgettable at the time ns
// and returns how many those were. Any number of sweeps may run at once.
func (s *shardmap) sweepShard(shard uint64, ns int64) int {
	m := s.maps[shard].Load()
	if m == nil || !s.layout.forgets() {
		return 0
	}
	state := &s.states[shard]
	state.inserted.Store(0)
	now := s.layout.units(ns)
	visited, swept := 0, 0
	schedpoint("sweep range", nil)
	m.Range(func(key string, b *bucket) bool {
		visited++
		if s.remove(m, state, key, b, ns, now) {
			swept++
		}
		return true
	})
	state.kept.Store(int64(visited - swept))
	return swept
}

// remove removes one bucket if it is forgettable at the time ns, now in units.
// The order matters: first raise removedAt, then move the word, then delete.
func (s *shardmap) remove(m *keymap, state *shardState, key string, b *bucket, ns int64, now uint64) bool {
	schedpoint("sweep load", &b.word)
	old := b.word.Load()
	if old == removed || !s.layout.forgettable(old, now) {
		return false
	}
	schedpoint("sweep raise", nil)
	state.removedAt.raise(ns)
	schedpoint("sweep cas", &b.word)
	if !b.word.CompareAndSwap(old, removed) {
		return false // somebody took from it, or removed it
	}
	schedpoint("sweep delete", nil)
	m.Compute(key, func(found *bucket, ok bool) (*bucket, bool) {
		return found, !ok || found == b // a successor stays
	})
	return true
}
