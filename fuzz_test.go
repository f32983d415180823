package ratelimit

import (
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/packedbucket/ratelimit/internal/rational"
	"github.com/stretchr/testify/require"
)

// Each target has seeds here, and in testdata/fuzz some that fuzzing has found. Run
// one for longer with
//
//	go test -run xxx -fuzz FuzzStep -fuzztime 5m .

// fuzzLimit makes any fuzzed numbers a valid limit, and leaves valid ones alone.
func fuzzLimit(capacity uint32, rate float64) Limit {
	if !(rate >= minRate && rate <= maxRate) {
		rate = 1 / (1 + float64(math.Float64bits(rate)%100_000))
	}
	return Limit{Capacity: int(max(1, capacity&math.MaxInt32)), RefillPerSec: rate}
}

func addLimits(f *testing.F, args ...any) {
	for _, l := range limits {
		f.Add(append([]any{uint32(l.Capacity), l.RefillPerSec}, args...)...)
	}
}

// FuzzPack checks that a word gives back what was packed into it: the credit at the
// instant it was packed for, and any later one.
func FuzzPack(f *testing.F) {
	addLimits(f, uint64(0), uint64(0), uint64(0))
	addLimits(f, uint64(1<<63), uint64(1<<20), uint64(1<<40))
	f.Fuzz(func(t *testing.T, capacity uint32, rate float64, now, credit, later uint64) {
		limit := fuzzLimit(capacity, rate)
		l := newLayout(uint64(limit.Capacity), uint64(limit.Capacity)/3, limit.RefillPerSec, anyStep) // with room for debt
		credit = 1 + l.stepMask + credit%(l.full-l.stepMask)                                          // from the deepest debt to full
		word := l.pack(credit, now)
		require.NotEqual(t, removed, word)

		got, instant := l.at(word, now)
		require.Equal(t, credit, got)
		require.Equal(t, now, instant)

		// Later, it has refilled by the difference, as far as the range goes.
		later %= (l.lastMask - l.behind) << l.stepBits
		got, instant = l.at(word, now+later)
		require.Equal(t, min(credit+later, l.full), got)
		require.Equal(t, now+later, instant)

		// Before, from the step before last on, it is the credit as of last.
		earlier := now - now&l.stepMask - 1 - later%(l.behind<<l.stepBits)
		got, instant = l.at(word, earlier)
		require.Equal(t, credit-now&l.stepMask, got)
		require.Equal(t, now-now&l.stepMask, instant)
	})
}

// FuzzStep checks take, refund, reset, until and forgettable against the oracle,
// along a path of steps, with the invariants of packed.go after each.
func FuzzStep(f *testing.F) {
	addLimits(f, []byte{0, 0, 1, 2, 3, 50, 200, 255, 3, 7, 9, 1, 0, 0, 128, 129, 4, 4, 4, 4})
	rnd := rand.New(rand.NewPCG(15, 16))
	script := make([]byte, 200)
	for i := range script {
		script[i] = byte(rnd.Uint32())
	}
	addLimits(f, script)
	f.Fuzz(func(t *testing.T, capacity uint32, rate float64, script []byte) {
		limit := fuzzLimit(capacity, rate)
		l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep)
		ns, latest := int64(0), int64(0)
		word := l.fresh(l.units(ns))
		o := newOracle(&l, limit.Capacity, false, ns)
		for _, op := range steps(script, limit) {
			ns = clampTime(ns + op.move)
			now := l.units(ns)
			before := word
			switch op.kind {
			case opAllow:
				next, credit, ok := l.take(word, now, l.charge(op.n))
				want := o.allow(ns, op.n)
				require.Equal(t, want.Allowed, ok)
				require.Equal(t, want.Remaining, l.whole(credit))
				if !ok {
					require.Equal(t, word, next, "W3")
					require.Equal(t, want.RetryAfter, l.delay(ns, l.until(word, now, l.empty+l.charge(op.n))))
				}
				word = next
			case opRefund:
				word = l.refund(word, now, l.charge(min(op.n, limit.Capacity)))
				o.refund(ns, min(op.n, limit.Capacity))
			case opReset:
				word = l.reset(word, now)
				o.reset(ns)
			}
			credit, _ := l.at(word, now)
			tokens, _ := o.at(ns)
			require.Equal(t, tokens.String(), new(big.Int).Sub(new(big.Int).SetUint64(credit), new(big.Int).SetUint64(l.empty)).String(), "W5")
			require.GreaterOrEqual(t, l.age(before, now), l.age(word, now), "W1")
			require.LessOrEqual(t, word>>l.lastBits, l.full, "W2")
			require.Positive(t, word>>l.lastBits, "W2")
			if latest = max(latest, ns); ns == latest {
				require.GreaterOrEqual(t, credit, l.empty, "W2")
			}
			require.NotEqual(t, removed, word, "W4")
			require.Equal(t, o.sameAsNeverSeen(ns), l.forgettable(word, now))
		}
	})
}

