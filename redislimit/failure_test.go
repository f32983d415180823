package redislimit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/redislimit/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// endless is a limit that gives nothing back while a test runs.
var endless = ratelimit.Per(10, 10_000*time.Hour)

// A client that retries would charge a request twice whose answer is lost. This one, with
// the retries that it has by default, does not.
func TestNotSentTwice(t *testing.T) {
	proxy, err := redistest.StartProxy(server.Addr)
	require.NoError(t, err)
	defer proxy.Close()
	direct := newLimiter(t, client(t), endless)
	through := newClient(proxy.Addr)
	defer through.Close()
	require.Equal(t, 3, through.Options().MaxRetries)
	l := newLimiter(t, through, endless, WithBreaker(1000, time.Second))
	ctx := t.Context()
	_, err = l.Allow(ctx, "k")
	require.NoError(t, err)
	for charged := 2; charged <= 4; charged++ {
		_, err = l.Peek(ctx, "k") // there is a connection
		require.NoError(t, err)
		proxy.Cut(1)
		_, err = l.Allow(ctx, "k")
		require.ErrorIs(t, err, ErrUnavailable)
		s, err := direct.Peek(ctx, "k")
		require.NoError(t, err)
		require.InDelta(t, 10-charged, s.Tokens, 0.01, "the cut request was charged once")
	}

	// To see that the proxy shows it: a command of the client's own is sent again.
	require.NoError(t, client(t).Del(ctx, "counter").Err())
	require.NoError(t, through.Ping(ctx).Err())
	proxy.Cut(1)
	require.NoError(t, through.Incr(ctx, "counter").Err())
	n, err := client(t).Get(ctx, "counter").Int()
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

// A server that hangs ends a call at its timeout, although the client would wait an hour.
func TestHangingServer(t *testing.T) {
	s := start(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true, ReadTimeout: time.Hour, WriteTimeout: time.Hour, DialTimeout: time.Hour})
	defer c.Close()
	l, err := New(c, endless, WithFailure(FailClosed), WithBreaker(3, time.Hour), WithTimeout(50*time.Millisecond))
	require.NoError(t, err)
	// The first connection may take longer than that on a busy machine.
	require.NoError(t, c.Ping(t.Context()).Err())
	require.NoError(t, s.Hang())
	for range 3 {
		_, err = l.Allow(t.Context(), "k")
		require.ErrorIs(t, err, ErrUnavailable)
	}
	calls := l.Stats().Calls
	require.Equal(t, int64(3), calls)
	_, err = l.Allow(t.Context(), "k")
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, Stats{Calls: 3, Failures: 3, Skipped: 1, Fallbacks: 4}, l.Stats(), "it is not asked any more")
	require.NoError(t, s.Continue())
}

// A deadline of the caller's that is earlier counts, and is not the server's failure.
func TestCallersContext(t *testing.T) {
	s := start(t)
	l := newLimiter(t, func() *redis.Client { c := newClient(s.Addr); t.Cleanup(func() { c.Close() }); return c }(), endless, WithFailure(FailOpen), WithBreaker(1, time.Hour))
	_, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)

	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Allow(canceled, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrUnavailable)
	require.Equal(t, int64(1), l.Stats().Calls, "it was not asked")

	require.NoError(t, s.Hang())
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	d, err := l.Allow(short, "k")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, ErrUnavailable)
	require.False(t, d.Allowed)
	require.NoError(t, s.Continue())
	require.Equal(t, Stats{Calls: 2}, l.Stats(), "that is no failure, and trips nothing")
	_, err = l.Allow(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, int64(3), l.Stats().Calls)
}

