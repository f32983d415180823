package main

// This file checks the decisions of a replay against exact arithmetic. It shares
// nothing with the limiter but the limit and the decisions, and states twice what
// a token bucket is: by what the bucket holds, and by what was granted over every
// window of time.

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// unitsPerToken says what the limiter may be off by, once: 1/256 of a token, or what
// the rate produces in two nanoseconds if that is more.
const unitsPerToken = 256

// maxFailures is how many failures are kept for the report.
const maxFailures = 10

// A checker checks decisions in the order in which they were made.
//
// Amounts are integers: parts, of which a token has tokenParts. With a rate of
// n/d tokens per nanosecond there are 256*d parts in a token, so that a unit, a
// nanosecond's refill and the capacity are whole numbers of parts.
//
// A request counts at its time stamp, or at that of the latest grant before of the
// same key, whichever is later.
type checker struct {
	tokenParts *big.Int // in a token
	nanoParts  *big.Int // refilled in a nanosecond
	unit       *big.Int
	capacity   *big.Int // in parts
	most       *big.Int // capacity and a unit

	keys      int
	decisions int
	early     int // grants that exact arithmetic puts up to a unit later
	failures  int
	reports   []string // of the first failures

	refill, cost, sum big.Int // for reuse
}

// An account is what a checker knows about one key.
type account struct {
	begin, last time.Time // of the first and the latest grant
	tokens      *big.Int  // at last, in parts; below 0 after an early grant

	granted *big.Int // cost of all grants, in parts
	lowest  *big.Int // least of (granted before) - (refilled since begin) over all grants
}

func newChecker(l limit) *checker {
	rate := new(big.Rat).Quo(l.rate, big.NewRat(int64(time.Second), 1)) // per nanosecond
	c := &checker{
		tokenParts: new(big.Int).Mul(rate.Denom(), big.NewInt(unitsPerToken)),
		nanoParts:  new(big.Int).Mul(rate.Num(), big.NewInt(unitsPerToken)),
		unit:       rate.Denom(),
	}
	if twoNanos := new(big.Int).Lsh(c.nanoParts, 1); twoNanos.Cmp(c.unit) > 0 {
		c.unit = twoNanos
	}
	c.capacity = new(big.Int).Mul(c.tokenParts, big.NewInt(int64(l.Capacity)))
	c.most = new(big.Int).Add(c.capacity, c.unit)
	return c
}

// observe checks one decision about a request of the key of t.
func (c *checker) observe(t *tally, at time.Time, cost int, granted bool, place place) {
	c.decisions++
	a := &t.account
	if a.tokens == nil {
		c.keys++
		*a = account{begin: at, last: at,
			tokens:  new(big.Int).Set(c.capacity),
			granted: new(big.Int),
			lowest:  new(big.Int),
		}
	}
	if at.Before(a.last) {
		at = a.last
	}
	c.cost.Mul(c.tokenParts, big.NewInt(int64(cost)))
	var wrong []string
	if text := c.bucket(a, at, granted); text != "" {
		wrong = append(wrong, text)
	}
	if granted {
		if text := c.window(a, at); text != "" {
			wrong = append(wrong, text)
		}
	}
	if wrong == nil {
		return
	}
	c.failures++
	if len(c.reports) < maxFailures {
		c.reports = append(c.reports, fmt.Sprintf("%v: key %s, cost %d: %s", place, printable(t.key), cost, strings.Join(wrong, "; ")))
	}
}

// bucket compares a decision about c.cost with what an exact bucket holds, and
// takes from that what was granted. It returns what is wrong, if anything.
func (c *checker) bucket(a *account, at time.Time, granted bool) (failure string) {
	tokens := c.refill.Mul(c.nanoParts, big.NewInt(int64(at.Sub(a.last))))
	tokens.Add(tokens, a.tokens)
	if tokens.Cmp(c.capacity) > 0 {
		tokens.Set(c.capacity)
	}
	due := tokens.Cmp(&c.cost) >= 0
	if !granted {
		if due {
			return fmt.Sprintf("denied with %s tokens in the bucket", c.text(tokens))
		}
		return ""
	}
	if !due {
		c.early++
		if c.sum.Add(tokens, c.unit).Cmp(&c.cost) <= 0 {
			failure = fmt.Sprintf("granted with %s tokens in the bucket", c.text(tokens))
		}
	}
	a.tokens.Sub(tokens, &c.cost)
	a.last = at
	return failure
}

// window checks, after a grant of c.cost, every window that ends with it: the
// grants from the i-th to this one must cost at most capacity + rate x (at - t_i) +
// a unit. With P(i) for the cost of the grants before the i-th and R(t) for what is
// refilled from the first grant to t, that is
//
//	P(now) + cost - R(at) - (P(i) - R(t_i)) <= capacity + unit   for all i,
//
// and so for the i with the least P(i) - R(t_i), which lowest keeps. It returns
// what is wrong, if anything.
func (c *checker) window(a *account, at time.Time) (failure string) {
	refilled := c.refill.Mul(c.nanoParts, big.NewInt(int64(at.Sub(a.begin))))
	level := c.sum.Sub(a.granted, refilled)
	if level.Cmp(a.lowest) < 0 {
		a.lowest.Set(level)
	}
	a.granted.Add(a.granted, &c.cost)
	excess := level.Add(level, &c.cost)
	excess.Sub(excess, a.lowest)
	if excess.Cmp(c.most) > 0 {
		return fmt.Sprintf("the grants of a window that ends here exceed rate x window by %s tokens; the capacity is %s", c.text(excess), c.text(c.capacity))
	}
	return ""
}

// text returns an amount in tokens, to six decimals.
func (c *checker) text(parts *big.Int) string {
	return new(big.Rat).SetFrac(parts, c.tokenParts).FloatString(6)
}
