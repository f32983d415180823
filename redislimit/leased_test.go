package redislimit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/stretchr/testify/require"
)

// newFakeLeased returns a limiter on a fake server, both of the bubble.
func newFakeLeased(t *testing.T, limit ratelimit.Limit, opts ...Option) (*Leased, *fakeNode) {
	t.Helper()
	node := &fakeNode{redis: newFakeRedis()}
	c := node.client()
	t.Cleanup(func() { c.Close() })
	l, err := NewLeased(c, limit, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l, node
}

// However many goroutines in two processes spend at once, together they get the capacity
// and no more, and nothing is left.
func TestLeasedGrantsAtMostCapacity(t *testing.T) {
	ctx := t.Context()
	limit := ratelimit.Per(1000, 100_000*time.Hour)
	var all []*Leased
	for range 2 {
		l, err := NewLeased(client(t), limit, WithPrefix(t.Name()+":"), WithTimeout(patient), WithFailure(FailClosed), WithTerm(time.Minute))
		require.NoError(t, err)
		defer l.Close()
		all = append(all, l)
	}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for range 200 {
				d, err := all[g%2].Allow(ctx, "k")
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					granted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	left := 0
	for _, l := range all {
		k := l.find("k")
		left += k.leases[0].left(l.now()) + k.leases[1].left(l.now())
		require.Zero(t, l.Stats().Lost)
	}
	booked := all[0].Stats().Booked + all[1].Stats().Booked
	require.Equal(t, booked, granted.Load()+int64(left), "what was not granted is still there")
	s, err := all[0].limiter.Peek(ctx, "k")
	require.NoError(t, err)
	require.InDelta(t, 1000-booked, s.Tokens, 0.01)
	t.Logf("%d calls for 3200 checks", all[0].Stats().Calls+all[1].Stats().Calls)
}

// A denial is remembered until its RetryAfter, and not longer.
func TestLeasedRemembersDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(10, 100*time.Second)) // one in 10 s
		ctx := t.Context()
		d, err := l.AllowN(ctx, "k", 10)
		require.NoError(t, err)
		require.True(t, d.Allowed)
		d, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, ratelimit.Decision{RetryAfter: 10 * time.Second}, d)
		calls := node.redis.calls.Load()
		for range 1000 {
			time.Sleep(d.RetryAfter / 1001)
			again, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			require.False(t, again.Allowed)
			again, err = l.AllowN(ctx, "k", 5)
			require.NoError(t, err)
			require.False(t, again.Allowed)
		}
		require.Equal(t, calls, node.redis.calls.Load(), "redis was not asked")
		again, err := l.Allow(ctx, "k")
		require.NoError(t, err)
		require.Positive(t, again.RetryAfter)
		time.Sleep(again.RetryAfter)
		again, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		require.True(t, again.Allowed)

		// A denial of a large cost says nothing of a smaller one.
		require.NoError(t, l.limiter.Reset(ctx, "other"))
		_, err = l.AllowN(ctx, "other", 6)
		require.NoError(t, err)
		d, err = l.AllowN(ctx, "other", 6)
		require.NoError(t, err)
		require.False(t, d.Allowed)
		d, err = l.AllowN(ctx, "other", 2)
		require.NoError(t, err)
		require.True(t, d.Allowed)
	})
}

// Bookings grow with what is spent, and shrink again.
func TestLeasedSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Limit{Capacity: 1000, RefillPerSec: 1000})
		spend := func(n int, every time.Duration) (calls int64) {
			before := node.redis.calls.Load()
			for range n {
				d, err := l.Allow(t.Context(), "k")
				require.NoError(t, err)
				require.True(t, d.Allowed)
				time.Sleep(every)
				synctest.Wait()
			}
			return node.redis.calls.Load() - before
		}
		require.LessOrEqual(t, spend(1000, 2*time.Millisecond), int64(25), "500 a second")
		require.LessOrEqual(t, l.find("k").size, l.most)
		require.GreaterOrEqual(t, l.find("k").size, 64)
		spend(20, 1500*time.Millisecond)
		require.Equal(t, 1, l.find("k").size, "one in a second and a half")
	})
}

// What is booked and not spent is given back after the term, less what may have been earned since; and
// a key that is not asked for is forgotten, the goroutine with the last one.
func TestLeasedGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newFakeLeased(t, ratelimit.Per(800, 800*time.Hour)) // one an hour
		ctx := t.Context()
		for range 140 {
			_, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			synctest.Wait()
		}
		stats := l.Stats()
		require.Greater(t, stats.Booked, int64(140))
		require.Equal(t, 1, stats.Keys)
		time.Sleep(5 * time.Second)
		stats = l.Stats()
		unspent := stats.Booked - 140
		require.Zero(t, stats.Keys)
		require.Equal(t, unspent, stats.Returned+stats.Lost)
		require.LessOrEqual(t, stats.Lost, int64(2), "what may have been earned, rounded up, of each booking")
		s, err := l.limiter.Peek(ctx, "k")
		require.NoError(t, err)
		require.InDelta(t, 660-stats.Lost, s.Tokens, 1.01, "parts of tokens are given back too")
		l.janitor.mu.Lock()
		require.False(t, l.janitor.running)
		l.janitor.mu.Unlock()

		// And it starts again.
		_, err = l.Allow(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, 1, l.Stats().Keys)
	})
}

func TestLeasedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(800, 800*time.Hour), WithTerm(time.Minute))
		ctx := t.Context()
		for range 140 {
			_, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			synctest.Wait()
		}
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		stats := l.Stats()
		require.Equal(t, stats.Booked-140, stats.Returned+stats.Lost)
		require.Positive(t, stats.Returned)
		require.Zero(t, stats.Keys)

		calls := node.redis.calls.Load()
		for range 10 {
			d, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
		require.Equal(t, calls+10, node.redis.calls.Load(), "it asks every time")
	})
}

// A lease ends with its term, although nothing was spent.
func TestLeaseEnds(t *testing.T) {
	var l lease
	const end = 1500 * time.Millisecond
	require.Zero(t, l.put(100, end).tokens)
	left, ok := l.take(end-time.Millisecond, 30)
	require.True(t, ok)
	require.Equal(t, 70, left)
	left, ok = l.take(end-1, 71)
	require.False(t, ok)
	require.Equal(t, 70, left)
	left, ok = l.take(end, 1)
	require.False(t, ok)
	require.Zero(t, left)
	require.Equal(t, leftover{tokens: 70, end: end}, l.put(maxLease, 2*end))
	require.Equal(t, maxLease, l.left(2*end-1))
}

// When the server does not answer, what was booked is spent, and then the policy decides.
func TestLeasedFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(800, 800*time.Hour), WithFailure(FailClosed), WithTerm(time.Minute))
		ctx := t.Context()
		for range 100 {
			_, err := l.Allow(ctx, "k")
			require.NoError(t, err)
			synctest.Wait()
		}
		node.cut.Store(true)
		booked, granted := l.Stats().Booked, int64(100)
		for {
			d, err := l.Allow(ctx, "k")
			if err != nil {
				require.ErrorIs(t, err, ErrUnavailable)
				break
			}
			require.True(t, d.Allowed)
			granted++
		}
		require.Equal(t, booked, granted)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_, err := l.Allow(canceled, "k")
		require.ErrorIs(t, err, context.Canceled)
		node.cut.Store(false)
		time.Sleep(defaultPause + 1)
		d, err := l.Allow(ctx, "k")
		require.NoError(t, err)
		require.True(t, d.Allowed)
	})
}

// With FailLocal, the bucket in the process has been charged with what was booked.
func TestLeasedFailLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(800, 800*time.Hour), WithTerm(time.Minute))
		granted := 0
		for i := range 2000 {
			node.cut.Store(i >= 100)
			d, err := l.Allow(t.Context(), "k")
			require.NoError(t, err)
			if d.Allowed {
				granted++
			}
			synctest.Wait()
		}
		require.Equal(t, 800, granted)
	})
}

// Who spends steadily never waits for Redis, once it is known how much he needs.
func TestLeasedBooksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Limit{Capacity: 1000, RefillPerSec: 1000})
		node.latency = 50 * time.Millisecond
		waited := 0
		for i := range 5000 {
			before := time.Now()
			d, err := l.Allow(t.Context(), "k")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			if time.Now().After(before) && i > 1000 {
				waited++
			}
			time.Sleep(2 * time.Millisecond)
		}
		require.Zero(t, waited)
	})
}

// Tokens of a lease are spent once, by however many goroutines.
func TestLeaseIsSpentOnce(t *testing.T) {
	for range 200 {
		const tokens = 5000
		var l lease
		l.put(tokens, time.Hour)
		var spent atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if _, ok := l.take(0, 1); !ok {
						return
					}
					spent.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(tokens), spent.Load())
	}
}

// Every token that was booked is spent, given back or counted as lost, while keys come, are
// forgotten and come again under many goroutines.
func TestLeasedAccounts(t *testing.T) {
	rounds := 400_000
	if testing.Short() {
		rounds = 100_000
	}
	node := &fakeNode{redis: newFakeRedis()}
	c := node.client()
	defer c.Close()
	l, err := NewLeased(c, ratelimit.Limit{Capacity: 1_000_000, RefillPerSec: 1000}, WithTerm(10*time.Millisecond), WithFailure(FailClosed), WithTimeout(patient))
	require.NoError(t, err)
	var spent atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 7))
			for i := range rounds {
				key := string(rune('a' + (i/2000+rnd.IntN(3))%26)) // some at a time
				cost := 1 + rnd.IntN(3)
				d, err := l.AllowN(context.Background(), key, cost)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					spent.Add(int64(cost))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, l.Close())
	stats := l.Stats()
	require.Equal(t, stats.Booked, spent.Load()+stats.Returned+stats.Lost)
	require.Zero(t, stats.Keys)
	t.Logf("%+v, %d spent", stats, spent.Load())
}

