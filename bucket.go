package ratelimit

import (
	"context"
	"runtime"
	"time"
)

// A TokenBucket is a Limiter that keeps one token bucket per key in memory. A
// bucket holds up to capacity tokens, starts full, and refills continuously at
// the rate; a request is granted if the bucket holds its cost, which is then
// taken.
//
// For any key, whatever the number of goroutines and the order in which their
// clock reads arrive:
//
//   - the grants of any span of time are at most capacity + rate x span, plus one
//     unit, once: the resolution with which the clock is read. It is from a
//     millionth to 1/256 of a token, or what the rate produces in two nanoseconds
//     if that is more; with WithMaxKeys and a capacity of millions of tokens, it may be
//     up to one token;
//   - exactly k tokens are back after k/rate seconds, however often the bucket was
//     polled in between;
//   - a request that waits RetryAfter succeeds if nobody else took the tokens, and
//     a nanosecond earlier it does not.
//
// Checks of a key that has a bucket take no lock, allocate nothing and never block;
// their denials write nothing. The first check of a key allocates its bucket, some
// 70 bytes and a copy of the key, and locks a cache line of the map for a moment. A
// bucket that has refilled is the same as one never seen, and is removed in
// passing by insertions of other keys; no goroutine runs.
//
// With WithMaxKeys the buckets are in a table of fixed size. Then no check allocates
// anything, and where more keys are short of tokens than there is room for, the rest is up
// to an Overflow policy: the promise of RetryAfter is about keys that have a bucket of
// their own.
//
// All methods are safe for concurrent use. A TokenBucket must not be copied. The
// zero value is not usable: its checks return ErrInvalidLimit, and its other
// methods do nothing.
type TokenBucket struct {
	_      noCopy
	layout layout
	limit  Limit
	clock  clock
	store  store
}

var _ Limiter = (*TokenBucket)(nil)

// noCopy lets go vet find copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// NewTokenBucket returns a limiter whose buckets hold capacity tokens and refill
// with refillPerSec tokens per second, or panics where New returns an error: like
// regexp.MustCompile, it is meant for limits that are written in the program.
func NewTokenBucket(capacity int, refillPerSec float64, opts ...Option) *TokenBucket {
	tb, err := New(Limit{Capacity: capacity, RefillPerSec: refillPerSec}, opts...)
	if err != nil {
		panic(err)
	}
	return tb
}

// New returns a limiter for limit, or an error that is ErrInvalidLimit or
// ErrInvalidOption. An empty limiter takes about 10 KB; with WithMaxKeys it allocates all
// of its memory at once, which the system provides as keys arrive. If it cannot be had,
// the program ends, as for any allocation in Go.
func New(limit Limit, opts ...Option) (*TokenBucket, error) {
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	l, err := c.layout(limit)
	if err != nil {
		return nil, err
	}
	tb := &TokenBucket{layout: l, limit: limit, clock: newClock(c.clock, c.resolution)}
	if c.startEmpty {
		tb.layout.start = tb.layout.empty
	}
	if c.maxKeys > 0 {
		tb.store = newTable(&tb.layout, c.maxKeys, c.overflow)
	} else {
		tb.store = newShardmap(&tb.layout)
	}
	if tb.clock.coarse != nil {
		runtime.AddCleanup(tb, (*coarseClock).close, tb.clock.coarse)
	}
	return tb, nil
}

// Allow decides whether a request of cost 1 for key may go ahead now, and takes
// the token if so. It does not look at ctx. The error is nil unless tb is the
// zero value.
func (tb *TokenBucket) Allow(_ context.Context, key string) (Decision, error) {
	if tb.store == nil {
		return Decision{}, tb.costError(1)
	}
	d, _ := tb.take(key, 1)
	return d, nil
}

// AllowN decides whether a request of the given cost for key may go ahead now, and
// takes cost tokens if so. It does not look at ctx.
//
// A cost below 1 is ErrInvalidCost and a cost above the capacity is
// ErrCostExceedsCapacity; neither takes anything.
func (tb *TokenBucket) AllowN(_ context.Context, key string, cost int) (Decision, error) {
	if cost < 1 || cost > tb.limit.Capacity {
		return Decision{}, tb.costError(cost)
	}
	d, _ := tb.take(key, cost)
	return d, nil
}

