package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/packedbucket/ratelimit/internal/rational"
	"github.com/stretchr/testify/require"
)

var ctx = context.Background()

// allow is Allow where no error can be.
func allow(t testing.TB, tb *TokenBucket, key string) Decision {
	t.Helper()
	return allowN(t, tb, key, 1)
}

func allowN(t testing.TB, tb *TokenBucket, key string, cost int) Decision {
	t.Helper()
	d, err := tb.AllowN(ctx, key, cost)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// manyKeys returns n, or fewer where so many keys would take too long: under the race
// detector, and where all of them share one chain (hash_collide.go).
func manyKeys(n int) int {
	switch {
	case shardHash("a", 0) == shardHash("b", 0):
		return n / 50
	case raceEnabled || testing.Short():
		return n / 10
	}
	return n
}

// onBothStores runs a test with the default store and with a table.
func onBothStores(t *testing.T, test func(t *testing.T, store Option)) {
	t.Run("shardmap", func(t *testing.T) { test(t, func(*config) {}) })
	t.Run("table", func(t *testing.T) { test(t, WithMaxKeys(tableKeys)) })
}

// tableKeys is more than any test that runs on both stores has at once.
const tableKeys = 1000

// drain takes single tokens until there are none and returns how many there were.
func drain(t testing.TB, tb *TokenBucket, key string) (granted int) {
	t.Helper()
	for allow(t, tb, key).Allowed {
		granted++
	}
	return granted
}

func TestFullBucketAllowsCapacity(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now), store)
		for i := range 10 {
			require.Equal(t, Decision{Allowed: true, Remaining: 9 - i}, allow(t, tb, "k"))
		}
		require.Equal(t, Decision{RetryAfter: time.Second}, allow(t, tb, "k"))
	})
}

func TestDenialCarriesRetryAfter(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		for _, test := range []struct {
			name  string
			limit Limit
			spend int // first, of the full bucket
			wait  time.Duration
			cost  int
			want  time.Duration
		}{
			{"one of one a second", Limit{1, 1}, 1, 0, 1, time.Second},
			{"part of the time has passed", Limit{1, 1}, 1, 300 * time.Millisecond, 1, 700 * time.Millisecond},
			{"a large cost", Limit{10, 2}, 10, 0, 7, 3500 * time.Millisecond},
			{"some are left", Limit{10, 2}, 6, 0, 7, 1500 * time.Millisecond},
			{"a third of a second is no whole number of nanoseconds", Limit{1, 3}, 1, 0, 1, 333333334},
			{"and two thirds", Limit{2, 3}, 2, 0, 2, 666666667},
			{"a rate that no float64 holds", Limit{1, 1.0 / 60}, 1, 0, 1, time.Minute},
			{"a token a month", Limit{3, 1.0 / (30 * 24 * 3600)}, 3, 0, 1, 30 * 24 * time.Hour},
			{"a token a nanosecond", Limit{1e9, 1e9}, 1e9, 0, 1, 1},
			{"all of them", Limit{1e9, 1e9}, 1e9, 0, 1e9, time.Second},
			{"three a nanosecond", Limit{10, 3e9}, 10, 0, 1, 1},
			{"longer than a Duration", Limit{1 << 30, 1.0 / (30 * 24 * 3600)}, 1 << 30, 0, 1 << 30, math.MaxInt64},
		} {
			t.Run(test.name, func(t *testing.T) {
				var clock manualClock
				tb, err := New(test.limit, WithClock(clock.now), store)
				require.NoError(t, err)
				require.True(t, allowN(t, tb, "k", test.spend).Allowed)
				clock.advance(test.wait)
				d := allowN(t, tb, "k", test.cost)
				require.False(t, d.Allowed)
				require.Equal(t, test.want, d.RetryAfter)
			})
		}
	})
}

