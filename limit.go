package ratelimit

import (
	"math"
	"math/big"
	"time"
)

const (
	maxCapacity = 1 << 48 // tokens
	minRate     = 1e-12   // tokens per second: as good as none
	maxRate     = 1e11    // tokens per second: a hundred in a nanosecond
)

// A Limit says how many tokens a bucket holds and how fast it refills. It is a
// plain value: copy it, compare it, keep it in a map.
type Limit struct {
	// Capacity is the most tokens a bucket holds, and so the largest burst and
	// the largest cost of one call: from 1 to 1<<48 (or the largest int, where
	// that is 32 bits).
	Capacity int

	// RefillPerSec is the rate in tokens per second, from 1e-12, which no process
	// will live to see refill a token, to 1e11. A quotient of small numbers such as
	// 1.0/60 stands for exactly that quotient, although a float64 cannot hold it: a
	// value p/q is understood exactly while p*q < 2^51.
	RefillPerSec float64
}

// Per returns the limit of the given number of tokens per period: that many are
// the capacity, and they are refilled evenly over one period. Per(100,
// time.Minute) allows a burst of 100, and 100 a minute in the long run. The rate is
// the float64 nearest to the quotient; see RefillPerSec for what it stands for.
//
// Per does not check its arguments; Validate and New do.
func Per(tokens int, period time.Duration) Limit {
	rate := math.NaN()
	if period != 0 {
		// The float64 nearest to the exact quotient, so that the limiter
		// recovers the quotient from it if its numbers are small.
		nanos := big.NewRat(int64(period), 1e9)
		rate, _ = nanos.Quo(new(big.Rat).SetInt64(int64(tokens)), nanos).Float64()
	}
	return Limit{Capacity: tokens, RefillPerSec: rate}
}

// Validate returns nil if a limiter can keep the limit, and otherwise an error
// that names the field, its value and the bounds, and that is ErrInvalidLimit for
// errors.Is.
func (l Limit) Validate() error {
	if l.Capacity < 1 || int64(l.Capacity) > maxCapacity {
		return errorf(ErrInvalidLimit, "capacity %d: must be between 1 and %d tokens", l.Capacity, int64(min(maxCapacity, math.MaxInt)))
	}
	if !(l.RefillPerSec >= minRate && l.RefillPerSec <= maxRate) { // false for NaN
		return errorf(ErrInvalidLimit, "refill rate %v: must be between %v and %v tokens per second", l.RefillPerSec, minRate, maxRate)
	}
	return nil
}
