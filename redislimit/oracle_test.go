package redislimit

import (
	"math/big"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/internal/rational"
)

// An oracle is one token bucket in rational numbers, in the time of a server's clock in
// microseconds. It knows nothing of parts, of spans or of the time at which a bucket is
// full: it counts tokens.
type oracle struct {
	capacity *big.Rat
	rate     *big.Rat // tokens per microsecond
	fill     *big.Rat // microseconds in which the bucket fills up

	tokens *big.Rat
	last   int64 // the latest time seen, in microseconds
	known  bool  // there is a bucket; otherwise it is full
}

func newOracle(limit ratelimit.Limit) *oracle {
	rate := rational.Nearest(limit.RefillPerSec)
	rate.Quo(rate, big.NewRat(1e6, 1))
	capacity := new(big.Rat).SetInt64(int64(limit.Capacity))
	return &oracle{capacity: capacity, rate: rate, fill: new(big.Rat).Quo(capacity, rate)}
}

// at brings the bucket up to the time clock, and returns by how much it is ahead of that.
func (o *oracle) at(clock int64) (tokens *big.Rat, ahead int64) {
	if !o.known {
		return o.capacity, 0
	}
	back := o.last - clock
	if o.setBackByFar(clock) {
		return o.tokens, 0 // goes on from here with what there is
	}
	if back > 0 {
		return o.tokens, back
	}
	tokens = new(big.Rat).SetInt64(-back)
	tokens.Mul(tokens, o.rate).Add(tokens, o.tokens)
	if tokens.Cmp(o.capacity) > 0 {
		tokens = o.capacity
	}
	return tokens, 0
}

// setBackByFar reports whether the clock is further behind than the bucket takes to fill up.
func (o *oracle) setBackByFar(clock int64) bool {
	return o.known && o.last-clock > new(big.Int).Div(o.fill.Num(), o.fill.Denom()).Int64()
}

func (o *oracle) set(tokens *big.Rat, last int64) {
	o.tokens, o.last, o.known = tokens, last, true
}

func (o *oracle) take(clock int64, cost int) ratelimit.Decision {
	tokens, ahead := o.at(clock)
	price := new(big.Rat).SetInt64(int64(cost))
	if tokens.Cmp(price) < 0 {
		if o.setBackByFar(clock) {
			o.set(tokens, clock)
		}
		return ratelimit.Decision{RetryAfter: o.wait(tokens, price, ahead), Remaining: whole(tokens)}
	}
	left := new(big.Rat).Sub(tokens, price)
	o.set(left, clock+ahead)
	return ratelimit.Decision{Allowed: true, Remaining: whole(left)}
}

func (o *oracle) refund(clock int64, n int) {
	if !o.known {
		return
	}
	tokens, ahead := o.at(clock)
	more := new(big.Rat).SetInt64(int64(n))
	if more.Add(more, tokens).Cmp(o.capacity) > 0 {
		more = o.capacity
	}
	o.set(more, clock+ahead)
}

// refundBooked refunds tokens that were taken at the time booked, less what is earned since.
func (o *oracle) refundBooked(clock int64, n int, booked int64) {
	if !o.known {
		return
	}
	tokens, ahead := o.at(clock)
	back := new(big.Rat)
	if age := clock + ahead - booked; age >= 0 {
		back.SetInt64(age).Mul(back, o.rate)
		back.Sub(new(big.Rat).SetInt64(int64(n)), back)
		if back.Sign() < 0 {
			back.SetInt64(0)
		}
	}
	if back.Add(back, tokens).Cmp(o.capacity) > 0 {
		back = o.capacity
	}
	o.set(back, clock+ahead)
}

func (o *oracle) peek(clock int64) ratelimit.State {
	tokens, ahead := o.at(clock)
	f, _ := tokens.Float64()
	return ratelimit.State{
		Tokens:     f,
		RetryAfter: o.wait(tokens, big.NewRat(1, 1), ahead),
		ResetAfter: o.wait(tokens, o.capacity, ahead),
	}
}

// wait returns the first whole microsecond after which the bucket holds what is wanted.
func (o *oracle) wait(tokens, want *big.Rat, ahead int64) time.Duration {
	missing := new(big.Rat).Sub(want, tokens)
	if missing.Sign() <= 0 {
		return 0
	}
	missing.Quo(missing, o.rate)
	micros, rest := new(big.Int).QuoRem(missing.Num(), missing.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		micros.Add(micros, big.NewInt(1))
	}
	return time.Duration(micros.Int64()+ahead) * time.Microsecond
}

func whole(tokens *big.Rat) int {
	return int(new(big.Int).Div(tokens.Num(), tokens.Denom()).Int64())
}