// At now+RetryAfter the call succeeds, a nanosecond earlier it does not, at any
// phase of the clock.
func TestRetryAfterIsExact(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		rnd := rand.New(rand.NewPCG(11, 12))
		for _, limit := range limits {
			for range 100 {
				var clock manualClock
				tb, err := New(limit, WithClock(clock.now), store)
				require.NoError(t, err)
				clock.set(time.Duration(rnd.Int64N(1e18) >> rnd.UintN(60)))
				cost := 1 + rnd.IntN(limit.Capacity)
				require.True(t, allowN(t, tb, "k", limit.Capacity).Allowed)
				if rnd.IntN(2) == 0 { // let a part of it refill
					clock.advance(time.Duration(rnd.Int64N(1 + int64(allowN(t, tb, "k", cost).RetryAfter)/8)))
				}
				d := allowN(t, tb, "k", cost)
				require.False(t, d.Allowed)
				require.Positive(t, d.RetryAfter)
				if int64(d.RetryAfter) > math.MaxInt64/2 {
					continue // beyond the clock
				}
				clock.advance(d.RetryAfter - 1)
				early := allowN(t, tb, "k", cost)
				require.Equal(t, Decision{RetryAfter: 1, Remaining: early.Remaining}, early, "%+v, cost %d", limit, cost)
				clock.advance(1)
				require.True(t, allowN(t, tb, "k", cost).Allowed, "%+v, cost %d", limit, cost)
			}
		}
	})
}

func TestRefillRestoresTokens(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		for _, rate := range []float64{1, 10, 1000, 1e6, 1e9, 0.5, 0.1, 1.0 / 60, 1.0 / 3, 1e6 / 8} {
			t.Run(fmt.Sprint(rate), func(t *testing.T) {
				var clock manualClock
				tb := NewTokenBucket(5, rate, WithClock(clock.now), store)
				require.Equal(t, 5, drain(t, tb, "k"))
				interval := time.Duration(math.Round(1e9 / rate)) // a whole number for these rates
				for range 3 {
					clock.advance(interval - 1)
					require.False(t, allow(t, tb, "k").Allowed, "a nanosecond early")
					clock.advance(1)
					require.Equal(t, 1, drain(t, tb, "k"), "exactly one")
				}
				clock.advance(3 * interval)
				require.Equal(t, 3, drain(t, tb, "k"))
				clock.advance(1000 * interval)
				require.Equal(t, 5, drain(t, tb, "k"), "never more than the capacity")
			})
		}
	})
}

func TestPerKeyIsolated(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(3, 1, WithClock(clock.now), store)
		keys := []string{"a", "b", "", "A", "a\x00", strings.Repeat("x", 1<<20), "\xff\xfe"}
		for _, key := range keys {
			require.Equal(t, 3, drain(t, tb, key))
		}
		for _, key := range keys {
			require.False(t, allow(t, tb, key).Allowed)
		}
		require.Equal(t, len(keys), tb.Len())
		tb.Reset("b")
		require.Equal(t, 3, drain(t, tb, "b"))
		require.False(t, allow(t, tb, "a").Allowed)
	})
}

func TestConcurrentAllowGrantsAtMostCapacity(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		const goroutines, capacity = 100, 50
		rounds := 3000
		if raceEnabled || testing.Short() {
			rounds = 1000
		}
		for range rounds {
			tb := NewTokenBucket(capacity, minRate, store)
			var granted atomic.Int64
			start := make(chan struct{})
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					<-start
					if allow(t, tb, "k").Allowed {
						granted.Add(1)
					}
				})
			}
			close(start)
			wg.Wait()
			require.EqualValues(t, capacity, granted.Load())
		}
	})
}

func TestRateEnforcement(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		for _, limit := range limits {
			var clock manualClock
			tb, err := New(limit, WithClock(clock.now), store)
			require.NoError(t, err)
			rate := rational.Nearest(limit.RefillPerSec)
			// Offered is twice the rate: 2p requests in q seconds, for rate p/q, where
			// such a schedule is one of whole nanoseconds.
			interval := new(big.Rat).Quo(big.NewRat(1e9, 2), rate)
			if !interval.IsInt() || interval.Num().BitLen() > 50 {
				continue
			}
			require.True(t, allowN(t, tb, "k", limit.Capacity).Allowed)
			granted := 0
			for range 2000 {
				clock.advance(time.Duration(interval.Num().Int64()))
				if allow(t, tb, "k").Allowed {
					granted++
				}
			}
			require.Equal(t, 1000, granted, "%+v", limit)
		}
	})
}