// Callers that need a booking share the one that is on its way.
func TestLeasedCallersShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(80, 80*time.Hour))
		node.latency = 10 * time.Millisecond
		_, err := l.AllowN(t.Context(), "k", 80)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				d, err := l.Allow(t.Context(), "k")
				if err != nil || d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(2), node.redis.calls.Load())
	})
}

func TestLeasedCostsAndKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newFakeLeased(t, ratelimit.Per(10, 10*time.Hour))
		_, err := l.AllowN(t.Context(), "k", 0)
		require.ErrorIs(t, err, ratelimit.ErrInvalidCost)
		_, err = l.AllowN(t.Context(), "k", 11)
		require.ErrorIs(t, err, ratelimit.ErrCostExceedsCapacity)
		for _, key := range []string{"", "\x00", "{}"} {
			d, err := l.AllowN(t.Context(), key, 10)
			require.NoError(t, err)
			require.True(t, d.Allowed)
		}
		_, err = NewLeased(nil, ratelimit.Per(10, time.Hour))
		require.ErrorIs(t, err, ErrInvalidClient)
		_, err = NewLeased(client(t), ratelimit.Per(10, time.Hour), WithTerm(0))
		require.ErrorIs(t, err, ratelimit.ErrInvalidOption)
	})
}

func TestLeasedDoesNotAllocate(t *testing.T) {
	l, err := NewLeased(client(t), ratelimit.Limit{Capacity: 1 << 30, RefillPerSec: 1e6}, WithPrefix(t.Name()+":"), WithTimeout(patient), WithTerm(time.Minute))
	require.NoError(t, err)
	defer l.Close()
	k := l.find("k")
	k.put(1_000_000, l.now(), l.now()+time.Minute, 0)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = l.Allow(context.Background(), "k") }), "granted")
	k.denial.Store(&denial{1, l.now(), l.now() + time.Hour})
	k.leases = [2]lease{}
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = l.Allow(context.Background(), "k") }), "denied")
}

// A bucket from which tokens were booked, and given back, never holds more than one from which
// they were not.
func TestGivingBackGainsNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	gained := 0 // if all were given back
	for range 20_000 {
		limit := ratelimit.Limit{Capacity: 1 + rnd.IntN(1000), RefillPerSec: math.Exp(rnd.Float64() * 8)}
		timing, err := newTiming(limit)
		require.NoError(t, err)
		server := newFakeRedis()
		clock := uint64(epoch)
		take := func(key string, n int) bool {
			return newAnswer(server.run(takeScript.sha, key, clock, timing.args(n))).taken > 0
		}
		tokens := func(key string) float64 {
			return timing.state(newAnswer(server.run(peekScript.sha, key, clock, timing.args()))).Tokens
		}
		others := func() { // those who take from the bucket, with the booking or without
			for range rnd.IntN(4) {
				clock += uint64(rnd.Float64() * rnd.Float64() * float64(timing.burst.micros))
				if n := 1 + rnd.IntN(limit.Capacity); float64(n) <= tokens("booked") {
					require.True(t, take("booked", n))
					require.True(t, take("not booked", n), "nothing was gained before")
				}
			}
		}
		others()
		left := 1 + rnd.IntN(max(1, limit.Capacity/8))
		booked := newAnswer(server.run(takeScript.sha, "booked", clock, timing.args(left)))
		if booked.taken == 0 {
			continue
		}
		others()
		if tokens("booked")+float64(left) > tokens("not booked")+1e-6 {
			gained++
		}
		server.run(refundScript.sha, "booked", clock, append(timing.args(left), booked.now))
		require.LessOrEqual(t, tokens("booked"), tokens("not booked")+1e-9, "%+v: %d after %d µs", limit, left, clock-uint64(booked.now))
	}
	require.Greater(t, gained, 100, "and to give all back would have gained something")
}

