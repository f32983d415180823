package stress

import (
	"context"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/packedbucket/ratelimit"
)

// A defect is one way to get a limiter wrong.
type defect int

const (
	none defect = iota

	// On a grant, an old clock read becomes the bucket's time, so that an interval
	// is credited twice: golang/go#71360 in x/time/rate.
	timeGoesBack

	// Load and store where compare-and-swap is due: of two grants one is lost.
	lostUpdate

	// A bucket that a sweep has removed is still taken from by whoever had found
	// it before, while others take from its successor.
	usesRemoved

	// The memory of a bucket that a sweep has removed becomes another key's bucket,
	// and is taken from by whoever had found it before.
	usesReused

	// The bucket made after a removal may be full at a time before it, and so
	// earn again what its predecessor had earned.
	earlySuccessor

	// A bucket that nobody uses earns more than it can hold.
	neverFull

	// A caller that waits as it was told is early, or late, by a nanosecond.
	retryEarly
	retryLate

	endOfDefects
)

var defectNames = [endOfDefects]string{
	timeGoesBack:   "time goes back",
	lostUpdate:     "lost update",
	usesRemoved:    "uses removed bucket",
	usesReused:     "uses another key's bucket",
	earlySuccessor: "early successor",
	neverFull:      "never full",
	retryEarly:     "RetryAfter 1ns early",
	retryLate:      "RetryAfter 1ns late",
}

// TestBrokenLimiters puts limiters with one defect each under the same load as
// the real one. That each is found out is the reason to believe the check when it
// finds nothing.
func TestBrokenLimiters(t *testing.T) {
	const maxRounds = 300
	for defect := none + 1; defect < endOfDefects; defect++ {
		t.Run(defectNames[defect], func(t *testing.T) {
			for round := range maxRounds {
				l := newLoad(defaultStore, round, 0)
				rec := l.run(t, newToy(defect))
				if check(l.spec, rec.history) == porcupine.Illegal {
					t.Logf("found out in round %d", round)
					return
				}
			}
			t.Errorf("not found out in %d rounds", maxRounds)
		})
	}
}

// TestToyLimiter is the control: without a defect, the limiter that the broken
// ones are made from passes. So it is the defects that are found.
func TestToyLimiter(t *testing.T) {
	unknown := 0
	for round := range 2 * minRounds {
		l := newLoad(defaultStore, round, round%2*4)
		rec := l.run(t, newToy(none))
		switch check(l.spec, rec.history) {
		case porcupine.Unknown:
			unknown++
		case porcupine.Illegal:
			t.Fatalf("round %d is not linearizable (%v)\n%s", round, l, evidence(l.spec, rec.history, ""))
		}
	}
	if unknown > 1 {
		t.Errorf("%d histories could not be decided within %v: want at most one", unknown, checkLimit)
	}
}

// A toy is a limiter with a lock per bucket, as simple as it can be while a sweep
// still removes buckets that others hold, and other keys reuse them. It yields the
// processor wherever its defect wants another goroutine to come between.
type toy struct {
	spec   *spec
	clock  *clock
	defect defect

	mu      sync.Mutex // guards the map and removed, and is taken before a bucket's
	buckets map[string]*toyBucket
	unused  []*toyBucket // removed; with usesRemoved none
	removed int64        // the latest tick at which a bucket was removed
}

type toyBucket struct {
	mu    sync.Mutex
	key   string // "" if it is removed
	state bucket
}

func newToy(d defect) func(*spec, *clock) limiter {
	return func(s *spec, c *clock) limiter {
		return &toy{spec: s, clock: c, defect: d, buckets: make(map[string]*toyBucket)}
	}
}

func (l *toy) Allow(ctx context.Context, key string) (ratelimit.Decision, error) {
	return l.AllowN(ctx, key, 1)
}

func (l *toy) AllowN(_ context.Context, key string, cost int) (ratelimit.Decision, error) {
	return l.do(call{kind: take, key: key, n: cost}).(ratelimit.Decision), nil
}

func (l *toy) Refund(key string, tokens int) { l.do(call{kind: refund, key: key, n: tokens}) }

func (l *toy) Reset(key string) { l.do(call{kind: reset, key: key}) }

func (l *toy) Peek(key string) ratelimit.State {
	return l.do(call{kind: peek, key: key}).(ratelimit.State)
}

// do finds the bucket of the call and takes the step that the specification, or
// the defect, says.
func (l *toy) do(c call) any {
	t := l.clock.read()
	for {
		b := l.find(c.key, t, c.kind == take)
		if b == nil {
			_, out := l.spec.apply(bucket{l.spec.full, t}, c, t)
			return out
		}
		runtime.Gosched() // here a sweep removes the bucket
		b.mu.Lock()
		left := b.key != c.key
		if l.defect == usesRemoved || l.defect == usesReused && b.key != "" {
			left = false
		}
		if left {
			b.mu.Unlock()
			continue
		}
		next, out := l.step(b.state, c, t)
		if next != b.state {
			if l.defect == lostUpdate {
				b.mu.Unlock()
				runtime.Gosched() // here another take changes the state
				b.mu.Lock()
			}
			b.state = next
		}
		b.mu.Unlock()
		return out
	}
}

// find returns the bucket of key. If there is none, it makes one or returns nil.
func (l *toy) find(key string, t int64, create bool) *toyBucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key]
	if b == nil && create {
		from := max(t, l.removed)
		if l.defect == earlySuccessor {
			from = t
		}
		if n := len(l.unused); n > 0 {
			b, l.unused = l.unused[n-1], l.unused[:n-1]
		} else {
			b = new(toyBucket)
		}
		b.mu.Lock()
		b.key, b.state = key, bucket{l.spec.full, from}
		b.mu.Unlock()
		l.buckets[key] = b
	}
	return b
}

// step is spec.apply with the defects that are a matter of arithmetic.
func (l *toy) step(b bucket, c call, t int64) (bucket, any) {
	s := *l.spec
	if l.defect == neverFull && c.kind == take {
		s.full = math.MaxInt64
	}
	next, out := s.apply(b, c, t)
	d, ok := out.(ratelimit.Decision)
	switch {
	case !ok:
	case d.Allowed && l.defect == timeGoesBack:
		next.last = t
	case !d.Allowed && l.defect == retryEarly:
		d.RetryAfter--
		out = d
	case !d.Allowed && l.defect == retryLate:
		d.RetryAfter++
		out = d
	}
	return next, out
}

func (l *toy) Sweep() int {
	t := l.clock.read()
	l.mu.Lock()
	defer l.mu.Unlock()
	swept := 0
	for key, b := range l.buckets {
		b.mu.Lock()
		if t >= b.state.last && l.spec.level(b.state, t) == l.spec.full {
			b.key = ""
			if l.defect != usesRemoved {
				l.unused = append(l.unused, b)
			}
			l.removed = max(l.removed, t)
			delete(l.buckets, key)
			swept++
		}
		b.mu.Unlock()
	}
	return swept
}

func (l *toy) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buckets)
}