// A token a minute, polled every millisecond for a day. Limiters that store the
// time of a poll and drop the fraction of a token that it earned never grant here.
func TestLowRateNeverStarves(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		t.Parallel()
		day := 24 * time.Hour
		if raceEnabled || testing.Short() {
			day = time.Hour
		}
		var clock manualClock
		tb := NewTokenBucket(1, 1.0/60, WithClock(clock.now), store)
		granted := 0
		for ; clock.ns.Load() < int64(day); clock.advance(time.Millisecond) {
			if d, _ := tb.Allow(ctx, "k"); d.Allowed {
				require.Zero(t, clock.ns.Load()%int64(time.Minute))
				granted++
			}
		}
		require.EqualValues(t, day/time.Minute, granted)
	})
}

// Every call reads a different time, calls lose races with each other, and still
// the total is what was earned, to the token.
func TestConcurrentTotal(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		const goroutines = 100
		calls := 10_000
		if raceEnabled || testing.Short() {
			calls = 1000
		}
		limit := Limit{Capacity: 1000, RefillPerSec: 1e6 / 7}
		lost := 0
		for round := 0; round < 2000; round++ { // until one lost a race, on a busy machine
			var clock manualClock
			// A step of 1 microsecond a call: the rate is a seventh of what is offered.
			tb, err := New(limit, WithClock(func() time.Time { return epoch.Add(time.Duration(clock.ns.Add(1000))) }), store)
			require.NoError(t, err)
			first := tb.layout.units(clock.ns.Load()) // the limiter's time began one step later
			granted := drain(t, tb, "k")
			require.Greater(t, granted, limit.Capacity)

			var total, myLost atomic.Int64
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					mine, n := 0, 0
					for range calls {
						d, m := tb.take("k", 1)
						n += m
						if d.Allowed {
							mine++
						}
					}
					total.Add(int64(mine))
					myLost.Add(int64(n))
				})
			}
			wg.Wait()
			granted += int(total.Load()) + drain(t, tb, "k")

			// The bucket was full at its first request and never since, so that all that
			// was earned was granted, but for what the last denial found.
			earned := tb.layout.units(clock.ns.Load()-1000) - first
			require.Equal(t, limit.Capacity+int(earned>>tb.layout.unitBits), granted)

			lost += int(myLost.Load())
			if lost > 0 || runtime.GOMAXPROCS(0) == 1 {
				return
			}
		}
		t.Fatal("no compare-and-swap was ever lost: the retry path was not tested")
	})
}

func TestClockGoesBack(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now), store)
		clock.set(100 * time.Second)
		require.True(t, allowN(t, tb, "k", 8).Allowed)

		clock.set(40 * time.Second)
		require.Equal(t, 2, drain(t, tb, "k"), "what the bucket holds is not refused")
		require.Equal(t, 61*time.Second, allow(t, tb, "k").RetryAfter, "until the clock is past 100 s again")
		clock.advance(61*time.Second - 1)
		require.False(t, allow(t, tb, "k").Allowed)
		clock.advance(1)
		require.Equal(t, 1, drain(t, tb, "k"), "nothing was minted on the way")

		clock.set(-50 * time.Second) // before the limiter was made
		require.Equal(t, 152*time.Second, allow(t, tb, "k").RetryAfter)
		require.Equal(t, 10, drain(t, tb, "never seen"))
		require.Equal(t, 1, func() int { clock.advance(time.Second); return drain(t, tb, "never seen") }())
		clock.set(111 * time.Second)
		require.Equal(t, 10, drain(t, tb, "k"))
	})
}

