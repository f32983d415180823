package ratelimit

import (
	"fmt"
	"math"
	"math/big"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit/internal/rational"
	"github.com/stretchr/testify/require"
)

func TestSweepRemovesWhatHasRefilled(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now), store)
		allowN(t, tb, "short of one", 1)
		allowN(t, tb, "short of five", 5)
		require.Zero(t, tb.Sweep())
		clock.advance(time.Second - 1)
		require.Zero(t, tb.Sweep())
		clock.advance(1)
		require.Equal(t, 1, tb.Sweep())
		require.Equal(t, 1, tb.Len())
		require.Equal(t, State{Tokens: 6, ResetAfter: 4 * time.Second}, tb.Peek("short of five"))
		require.Equal(t, State{Tokens: 10}, tb.Peek("short of one"))
		tb.Refund("short of five", 4)
		clock.advance(time.Millisecond) // a table forgets no bucket at the instant of its last use
		require.Equal(t, 1, tb.Sweep())
		require.Zero(t, tb.Len())
	})
}

// A caller whose clock read is older than the removal of a bucket must not get one
// that was full then: the time from then to the removal has been credited already.
func TestSuccessorIsNotOlderThanRemoval(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now), store)
		require.Equal(t, 10, drain(t, tb, "k"))
		clock.set(10 * time.Second)
		require.Equal(t, 1, tb.Sweep())
		clock.set(5 * time.Second)
		require.Equal(t, 10, drain(t, tb, "k"), "the bucket as of its removal at 10 s")
		clock.set(10 * time.Second)
		require.Equal(t, 0, drain(t, tb, "k"), "10 + 1/s x 10 s have been granted")
		clock.set(11 * time.Second)
		require.Equal(t, 1, drain(t, tb, "k"))
	})
}

// Keys that were used once and left alone go as soon as a few new keys arrive.
func TestMemoryFollowsLiveKeys(t *testing.T) {
	n := manyKeys(1_000_000)
	var clock manualClock
	goroutines := runtime.NumGoroutine()
	before := liveHeap()
	tb := NewTokenBucket(10, 1, WithClock(clock.now))
	for i := range n {
		allow(t, tb, fmt.Sprint("key ", i))
	}
	require.Equal(t, n, tb.Len(), "none has refilled")
	full := liveHeap() - before
	t.Logf("%d bytes a key, the key's own 16 included", full/int64(n))

	clock.advance(time.Minute)
	const few = 2 * shardCount
	for i := range few {
		allow(t, tb, fmt.Sprint("new key ", i))
	}
	require.Equal(t, few, tb.Len())
	require.Less(t, liveHeap()-before, full/4)
	require.Equal(t, goroutines, runtime.NumGoroutine(), "a limiter runs no goroutine")
	runtime.KeepAlive(tb)
}

func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// However fast new keys arrive, those that have refilled are at most about as many
// as the others.
func TestFloodOfKeysIsSweptByCount(t *testing.T) {
	live := manyKeys(10_000) // keys that arrive while one is short of tokens
	var clock manualClock
	tb := NewTokenBucket(1, 10, WithClock(clock.now))
	most := 0
	for i := range 50 * live {
		clock.advance(100 * time.Millisecond / time.Duration(live))
		allow(t, tb, fmt.Sprint(i))
		if i%100 == 0 {
			most = max(most, tb.Len())
		}
	}
	require.GreaterOrEqual(t, most, live)
	require.Less(t, most, live*2+minInsertions*shardCount)
}

// Slow arrivals free what a flood has left, a shard each.
func TestFloodIsSweptByTime(t *testing.T) {
	var clock manualClock
	tb := NewTokenBucket(1, 10, WithClock(clock.now))
	for i := range manyKeys(100_000) {
		allow(t, tb, fmt.Sprint(i))
	}
	for i := range 5 * shardCount {
		clock.advance(time.Second)
		allow(t, tb, fmt.Sprint("slow ", i))
	}
	require.Less(t, tb.Len(), 2*shardCount)
}

