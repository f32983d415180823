package ratelimit

import (
	"math"
	"math/big"
	"math/bits"
	"time"

	"github.com/packedbucket/ratelimit/internal/rational"
)

// This file chooses the numbers of a layout for a limit, exactly, with big
// integers: it runs once per limiter. docs/packed-word.md says why each bound is
// what it is.

const (
	maxUnitBits = 20 // a unit is never smaller than a millionth of a token
	minUnitBits = 8  // below this, rather count last in steps than coarsen the unit further

	// minRange is the least time that half the range of last must span, in
	// nanoseconds: a year of 365.25 days.
	minRange = 365.25 * 24 * 3600 * 1e9
)

// newLayout returns the layout of a limit. The capacity must be in
// 1..maxCapacity, the debt in 0..maxCapacity tokens and the rate in
// minRate..maxRate tokens per second; then a layout always exists. Where last counts in
// steps, these are of maxStep at most, or as short as they can be, if need be with a unit
// of up to a token.
func newLayout(capacity, debt uint64, refillPerSec float64, maxStep time.Duration) layout {
	rate := rational.Nearest(refillPerSec)
	rate.Quo(rate, big.NewRat(1e9, 1)) // tokens per nanosecond

	// As fine a unit as there can be with last in single units.
	for f := maxUnitBits; f >= minUnitBits; f-- {
		if l, ok := tryLayout(capacity, debt, rate, f, 0); ok {
			return l
		}
	}
	// Failing that, last in steps as short as possible, and the unit no finer than
	// what the rate produces in a nanosecond: the clock cannot tell more, and each
	// bit that the unit does not take makes the steps half as long.
	f := minUnitBits
	for f > 0 && refillPerSec*float64(int64(1)<<f) > 1e9 {
		f--
	}
	var best layout
	for ; f >= 0 && (best.mantissa == 0 || best.step() > maxStep); f-- {
		for g := 1; g < 62; g++ {
			if l, ok := tryLayout(capacity, debt, rate, f, g); ok {
				best = l
				break
			}
		}
	}
	if best.mantissa == 0 {
		panic("ratelimit: no layout for a valid limit") // TestEveryValidLimitHasALayout
	}
	return best
}

// step returns the time of a step of last.
func (l *layout) step() time.Duration { return l.delay(0, l.stepMask+1) }

// anyStep is for those to whom the length of a step does not matter.
const anyStep = time.Duration(math.MaxInt64)

// tryLayout returns the layout with a unit of 2^-f token and steps of 2^g units,
// if every state of the bucket fits into a word of it, and the rate into a mantissa.
func tryLayout(capacity, debt uint64, ratePerNano *big.Rat, f, g int) (layout, bool) {
	if bits.Len64(capacity+debt)+f > 62 {
		return layout{}, false
	}
	span := (capacity + debt) << f // from the deepest debt to full, in units
	maxCredit := span + 1<<g
	lastBits := 64 - bits.Len64(maxCredit)
	if lastBits < 3 {
		return layout{}, false
	}
	half := new(big.Int).Lsh(big.NewInt(1), uint(lastBits-1+g))
	if half.Cmp(new(big.Int).SetUint64(2*span)) < 0 {
		return layout{}, false
	}
	unitsPerNano := new(big.Rat).Mul(ratePerNano, new(big.Rat).SetInt64(1<<f))
	year := new(big.Rat).Mul(unitsPerNano, new(big.Rat).SetInt64(minRange))
	if new(big.Rat).SetInt(half).Cmp(year) < 0 {
		return layout{}, false
	}

	l := layout{
		unitBits: uint8(f),
		stepBits: uint8(g),
		lastBits: uint8(lastBits),
		lastMask: 1<<lastBits - 1,
		stepMask: 1<<g - 1,
		behind:   1 << (lastBits - 3),
		empty:    debt<<f + 1<<g,
		full:     maxCredit,
		start:    maxCredit,
	}
	l.mantissa, l.shift = mantissa(unitsPerNano)
	return l, l.shift <= 127
}

// mantissa returns m and s with m = ceil(x * 2^s) and 2^63 <= m < 2^64.
func mantissa(x *big.Rat) (m uint64, s uint8) {
	shift := 64 + x.Denom().BitLen() - x.Num().BitLen() // right, or one too many
	for ; ; shift-- {
		num := new(big.Int).Lsh(x.Num(), uint(shift))
		q, rest := num.QuoRem(num, x.Denom(), new(big.Int))
		if rest.Sign() > 0 {
			q.Add(q, big.NewInt(1))
		}
		if q.BitLen() <= 64 {
			return q.Uint64(), uint8(shift)
		}
	}
}