// Where last counts in steps, a clock read that is a little older than the latest
// grant sees fewer tokens than the bucket holds. That is no reason to deny: the
// clock is read again first.
func TestNoDenialOnAnOldClockRead(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		var late atomic.Int64 // what the next read is behind by
		limit := Limit{Capacity: 1_000_000, RefillPerSec: 1e9}
		tb, err := New(limit, WithClock(func() time.Time { return clock.now().Add(-time.Duration(late.Swap(0))) }), store)
		require.NoError(t, err)
		require.False(t, tb.layout.precise())
		step := int64(tb.layout.stepMask+1) >> tb.layout.unitBits // nanoseconds, at a token each
		for _, behind := range []int64{1, step / 2, step - 1, step, 2 * step, 100 * step} {
			// Full, and in the middle of a step, so that some of the reads are in it too.
			clock.advance(time.Hour + time.Duration(step/2-clock.ns.Load()%step))
			require.True(t, allowN(t, tb, "k", 1).Allowed)
			late.Store(behind)
			require.True(t, allowN(t, tb, "k", limit.Capacity-1).Allowed, "%d ns behind", behind)
			require.Equal(t, Decision{RetryAfter: 1}, allow(t, tb, "k"))
		}

		// Nor if, each time that the clock is read, another grant comes right after.
		const others = 5
		reads := 0
		tb, err = New(limit, WithClock(func() time.Time {
			now := clock.now()
			if reads++; reads%2 == 1 && 1 < reads && reads < 2*others+2 {
				clock.advance(time.Duration(100*step + step/2 - 10)) // refills all, and ends within a step
				if d, _ := tb.Allow(ctx, "k"); !d.Allowed {          // reads the clock, which is even then
					t.Error("denied")
				}
			}
			return now
		}), store)
		require.NoError(t, err)
		reads = 2
		require.True(t, allowN(t, tb, "k", limit.Capacity-1).Allowed)
		require.Equal(t, 2+2*others+1, reads)
	})
}

// Nor may a reset on an old clock read, where last counts in steps, be as of that time:
// what the bucket has earned since would be earned again.
func TestResetOnAnOldClockRead(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		var late atomic.Int64 // what the next read is behind by
		limit := Limit{Capacity: 1_000_000, RefillPerSec: 1e9}
		tb, err := New(limit, WithClock(func() time.Time { return clock.now().Add(-time.Duration(late.Swap(0))) }), store)
		require.NoError(t, err)
		step := int64(tb.layout.stepMask+1) >> tb.layout.unitBits // nanoseconds, at a token each
		clock.set(time.Duration(step*10 + step/2))
		require.True(t, allowN(t, tb, "k", limit.Capacity).Allowed)
		late.Store(step / 4)
		tb.Reset("k")
		require.Equal(t, tb.layout.fresh(tb.layout.units(clock.ns.Load())), tb.store.find("k").word.Load())
	})
}

// golang/go#71360: a limiter that stores an older time than the one it holds
// credits the time between twice. Callers that alternate a fresh clock read and one
// from 10 s ago got 2000 of 2000 requests from it; 12 are due.
func TestStaleClockNeverMints(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		t.Run("alternating", func(t *testing.T) {
			var clock manualClock
			tb := NewTokenBucket(2, 1, WithClock(clock.now), store)
			granted := 0
			for i := range 2000 {
				clock.set(time.Duration(i%2) * 10 * time.Second)
				if allow(t, tb, "k").Allowed {
					granted++
				}
			}
			// At 0 s one is taken, at 10 s the bucket is full again.
			require.Equal(t, 3, granted)

			clock.set(0)
			granted = drain(t, tb, "from 0 s")
			for i := range 2000 {
				clock.set(time.Duration(i%11) * time.Second)
				if allow(t, tb, "from 0 s").Allowed {
					granted++
				}
			}
			require.Equal(t, 12, granted)
		})

		t.Run("shuffled across goroutines", func(t *testing.T) {
			// Every call reads a clock that is up to 2 s older than the latest read.
			const goroutines, calls = 8, 20_000
			limit := Limit{Capacity: 20, RefillPerSec: 10}
			var clock manualClock
			tb, err := New(limit, WithClock(func() time.Time {
				ns := clock.ns.Add(int64(time.Millisecond))
				return epoch.Add(time.Duration(ns - rand.Int64N(int64(2*time.Second))))
			}), store)
			require.NoError(t, err)
			var granted atomic.Int64
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range calls {
						if allow(t, tb, "k").Allowed {
							granted.Add(1)
						}
					}
				})
			}
			wg.Wait()
			// The bucket may have been full as of the oldest read, 2 s before the first.
			span := float64(clock.ns.Load())/1e9 + 2
			most := limit.Capacity + int(limit.RefillPerSec*span) + 1
			require.LessOrEqual(t, granted.Load(), int64(most))
			require.Greater(t, granted.Load(), int64(most)*9/10, "nor were tokens lost")
		})
	})
}

