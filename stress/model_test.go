package stress

import (
	"fmt"
	"hash/maphash"
	"math/big"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/packedbucket/ratelimit"
)

// This file is the sequential specification: a token bucket for one goroutine, in
// exact integers. It shares no code and no representation with the limiter.
//
// Tokens are counted in grains, time in ticks. A grain is 1/128 token, the
// coarsest resolution that the limits below have. Each limit has a tick in which
// the rate produces a whole number of grains, and the clocks of this module show
// whole ticks only. So every amount that occurs, in the specification and in the
// limiter, is an exact number of the limiter's units, whichever it chose, and the
// two must agree to the unit and to the nanosecond: there is no tolerance
// anywhere.

const grainsPerToken = 128

// A spec is the specification for one limit.
type spec struct {
	limit  ratelimit.Limit
	tick   time.Duration
	full   int64 // grains in a full bucket
	refill int64 // grains per tick
}

// newSpec returns the specification of a limit of the given capacity that refills
// with tokens per period.
func newSpec(capacity, tokens int, period, tick time.Duration) spec {
	refill := big.NewRat(int64(tokens)*grainsPerToken*int64(tick), int64(period))
	if !refill.IsInt() {
		panic(fmt.Sprintf("stress: %d tokens per %v are %v grains per %v", tokens, period, refill, tick))
	}
	return spec{
		limit:  ratelimit.Limit{Capacity: capacity, RefillPerSec: ratelimit.Per(tokens, period).RefillPerSec},
		tick:   tick,
		full:   int64(capacity) * grainsPerToken,
		refill: refill.Num().Int64(),
	}
}

// specs are the limits under test: small, so that denials are frequent, with ticks
// of a few grains. In thirds of a second and sixtieths of a token per second
// nothing is a power of two, and RetryAfter has to be rounded up.
var specs = []spec{
	newSpec(1, 1, time.Second, time.Second/128),
	newSpec(2, 3, time.Second, time.Second/128),
	newSpec(3, 10, time.Second, time.Second/256),
	newSpec(4, 1000, time.Second, time.Second/64000),
	newSpec(5, 1, time.Minute, time.Minute/128),
}

// timeOf returns the ticks in which so many grains are produced.
func (s *spec) timeOf(grains int64) int64 { return (grains + s.refill - 1) / s.refill }

// A bucket is the state of one key: so many grains at the tick last. There is no
// such thing as a removed bucket: sweeping must be invisible, and so the
// specification has never heard of it.
type bucket struct {
	grains int64
	last   int64
}

// newBucket returns the bucket of a key never seen. All clocks start at tick 0.
func (s *spec) newBucket() bucket { return bucket{grains: s.full} }

// level returns the grains that an operation at tick t finds. One whose time is
// before last finds the bucket as of last.
func (s *spec) level(b bucket, t int64) int64 {
	return min(s.full, b.grains+s.refill*max(0, t-b.last))
}

// wait returns how long after tick t the bucket holds the given grains: the first
// nanosecond at which it does, and 0 if it does already.
func (s *spec) wait(b bucket, t, grains int64) time.Duration {
	if s.level(b, t) >= grains {
		return 0
	}
	missing := (grains - b.grains) * int64(s.tick)
	return time.Duration(b.last-t)*s.tick + time.Duration((missing+s.refill-1)/s.refill)
}

type kind int

const (
	take kind = iota
	refund
	reset
	peek
)

// A call is what an operation was asked to do, and when. The time at which an
// operation reads the clock cannot be seen from outside: it is one of times, all
// the ticks that the clock may have shown to it.
type call struct {
	kind  kind
	key   string
	n     int     // the cost, or the tokens to put back
	times []int64 // ascending
}

// apply returns the bucket after the call at tick t, and what the call returns: a
// ratelimit.Decision, a ratelimit.State or nil.
//
// A refund to a full bucket and a reset of one do nothing, and in particular do
// not set last: the limiter may have forgotten the bucket.
func (s *spec) apply(b bucket, c call, t int64) (bucket, any) {
	level := s.level(b, t)
	n := int64(c.n) * grainsPerToken
	switch c.kind {
	case take:
		if level < n {
			return b, ratelimit.Decision{Remaining: int(level / grainsPerToken), RetryAfter: s.wait(b, t, n)}
		}
		level -= n
		return bucket{level, max(b.last, t)}, ratelimit.Decision{Allowed: true, Remaining: int(level / grainsPerToken)}
	case refund:
		if level == s.full {
			return b, nil
		}
		return bucket{min(level+n, s.full), max(b.last, t)}, nil
	case reset:
		if level == s.full {
			return b, nil
		}
		return bucket{s.full, max(b.last, t)}, nil
	default: // peek
		return b, ratelimit.State{
			Tokens:     float64(level) / grainsPerToken,
			RetryAfter: s.wait(b, t, grainsPerToken),
			ResetAfter: s.wait(b, t, s.full),
		}
	}
}

// model returns the specification as porcupine wants it. A step leads to one state
// for each time at which the call would have returned what it did return.
func (s *spec) model() porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Partition: partition,
		Init:      func() []any { return []any{s.newBucket()} },
		Step: func(state, input, output any) []any {
			var next []any
			c := input.(call)
			for _, t := range c.times {
				if b, out := s.apply(state.(bucket), c, t); out == output {
					next = append(next, b)
				}
			}
			return next
		},
		Hash:              func(state any) uint64 { return maphash.Comparable(seed, state.(bucket)) },
		DescribeOperation: describe,
		DescribeState: func(state any) string {
			b := state.(bucket)
			return fmt.Sprintf("%d+%d/%d tokens at tick %d", b.grains/grainsPerToken, b.grains%grainsPerToken, grainsPerToken, b.last)
		},
	}
	return m.ToModel()
}

// partition splits a history into one per key, in the order of first appearance.
func partition(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	index := make(map[string]int)
	for _, op := range history {
		key := op.Input.(call).key
		i, ok := index[key]
		if !ok {
			i = len(parts)
			index[key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// describe returns one operation as text.
func describe(input, output any) string {
	c := input.(call)
	at := fmt.Sprintf("at tick %d", c.times[0])
	if last := c.times[len(c.times)-1]; last > c.times[0] {
		at = fmt.Sprintf("at tick %d..%d", c.times[0], last)
	}
	switch c.kind {
	case take:
		d := output.(ratelimit.Decision)
		if d.Allowed {
			return fmt.Sprintf("take %d %s: granted, %d remain", c.n, at, d.Remaining)
		}
		return fmt.Sprintf("take %d %s: denied, %d remain, retry after %v", c.n, at, d.Remaining, d.RetryAfter)
	case refund:
		return fmt.Sprintf("refund %d %s", c.n, at)
	case reset:
		return fmt.Sprintf("reset %s", at)
	default:
		s := output.(ratelimit.State)
		return fmt.Sprintf("peek %s: %v tokens, one in %v, full in %v", at, s.Tokens, s.RetryAfter, s.ResetAfter)
	}
}
