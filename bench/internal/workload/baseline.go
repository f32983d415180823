package workload

import (
	"math"
	"strings"
	"sync"
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

func newMutex(limit ratelimit.Limit, _ int) Limiter { return mutex{newMutexLimiter(limit)} }

func newMutexSince(limit ratelimit.Limit, _ int) Limiter {
	l := newMutexLimiter(limit)
	l.since = true
	return mutex{l}
}

func newSweepingMutex(limit ratelimit.Limit, _ int) Limiter {
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