// The field last wraps around, and so does the number of units where the rate is
// high. The same schedule gives the same decisions there as in exact arithmetic.
func TestRangeOfLast(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		crossed := 0
		for _, limit := range limits {
			l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep)
			for _, wrap := range []uint64{uint64(l.lastBits) + uint64(l.stepBits), 64} {
				// The time at which the units reach 2^wrap.
				at := new(big.Rat).SetFrac(pow2(uint(wrap)+uint(l.shift)), new(big.Int).SetUint64(l.mantissa))
				end := new(big.Int).Div(at.Num(), at.Denom())
				if !end.IsInt64() || end.Int64() > math.MaxInt64/2 {
					continue // no process lives that long
				}
				crossed++
				var clock manualClock
				tb, err := New(limit, WithClock(clock.now), store)
				require.NoError(t, err)
				// The unit of time here is what the smallest cost takes to come back.
				token := max(1, int64(1e9/limit.RefillPerSec))
				clock.set(time.Duration(end.Int64() - 20*token))
				o := newOracle(&tb.layout, limit.Capacity, false, clock.ns.Load())
				rnd := rand.New(rand.NewPCG(13, wrap))
				for range 400 {
					cost := 1 + rnd.IntN(limit.Capacity)
					require.Equal(t, o.allow(clock.ns.Load(), cost), allowN(t, tb, "k", cost), "%+v", limit)
					clock.advance(time.Duration(rnd.Int64N(2*token) - token/4))
				}
			}
		}
		require.Greater(t, crossed, 10)
	})
}

// A key that nobody uses for long is full when it comes back.
func TestLongIdle(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		for _, limit := range limits {
			fill := time.Duration(min(1e18, 1e9*float64(limit.Capacity)/limit.RefillPerSec))
			for _, idle := range []time.Duration{300 * 24 * time.Hour, 639 * 24 * time.Hour, fill} {
				var clock manualClock
				tb, err := New(limit, WithClock(clock.now), store)
				require.NoError(t, err)
				require.True(t, allowN(t, tb, "k", limit.Capacity).Allowed)
				o := newOracle(&tb.layout, limit.Capacity, false, 0)
				o.allow(0, limit.Capacity)
				clock.advance(max(idle, fill) + 1)
				state := tb.Peek("k")
				require.Equal(t, o.peek(clock.ns.Load()), state, "%+v after %v", limit, idle)
				if fill < 1e18 {
					require.Equal(t, State{Tokens: float64(limit.Capacity)}, state)
				}
			}
		}
	})
}

func TestStartEmpty(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(3, 1, WithClock(clock.now), WithStartEmpty(), store)
		clock.set(time.Hour)
		require.Equal(t, State{RetryAfter: time.Second, ResetAfter: 3 * time.Second}, tb.Peek("k"))
		require.Equal(t, Decision{RetryAfter: time.Second}, allow(t, tb, "k"))
		clock.advance(time.Second - 1)
		require.Equal(t, Decision{RetryAfter: 1}, allow(t, tb, "k"))
		clock.advance(1)
		require.Equal(t, 1, drain(t, tb, "k"))

		// A bucket that has refilled has earned its tokens: forgetting it would take
		// them away.
		clock.advance(time.Hour)
		require.Zero(t, tb.Sweep())
		others := manyKeys(100_000)
		if _, ok := tb.store.(*table); ok {
			others = 3 // it forgets what it has no room for all the same
		}
		for i := range others {
			allow(t, tb, fmt.Sprint(i)) // would sweep
		}
		require.Equal(t, others+1, tb.Len())
		require.Equal(t, 3, drain(t, tb, "k"))

		clock.advance(time.Hour)
		tb.Reset("k")
		require.Equal(t, 0, drain(t, tb, "k"), "as if never seen")
		tb.Refund("k", 2)
		require.Equal(t, 2, drain(t, tb, "k"))
		tb.Refund("never seen", 2)
		require.Equal(t, 0, drain(t, tb, "never seen"))
	})
}

