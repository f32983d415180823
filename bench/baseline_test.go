package bench

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
)

// This file is what the limiter is compared with: the design that everybody
// writes first, done well. A map under an RWMutex finds the bucket of a key, and
// a mutex in the bucket guards a float64 of tokens and the time of its last
// update. Done well means here:
//
//   - a known key takes the read lock only, and an unknown one is looked up again
//     under the write lock before it is inserted;
//   - neither lock is held while the other is waited for, except by a sweep, and
//     the clock is read outside of both;
//   - a clock read that comes late neither refills nor moves the bucket's time
//     back;
//   - it gives the same answer as the limiter that it is compared with: the
//     verdict, what remains, and when to retry, although rounded as float64s are.
//
// The clock is time.Now, as it is usually written. impl=mutex-since is the same
// limiter with time.Since(base), which reads the monotonic clock alone, as the
// limiter of this module does: what is left between the two is not the clock.

// A mutexLimiter is the baseline.
type mutexLimiter struct {
	capacity float64 // tokens
	rate     float64 // tokens per nanosecond
	base     time.Time
	since    bool // read the clock with time.Since
	sweeps   bool // forget buckets that have refilled

	mu       sync.RWMutex
	buckets  map[string]*mutexBucket
	inserted int // since the last sweep
	kept     int // by the last sweep
}

// A mutexBucket is the bucket of one key, 32 bytes.
type mutexBucket struct {
	mu      sync.Mutex
	removed bool // no longer in the map
	tokens  float64
	last    int64 // the latest time the bucket was seen at, in nanoseconds since base
}

// minInsertions is how many keys are inserted at least before a sweep. It is what
// the limiter of this module waits for too, all its shards together.
const minInsertions = 128 * 64

func newMutexLimiter(limit ratelimit.Limit) *mutexLimiter {
	return &mutexLimiter{
		capacity: float64(limit.Capacity),
		rate:     limit.RefillPerSec / 1e9,
		base:     time.Now(),
		buckets:  make(map[string]*mutexBucket),
	}
}

func (l *mutexLimiter) now() int64 {
	if l.since {
		return int64(time.Since(l.base))
	}
	return int64(time.Now().Sub(l.base)) //lint:ignore S1012 the wall clock is read too, and that is the point
}

// take charges one token to key at the time now if its bucket holds one.
func (l *mutexLimiter) take(key string, now int64) ratelimit.Decision {
	for {
		l.mu.RLock()
		b := l.buckets[key]
		l.mu.RUnlock()
		if b == nil {
			b = l.insert(key, now)
		}
		b.mu.Lock()
		if b.removed {
			b.mu.Unlock()
			continue
		}
		b.refill(l, now)
		granted := b.tokens >= 1
		if granted {
			b.tokens--
		}
		tokens := b.tokens
		b.mu.Unlock()
		if granted {
			return ratelimit.Decision{Allowed: true, Remaining: int(tokens)}
		}
		return ratelimit.Decision{RetryAfter: time.Duration(math.Ceil((1 - tokens) / l.rate))}
	}
}

// refill brings the bucket up to the time now. The caller holds its lock.
func (b *mutexBucket) refill(l *mutexLimiter, now int64) {
	if now > b.last {
		b.tokens = min(l.capacity, b.tokens+float64(now-b.last)*l.rate)
		b.last = now
	}
}

// insert returns the bucket of key, and makes it if nobody else was faster.
func (l *mutexLimiter) insert(key string, now int64) *mutexBucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[key]; b != nil {
		return b
	}
	if l.inserted++; l.sweeps && l.inserted >= max(minInsertions, l.kept) {
		l.sweep(now)
	}
	b := &mutexBucket{tokens: l.capacity, last: now}
	l.buckets[strings.Clone(key)] = b // a part of a larger string would keep that alive
	return b
}

// sweep removes every bucket that is full at the time now. The caller holds the
// write lock. That everybody waits for it is the weak side of this design; that it
// takes a constant time per insertion, on average, is the good one.
func (l *mutexLimiter) sweep(now int64) {
	for key, b := range l.buckets {
		b.mu.Lock()
		b.refill(l, now)
		if b.tokens >= l.capacity && now >= b.last {
			b.removed = true
			delete(l.buckets, key)
		}
		b.mu.Unlock()
	}
	l.inserted, l.kept = 0, len(l.buckets)
}

// mutex drives a mutexLimiter.
type mutex struct{ *mutexLimiter }

func newMutex(limit ratelimit.Limit) limiter { return mutex{newMutexLimiter(limit)} }

func newMutexSince(limit ratelimit.Limit) limiter {
	l := newMutexLimiter(limit)
	l.since = true
	return mutex{l}
}

func newSweepingMutex(limit ratelimit.Limit) limiter {
	l := newMutexLimiter(limit)
	l.sweeps = true
	return mutex{l}
}

func (m mutex) Allow(key string) bool {
	d := m.take(key, m.now())
	return d.Allowed
}

func (m mutex) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.buckets)
}

func TestBaselineRefill(t *testing.T) {
	const second = int64(time.Second)
	l := newMutexLimiter(ratelimit.Limit{Capacity: 2, RefillPerSec: 0.5})
	for i, call := range []struct {
		at      int64
		granted bool
	}{
		{10 * second, true}, // starts full
		{10 * second, true},
		{10 * second, false},
		{11 * second, false}, // half a token
		{12 * second, true},  // one, although the denial came between
		{12 * second, false},
		{2 * second, false}, // an old clock read changes nothing
		{14*second - 1, false},
		{14 * second, true},
		{99 * second, true}, // at most the capacity came back
		{99 * second, true},
		{99 * second, false},
	} {
		if d := l.take("key", call.at); d.Allowed != call.granted {
			t.Errorf("call %d at %v: %+v", i, time.Duration(call.at), d)
		}
	}
	if !l.take("another key", 99*second).Allowed {
		t.Error("another key was denied")
	}
}

// Goroutines that insert the same keys at once grant every key its capacity, also
// while those of other keys are swept away under them.
func TestBaselineConcurrent(t *testing.T) {
	const capacity, keys, goroutines = 10, 5000, 4
	l := newMutexLimiter(ratelimit.Limit{Capacity: capacity, RefillPerSec: 1e-3})
	l.sweeps = true
	set := newKeys(0, keys)
	passersBy := newKeys(keys, 10*keys)
	for i := range passersBy.len() {
		// Full from the beginning: a bucket that may be swept at any time.
		l.insert(passersBy.at(uint32(i)), 0)
	}
	granted := make([]int, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for range capacity {
				for i := range keys {
					if l.take(set.at(uint32(i)), 0).Allowed {
						granted[g]++
					}
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range granted {
		total += n
	}
	if total != capacity*keys {
		t.Errorf("granted %d tokens, want %d", total, capacity*keys)
	}
}

func TestBaselineSweep(t *testing.T) {
	l := newMutexLimiter(ratelimit.Limit{Capacity: 1, RefillPerSec: 1})
	l.sweeps = true
	set := newKeys(0, 3*minInsertions)
	l.take("early", 0)
	l.take("late", int64(time.Second))
	l.mu.Lock()
	l.sweep(int64(time.Second))
	l.mu.Unlock()
	if l.buckets["early"] != nil || l.buckets["late"] == nil {
		t.Error("a sweep must remove the bucket that has refilled, and no other")
	}
	for i := range set.len() {
		l.take(set.at(uint32(i)), int64(i)*int64(time.Second))
	}
	if n := len(l.buckets); n > minInsertions+1 {
		t.Errorf("%d keys in memory after %d that have refilled", n, set.len())
	}
}
