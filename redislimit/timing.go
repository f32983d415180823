package redislimit

import (
	"math/big"
	"math/bits"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/internal/rational"
)

// This file turns tokens into time and back, exactly. A bucket in Redis is the time at which
// it will be full; to take tokens is to move that by the time in which they refill. A token
// refills in V/U microseconds, with the integers U and V that follow from the limit, so
// that all times are whole multiples of a part of a microsecond, of which U make one.

// A span is a time in whole microseconds and parts of one.
type span struct{ micros, parts uint64 }

// less reports whether s is shorter than t.
func (s span) less(t span) bool {
	return s.micros < t.micros || s.micros == t.micros && s.parts < t.parts
}

// A timing is the arithmetic of one limit.
type timing struct {
	u, v  uint64 // a token refills in v/u microseconds
	burst span   // in which an empty bucket fills up
}

const (
	// maxBurst is the longest time in which a bucket may fill up, forty years. The scripts
	// add it to the time since 1970, twice, and so stay below 2^53 until the year 2170.
	maxBurst = 40 * 365.25 * 24 * 3600 * 1e6 // microseconds

	maxParts = 1 << 52 // so that the sum of two is below 2^53
)

// newTiming returns the timing of a limit, or an error that is ratelimit.ErrInvalidLimit.
func newTiming(limit ratelimit.Limit) (timing, error) {
	if err := limit.Validate(); err != nil {
		return timing{}, err
	}
	perToken := rational.Nearest(limit.RefillPerSec)
	perToken.Quo(big.NewRat(1e6, 1), perToken)
	fill := new(big.Rat).Mul(perToken, new(big.Rat).SetInt64(int64(limit.Capacity)))
	if fill.Cmp(new(big.Rat).SetInt64(maxBurst)) > 0 {
		years, _ := new(big.Rat).Quo(fill, big.NewRat(365.25*24*3600*1e6, 1)).Float64()
		return timing{}, errorf(ratelimit.ErrInvalidLimit, "capacity %d at %v tokens per second: fills in %.3g years, must be at most 40",
			limit.Capacity, limit.RefillPerSec, years)
	}
	if !perToken.Num().IsUint64() || perToken.Denom().Cmp(big.NewInt(maxParts)) > 0 {
		return timing{}, errorf(ratelimit.ErrInvalidLimit, "refill rate %v: must be a quotient of smaller numbers", limit.RefillPerSec)
	}
	t := timing{u: perToken.Denom().Uint64(), v: perToken.Num().Uint64()}
	t.burst = t.refill(limit.Capacity)
	return t, nil
}

// refill returns the time in which tokens refill, of which there are at most as many as
// the capacity.
func (t timing) refill(tokens int) span {
	hi, lo := bits.Mul64(uint64(tokens), t.v)
	micros, parts := bits.Div64(hi, lo, t.u) // hi < u: the time is shorter than maxBurst
	return span{micros, parts}
}

// tokens returns the whole tokens in a bucket that will be full after missing, and the
// rest as a fraction of one.
func (t timing) tokens(missing span) (whole uint64, rest float64) {
	if !missing.less(t.burst) {
		return 0, 0
	}
	held := span{t.burst.micros - missing.micros, t.burst.parts - missing.parts}
	if t.burst.parts < missing.parts {
		held.micros, held.parts = held.micros-1, held.parts+t.u // parts are modulo 2^64
	}
	return t.count(held)
}

// count returns the whole tokens that refill in a time, of which there are at most as many
// as the capacity, and the rest as a fraction of one.
func (t timing) count(of span) (whole uint64, rest float64) {
	hi, lo := bits.Mul64(of.micros, t.u)
	lo, carry := bits.Add64(lo, of.parts, 0)
	whole, left := bits.Div64(hi+carry, lo, t.v)
	return whole, float64(left) / float64(t.v)
}

// wait returns how long after now a bucket that will be full after missing holds tokens.
// now is later than the server's clock by ahead microseconds.
func (t timing) wait(missing span, tokens int, ahead uint64) time.Duration {
	after, charge := missing, t.refill(tokens)
	after.micros += charge.micros
	if after.parts += charge.parts; after.parts >= t.u {
		after.micros, after.parts = after.micros+1, after.parts-t.u
	}
	if !t.burst.less(after) {
		return 0
	}
	micros := after.micros - t.burst.micros
	if after.parts > t.burst.parts {
		micros++
	}
	return time.Duration(micros+ahead) * time.Microsecond
}

// until returns the time until a bucket is full.
func (t timing) until(missing span, ahead uint64) time.Duration {
	micros := missing.micros
	if missing.parts > 0 {
		micros++
	}
	if micros == 0 {
		return 0
	}
	return time.Duration(micros+ahead) * time.Microsecond
}

// within returns the whole tokens of a charge, less what refills in so many microseconds.
func (t timing) within(charge span, micros int64) int {
	if micros < 0 || uint64(micros) > charge.micros {
		return 0
	}
	whole, _ := t.count(span{charge.micros - uint64(micros), charge.parts})
	return int(whole)
}

// args returns the arguments of the scripts of a token bucket: what state.lua asks for, and
// the times in which numbers of tokens refill.
func (t timing) args(tokens ...int) []any {
	args := []any{t.burst.micros, t.burst.parts, t.u}
	for _, n := range tokens {
		charge := t.refill(n)
		args = append(args, charge.micros, charge.parts)
	}
	return args
}

// An answer is what these scripts return.
type answer struct {
	taken   int    // which of the numbers of tokens, from 1; 0 if none
	missing span   // how long after now the bucket will be full
	ahead   uint64 // by how many microseconds now is later than the server's clock
	now     int64  // microseconds since 1970
}

// answerLen is how many numbers they return.
const answerLen = 5

func newAnswer(numbers []int64) answer {
	return answer{int(numbers[0]), span{uint64(numbers[1]), uint64(numbers[2])}, uint64(numbers[3]), numbers[4]}
}

// decision returns the decision of an answer to a request of the given cost.
func (t timing) decision(a answer, cost int) ratelimit.Decision {
	whole, _ := t.tokens(a.missing)
	d := ratelimit.Decision{Allowed: a.taken > 0, Remaining: int(whole)}
	if !d.Allowed {
		d.RetryAfter = t.wait(a.missing, cost, a.ahead)
	}
	return d
}

// state returns the state of a bucket in an answer.
func (t timing) state(a answer) ratelimit.State {
	whole, rest := t.tokens(a.missing)
	return ratelimit.State{
		Tokens:     float64(whole) + rest,
		RetryAfter: t.wait(a.missing, 1, a.ahead),
		ResetAfter: t.until(a.missing, a.ahead),
	}
}
