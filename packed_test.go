package ratelimit

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/packedbucket/ratelimit/internal/rational"
	"github.com/stretchr/testify/require"
)

// limits are those that the documentation names, and those at the bounds.
var limits = []Limit{
	{1, 1},
	{10, 10},
	{100, 100},
	{1, 1.0 / 60},
	{60, 1.0 / 60},
	{5, 1.0 / 3},
	{3, 0.1},
	{1000, 1e6 / 7},
	{1, 1.0 / (30 * 24 * 3600)},   // a token a month
	{100, 1.0 / (30 * 24 * 3600)}, // and 8 years of them
	{1 << 30, 1},
	{1 << 30, 1.0 / (30 * 24 * 3600)},
	Per(180_000_000, 60e9),
	{1_000_000_000, 1e9},
	{1 << 30, 1e9},
	{1, 1e9},
	{1, maxRate},
	{math.MaxInt32, maxRate},
	{1, minRate},
	{math.MaxInt32, minRate},
	{1, math.Nextafter(1, 2)},
	{1, math.Pi},
}

func TestRationals(t *testing.T) {
	for _, test := range []struct {
		x    float64
		p, q int64
	}{
		{1, 1, 1},
		{0.1, 1, 10},
		{0.3, 3, 10},
		{1.0 / 3, 1, 3},
		{2.0 / 3, 2, 3},
		{1.0 / 60, 1, 60},
		{1e6 / 7, 1000000, 7},
		{1.0 / 2592000, 1, 2592000},
		{180e6 / 60, 3000000, 1},
		{1e9 / 3, 1000000000, 3},
		{1000.0 / 86399, 1000, 86399},
		{minRate, 1, 1000000000000},
		{1e-9, 1, 1000000000},
		{maxRate, 100000000000, 1},
		{0.5, 1, 2},
	} {
		require.Equal(t, big.NewRat(test.p, test.q).String(), rational.Nearest(test.x).String(), "%v", test.x)
	}
	// Whatever it is, it is the float64 that was given.
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		x := randomRate(rnd)
		got, _ := rational.Nearest(x).Float64()
		require.Equal(t, x, got)
	}
}

func randomRate(rnd *rand.Rand) float64 {
	return min(maxRate, max(minRate, math.Pow(10, -12+23*rnd.Float64())))
}

func randomCapacity(rnd *rand.Rand) uint64 {
	return 1 + rnd.Uint64N(1<<rnd.UintN(49))
}

// checkLayout checks everything that the arithmetic of a word relies on.
func checkLayout(t *testing.T, capacity, debt uint64, rate float64) {
	l := newLayout(capacity, debt, rate, anyStep)
	name := fmt.Sprintf("capacity %d, debt %d, rate %v: %+v", capacity, debt, rate, l)
	require.LessOrEqual(t, l.unitBits, uint8(maxUnitBits), name)
	require.GreaterOrEqual(t, l.mantissa, uint64(1<<63), name)
	require.True(t, l.shift >= 1 && l.shift <= 127, name)
	require.GreaterOrEqual(t, l.lastBits, uint8(3), name)

	require.Equal(t, debt<<l.unitBits+1<<l.stepBits, l.empty, name)
	require.Equal(t, l.empty+capacity<<l.unitBits, l.full, name)
	require.Equal(t, l.full, l.start, name)
	require.Negative(t, new(big.Int).SetUint64(l.full).Cmp(pow2(uint(64-l.lastBits))), name)
	require.Greater(t, l.empty-debt<<l.unitBits, l.stepMask, "%s: the credit never reaches 0, which is removed", name)

	// Half the range: at least a year, and twice the time to fill from the bottom.
	half := pow2(uint(l.lastBits-1) + uint(l.stepBits))
	require.GreaterOrEqual(t, half.Cmp(new(big.Int).SetUint64(2*(capacity+debt)<<l.unitBits)), 0, name)
	perNano := new(big.Rat).Mul(rational.Nearest(rate), new(big.Rat).SetFrac(pow2(uint(l.unitBits)), big.NewInt(1e9)))
	year := new(big.Rat).Mul(perNano, new(big.Rat).SetInt64(minRange))
	require.GreaterOrEqual(t, new(big.Rat).SetInt(half).Cmp(year), 0, name)
	// No sum of a credit and an age can leave 64 bits.
	require.Less(t, int(l.lastBits)+int(l.stepBits), 64, name)
	// A clock that was set back stays within the eighth that counts as behind.
	back := new(big.Rat).Mul(perNano, new(big.Rat).SetInt64(maxSetBack))
	eighth := new(big.Rat).SetInt(new(big.Int).Rsh(half, 2))
	require.Negative(t, back.Cmp(eighth), name)

	// The rate: 0 <= m/2^s - rate < rate * 2^-63.
	over := new(big.Rat).SetFrac(new(big.Int).SetUint64(l.mantissa), pow2(uint(l.shift)))
	over.Sub(over, perNano)
	require.GreaterOrEqual(t, over.Sign(), 0, name)
	over.Mul(over, new(big.Rat).SetInt(pow2(63)))
	require.Negative(t, over.Cmp(perNano), name)
}

func TestEveryValidLimitHasALayout(t *testing.T) {
	for _, capacity := range []uint64{1, 2, 3, 1 << 30, 1<<31 - 1, maxCapacity - 1, maxCapacity} {
		for _, debt := range []uint64{0, 1, maxCapacity} {
			for _, rate := range []float64{minRate, 1.0 / 3, 1, 1e6 / 7, 1e9, maxRate} {
				checkLayout(t, capacity, debt, rate)
			}
		}
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var debt uint64
		if rnd.IntN(2) == 0 {
			debt = randomCapacity(rnd)
		}
		checkLayout(t, randomCapacity(rnd), debt, randomRate(rnd))
	}
}

