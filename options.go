package ratelimit

import "time"

const (
	minResolution = 100 * time.Microsecond
	maxResolution = time.Second
)

// An Option changes how New and NewTokenBucket make a limiter. Of an option that is
// given twice, the last one counts.
type Option func(*config)

// config is what the options ask for. The zero value is the default.
type config struct {
	clock      func() time.Time
	resolution time.Duration
	startEmpty bool
	err        error // of the first option that was wrong
}

// fail keeps the first error.
func (c *config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = errorf(ErrInvalidOption, format, args...)
	}
}

func newConfig(opts []Option) (config, error) {
	var c config
	for i, opt := range opts {
		if opt == nil {
			c.fail("option %d: must not be nil", i)
			continue
		}
		opt(&c)
	}
	if c.clock != nil && c.resolution != 0 {
		c.fail("WithClock and WithCoarseClock: must not be used together")
	}
	return c, c.err
}

// WithClock makes the limiter read the time from now instead of the monotonic
// clock of the process. It is meant for tests and replays. The function must not be
// nil. It is called once when the limiter is made and once per call of a method (by
// Sweep, once per shard; where time stamps count in steps, again before a denial),
// from many goroutines if the limiter is used by many, and never while a lock is
// held.
//
// Time that goes back mints no tokens: a bucket that has seen a later time waits
// for it, and a request finds in it what there was at that time. (With limits whose
// time stamps count in steps, of thousands of tokens a second or millions of tokens,
// it may find less, by up to one step: docs/packed-word.md.) A sweep has seen its
// own time: a bucket that was full then is full for a request with an older one, and
// buckets made after it, also those of other keys, wait for that time. A time more
// than 90 days before the latest one counts as 90 days before it.
//
// Three things are beyond the arithmetic of a time stamp. A key that is not used for
// 639 days (seven eighths of its range) may find fewer tokens than it has earned, and
// may not earn any for an eighth of it, 91 days or more; if the clock then goes back
// across that moment, it may find up to one capacity more. A clock that moves that
// fast needs a call of Sweep in between. The clock must not jump ahead by 91 days or more while
// other calls are under way: they would take their own reading for a later one. And
// times are told apart up to 292 years after the first reading, the one that New
// makes.
func WithClock(now func() time.Time) Option {
	return func(c *config) {
		if now == nil {
			c.fail("WithClock: the function must not be nil")
			return
		}
		c.clock = now
	}
}

// WithCoarseClock makes checks cheaper, by the price of a clock read, and their
// time coarser: a goroutine reads the clock once per resolution, from 100
// microseconds to 1 second, and checks use its latest reading.
//
// A reading is behind the real time by up to one resolution and by however long
// the goroutine had to wait for a processor. Tokens come late by that much, and
// RetryAfter counts from the reading; over any span of real time, grants stay
// within capacity + rate x (span + that delay). Nothing adds up: the readings do
// not drift.
//
// Close ends the goroutine. So does dropping the limiter: it ends after the
// garbage collector has found the limiter to be unreachable.
func WithCoarseClock(resolution time.Duration) Option {
	return func(c *config) {
		if resolution < minResolution || resolution > maxResolution {
			c.fail("WithCoarseClock: resolution %v: must be between %v and %v", resolution, minResolution, maxResolution)
			return
		}
		c.resolution = resolution
	}
}

// WithStartEmpty makes the bucket of a new key start with no token, at the key's
// first request, instead of full. That first request is denied, and makes the
// bucket: it begins to earn then.
//
// A bucket that has refilled is then not the same as one that was never seen, so
// it cannot be forgotten without taking away what the key has earned. Therefore
// nothing is ever swept: memory grows with the number of distinct keys.
func WithStartEmpty() Option {
	return func(c *config) { c.startEmpty = true }
}
