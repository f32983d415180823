package ratelimit

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A manualClock stands still unless a test moves it.
type manualClock struct{ ns atomic.Int64 }

var epoch = time.Date(2025, time.March, 1, 12, 0, 0, 0, time.UTC)

func (c *manualClock) now() time.Time          { return epoch.Add(time.Duration(c.ns.Load())) }
func (c *manualClock) advance(d time.Duration) { c.ns.Add(int64(d)) }
func (c *manualClock) set(d time.Duration)     { c.ns.Store(int64(d)) }

func TestCustomClockGoesBackBy90Days(t *testing.T) {
	var manual manualClock
	c := newClock(manual.now, 0)
	manual.set(time.Hour)
	require.Equal(t, int64(time.Hour), c.now())
	manual.set(-time.Hour)
	require.Equal(t, -int64(time.Hour), c.now(), "before the limiter was made")
	manual.set(math.MinInt64 / 2)
	require.Equal(t, int64(time.Hour)-maxSetBack, c.now())
}

func TestMonotonicClock(t *testing.T) {
	c := newClock(nil, 0)
	last := c.now()
	require.GreaterOrEqual(t, last, int64(0))
	for range 1000 {
		ns := c.now()
		require.GreaterOrEqual(t, ns, last)
		last = ns
	}
}

func TestCoarseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := NewTokenBucket(1, 10, WithCoarseClock(10*time.Millisecond))
		require.True(t, allow(t, tb, "k").Allowed)
		time.Sleep(9 * time.Millisecond) // a bubble's clock: nothing waits
		require.Equal(t, int64(0), tb.clock.now(), "a reading is kept for a resolution")
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, 10*time.Millisecond, time.Duration(tb.clock.now()))
		require.Equal(t, 90*time.Millisecond, allow(t, tb, "k").RetryAfter, "counted from the reading")

		require.NoError(t, tb.Close())
		require.NoError(t, tb.Close())
		synctest.Wait()
		require.Equal(t, 11*time.Millisecond, time.Duration(tb.clock.now()), "exact once closed")
		require.Equal(t, 89*time.Millisecond, allow(t, tb, "k").RetryAfter)
		time.Sleep(89 * time.Millisecond)
		require.True(t, allow(t, tb, "k").Allowed)
	})
}