// When the server dies, each policy does what it says; when it is back, it is asked again.
func TestPolicies(t *testing.T) {
	for _, test := range []struct {
		failure Failure
		during  []bool // the decisions about six requests while the server is away, after four that it granted, of a capacity of 6
		err     error
	}{
		{FailLocal, []bool{true, true, false, false, false, false}, nil},
		{FailOpen, []bool{true, true, true, true, true, true}, nil},
		{FailClosed, []bool{false, false, false, false, false, false}, ErrUnavailable},
	} {
		t.Run(test.failure.String(), func(t *testing.T) {
			s := start(t)
			c := newClient(s.Addr)
			defer c.Close()
			limit := ratelimit.Per(6, 10_000*time.Hour)
			l := newLimiter(t, c, limit, WithFailure(test.failure), WithBreaker(1_000_000, time.Millisecond))
			ctx := t.Context()
			for range 4 {
				d, err := l.Allow(ctx, "k")
				require.NoError(t, err)
				require.True(t, d.Allowed)
			}
			s.Kill()
			for i, want := range test.during {
				d, err := l.Allow(ctx, "k")
				require.Equal(t, want, d.Allowed, "request %d", i)
				if test.err != nil {
					require.ErrorIs(t, err, test.err)
					require.ErrorContains(t, err, "connect") // and why
				} else {
					require.NoError(t, err)
				}
				if !want {
					require.Positive(t, d.RetryAfter)
				}
			}
			stats := l.Stats()
			require.Equal(t, int64(len(test.during)), stats.Fallbacks)
			require.Equal(t, stats.Fallbacks, stats.Failures)
			_, err := l.Peek(ctx, "k")
			require.ErrorIs(t, err, ErrUnavailable)
			require.ErrorIs(t, l.Refund(ctx, "k", 1), ErrUnavailable)
			require.ErrorIs(t, l.Reset(ctx, "other"), ErrUnavailable)

			require.NoError(t, s.Restart())
			d, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			require.Equal(t, ratelimit.Decision{Allowed: true, Remaining: 5}, d, "a restart without a disk forgets")
			require.Equal(t, stats.Fallbacks, l.Stats().Fallbacks)
		})
	}
}

// The bucket in the process follows what is given back in Redis.
func TestLocalFollowsRefunds(t *testing.T) {
	s := start(t)
	c := newClient(s.Addr)
	defer c.Close()
	l := newLimiter(t, c, endless, WithFailure(FailLocal), WithBreaker(1, time.Hour))
	ctx := t.Context()
	for _, key := range []string{"refunded", "reset"} {
		d, err := l.AllowN(ctx, key, 10)
		require.NoError(t, err)
		require.True(t, d.Allowed)
	}
	require.NoError(t, l.Refund(ctx, "refunded", 3))
	require.NoError(t, l.Reset(ctx, "reset"))
	s.Kill()
	for key, left := range map[string]int{"refunded": 3, "reset": 10} {
		d, err := l.AllowN(ctx, key, left)
		require.NoError(t, err)
		require.Equal(t, ratelimit.Decision{Allowed: true}, d, key)
	}
	require.Equal(t, int64(2), l.Stats().Fallbacks)
}

// With a smaller limit for each process, that is what it grants alone.
func TestLocalLimit(t *testing.T) {
	s := start(t)
	c := newClient(s.Addr)
	defer c.Close()
	l := newLimiter(t, c, endless, WithFailure(FailLocal), WithBreaker(1, time.Hour), WithLocal(ratelimit.Per(2, 10_000*time.Hour), ratelimit.WithMaxKeys(100)))
	s.Kill()
	ctx := t.Context()
	d, err := l.AllowN(ctx, "k", 3)
	require.ErrorIs(t, err, ErrUnavailable, "more than it holds: nobody can tell")
	require.False(t, d.Allowed)
	for i := range 3 {
		d, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, i < 2, d.Allowed)
	}
}

