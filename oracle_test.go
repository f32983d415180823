package ratelimit

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file holds what the tests believe in: an oracle that is slow and readable,
// and a check of the promise that knows nothing about buckets. Both use big
// numbers and real fields, no words, no bits, no ranges.

// An oracle is one token bucket in exact arithmetic. It reads the clock with the
// same resolution as the limiter, in units of 2^-f token; everything else it knows
// from the limit.
type oracle struct {
	unit     *big.Rat // tokens
	rate     *big.Rat // units per nanosecond
	capacity *big.Int // units

	// stepUnits is the resolution with which a clock read is found to be an old
	// one: 1 unit unless the layout counts last in steps.
	stepUnits *big.Int

	tokens *big.Int // units, at the instant since
	since  *big.Int // units after the start of the clock; the beginning of a step
	start  *big.Int // units in a bucket never seen
}

// newOracle returns a bucket of the limit that is first seen at ns. It takes the
// resolution from the layout, and the rate with it: TestRateOfLayouts checks that
// this is the limit's rate to within 2^-63.
func newOracle(l *layout, capacity int, startEmpty bool, ns int64) *oracle {
	o := &oracle{
		unit:      new(big.Rat).SetFrac(big.NewInt(1), pow2(uint(l.unitBits))),
		rate:      new(big.Rat).SetFrac(new(big.Int).SetUint64(l.mantissa), pow2(uint(l.shift))),
		stepUnits: pow2(uint(l.stepBits)),
		capacity:  new(big.Int).Mul(big.NewInt(int64(capacity)), pow2(uint(l.unitBits))),
	}
	o.start = o.capacity
	if startEmpty {
		o.start = new(big.Int)
	}
	o.set(o.start, o.units(ns))
	return o
}

func pow2(n uint) *big.Int { return new(big.Int).Lsh(big.NewInt(1), n) }

// units is the clock: the floor of rate * ns.
func (o *oracle) units(ns int64) *big.Int { return o.unitsAt(big.NewInt(ns)) }

func (o *oracle) unitsAt(ns *big.Int) *big.Int {
	x := new(big.Int).Mul(ns, o.rate.Num())
	return x.Div(x, o.rate.Denom()) // Euclidean: a floor, as the denominator is positive
}

// set says that the bucket holds tokens at the instant now.
func (o *oracle) set(tokens, now *big.Int) {
	late := new(big.Int).Mod(now, o.stepUnits)
	o.tokens = new(big.Int).Sub(tokens, late)
	o.since = new(big.Int).Sub(now, late)
}

// at returns the tokens at ns, or as of since if that is later, and that instant.
func (o *oracle) at(ns int64) (tokens, now *big.Int) {
	now = o.units(ns)
	if now.Cmp(o.since) < 0 {
		return o.tokens, o.since
	}
	tokens = new(big.Int).Sub(now, o.since)
	tokens.Add(tokens, o.tokens)
	if tokens.Cmp(o.capacity) > 0 {
		tokens = o.capacity
	}
	return tokens, now
}

func (o *oracle) allow(ns int64, cost int) Decision {
	price := o.price(cost)
	tokens, now := o.at(ns)
	if tokens.Cmp(price) < 0 {
		return Decision{RetryAfter: o.reaches(ns, price), Remaining: o.whole(tokens)}
	}
	tokens = new(big.Int).Sub(tokens, price)
	o.set(tokens, now)
	return Decision{Allowed: true, Remaining: o.whole(tokens)}
}

func (o *oracle) refund(ns int64, n int) {
	tokens, now := o.at(ns)
	tokens = new(big.Int).Add(tokens, o.price(n))
	if tokens.Cmp(o.capacity) > 0 {
		tokens = o.capacity
	}
	o.set(tokens, now)
}

func (o *oracle) reset(ns int64) {
	tokens, now := o.at(ns)
	if o.start.Sign() == 0 && tokens.Sign() < 0 { // seen by an old clock read
		o.set(tokens, now)
		return
	}
	o.set(o.start, now)
}

// sameAsNeverSeen reports whether forgetting the bucket at ns changes no later
// decision: it is full, and a bucket never seen would be.
func (o *oracle) sameAsNeverSeen(ns int64) bool {
	tokens, _ := o.at(ns)
	return o.start.Cmp(o.capacity) == 0 && tokens.Cmp(o.capacity) == 0 && o.units(ns).Cmp(o.since) >= 0
}

func (o *oracle) peek(ns int64) State {
	tokens, _ := o.at(ns)
	exact := new(big.Rat).Mul(new(big.Rat).SetInt(tokens), o.unit)
	f, _ := exact.Float64()
	return State{
		Tokens:     max(0, f),
		RetryAfter: o.reaches(ns, o.price(1)),
		ResetAfter: o.reaches(ns, o.capacity),
	}
}