// take charges a valid cost to key. It also returns how many times another
// goroutine changed the word between its load and its swap, for tests.
//
// The clock is read before the word, since a clock read between load and swap would
// be the longest part of the time in which another goroutine can win. Each outcome
// takes effect at one instant:
//
//	granted  at the CompareAndSwap that stores the charged word. It succeeds only
//	         if the word is the one that the decision was made on. If another
//	         goroutine was faster the decision is made again on its word.
//	denied   at the Load: the word is not written.
//	first    a request that makes the bucket of its key takes from it in the same
//	         step: store.create decides.
//
// An old clock read is harmless: layout.take sees the tokens as of last if that
// is later, so that no interval is credited twice, and last never moves back. A
// removed word is never granted from: create makes the bucket that takes its place,
// or returns it. A word that has come back to an earlier value is harmless too, because
// the word is all there is to know about the bucket.
//
// Where the layout is not precise, an old clock read may see fewer tokens than the
// bucket holds. There a denial is given only if the clock read is in a later step
// than last, or was made after a load of the same word: then it is not older than
// any that the word has seen. (A grant on an old clock read reports as Remaining
// what it saw, which may be less.)
func (tb *TokenBucket) take(key string, cost int) (d Decision, lost int) {
	ns := tb.clock.now()
	now := tb.layout.units(ns)
	charge := tb.layout.charge(cost)
	p := tb.store.find(key)
	seen := removed // the word at the load before the latest clock read; none yet
	for {
		old := removed
		if p.word != nil {
			schedpoint("load", p.word)
			old = p.word.Load()
		}
		if old == removed || p.left() {
			var decided bool
			if p, d, decided = tb.store.create(key, p, ns, charge); decided {
				return d, lost
			}
			seen = removed // that was of another word
			continue
		}
		next, credit, ok := tb.layout.take(old, now, charge)
		if !ok {
			if p.tag != nil && p.again() != old {
				continue // perhaps the word was another key's when it was loaded
			}
			if !tb.layout.conclusive(old, now) && old != seen {
				seen = old
				ns = tb.clock.now()
				now = tb.layout.units(ns)
				continue
			}
			return tb.layout.deny(old, ns, now, charge, credit), lost
		}
		schedpoint("cas", p.word)
		if p.word.CompareAndSwap(old, next) {
			return Decision{Allowed: true, Remaining: tb.layout.whole(credit)}, lost
		}
		lost++
	}
}

// costError says what is wrong with a cost.
func (tb *TokenBucket) costError(cost int) error {
	switch {
	case tb.store == nil:
		return errorf(ErrInvalidLimit, "TokenBucket was not made by New or NewTokenBucket")
	case cost < 1:
		return errorf(ErrInvalidCost, "cost %d: must be between 1 and the capacity, %d tokens", cost, tb.limit.Capacity)
	default:
		return errorf(ErrCostExceedsCapacity, "cost %d: must be between 1 and the capacity, %d tokens; it can never be granted", cost, tb.limit.Capacity)
	}
}

// A State is what a bucket holds at one instant. It is a plain value.
type State struct {
	// Tokens is the tokens in the bucket with their fraction, from 0 to the
	// capacity. It is rounded down to a unit (see TokenBucket), and from 2^45 tokens
	// on to the nearest float64.
	Tokens float64

	// RetryAfter is how long until the bucket holds one token, 0 if it does.
	RetryAfter time.Duration

	// ResetAfter is how long until the bucket is full, 0 if it is.
	ResetAfter time.Duration
}

