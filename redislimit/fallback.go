package redislimit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/packedbucket/ratelimit"
)

// A fallback decides when Redis cannot answer.
type fallback struct {
	policy Failure
	local  *ratelimit.TokenBucket // for FailLocal
	pause  time.Duration

	decisions atomic.Int64
}

func newFallback(limit ratelimit.Limit, c config) (*fallback, error) {
	f := &fallback{policy: c.failure, pause: c.pause}
	if c.failure != FailLocal {
		return f, nil
	}
	if c.local == (ratelimit.Limit{}) {
		c.local = limit
	}
	if c.local.Capacity > limit.Capacity {
		return nil, errorf(ratelimit.ErrInvalidOption, "WithLocal: capacity %d: must be at most that of the limit, %d", c.local.Capacity, limit.Capacity)
	}
	local, err := ratelimit.New(c.local, c.localOptions...)
	f.local = local
	return f, err
}

// charge tells the bucket in the process of a grant. If it holds less, it is then empty.
func (f *fallback) charge(key string, cost int) {
	if f.local == nil {
		return
	}
	d, err := f.local.AllowN(context.Background(), key, cost)
	if d.Allowed {
		return
	}
	if err != nil { // the cost is above a capacity of WithLocal
		d.Remaining = int(f.local.Peek(key).Tokens)
	}
	if d.Remaining > 0 {
		_, _ = f.local.AllowN(context.Background(), key, d.Remaining)
	}
}

// decide decides in place of Redis, which failed with err.
func (f *fallback) decide(key string, cost int, err error) (ratelimit.Decision, error) {
	f.decisions.Add(1)
	switch f.policy {
	case FailOpen:
		return ratelimit.Decision{Allowed: true}, nil
	case FailClosed:
		return ratelimit.Decision{RetryAfter: f.pause}, err
	}
	d, localErr := f.local.AllowN(context.Background(), key, cost)
	if localErr != nil { // more than a smaller limit of WithLocal can hold
		return ratelimit.Decision{RetryAfter: f.pause}, err
	}
	return d, nil
}