// FuzzRetryAfter checks that a denied call succeeds RetryAfter later and not a
// nanosecond before, for a bucket and a clock in any state.
func FuzzRetryAfter(f *testing.F) {
	addLimits(f, int64(0), uint64(0), uint32(0))
	addLimits(f, int64(math.MaxInt64/3), uint64(1<<33), uint32(12345))
	addLimits(f, int64(-1), uint64(77), uint32(1<<31))
	f.Fuzz(func(t *testing.T, capacity uint32, rate float64, ns int64, credit uint64, cost uint32) {
		limit := fuzzLimit(capacity, rate)
		l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep)
		ns = clampTime(ns)
		charge := l.charge(1 + int(cost%uint32(limit.Capacity)))
		credit = l.empty + credit%charge // not enough
		word := l.pack(credit, l.units(ns))

		units := l.until(word, l.units(ns), l.empty+charge)
		checkDelay(t, &l, ns, units)
		d := int64(l.delay(ns, units))
		if d > math.MaxInt64-ns || d > math.MaxInt64/2 {
			return // beyond the clock
		}
		_, _, ok := l.take(word, l.units(ns+d-1), charge)
		require.False(t, ok, "a nanosecond early")
		_, _, ok = l.take(word, l.units(ns+d), charge)
		require.True(t, ok)
	})
}

// FuzzLimiter runs a script of operations on a whole limiter and on one oracle per
// key that knows of no sweeps. The script either sweeps or lets the clock go back:
// a sweep is invisible to calls whose clock read is not older than it.
func FuzzLimiter(f *testing.F) {
	addLimits(f, false, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 255, 254, 253})
	addLimits(f, true, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80, 80, 80, 2, 2, 2, 2, 2, 2, 250, 0, 0, 3, 200, 200})
	f.Fuzz(func(t *testing.T, capacity uint32, rate float64, startEmpty bool, script []byte) {
		limit := fuzzLimit(capacity, rate)
		var clock manualClock
		opts := []Option{WithClock(clock.now)}
		if startEmpty {
			opts = append(opts, WithStartEmpty())
		}
		runScript(t, limit, &clock, opts, script)
		clock.set(0)
		runScript(t, limit, &clock, append(opts, WithMaxKeys(tableKeys)), script)
	})
}

// FuzzTable runs a script of operations on a table that is too small for its keys.
func FuzzTable(f *testing.F) {
	for policy := range byte(3) {
		addLimits(f, []byte{policy, 0, 9, 9, 1, 4, 200, 200, 2, 7, 50, 50, 3, 4, 77, 77, 2, 0, 1, 0, 2, 0, 2, 0, 2, 0, 3, 0, 2, 0, 4, 0, 250, 7, 0, 0})
		rnd := rand.New(rand.NewPCG(24, uint64(policy)))
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		script[0] = policy
		addLimits(f, script)
	}
	f.Fuzz(func(t *testing.T, capacity uint32, rate float64, script []byte) {
		runTable(t, fuzzLimit(capacity, rate), script[:min(len(script), 4000)])
	})
}

// TestOracleDifferential is FuzzLimiter with random limits and scripts, for
// hundreds of thousands of steps, and millions without -short.
func TestOracleDifferential(t *testing.T) {
	t.Parallel()
	rounds := 600
	if raceEnabled || testing.Short() {
		rounds = 60
	}
	rnd := rand.New(rand.NewPCG(17, 18))
	for round := range rounds {
		limit := limits[rnd.IntN(len(limits))]
		if round%2 == 0 {
			limit = Limit{int(min(math.MaxInt, randomCapacity(rnd))), randomRate(rnd)}
		}
		script := make([]byte, 20_000)
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		var clock manualClock
		opts := []Option{WithClock(clock.now)}
		if round%5 == 0 {
			opts = append(opts, WithStartEmpty())
		}
		if round%4 < 2 {
			opts = append(opts, WithMaxKeys(tableKeys))
		}
		runScript(t, limit, &clock, opts, script)
	}
}