func TestPeek(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 4, WithClock(clock.now), store)
		require.Equal(t, State{Tokens: 10}, tb.Peek("k"))
		require.Zero(t, tb.Len(), "makes no bucket")
		allowN(t, tb, "k", 10)
		require.Equal(t, State{RetryAfter: 250 * time.Millisecond, ResetAfter: 2500 * time.Millisecond}, tb.Peek("k"))
		clock.advance(625 * time.Millisecond)
		require.Equal(t, State{Tokens: 2.5, ResetAfter: 1875 * time.Millisecond}, tb.Peek("k"))
		clock.advance(time.Hour)
		require.Equal(t, State{Tokens: 10}, tb.Peek("k"))
	})
}

// Where last counts in steps, an old clock read may see less than nothing in a
// bucket. That is nothing, and a reset to nothing must not make it more.
func TestOldClockReadsOfAnEmptyBucket(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		for _, limit := range limits {
			for _, startEmpty := range []bool{false, true} {
				var clock manualClock
				opts := []Option{WithClock(clock.now)}
				if startEmpty {
					opts = append(opts, WithStartEmpty())
				}
				tb, err := New(limit, append(opts, store)...)
				require.NoError(t, err)
				step := min(1e15, 1e9/limit.RefillPerSec*float64(tb.layout.stepMask+1)/math.Ldexp(1, int(tb.layout.unitBits)))
				clock.set(time.Duration(step * 9 / 4))
				late := clock.ns.Load()
				allow(t, tb, "k")
				tb.Refund("k", limit.Capacity)
				require.True(t, allowN(t, tb, "k", limit.Capacity).Allowed)
				for _, back := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
					clock.set(time.Duration(late - int64(back*step)))
					require.GreaterOrEqual(t, tb.Peek("k").Tokens, 0.0, "%+v", limit)
					if startEmpty {
						tb.Reset("k")
					}
					clock.set(time.Duration(late))
					require.Zero(t, tb.Peek("k").Tokens, "%+v, %v steps back", limit, back)
				}
			}
		}
	})
}

// The price of a check is that of a clock read, once; a denial in the step of the
// latest grant reads it again.
func TestClockReads(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		for _, test := range []struct {
			limit          Limit
			grants, denies int
		}{
			{Limit{1, 1}, 1, 1},
			{Limit{1000, 1e6}, 1, 2},
		} {
			reads := 0
			var clock manualClock
			tb, err := New(test.limit, WithClock(func() time.Time { reads++; return clock.now() }), store)
			require.NoError(t, err)
			require.Equal(t, 1, reads)
			require.True(t, allowN(t, tb, "k", test.limit.Capacity).Allowed)
			require.Equal(t, 1+test.grants, reads)
			require.False(t, allow(t, tb, "k").Allowed)
			require.Equal(t, 1+test.grants+test.denies, reads)

			// In a later step the read is known to be newer than the grant.
			if l := &tb.layout; !l.precise() {
				require.True(t, allowN(t, tb, "later", test.limit.Capacity).Allowed)
				clock.advance(l.delay(clock.ns.Load(), l.stepMask+1))
				before := reads
				require.False(t, allowN(t, tb, "later", test.limit.Capacity).Allowed)
				require.Equal(t, before+1, reads)
			}
		}
	})
}

func TestRefund(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now), store)
		tb.Refund("k", 5)
		require.Zero(t, tb.Len())
		require.Equal(t, 10, drain(t, tb, "k"))
		tb.Refund("k", 0)
		tb.Refund("k", -3)
		tb.Refund("k", math.MinInt)
		require.Equal(t, 0, drain(t, tb, "k"))
		tb.Refund("k", 3)
		require.Equal(t, 3, drain(t, tb, "k"))
		tb.Refund("k", math.MaxInt)
		require.Equal(t, 10, drain(t, tb, "k"), "never above the capacity")
		clock.advance(2 * time.Second)
		tb.Refund("k", 9)
		require.Equal(t, 10, drain(t, tb, "k"))
	})
}