// A process that asks for less than the limit gets all of it, whatever its requests cost:
// tokens that are left of one booking are spent with those of the next.
func TestLeasedCosts(t *testing.T) {
	for _, cost := range []int{1, 7, 33, 63, 100, 125, 126, 500} {
		synctest.Test(t, func(t *testing.T) {
			l, node := newFakeLeased(t, ratelimit.Limit{Capacity: 1000, RefillPerSec: 1000})
			node.latency = time.Millisecond
			asked, granted := 0, 0
			for start := time.Now(); time.Since(start) < 20*time.Second; {
				time.Sleep(time.Duration(float64(cost) / 900 * 1e9)) // 900 tokens a second
				asked++
				d, err := l.AllowN(t.Context(), "k", cost)
				require.NoError(t, err)
				if d.Allowed {
					granted++
				}
			}
			require.GreaterOrEqual(t, float64(granted), 0.95*float64(asked), "cost %d", cost)
		})
	}
}

// A thousand callers who come at once wait for two bookings: the one that was on its way,
// and one for all of them.
func TestLeasedBooksForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Limit{Capacity: 100_000, RefillPerSec: 1})
		node.latency = 15 * time.Millisecond
		start := time.Now()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				d, err := l.Allow(t.Context(), "k")
				if err != nil || !d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
			})
		}
		wg.Wait()
		require.LessOrEqual(t, node.redis.calls.Load(), int64(3))
		require.LessOrEqual(t, time.Since(start), 2*node.latency)
		require.Zero(t, l.Stats().Fallbacks)
	})
}

// Nobody waits for longer than twice the timeout when there is no answer.
func TestLeasedWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(1000, time.Hour), WithFailure(FailClosed), WithBreaker(1_000_000, time.Second))
		node.cut.Store(true)
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				before := time.Now()
				_, err := l.Allow(t.Context(), "k")
				if !errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
				if waited := time.Since(before); waited > 2*defaultTimeout {
					t.Errorf("waited %v", waited)
				}
			})
		}
		wg.Wait()
		require.Positive(t, time.Since(start))
	})
}

// Nor when others have all that is booked, again and again: here one that never ends.
func TestLeasedWaitForOthersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newFakeLeased(t, ratelimit.Per(1000, time.Hour), WithFailure(FailClosed))
		k := l.find("k")
		f, mine := k.board()
		require.True(t, mine)
		start := time.Now()
		_, err := l.Allow(t.Context(), "k")
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, errWaited)
		require.Equal(t, 2*defaultTimeout, time.Since(start))
		require.Zero(t, k.waiting.Load())
		k.land(f, nil)
	})
}

// Where a booking would not hold more than a request costs, callers do not wait for each
// other.
func TestLeasedAsksAtOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(15, 1000*time.Hour))
		node.latency = 15 * time.Millisecond
		start := time.Now()
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				d, err := l.Allow(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(15), granted.Load())
		require.Equal(t, node.latency, time.Since(start))
	})
}

// A caller that does not wait loses nothing for others: what was booked for it is theirs.
func TestLeasedCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(1000, 1000*time.Hour))
		node.latency = 10 * time.Millisecond
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		_, err := l.Allow(short, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUnavailable)
		time.Sleep(10 * time.Millisecond)
		d, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, d.Allowed)
		require.Equal(t, int64(1), node.redis.calls.Load())
	})
}

// Keys that somebody made up are forgotten, although they are denied for a day, and a long
// key takes no more memory than a short one.
func TestLeasedForgetsDeniedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(1, 24*time.Hour))
		ctx := t.Context()
		long := strings.Repeat("x", 1<<20)
		for i := range 100 {
			for n := range 2 {
				d, err := l.Allow(ctx, long+strconv.Itoa(i))
				require.NoError(t, err)
				require.Equal(t, n == 0, d.Allowed)
			}
		}
		for id := range l.keys.Range {
			require.LessOrEqual(t, len(id), longestKey+64)
		}
		calls := node.redis.calls.Load()
		d, err := l.Allow(ctx, long+"7")
		require.NoError(t, err)
		require.False(t, d.Allowed)
		require.Equal(t, calls, node.redis.calls.Load())
		time.Sleep((remembered + 2) * l.term)
		require.Zero(t, l.Stats().Keys)
		d, err = l.Allow(ctx, long+"7")
		require.NoError(t, err)
		require.False(t, d.Allowed)
	})
}

// A hook of the client that panics is a failure, and nobody waits for it; not in the
// background either.
func TestLeasedHookPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, node := newFakeLeased(t, ratelimit.Per(1000, time.Hour), WithFailure(FailClosed))
		var panics atomic.Bool
		node.lossy = func() bool {
			if panics.Load() {
				panic("of a hook")
			}
			return false
		}
		panics.Store(true)
		_, err := l.Allow(t.Context(), "k")
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, "of a hook")
		panics.Store(false)
		for range 20 {
			d, err := l.Allow(t.Context(), "k")
			require.NoError(t, err)
			require.True(t, d.Allowed)
			synctest.Wait()
		}
		panics.Store(true)
		time.Sleep(5 * l.term)
		require.Zero(t, l.Stats().Keys)
	})
}
