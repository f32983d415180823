package ratelimit

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock reads the time since the limiter was made, in nanoseconds. It is one of
// three: the monotonic clock of the process (the default), a caller's function
// (WithClock), or the monotonic clock read ahead of time (WithCoarseClock).
type clock struct {
	base   time.Time
	custom *customClock // nil unless WithClock
	coarse *coarseClock // nil unless WithCoarseClock
}

func newClock(custom func() time.Time, resolution time.Duration) clock {
	if custom != nil {
		return clock{custom: &customClock{base: custom(), read: custom}}
	}
	c := clock{base: time.Now()}
	if resolution > 0 {
		c.coarse = startCoarseClock(c.base, resolution)
	}
	return c
}

// now returns the nanoseconds since the limiter was made. It never decreases from
// one call to the next, on any goroutine, unless a caller's function does.
func (c *clock) now() int64 {
	if c.custom != nil {
		return c.custom.now()
	}
	if c.coarse != nil {
		return c.coarse.now()
	}
	return int64(time.Since(c.base))
}

func (c *clock) close() {
	if c.coarse != nil {
		c.coarse.close()
	}
}

// maxSetBack is how far a reading may be behind the latest one, in nanoseconds: 90
// days, which is less than an eighth of the range of last in any layout.
const maxSetBack = 90 * 24 * int64(time.Hour)

// A customClock is a caller's function, which may go back.
type customClock struct {
	base   time.Time
	read   func() time.Time
	latest latest // the latest reading
}

// now returns the caller's time. A time that is further back than the arithmetic of
// a word can tell from the future is moved up to the earliest that it can.
func (c *customClock) now() int64 {
	ns := int64(c.read().Sub(c.base))
	c.latest.raise(ns)
	return max(ns, c.latest.load()-maxSetBack)
}

// A coarseClock is the monotonic clock, read by a goroutine of its own once per
// resolution, so that a reading costs one load.
type coarseClock struct {
	base    time.Time
	nanos   atomic.Int64 // the latest reading, or useExact once closed
	stop    chan struct{}
	stopped sync.Once
}

// useExact is the value of nanos that says: nobody updates this any more, read the
// exact clock. It is no reading, since readings are not negative.
const useExact = -1

func startCoarseClock(base time.Time, resolution time.Duration) *coarseClock {
	c := &coarseClock{base: base, stop: make(chan struct{})}
	c.nanos.Store(int64(time.Since(base)))
	go c.run(resolution)
	return c
}

func (c *coarseClock) run(resolution time.Duration) {
	ticker := time.NewTicker(resolution)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.nanos.Store(int64(time.Since(c.base)))
		case <-c.stop:
			// The last store of nanos, so that a late tick cannot undo it.
			c.nanos.Store(useExact)
			return
		}
	}
}

func (c *coarseClock) now() int64 {
	if nanos := c.nanos.Load(); nanos != useExact {
		return nanos
	}
	return int64(time.Since(c.base))
}

func (c *coarseClock) close() {
	c.stopped.Do(func() { close(c.stop) })
}