func TestErrors(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		err  error
		is   error
		text string
	}{
		{newErr(Limit{0, 1}), ErrInvalidLimit, "ratelimit: capacity 0: must be between 1 and " + largestCapacity + " tokens"},
		{newErr(Limit{-1, 1}), ErrInvalidLimit, "ratelimit: capacity -1: must be between 1 and " + largestCapacity + " tokens"},
		{newErr(Limit{1, 0}), ErrInvalidLimit, "ratelimit: refill rate 0: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Limit{1, -1}), ErrInvalidLimit, "ratelimit: refill rate -1: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Limit{1, nan}), ErrInvalidLimit, "ratelimit: refill rate NaN: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Limit{1, inf}), ErrInvalidLimit, "ratelimit: refill rate +Inf: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Limit{1, -inf}), ErrInvalidLimit, "ratelimit: refill rate -Inf: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Limit{1, math.SmallestNonzeroFloat64}), ErrInvalidLimit, "ratelimit: refill rate 5e-324: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Limit{1, math.Nextafter(maxRate, inf)}), ErrInvalidLimit, "ratelimit: refill rate 1.0000000000000002e+11: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Per(10, 0)), ErrInvalidLimit, "ratelimit: refill rate NaN: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Per(10, -time.Second)), ErrInvalidLimit, "ratelimit: refill rate -10: must be between 1e-12 and 1e+11 tokens per second"},
		{newErr(Per(0, time.Second)), ErrInvalidLimit, "ratelimit: capacity 0: must be between 1 and " + largestCapacity + " tokens"},
		{newErr(Per(1, time.Second), nil), ErrInvalidOption, "ratelimit: option 0: must not be nil"},
		{newErr(Per(1, time.Second), WithStartEmpty(), WithClock(nil)), ErrInvalidOption, "ratelimit: WithClock: the function must not be nil"},
		{newErr(Per(1, time.Second), WithCoarseClock(0)), ErrInvalidOption, "ratelimit: WithCoarseClock: resolution 0s: must be between 100µs and 1s"},
		{newErr(Per(1, time.Second), WithCoarseClock(time.Hour)), ErrInvalidOption, "ratelimit: WithCoarseClock: resolution 1h0m0s: must be between 100µs and 1s"},
		{newErr(Per(1, time.Second), WithCoarseClock(time.Second), WithClock(time.Now)), ErrInvalidOption, "ratelimit: WithClock and WithCoarseClock: must not be used together"},
		{costErr(0), ErrInvalidCost, "ratelimit: cost 0: must be between 1 and the capacity, 10 tokens"},
		{costErr(-1), ErrInvalidCost, "ratelimit: cost -1: must be between 1 and the capacity, 10 tokens"},
		{costErr(math.MinInt), ErrInvalidCost, fmt.Sprintf("ratelimit: cost %d: must be between 1 and the capacity, 10 tokens", math.MinInt)},
		{costErr(11), ErrCostExceedsCapacity, "ratelimit: cost 11: must be between 1 and the capacity, 10 tokens; it can never be granted"},
		{costErr(math.MaxInt), ErrCostExceedsCapacity, fmt.Sprintf("ratelimit: cost %d: must be between 1 and the capacity, 10 tokens; it can never be granted", math.MaxInt)},
	} {
		t.Run(test.text, func(t *testing.T) {
			require.EqualError(t, test.err, test.text)
			require.ErrorIs(t, test.err, test.is)
			for _, other := range []error{ErrInvalidLimit, ErrInvalidOption, ErrInvalidCost, ErrCostExceedsCapacity} {
				require.Equal(t, other == test.is, errors.Is(test.err, other))
			}
		})
	}
	require.PanicsWithError(t, "ratelimit: capacity 0: must be between 1 and "+largestCapacity+" tokens", func() { NewTokenBucket(0, 1) })
}

var largestCapacity = fmt.Sprint(int64(min(maxCapacity, math.MaxInt)))