// Peek returns the state of the bucket of key. It takes nothing, writes nothing
// and makes no bucket: the state of a key never seen is that in which its first
// request would find it if it came now. (With WithStartEmpty such a key does not
// earn until it is asked for.) For a key that finds no slot in the table of WithMaxKeys
// that is the state of a shared bucket, or with OverflowDeny an empty one. The state may
// have changed when Peek returns; to decide about a request, use Allow.
func (tb *TokenBucket) Peek(key string) State {
	if tb.store == nil {
		return State{}
	}
	l := &tb.layout
	p := tb.store.find(key)
	word := p.load()
	// Read after the word, the clock is not older than any that the word has seen.
	ns := tb.clock.now()
	now := l.units(ns)
	if word == removed {
		var wait time.Duration
		if word, wait = tb.store.absent(p, ns, now); word == removed {
			return State{RetryAfter: wait, ResetAfter: wait}
		}
	}
	credit, _ := l.at(word, now)
	return State{
		Tokens:     max(0, l.tokens(credit)), // below 0 only for a clock that was set back
		RetryAfter: l.delay(ns, l.until(word, now, l.empty+l.charge(1))),
		ResetAfter: l.delay(ns, l.until(word, now, l.full)),
	}
}

// Refund puts tokens back into the bucket of key, up to its capacity: for a
// request that was granted and then not carried out. It does nothing if tokens is
// below 1, or if the key has no bucket: then nothing was taken that is not back. (What
// was taken from a shared bucket of OverflowShare is not given back.)
func (tb *TokenBucket) Refund(key string, tokens int) {
	if tb.store == nil || tokens < 1 {
		return
	}
	units := tb.layout.charge(min(tokens, tb.limit.Capacity))
	tb.update(key, func(word, now uint64) uint64 { return tb.layout.refund(word, now, units) })
}

// Reset makes the bucket of key as if the key had never been seen: full, or empty
// with WithStartEmpty. It does nothing if the key has no bucket of its own. (With a clock
// that was set back, the bucket goes on from the latest time that it has seen.)
func (tb *TokenBucket) Reset(key string) {
	if tb.store == nil {
		return
	}
	tb.update(key, tb.layout.reset)
}

// update moves the word of key, if it has one, to what next returns for it. It
// takes effect at the CompareAndSwap. A bucket that is the same as one never seen
// needs no refund and no reset, whether it is still there, removed, or gone: then
// update takes effect at the Load, or the lookup, and writes nothing. Where the layout is
// not precise, the clock is read anew like in take, or a reset would be as of an
// instant before the latest grant, and what was earned in between would be earned again.
func (tb *TokenBucket) update(key string, next func(word, now uint64) uint64) {
	now := tb.layout.units(tb.clock.now())
	p := tb.store.find(key)
	if p.word == nil {
		return
	}
	seen := removed // as in take
	for {
		schedpoint("load", p.word)
		old := p.word.Load()
		if old == removed || p.left() || tb.layout.forgettable(old, now) {
			return
		}
		if !tb.layout.conclusive(old, now) && old != seen {
			seen = old
			now = tb.layout.units(tb.clock.now())
			continue
		}
		schedpoint("cas", p.word)
		if p.word.CompareAndSwap(old, next(old, now)) {
			return
		}
	}
}

// Len returns the number of buckets in memory: those of keys that are short of
// tokens, and those that have refilled and were not swept yet. It reads one
// counter or a few per shard, or one with WithMaxKeys; Stats tells the two kinds apart.
func (tb *TokenBucket) Len() int {
	if tb.store == nil {
		return 0
	}
	return tb.store.len()
}

// Sweep removes every bucket that has refilled and returns how many those were.
// No decision changes by it. It visits every bucket, and takes some 100 ns for each
// that it keeps and 300 ns for each that it removes (BenchmarkSweep), while other
// calls go on. There is seldom a need to call it, since insertions
// sweep in passing; call it to free memory when no new keys are expected.
//
// With WithMaxKeys there is no need at all, since a slot that has refilled may be taken
// over as it is; a bucket stays if the clock shows the very instant of its last use, and
// it takes some 10 ns per slot. With WithStartEmpty it removes nothing.
func (tb *TokenBucket) Sweep() int {
	if tb.store == nil {
		return 0
	}
	return tb.store.sweep(tb.clock.now)
}

// Close ends the goroutine of WithCoarseClock; soon after, the limiter goes on with
// the exact clock. Without that option it does nothing. It always returns nil, and
// may be called more than once.
func (tb *TokenBucket) Close() error {
	tb.clock.close()
	return nil
}