func TestRateOfLayouts(t *testing.T) {
	for _, limit := range limits {
		checkLayout(t, uint64(limit.Capacity), 0, limit.RefillPerSec)
	}
}

// The resolution is part of what the documentation promises.
func TestUnitIsASmallFractionOfAToken(t *testing.T) {
	for _, test := range []struct {
		limit                        Limit
		unitBits, stepBits, lastBits uint8
	}{
		{Limit{1, 1.0 / (30 * 24 * 3600)}, 20, 0, 43},
		{Limit{1, 1.0 / 60}, 20, 0, 43},
		{Limit{60, 1}, 16, 0, 42},
		{Limit{100, 100}, 12, 0, 45},
		{Limit{1000, 1000}, 9, 0, 45},
		{Limit{100_000, 1e5}, 8, 12, 39},
		{Limit{1_000_000, 1e6}, 8, 18, 36},
		{Per(180_000_000, 60e9), 8, 28, 28},
		{Limit{100_000_000, 1e8}, 3, 22, 34},
		{Limit{1_000_000, 1e9}, 0, 12, 44},
		{Limit{1_000_000_000, 1e9}, 0, 22, 34},
		{Limit{1 << 30, 1}, 8, 15, 25},
		{Limit{1, maxRate}, 0, 1, 62},
	} {
		l := newLayout(uint64(test.limit.Capacity), 0, test.limit.RefillPerSec, anyStep)
		require.Equal(t, [3]uint8{test.unitBits, test.stepBits, test.lastBits}, [3]uint8{l.unitBits, l.stepBits, l.lastBits}, "%+v", test.limit)
	}
	// Not more than 2^-8 token, or than what the rate produces in two nanoseconds.
	for capacity := uint64(1); capacity <= maxCapacity; capacity *= 2 {
		for rate := float64(minRate); rate <= maxRate; rate *= 10 {
			l := newLayout(capacity, 0, rate, anyStep)
			unit := math.Ldexp(1, -int(l.unitBits))
			require.LessOrEqual(t, unit, max(1.0/256, 2*rate/1e9), "capacity %d, rate %v", capacity, rate)
		}
	}
}

func TestUnitsAreTheFloor(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	modulus := pow2(64)
	for _, limit := range limits {
		l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep)
		o := newOracle(&l, limit.Capacity, false, 0)
		for _, ns := range append([]int64{0, 1, -1, 1e9, -1e9, math.MaxInt64, math.MinInt64, math.MinInt64 + 1}, randomTimes(rnd, 200)...) {
			want := new(big.Int).Mod(o.units(ns), modulus)
			require.Equal(t, want.Uint64(), l.units(ns), "%+v at %d ns", limit, ns)
		}
	}
}

func randomTimes(rnd *rand.Rand, n int) []int64 {
	times := make([]int64, n)
	for i := range times {
		times[i] = int64(rnd.Uint64()) >> rnd.UintN(64)
	}
	return times
}

// Exactly k tokens after exactly k/rate seconds, wherever that is a whole number of
// nanoseconds: the reason why the mantissa is rounded up.
func TestWholeTokensAtWholeTimes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for _, limit := range limits {
		l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep)
		rate := rational.Nearest(limit.RefillPerSec)
		// In j*q seconds, rate p/q produces j*p tokens.
		p, q := rate.Num(), rate.Denom()
		if !q.IsInt64() || q.Int64() > 1<<30 {
			continue // a rate that is no quotient of small numbers
		}
		for range 200 {
			seconds := q.Int64() * (1 + rnd.Int64N(1+1e9/q.Int64()))
			if seconds > math.MaxInt64/1_000_000_000 {
				continue
			}
			tokens := new(big.Int).Mul(p, big.NewInt(seconds/q.Int64()))
			want := tokens.Lsh(tokens, uint(l.unitBits))
			if want.BitLen() > 62 {
				continue // beyond the clock
			}
			require.Equal(t, want.Uint64(), l.units(seconds*1e9), "%+v after %d s", limit, seconds)
		}
	}
}

func TestDelayIsTheInverseOfUnits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for _, limit := range limits {
		l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep)
		require.Zero(t, l.delay(12345, 0))
		for _, ns := range randomTimes(rnd, 500) {
			want := 1 + rnd.Uint64N(1<<rnd.UintN(62))
			checkDelay(t, &l, ns, want)
		}
	}
}

// checkDelay checks that delay is the first nanosecond at which the clock has
// moved on by units.
func checkDelay(t *testing.T, l *layout, ns int64, units uint64) {
	t.Helper()
	d := int64(l.delay(ns, units))
	require.Positive(t, d)
	o := newOracle(l, 1, false, 0)
	passed := func(d int64) *big.Int { // exact, for instants beyond int64 too
		end := o.unitsAt(new(big.Int).Add(big.NewInt(ns), big.NewInt(d)))
		return end.Sub(end, o.units(ns))
	}
	want := new(big.Int).SetUint64(units)
	if d != math.MaxInt64 {
		require.GreaterOrEqual(t, passed(d).Cmp(want), 0, "%+v: %d units from %d ns: not yet after %d", *l, units, ns, d)
	}
	require.Negative(t, passed(d-1).Cmp(want), "%+v: %d units from %d ns: already before %d", *l, units, ns, d)
}