func (o *oracle) price(cost int) *big.Int {
	return new(big.Int).Mul(big.NewInt(int64(cost)), o.unit.Denom())
}

func (o *oracle) whole(tokens *big.Int) int {
	if tokens.Sign() < 0 {
		return 0
	}
	return int(new(big.Int).Div(tokens, o.unit.Denom()).Int64())
}

// reaches returns how long after ns the bucket holds the given tokens: the first
// nanosecond at which it does, which is checked by that definition.
func (o *oracle) reaches(ns int64, tokens *big.Int) time.Duration {
	enough := func(t *big.Int) bool {
		held := o.tokens
		if now := o.unitsAt(t); now.Cmp(o.since) > 0 {
			held = now.Sub(now, o.since)
			held.Add(held, o.tokens)
		}
		return held.Cmp(tokens) >= 0
	}
	now := big.NewInt(ns)
	if enough(now) {
		return 0
	}
	// rate * t >= since + what is missing
	x := new(big.Int).Sub(tokens, o.tokens)
	x.Add(x, o.since)
	x.Mul(x, o.rate.Denom())
	x.Add(x, o.rate.Num())
	x.Sub(x, big.NewInt(1))
	t := x.Div(x, o.rate.Num())
	if !enough(t) || enough(new(big.Int).Sub(t, big.NewInt(1))) {
		panic("the oracle is wrong")
	}
	if d := t.Sub(t, now); d.IsInt64() {
		return time.Duration(d.Int64())
	}
	return math.MaxInt64
}

// A grant is a decision that allowed a cost, at a time in nanoseconds.
type grant struct {
	ns   int64
	cost int
}

// requirePromise fails if in any span of time [t0, t1] more was granted than
// capacity + rate * (t1 - t0) + one unit. The grants must be in the order of
// their times. It is one pass: with G(i) the sum of the costs up to grant i, and
// the span from grant i to grant j,
//
//	G(j) - G(i-1) - rate*(t_j - t_i) <= capacity + unit
//
// for all i <= j, if it holds for the i with the least G(i-1) - rate*t_i.
func requirePromise(t *testing.T, capacity int, ratePerSec, unit *big.Rat, grants []grant) {
	t.Helper()
	perNano := new(big.Rat).Quo(ratePerSec, big.NewRat(1e9, 1))
	bound := new(big.Rat).Add(new(big.Rat).SetInt64(int64(capacity)), unit)
	sum := new(big.Rat)
	var least *big.Rat
	var from int64
	for i, g := range grants {
		if i > 0 && g.ns < grants[i-1].ns {
			t.Fatalf("grants are not in order: %d ns after %d ns", g.ns, grants[i-1].ns)
		}
		earned := new(big.Rat).Mul(perNano, new(big.Rat).SetInt64(g.ns))
		if before := new(big.Rat).Sub(sum, earned); least == nil || before.Cmp(least) < 0 {
			least, from = before, g.ns
		}
		sum = new(big.Rat).Add(sum, new(big.Rat).SetInt64(int64(g.cost)))
		over := new(big.Rat).Sub(sum, earned)
		over.Sub(over, least)
		if over.Cmp(bound) > 0 {
			t.Fatalf("from %d ns to %d ns: %s tokens more than the rate gave, allowed are capacity and a unit, %s", from, g.ns, over.FloatString(9), bound.FloatString(9))
		}
	}
}

// unitOf returns the unit of a limiter in tokens.
func unitOf(tb *TokenBucket) *big.Rat {
	return new(big.Rat).SetFrac(big.NewInt(1), pow2(uint(tb.layout.unitBits)))
}

func TestPromiseCheckCanFail(t *testing.T) {
	one := big.NewRat(1, 1)
	fails := func(capacity int, grants ...grant) bool {
		failed := true
		t.Run("", func(t *testing.T) {
			t.Helper()
			inner := &testing.T{}
			done := make(chan struct{})
			go func() { // Fatalf ends the goroutine
				defer close(done)
				requirePromise(inner, capacity, one, new(big.Rat), grants)
			}()
			<-done
			failed = inner.Failed()
		})
		return failed
	}
	require.False(t, fails(2, grant{0, 2}, grant{1e9, 1}))
	require.True(t, fails(2, grant{0, 2}, grant{1e9 - 1, 1}), "a token one nanosecond early")
	require.True(t, fails(2, grant{0, 1}, grant{9e9, 2}, grant{9e9, 1}), "three at once, after a pause")
	require.False(t, fails(2, grant{0, 1}, grant{9e9, 2}, grant{10e9, 1}))
}
