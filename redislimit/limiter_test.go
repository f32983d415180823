package redislimit

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var perMinute = ratelimit.Per(10, time.Minute)

func TestFullBucketAllowsCapacity(t *testing.T) {
	l := newLimiter(t, client(t), ratelimit.Per(10, time.Hour))
	for i := range 10 {
		d, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, ratelimit.Decision{Allowed: true, Remaining: 9 - i}, d)
	}
	d, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Positive(t, d.RetryAfter)
	require.LessOrEqual(t, d.RetryAfter, 6*time.Minute)
	d, err = l.Allow(t.Context(), "another")
	require.NoError(t, err)
	require.True(t, d.Allowed)
}

func TestPeekRefundReset(t *testing.T) {
	l := newLimiter(t, client(t), ratelimit.Per(10, 1000*time.Hour))
	ctx := t.Context()
	s, err := l.Peek(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, ratelimit.State{Tokens: 10}, s, "never seen")

	_, err = l.AllowN(ctx, "k", 10)
	require.NoError(t, err)
	s, err = l.Peek(ctx, "k")
	require.NoError(t, err)
	require.InDelta(t, 0, s.Tokens, 0.01)
	require.InDelta(t, 100*time.Hour, s.RetryAfter, float64(time.Hour))
	require.InDelta(t, 1000*time.Hour, s.ResetAfter, float64(time.Hour))

	require.NoError(t, l.Refund(ctx, "k", 3))
	require.NoError(t, l.Refund(ctx, "k", 0))
	require.NoError(t, l.Refund(ctx, "k", -1))
	s, err = l.Peek(ctx, "k")
	require.NoError(t, err)
	require.InDelta(t, 3, s.Tokens, 0.01)
	require.NoError(t, l.Refund(ctx, "k", math.MaxInt))
	s, err = l.Peek(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, ratelimit.State{Tokens: 10}, s, "never above the capacity")

	_, err = l.AllowN(ctx, "k", 10)
	require.NoError(t, err)
	require.NoError(t, l.Reset(ctx, "k"))
	s, err = l.Peek(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, ratelimit.State{Tokens: 10}, s)
	require.NoError(t, l.Refund(ctx, "never seen", 5))
	require.NoError(t, l.Reset(ctx, "never seen"))
	n, err := l.remote.client.Exists(ctx, name(t.Name()+":", "never seen")).Result()
	require.NoError(t, err)
	require.Zero(t, n, "nothing was taken, and nothing is kept")
}

func TestCosts(t *testing.T) {
	l := newLimiter(t, client(t), perMinute)
	w, err := NewWindow(client(t), 10, time.Minute, WithPrefix(t.Name()+":w:"), WithTimeout(patient))
	require.NoError(t, err)
	for _, limiter := range []ratelimit.Limiter{l, w} {
		for _, cost := range []int{0, -1, math.MinInt} {
			_, err := limiter.AllowN(t.Context(), "k", cost)
			require.ErrorIs(t, err, ratelimit.ErrInvalidCost)
		}
		for _, cost := range []int{11, math.MaxInt} {
			_, err := limiter.AllowN(t.Context(), "k", cost)
			require.ErrorIs(t, err, ratelimit.ErrCostExceedsCapacity)
			require.ErrorContains(t, err, "between 1 and the capacity, 10 tokens")
		}
		d, err := limiter.AllowN(t.Context(), "k", 10)
		require.NoError(t, err)
		require.True(t, d.Allowed, "nothing was charged")
	}
	require.Equal(t, int64(1), l.Stats().Calls)
}

// Any string is a key, and two strings are two keys.
func TestKeys(t *testing.T) {
	l := newLimiter(t, client(t), ratelimit.Per(1, time.Hour))
	long := strings.Repeat("x", 1<<20)
	sum := strings.TrimPrefix(name("", long), "#")
	require.Len(t, sum, 64, "what is sent is short")
	for _, key := range []string{
		"", " ", "a b", "\x00", "a\x00b", "a\x00", "{", "}", "{}", "{a}", "{a}b", "a{b}", "ключ", "キー", "\xff\xfe",
		long, long + "y", sum, "#" + sum, "=" + sum, "=", "#", "==", strings.Repeat("y", longestKey), strings.Repeat("y", longestKey+1), "\r\n", "*", "$1\r\n",
	} {
		d, err := l.Allow(t.Context(), key)
		require.NoError(t, err)
		require.True(t, d.Allowed, "%.40q is the key of another one", key)
		d, err = l.Allow(t.Context(), key)
		require.NoError(t, err)
		require.False(t, d.Allowed, "%.40q", key)
	}
}

