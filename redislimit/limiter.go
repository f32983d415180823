package redislimit

import (
	"context"
	"errors"

	"github.com/packedbucket/ratelimit"
	"github.com/redis/go-redis/v9"
)

// A Limiter is a ratelimit.Limiter whose token buckets are in Redis, where all processes
// share them. Each call is one round trip, of one script on one key; Redis forgets a bucket a
// second after it has refilled.
//
// Times are those of the Redis server, in whole microseconds: RetryAfter is exact to the
// microsecond of its clock. If that clock is set back, buckets wait for the latest time they
// have seen, up to the time in which a bucket fills up; if it is set back further, they go
// on from there with what they hold. A bucket that was written for a larger limit is empty
// at worst.
//
// A check allocates some twenty objects, most of them the client's.
//
// A Limiter is safe for concurrent use and must not be copied. It starts no goroutine, and
// needs no Close; the client is the caller's.
type Limiter struct {
	limit    ratelimit.Limit
	timing   timing
	remote   *remote
	fallback *fallback
}

var _ ratelimit.Limiter = (*Limiter)(nil)

// New returns a limiter that keeps limit in the Redis of client, which must be a
// *redis.Client (one with Sentinel too) or a *redis.ClusterClient, made with the option
// ContextTimeoutEnabled: otherwise the error is ErrInvalidClient. It is
// ratelimit.ErrInvalidLimit for a limit out of bounds, which are those of ratelimit.Limit
// and that a bucket fills up in 40 years at most, and ratelimit.ErrInvalidOption for a
// bad option. New does not talk to Redis.
func New(client redis.UniversalClient, limit ratelimit.Limit, opts ...Option) (*Limiter, error) {
	l, _, err := build(client, limit, opts)
	return l, err
}

// build is New, and returns what the options ask for as well.
func build(client redis.UniversalClient, limit ratelimit.Limit, opts []Option) (*Limiter, config, error) {
	t, err := newTiming(limit)
	if err != nil {
		return nil, config{}, err
	}
	c, r, f, err := newBackend(client, limit, opts)
	if err != nil {
		return nil, config{}, err
	}
	return &Limiter{limit, t, r, f}, c, nil
}

// newBackend makes what every limiter of this package has: a way to ask Redis, and who
// decides when there is no answer.
func newBackend(client redis.UniversalClient, limit ratelimit.Limit, opts []Option) (config, *remote, *fallback, error) {
	c, err := newConfig(opts)
	if err != nil {
		return c, nil, nil, err
	}
	r, err := newRemote(client, c)
	if err != nil {
		return c, nil, nil, err
	}
	f, err := newFallback(limit, c)
	return c, r, f, err
}

// Allow is AllowN with a cost of 1.
func (l *Limiter) Allow(ctx context.Context, key string) (ratelimit.Decision, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN decides whether a request of the given cost for key may go ahead now, and takes
// cost tokens if so.
//
// A cost below 1 is ratelimit.ErrInvalidCost and one above the capacity is
// ratelimit.ErrCostExceedsCapacity; neither asks Redis. When Redis cannot answer in time, the
// policy of WithFailure decides: then the request may have been charged in Redis or
// not, but was not sent twice. If ctx is done, the error is that of ctx, and its cause.
func (l *Limiter) AllowN(ctx context.Context, key string, cost int) (ratelimit.Decision, error) {
	if err := checkCost(cost, l.limit.Capacity); err != nil {
		return ratelimit.Decision{}, err
	}
	a, err := l.ask(ctx, takeScript, key, cost)
	if errors.Is(err, ErrUnavailable) {
		return l.fallback.decide(key, cost, err)
	}
	if err != nil {
		return ratelimit.Decision{}, err
	}
	d := l.timing.decision(a, cost)
	if d.Allowed {
		l.fallback.charge(key, cost)
	}
	return d, nil
}

// Peek returns the state of the bucket of key, and writes nothing. When Redis cannot
// answer in time the error is ErrUnavailable.
func (l *Limiter) Peek(ctx context.Context, key string) (ratelimit.State, error) {
	a, err := l.ask(ctx, peekScript, key)
	if err != nil {
		return ratelimit.State{}, err
	}
	return l.timing.state(a), nil
}

// Refund puts tokens back into the bucket of key, up to its capacity: for a request
// that was granted and then not carried out. It does nothing if tokens is below 1. When Redis
// cannot answer in time the error is ErrUnavailable, and the tokens may be back or not; the
// bucket of FailLocal gets them back only when Redis has.
func (l *Limiter) Refund(ctx context.Context, key string, tokens int) error {
	if tokens < 1 {
		return nil
	}
	tokens = min(tokens, l.limit.Capacity)
	_, err := l.ask(ctx, refundScript, key, tokens)
	if err == nil && l.fallback.local != nil {
		l.fallback.local.Refund(key, tokens)
	}
	return err
}

// Reset makes the bucket of key as if the key had never been seen: full. When Redis cannot
// answer in time the error is ErrUnavailable, and the bucket may be full or not.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.ask(ctx, refundScript, key, l.limit.Capacity)
	if err == nil && l.fallback.local != nil {
		l.fallback.local.Reset(key)
	}
	return err
}

// Stats returns counts since the limiter was made.
func (l *Limiter) Stats() Stats { return stats(l.remote, l.fallback) }

// ask runs a script on the bucket of key, with numbers of tokens as its arguments.
func (l *Limiter) ask(ctx context.Context, s script, key string, tokens ...int) (answer, error) {
	numbers, err := l.remote.run(ctx, s, answerLen, name(l.remote.prefix, key), l.timing.args(tokens...))
	if err != nil {
		return answer{}, err
	}
	return newAnswer(numbers), nil
}

// checkCost says what is wrong with a cost.
func checkCost(cost, capacity int) error {
	switch {
	case cost < 1:
		return errorf(ratelimit.ErrInvalidCost, "cost %d: must be between 1 and the capacity, %d tokens", cost, capacity)
	case cost > capacity:
		return errorf(ratelimit.ErrCostExceedsCapacity, "cost %d: must be between 1 and the capacity, %d tokens; it can never be granted", cost, capacity)
	}
	return nil
}
