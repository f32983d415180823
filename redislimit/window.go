package redislimit

import (
	"context"
	"errors"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/redis/go-redis/v9"
)

// A Window is a ratelimit.Limiter that counts requests in fixed windows, each of which
// begins with the first request of a key after the one before has ended. It is the
// cheapest limit there is in Redis, one small counter, and grants up to twice as much
// as a window holds within the length of a window: at the end of one, and at the
// beginning of the next. Prefer Limiter unless that is what you want.
//
// RetryAfter is the rest of the window, to the millisecond; when it is over, a cost that is not above
// what a window holds is granted.
//
// A Window is safe for concurrent use and must not be copied. It starts no goroutine, and
// needs no Close.
type Window struct {
	tokens   int
	length   time.Duration
	remote   *remote
	fallback *fallback
}

var _ ratelimit.Limiter = (*Window)(nil)

const maxWindow = 365 * 24 * time.Hour

// NewWindow returns a limiter that grants requests of so many tokens in a window of the
// given length, a whole number of milliseconds up to 365 days. The client and the options are
// as for New; the bucket that takes over with FailLocal is a token bucket of that many
// tokens, all refilled in one length. The errors are those of New.
func NewWindow(client redis.UniversalClient, tokens int, length time.Duration, opts ...Option) (*Window, error) {
	if length < time.Millisecond || length > maxWindow || length%time.Millisecond != 0 {
		return nil, errorf(ratelimit.ErrInvalidLimit, "window %v: must be a whole number of milliseconds between 1ms and %v", length, maxWindow)
	}
	limit := ratelimit.Per(tokens, length)
	if err := limit.Validate(); err != nil {
		return nil, err
	}
	_, r, f, err := newBackend(client, limit, opts)
	if err != nil {
		return nil, err
	}
	return &Window{tokens, length, r, f}, nil
}

// Allow is AllowN with a cost of 1.
func (w *Window) Allow(ctx context.Context, key string) (ratelimit.Decision, error) {
	return w.AllowN(ctx, key, 1)
}

// AllowN decides whether a request of the given cost for key may go ahead now, and counts
// it if so. Costs and failures are as for Limiter.AllowN.
func (w *Window) AllowN(ctx context.Context, key string, cost int) (ratelimit.Decision, error) {
	if err := checkCost(cost, w.tokens); err != nil {
		return ratelimit.Decision{}, err
	}
	numbers, err := w.remote.run(ctx, windowScript, 3, name(w.remote.prefix, key), []any{w.tokens, w.length.Milliseconds(), cost})
	if errors.Is(err, ErrUnavailable) {
		return w.fallback.decide(key, cost, err)
	}
	if err != nil {
		return ratelimit.Decision{}, err
	}
	d := ratelimit.Decision{Allowed: numbers[0] == 1, Remaining: int(max(0, int64(w.tokens)-numbers[1]))}
	if !d.Allowed {
		// A key is gone when the clock is past its end, and not yet at it.
		d.RetryAfter = time.Duration(numbers[2]+1) * time.Millisecond
		return d, nil
	}
	w.fallback.charge(key, cost)
	return d, nil
}

// Stats returns counts since the limiter was made.
func (w *Window) Stats() Stats { return stats(w.remote, w.fallback) }