// However many goroutines in two limiters ask for a key, they get no more than is due in
// the server's time.
func TestPromiseOnTheServersClock(t *testing.T) {
	limit := ratelimit.Limit{Capacity: 50, RefillPerSec: 2000}
	limiters := []*Limiter{newLimiter(t, client(t), limit), newLimiter(t, client(t), limit)}
	ctx := t.Context()
	c := client(t)
	now := func() time.Time {
		now, err := c.Time(ctx).Result()
		require.NoError(t, err)
		return now
	}
	var granted atomic.Int64
	before := now()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for range 1000 {
				d, err := limiters[g%2].Allow(ctx, "k")
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	span := now().Sub(before)
	most := 50 + 2000*span.Seconds()
	require.LessOrEqual(t, float64(granted.Load()), most)
	require.GreaterOrEqual(t, granted.Load(), int64(50))
}

func TestNewChecksItsArguments(t *testing.T) {
	c := client(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})
	defer cluster.Close()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr}})
	defer ring.Close()
	unbounded := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer unbounded.Close()
	good := perMinute
	for _, test := range []struct {
		client redis.UniversalClient
		limit  ratelimit.Limit
		opts   []Option
		kind   error
		text   string
	}{
		{nil, good, nil, ErrInvalidClient, "must be a *redis.Client"},
		{(*redis.Client)(nil), good, nil, ErrInvalidClient, "ContextTimeoutEnabled"},
		{ring, good, nil, ErrInvalidClient, "*redis.Ring"},
		{unbounded, good, nil, ErrInvalidClient, "ContextTimeoutEnabled"},
		{cluster, good, nil, ErrInvalidClient, "ContextTimeoutEnabled"},
		{c, ratelimit.Limit{}, nil, ratelimit.ErrInvalidLimit, "capacity 0"},
		{c, ratelimit.Limit{Capacity: 1, RefillPerSec: math.NaN()}, nil, ratelimit.ErrInvalidLimit, "NaN"},
		{c, ratelimit.Limit{Capacity: 2, RefillPerSec: 1e-9}, nil, ratelimit.ErrInvalidLimit, "fills in 63.4 years, must be at most 40"},
		{c, good, []Option{nil}, ratelimit.ErrInvalidOption, "option 0"},
		{c, good, []Option{WithTimeout(0)}, ratelimit.ErrInvalidOption, "between 1ms and 1m"},
		{c, good, []Option{WithTimeout(time.Hour)}, ratelimit.ErrInvalidOption, "between 1ms and 1m"},
		{c, good, []Option{WithPrefix("{a}")}, ratelimit.ErrInvalidOption, "without any of =#{}"},
		{c, good, []Option{WithPrefix("a=")}, ratelimit.ErrInvalidOption, "without any of =#{}"},
		{&redis.Client{}, good, nil, ErrInvalidClient, "must be one that go-redis has made"},
		{c, good, []Option{WithPrefix(strings.Repeat("x", 129))}, ratelimit.ErrInvalidOption, "128 bytes"},
		{c, good, []Option{WithFailure(7)}, ratelimit.ErrInvalidOption, "WithFailure 7"},
		{c, good, []Option{WithFailure(-1)}, ratelimit.ErrInvalidOption, "WithFailure -1"},
		{c, good, []Option{WithBreaker(0, time.Second)}, ratelimit.ErrInvalidOption, "WithBreaker 0"},
		{c, good, []Option{WithBreaker(1, 0)}, ratelimit.ErrInvalidOption, "WithBreaker"},
		{c, good, []Option{WithLocal(ratelimit.Limit{Capacity: 11, RefillPerSec: 1})}, ratelimit.ErrInvalidOption, "capacity 11"},
		{c, good, []Option{WithLocal(ratelimit.Limit{Capacity: 1})}, ratelimit.ErrInvalidLimit, "refill rate 0"},
	} {
		l, err := New(test.client, test.limit, test.opts...)
		require.ErrorIs(t, err, test.kind)
		require.ErrorContains(t, err, test.text)
		require.Nil(t, l)
		if test.kind != ratelimit.ErrInvalidLimit {
			w, err := NewWindow(test.client, 10, time.Minute, test.opts...)
			require.ErrorIs(t, err, test.kind)
			require.Nil(t, w)
		}
	}
	for _, length := range []time.Duration{0, -time.Second, time.Microsecond, time.Millisecond + 1, 366 * 24 * time.Hour} {
		_, err := NewWindow(c, 10, length)
		require.ErrorIs(t, err, ratelimit.ErrInvalidLimit, "%v", length)
	}
	_, err := NewWindow(c, 0, time.Second)
	require.ErrorIs(t, err, ratelimit.ErrInvalidLimit)
}