// Sweeps by count cost two visits per insertion, and those by time are paced: by the
// buckets that are kept, and by the time of a token.
func TestPaceOfSweeps(t *testing.T) {
	var clock manualClock
	tb := NewTokenBucket(10, 1, WithClock(clock.now))
	m := tb.store.(*shardmap)
	const shard, kept = 0, 500
	inserted := 0
	insert := func(shard uint64, n int) { // so many keys into that shard
		for ; n > 0; inserted++ {
			if key := fmt.Sprint(inserted); m.shardOf(key) == shard {
				allow(t, tb, key)
				n--
			}
		}
	}
	if m.shardOf("a") == m.shardOf("b") {
		t.Skip("there is one shard only")
	}

	insert(shard, kept)
	require.Zero(t, m.sweepShard(shard, 0))
	require.EqualValues(t, kept, m.states[shard].kept.Load())
	clock.advance(20 * time.Second)
	m.pace.due.Store(math.MaxInt64) // by count alone
	insert(shard, kept-1)
	require.Equal(t, 2*kept-1, tb.Len(), "not swept yet")
	insert(shard, 1)
	require.Equal(t, kept, tb.Len(), "swept after as many insertions as were kept")

	// By time: the next shard is due by what the one before has kept, or by a
	// 128th of a round of the time of a token, here a second.
	due := int64(clock.ns.Load())
	m.pace.due.Store(due)
	insert(1, 1)
	require.EqualValues(t, 1, m.pace.next)
	require.Equal(t, due+max(int64(time.Second)/shardCount, kept*nanosPerVisit), m.pace.due.Load())
	insert(2, 1)
	require.EqualValues(t, 1, m.pace.next, "not due")

	// A round that is late is made up for once: then the pace counts from now.
	clock.advance(time.Hour)
	for range shardCount + 10 { // some of them sweep by count
		if m.pace.next != 0 {
			insert(3, 1)
		}
	}
	require.EqualValues(t, 0, m.pace.next)
	require.Equal(t, clock.ns.Load(), m.pace.due.Load())

	// Time does not overflow.
	m.pace.due.Store(math.MaxInt64 - 1)
	clock.set(math.MaxInt64)
	m.sweepAfterInsertion(4, math.MaxInt64)
	require.Equal(t, int64(math.MaxInt64), m.pace.due.Load())

	require.Equal(t, int64(24*time.Hour)/shardCount, newShardmap(&NewTokenBucket(1, 1.0/(24*3600)).layout).pace.rest)
}

// Sweeps run all the time while the same few keys are used and refill: no more is
// granted than is due. (That no less is, stress/ checks: TestHammerConservation.)
func TestSweepWhileHammered(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		const goroutines, keys, capacity = 4, 8, 2
		calls := 200_000
		if raceEnabled || testing.Short() {
			calls = 20_000
		}
		// Each key fills in 20 microseconds, and every clock read is 100 ns later.
		limit := Limit{Capacity: capacity, RefillPerSec: 1e5}
		var clock manualClock
		tb, err := New(limit, WithClock(func() time.Time { return epoch.Add(time.Duration(clock.ns.Add(100))) }), store)
		require.NoError(t, err)

		var stop atomic.Bool
		var swept atomic.Int64
		var sweeper sync.WaitGroup
		sweeper.Go(func() {
			for !stop.Load() {
				swept.Add(int64(tb.Sweep()))
				runtime.Gosched()
			}
		})
		var granted [keys]atomic.Int64
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				// Until the test has seen what it is about, or something is very wrong.
				for i := 0; i < calls || swept.Load() < 100 && i < 1000*calls; i++ {
					key := (i/64 + g) % keys // in turns, so that the others refill
					if allow(t, tb, string(rune('a'+key))).Allowed {
						granted[key].Add(1)
					}
				}
			})
		}
		wg.Wait()
		stop.Store(true)
		sweeper.Wait()

		due := new(big.Rat).Mul(rational.Nearest(limit.RefillPerSec), big.NewRat(clock.ns.Load(), 1e9))
		due.Add(due, new(big.Rat).SetInt64(capacity))
		due.Add(due, unitOf(tb))
		for key := range granted {
			require.LessOrEqual(t, new(big.Rat).SetInt64(granted[key].Load()).Cmp(due), 0, "%d granted, due are %s", granted[key].Load(), due.FloatString(2))
		}
		require.GreaterOrEqual(t, swept.Load(), int64(100), "buckets were swept while they were used")
	})
}

// A panic of the caller's clock is the caller's; the limiter works on.
func TestPanicOfTheClockLocksNothing(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		var broken atomic.Bool
		tb := NewTokenBucket(1, 1, WithClock(func() time.Time {
			if broken.Load() {
				panic("no time")
			}
			return clock.now()
		}), store)
		broken.Store(true)
		require.PanicsWithValue(t, "no time", func() { tb.Allow(ctx, "k") })
		require.PanicsWithValue(t, "no time", func() { tb.Sweep() })
		broken.Store(false)
		require.True(t, allow(t, tb, "k").Allowed)
		clock.advance(time.Second)
		require.Equal(t, 1, tb.Sweep())
	})
}