func runScript(t *testing.T, limit Limit, clock *manualClock, opts []Option, script []byte) {
	tb, err := New(limit, opts...)
	if errors.Is(err, ErrInvalidLimit) {
		require.NoError(t, newErr(limit))
		return // not for a table (TestLimitsOfTables)
	}
	require.NoError(t, err)
	startEmpty := !tb.layout.forgets()
	keys := [3]string{"a", "b", "c"}
	var oracles [len(keys)]*oracle // nil: never seen
	var grants [len(keys)][]grant
	var latest int64
	sweeps := len(script) > 0 && script[0]%2 == 0
	if !sweeps { // no insertion later on, since insertions sweep
		for key := range keys {
			allow(t, tb, keys[key])
			oracles[key] = newOracle(&tb.layout, limit.Capacity, startEmpty, 0)
			oracles[key].allow(0, 1)
		}
	}
	for i, op := range steps(script, limit) {
		if sweeps {
			op.move = max(0, op.move)
		} else if op.kind == opSweep {
			continue
		}
		clock.ns.Store(clampTime(clock.ns.Load() + op.move))
		ns := clock.ns.Load()
		latest = max(latest, ns)
		if ns < latest-maxSetBack {
			ns = latest - maxSetBack
		}
		key := i % len(keys)
		o := oracles[key]
		switch op.kind {
		case opAllow:
			if o == nil {
				o = newOracle(&tb.layout, limit.Capacity, startEmpty, ns)
				oracles[key] = o
			}
			got := allowN(t, tb, keys[key], op.n)
			if want := o.allow(ns, op.n); want != got {
				t.Fatalf("step %d, %+v, key %q at %d ns, cost %d: got %+v, the oracle says %+v", i, limit, keys[key], ns, op.n, got, want)
			}
			if got.Allowed {
				at := ns
				if n := len(grants[key]); n > 0 {
					at = max(at, grants[key][n-1].ns)
				}
				grants[key] = append(grants[key], grant{at, op.n})
			}
		case opRefund:
			tb.Refund(keys[key], op.n)
			if o != nil && !o.sameAsNeverSeen(ns) {
				o.refund(ns, min(op.n, limit.Capacity))
			}
			grants[key] = nil // the promise is about grants alone
		case opReset:
			tb.Reset(keys[key])
			if o != nil && !o.sameAsNeverSeen(ns) {
				o.reset(ns)
			}
			grants[key] = nil
		case opSweep:
			tb.Sweep()
		}
		if o != nil && op.n%3 == 0 {
			if got, want := tb.Peek(keys[key]), o.peek(ns); got != want {
				t.Fatalf("step %d, %+v, key %q at %d ns: got %+v, the oracle says %+v", i, limit, keys[key], ns, got, want)
			}
		}
	}
	for key := range keys {
		if len(grants[key]) > 0 {
			requirePromise(t, limit.Capacity, rational.Nearest(limit.RefillPerSec), unitOf(tb), grants[key])
		}
	}
}

// clampTime keeps a script's time within what a clock of this package can show.
func clampTime(ns int64) int64 { return max(-1<<60, min(1<<60, ns)) }

type opKind int

const (
	opAllow opKind = iota
	opRefund
	opReset
	opSweep
)

// An op is one operation of a script: first the clock moves, then something is
// done with n tokens.
type op struct {
	kind opKind
	move int64 // nanoseconds
	n    int   // 1..capacity
}

// steps reads a script, four bytes an operation. Moves of the clock are of the
// scale of the limit: from parts of a token's time to the time to fill the bucket,
// back and forth.
func steps(script []byte, limit Limit) []op {
	var ops []op
	tokenTime := 1e9 / limit.RefillPerSec
	// A key is touched by every third operation. No key may be left alone for more
	// than seven eighths of the range, which is 639 days or 3.5 times the time to
	// fill the bucket.
	// (Nor may a move overflow.)
	longest := min(1e18, max(64*24*3600*1e9, tokenTime*float64(limit.Capacity)/4))
	for ; len(script) >= 4; script = script[4:] {
		a, b, c := script[0], script[1], binary.LittleEndian.Uint16(script[2:])
		var o op
		switch {
		case a < 200:
			o.kind = opAllow
		case a < 220:
			o.kind = opRefund
		case a < 225:
			o.kind = opReset
		default:
			o.kind = opSweep
		}
		fraction := float64(c) / (1 << 16)
		switch b % 8 {
		case 0, 1: // the clock stands still
		case 2, 3:
			o.move = int64(tokenTime * fraction)
		case 4:
			o.move = int64(min(longest, tokenTime*fraction*float64(limit.Capacity)))
		case 5:
			o.move = int64(c) - 1<<10 // nanoseconds
		case 6:
			o.move = -int64(tokenTime * fraction)
		case 7:
			o.move = int64(min(longest, tokenTime*4))
			if b > 250 {
				o.move = -int64(min(longest, tokenTime*fraction*float64(limit.Capacity)))
			}
		}
		// Small costs, all of them, or anything between.
		switch a % 4 {
		case 0, 1:
			o.n = 1 + int(c)%min(3, limit.Capacity)
		case 2:
			o.n = limit.Capacity
		case 3:
			o.n = 1 + int(uint64(c)*uint64(limit.Capacity-1)>>16)
		}
		ops = append(ops, o)
	}
	return ops
}
