package redislimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// A remote runs scripts within a time, unless the server has failed too often.
type remote struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	breaker *gobreaker.CircuitBreaker[[]int64]

	calls, failures, skipped atomic.Int64
}

func newRemote(client redis.UniversalClient, c config) (*remote, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	return &remote{
		client:  client,
		prefix:  c.prefix,
		timeout: c.timeout,
		breaker: gobreaker.NewCircuitBreaker[[]int64](gobreaker.Settings{
			MaxRequests: 1,
			Timeout:     c.pause,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= uint32(c.trip) },
			IsExcluded:  func(err error) bool { return errors.Is(err, errCaller) || ofKey(err) },
		}),
	}, nil
}

// checkClient refuses clients that cannot be made to answer in time.
func checkClient(client redis.UniversalClient) (err error) {
	defer func() {
		if recover() != nil { // its options cannot be read
			err = errorf(ErrInvalidClient, "client %T: must be one that go-redis has made", client)
		}
	}()
	var bounded bool
	switch client := client.(type) {
	case *redis.Client:
		bounded = client != nil && client.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		bounded = client != nil && client.Options().ContextTimeoutEnabled
	default:
		return errorf(ErrInvalidClient, "client %T: must be a *redis.Client, also one with Sentinel, or a *redis.ClusterClient", client)
	}
	if !bounded {
		return errorf(ErrInvalidClient, "client %T: must have been made with the option ContextTimeoutEnabled, or a command would take as long as the server", client)
	}
	return nil
}

// errCaller marks what is the caller's doing: its context is done.
var errCaller = errors.New("the caller does not wait")

// ofKey reports whether a server refused a key, and not to work.
func ofKey(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "RATELIMIT")
}

// done reports whether a context is done, or will be as soon as its timer is: the deadline
// of a connection, which is the same, may be noticed first.
func done(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// callerError is the error of a context that is done.
func callerError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil {
		err, cause = context.DeadlineExceeded, context.DeadlineExceeded
	}
	if cause != err {
		return fmt.Errorf("redislimit: %w: %w", err, cause)
	}
	return fmt.Errorf("redislimit: %w", err)
}

// run runs a script on the bucket of that name. Its error is ErrUnavailable, or that of the
// caller's context if that is done.
func (r *remote) run(ctx context.Context, s script, want int, name string, args []any) ([]int64, error) {
	if ctx.Err() != nil {
		return nil, callerError(ctx)
	}
	answer, err := r.breaker.Execute(func() (answer []int64, err error) {
		defer func() {
			if p := recover(); p != nil { // of a hook of the client
				answer, err = nil, fmt.Errorf("panic: %v", p)
			}
		}()
		r.calls.Add(1)
		bounded, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		answer, err = s.run(bounded, r.client, want, name, args)
		if err != nil && done(ctx) {
			err = fmt.Errorf("%w: %w", errCaller, err)
		}
		return answer, err
	})
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, errCaller):
		return nil, callerError(ctx)
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		r.skipped.Add(1)
	default:
		r.failures.Add(1)
	}
	return nil, unavailable(err)
}