func TestWindow(t *testing.T) {
	c := client(t)
	ctx := t.Context()
	w, err := NewWindow(c, 10, time.Hour, WithPrefix(t.Name()+":"), WithTimeout(patient), WithFailure(FailClosed))
	require.NoError(t, err)
	for i := range 10 {
		d, err := w.Allow(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, ratelimit.Decision{Allowed: true, Remaining: 9 - i}, d)
	}
	d, err := w.Allow(ctx, "k")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.Positive(t, d.RetryAfter)
	require.LessOrEqual(t, d.RetryAfter, time.Hour+time.Millisecond)
	require.Zero(t, d.Remaining)

	key := name(t.Name()+":", "k")
	require.NoError(t, c.Del(ctx, key).Err(), "the window ends")
	d, err = w.AllowN(ctx, "k", 4)
	require.NoError(t, err)
	require.Equal(t, ratelimit.Decision{Allowed: true, Remaining: 6}, d)
	require.NoError(t, c.Expire(ctx, key, 10*time.Minute).Err(), "50 minutes pass")
	end, err := c.PExpireTime(ctx, key).Result()
	require.NoError(t, err)
	d, err = w.AllowN(ctx, "k", 6)
	require.NoError(t, err)
	require.True(t, d.Allowed)
	later, err := c.PExpireTime(ctx, key).Result()
	require.NoError(t, err)
	require.Equal(t, end, later, "it ends when it would have")
	d, err = w.Allow(ctx, "k")
	require.NoError(t, err)
	require.False(t, d.Allowed)
	require.LessOrEqual(t, d.RetryAfter, 10*time.Minute+time.Millisecond)

	// What has no end, or one that is too late, gets one.
	for _, ttl := range []time.Duration{0, 1000 * time.Hour} {
		require.NoError(t, c.Set(ctx, key, 10, ttl).Err())
		d, err = w.Allow(ctx, "k")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		left, err := c.PTTL(ctx, key).Result()
		require.NoError(t, err)
		require.Positive(t, left)
		require.LessOrEqual(t, left, time.Hour)
	}
	require.NoError(t, c.Set(ctx, key, "x", 0).Err())
	_, err = w.Allow(ctx, "k")
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "holds something else than a count")
}

// A window does not end before its RetryAfter is over, and has ended then.
func TestWindowEnds(t *testing.T) {
	ctx := context.Background()
	w, err := NewWindow(client(t), 1, 20*time.Millisecond, WithPrefix(t.Name()+":"), WithTimeout(patient))
	require.NoError(t, err)
	grants := 0
	for grants < 5 { // waits for the server's clock, some 100 ms in all
		d, err := w.Allow(ctx, "k")
		require.NoError(t, err)
		if d.Allowed {
			grants++
			continue
		}
		require.Positive(t, d.RetryAfter)
		require.LessOrEqual(t, d.RetryAfter, 21*time.Millisecond)
	}
}

// Whatever the prefixes and the keys, two buckets have two names.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, prefix := range []string{"", "a", "a:", "a:k", "a:k:", "k:", ":"} {
		for _, key := range []string{"", "a", "=", "#", "=a", "k:x", "x", "a=x", ":k=x", strings.Repeat("x", 200), "{a}", "#" + strings.Repeat("0", 64)} {
			n := name(prefix, key)
			require.NotContains(t, seen, n, "%q %q and %s", prefix, key, seen[n])
			seen[n] = prefix + " " + key
		}
	}
}