// A grant that is more than the bucket in the process holds leaves nothing in it.
func TestLocalIsChargedWithAllOfIt(t *testing.T) {
	s := start(t)
	c := newClient(s.Addr)
	defer c.Close()
	l := newLimiter(t, c, ratelimit.Per(100, 10_000*time.Hour), WithFailure(FailLocal), WithBreaker(1, time.Hour), WithLocal(ratelimit.Per(10, 10_000*time.Hour)))
	ctx := t.Context()
	for _, key := range []string{"more than it can hold", "more than it holds"} {
		costs := []int{11}
		if key == "more than it holds" {
			costs = []int{6, 6}
		}
		for _, cost := range costs {
			d, err := l.AllowN(ctx, key, cost)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
	}
	s.Kill()
	for _, key := range []string{"more than it can hold", "more than it holds"} {
		d, err := l.Allow(ctx, key)
		require.NoError(t, err)
		require.False(t, d.Allowed, key)
	}
}

// After some failures in a row the server is left alone for a pause, then one call tries it.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		fail, asked := true, 0
		client := redis.NewClient(&redis.Options{Addr: nowhere, ContextTimeoutEnabled: true})
		defer client.Close()
		client.AddHook(hook(func(cmd redis.Cmder) error {
			asked++
			if fail {
				cmd.SetErr(broken)
				return broken
			}
			cmd.(sendOnce).SetVal([]any{int64(1), int64(0), int64(0), int64(0), epoch})
			return nil
		}))
		l, err := New(client, perMinute, WithFailure(FailClosed), WithBreaker(3, time.Second))
		require.NoError(t, err)
		allow := func() error { _, err := l.Allow(t.Context(), "k"); return err }
		for range 10 {
			err := allow()
			require.ErrorIs(t, err, ErrUnavailable)
			if asked < 3 {
				require.ErrorIs(t, err, broken)
			}
		}
		require.Equal(t, 3, asked)
		time.Sleep(time.Second + 1) // of the bubble
		require.ErrorIs(t, allow(), broken)
		require.ErrorIs(t, allow(), ErrUnavailable)
		require.Equal(t, 4, asked, "one call tried, and failed")
		time.Sleep(time.Second + 1)
		fail = false
		for range 5 {
			require.NoError(t, allow())
		}
		require.Equal(t, 9, asked)
		require.Equal(t, Stats{Calls: 9, Failures: 4, Skipped: 8, Fallbacks: 12}, l.Stats())

		// Failures that are not in a row do not count.
		for i := range 20 {
			fail = i%3 != 0
			_ = allow()
		}
		require.Equal(t, 29, asked)
	})
}

// A hook answers commands in place of a server.
type hook func(redis.Cmder) error

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return h(cmd) }
}
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A server that has forgotten the scripts is told them again.
func TestScriptFlush(t *testing.T) {
	s := start(t)
	c := newClient(s.Addr)
	defer c.Close()
	l := newLimiter(t, c, endless)
	for i := range 3 {
		d, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, ratelimit.Decision{Allowed: true, Remaining: 9 - i}, d)
		require.NoError(t, c.ScriptFlush(t.Context()).Err())
	}
	require.NoError(t, c.FlushAll(t.Context()).Err())
	d, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, 9, d.Remaining, "what is flushed is forgotten")
}

// A server without memory can deny, and look, but not grant: that is a failure, which
// leaves nothing behind.
func TestOutOfMemory(t *testing.T) {
	s := start(t, "--maxmemory-policy", "noeviction")
	c := newClient(s.Addr)
	defer c.Close()
	l := newLimiter(t, c, endless, WithBreaker(1000, time.Hour))
	ctx := t.Context()
	_, err := l.AllowN(ctx, "drained", 10)
	require.NoError(t, err)
	require.NoError(t, c.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err = l.Allow(ctx, "k")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, c.ConfigSet(ctx, "maxmemory", "0").Err())
	state, err := l.Peek(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, ratelimit.State{Tokens: 10}, state)
	state, err = l.Peek(ctx, "drained")
	require.NoError(t, err)
	require.InDelta(t, 0, state.Tokens, 0.01)
}

// A key that holds something else is an error for that key, and not a reason to leave the
// server alone.
func TestForeignKey(t *testing.T) {
	c := client(t)
	l := newLimiter(t, c, endless, WithBreaker(1, time.Hour))
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, name(t.Name()+":", "text"), "hello", 0).Err())
	require.NoError(t, c.LPush(ctx, name(t.Name()+":", "list"), "hello").Err())
	for _, key := range []string{"text", "list", "text"} {
		_, err := l.Allow(ctx, key)
		require.ErrorIs(t, err, ErrUnavailable)
		require.True(t, strings.Contains(err.Error(), "RATELIMIT") || strings.Contains(err.Error(), "WRONGTYPE"), "%v", err)
	}
	_, err := l.Allow(ctx, "k")
	require.NoError(t, err)
	value, err := c.Get(ctx, name(t.Name()+":", "text")).Result()
	require.NoError(t, err)
	require.Equal(t, "hello", value)
}
