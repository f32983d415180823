package workload

import (
	"sync"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
)

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