func newErr(limit Limit, opts ...Option) error {
	_, err := New(limit, opts...)
	return err
}

// costErr returns the error of a cost that leaves the bucket of 10 as it was.
func costErr(cost int) error {
	tb := NewTokenBucket(10, 1)
	d, err := tb.AllowN(ctx, "k", cost)
	if d != (Decision{}) || tb.Len() != 0 {
		return fmt.Errorf("an error came with %+v and %d buckets", d, tb.Len())
	}
	return err
}

func TestZeroValue(t *testing.T) {
	var tb TokenBucket
	d, err := tb.Allow(ctx, "k")
	require.Equal(t, Decision{}, d)
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.EqualError(t, err, "ratelimit: TokenBucket was not made by New or NewTokenBucket")
	_, err = tb.AllowN(ctx, "k", 3)
	require.ErrorIs(t, err, ErrInvalidLimit)
	tb.Refund("k", 1)
	tb.Reset("k")
	require.Zero(t, tb.Peek("k"))
	require.Zero(t, tb.Len())
	require.Zero(t, tb.Sweep())
	require.NoError(t, tb.Close())
}

func TestPer(t *testing.T) {
	require.Equal(t, Limit{100, 100.0 / 60}, Per(100, time.Minute))
	for _, test := range []struct {
		tokens int
		period time.Duration
		want   *big.Rat // tokens per second
	}{
		{1, time.Second, big.NewRat(1, 1)},
		{1, 7 * time.Nanosecond, big.NewRat(1e9, 7)},
		{3, 70 * time.Hour, big.NewRat(3, 252000)},
		{180_000_000, time.Minute, big.NewRat(3_000_000, 1)},
		{1000, 999_999_937, big.NewRat(5333333336, 5333333)}, // p*q > 2^51: the simplest within half an ulp
	} {
		require.Equal(t, test.want.String(), rational.Nearest(Per(test.tokens, test.period).RefillPerSec).String())
	}
}

func TestDenialWritesNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(3, 1.0/7, WithClock(clock.now), store)
		allowN(t, tb, "k", 2)
		before := tb.store.find("k").word.Load()
		for range 100 {
			clock.advance(31 * time.Millisecond)
			require.False(t, allowN(t, tb, "k", 3).Allowed)
			tb.Peek("k")
			require.Equal(t, before, tb.store.find("k").word.Load())
		}
	})
}

func TestChecksOfKnownKeysDoNotAllocate(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		if raceEnabled {
			t.Skip("the race detector allocates")
		}
		tb := NewTokenBucket(1<<30, 1e9, store)
		denied := NewTokenBucket(1, minRate, store)
		coarse := NewTokenBucket(1<<30, 1e9, WithCoarseClock(time.Second), store)
		defer coarse.Close()
		buffer := []byte("key in a larger buffer")
		for name, f := range map[string]func(){
			"grant":                  func() { tb.Allow(ctx, "k") },
			"grant of more than one": func() { tb.AllowN(ctx, "k", 7) },
			"denial":                 func() { denied.Allow(ctx, "k") },
			"coarse clock":           func() { coarse.Allow(ctx, "k") },
			"peek":                   func() { tb.Peek("k") },
			"peek at no bucket":      func() { tb.Peek("nobody") },
			"refund":                 func() { tb.Refund("k", 1) },
			"refund to no bucket":    func() { tb.Refund("nobody", 1) },
			"reset":                  func() { tb.Reset("k") },
			"key made in place":      func() { tb.Allow(ctx, unsafe.String(&buffer[0], 3)) },
		} {
			require.Zero(t, testing.AllocsPerRun(1000, f), name)
		}
	})
}

func TestKeysDoNotKeepLargerStringsAlive(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		tb := NewTokenBucket(10, minRate, store)
		large := strings.Repeat("x", 1<<20)
		alive := weak.Make(unsafe.StringData(large))
		allow(t, tb, large[:7])
		large = ""
		for range 10 {
			runtime.GC()
			if alive.Value() == nil {
				require.Equal(t, 9, drain(t, tb, "xxxxxxx"))
				return
			}
		}
		t.Fatal("the string of which the key was a part is still in memory")
	})
}
