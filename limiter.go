package ratelimit

import (
	"context"
	"time"
)

// A Limiter decides whether a request may go ahead. It keeps one budget per key;
// keys are any strings, the empty one included. A Limiter is safe for concurrent
// use.
//
// Choose the method by what a request costs: Allow if they all cost the same,
// AllowN if some weigh more (bytes, rows, model tokens).
type Limiter interface {
	// Allow is AllowN with a cost of 1.
	Allow(ctx context.Context, key string) (Decision, error)

	// AllowN decides whether a request of the given cost may go ahead now, and
	// charges it to the key if so. A denial charges nothing.
	//
	// The error is about the call, not about the budget: a denial is no error. A
	// cost below 1 is ErrInvalidCost; a cost that the key could never pay is
	// ErrCostExceedsCapacity, and retrying it is pointless.
	//
	// An in-memory limiter never looks at ctx; it is there for limiters that ask
	// another machine.
	AllowN(ctx context.Context, key string, cost int) (Decision, error)
}

// A Decision is the answer to one request. It is a plain value.
type Decision struct {
	// Allowed reports whether the request was granted.
	Allowed bool

	// RetryAfter is 0 on a grant. On a denial it is how long after the call the
	// same call would succeed if nobody else took tokens of this key: always
	// more than 0, and exact to the nanosecond unless the Limiter says
	// otherwise. What is longer than the largest time.Duration, 292 years, is
	// returned as that.
	RetryAfter time.Duration

	// Remaining is the whole tokens that the key has left after the decision.
	// It is never negative. (With a TokenBucket whose time stamps count in steps, of
	// thousands of tokens a second or millions of tokens, a grant that another one
	// has overtaken may report fewer, by up to a step: docs/packed-word.md.)
	Remaining int
}
