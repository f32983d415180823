package ratelimit

import "time"

const (
	minResolution = 100 * time.Microsecond
	maxResolution = time.Second
)

// An Option changes how New and NewTokenBucket make a limiter. Of an option that is
// given twice, the last one counts; an argument that is out of bounds is an error in any
// case.
type Option func(*config)

// config is what the options ask for. The zero value is the default.
type config struct {
	clock      func() time.Time
	resolution time.Duration
	startEmpty bool
	maxKeys    int
	overflow   Overflow
	overflows  bool  // WithOverflow was given
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
	if c.overflows && c.maxKeys == 0 {
		c.fail("WithOverflow: must not be used without WithMaxKeys")
	}
	if c.clock != nil && c.resolution != 0 {
		c.fail("WithClock and WithCoarseClock: must not be used together")
	}
	return c, c.err
}

// layout returns the layout of a limit for the store that the options ask for.
func (c *config) layout(limit Limit) (layout, error) {
	if c.maxKeys == 0 {
		return newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, anyStep), nil
	}
	// A slot changes hands in a later step than that of its last use, so that steps
	// should be shorter than a bucket is short of tokens, or short.
	l := newLayout(uint64(limit.Capacity), 0, limit.RefillPerSec, goodStep)
	if l.step() > max(maxStep, l.delay(0, l.charge(2))) {
		return l, errorf(ErrInvalidLimit, "capacity %d at %v tokens per second: must not be used with WithMaxKeys, since its time stamps would count in steps of %v, and at most %v are allowed: lower the capacity",
			limit.Capacity, limit.RefillPerSec, l.step(), maxStep)
	}
	return l, nil
}

const (
	goodStep = 10 * time.Millisecond
	maxStep  = 10 * time.Second
)

// WithClock makes the limiter read the time from now instead of the monotonic
// clock of the process. It is meant for tests and replays. The function must not be
// nil. It is called once when the limiter is made and once per call of a method (by
// Sweep, once per shard; where time stamps count in steps, again before a denial, a refund
// or a reset),
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
//
// With WithMaxKeys it cannot grow, and slots that have refilled are given to other keys
// all the same: a key that comes back after that starts empty again, with less than it
// has earned. And a key that is charged to a shared bucket finds there what it holds.
func WithStartEmpty() Option {
	return func(c *config) { c.startEmpty = true }
}

// maxMaxKeys keeps a table below 128 GB, or 1 GB where int has 32 bits.
const maxMaxKeys = 1 << (25 + 7*(^uint(0)>>63))

// WithMaxKeys makes the limiter keep its buckets in a table of fixed size, 31 bytes for
// each of n keys and 2 KB, with n from 1 to 2^32 (2^25 on a 32-bit system). It is meant for
// services that anyone can call: checks of new keys allocate nothing either, the garbage
// collector has nothing to look at, and memory does not grow whatever keys are asked for.
//
// A key needs a slot of the table only while its bucket is short of tokens; then the
// slot may be given to another key. As long as no more than n keys are short of tokens
// at once, fewer than one in a thousand requests of keys that need a slot find none. What
// happens to those, and to all that are too many, WithOverflow says. docs/sizing.md helps
// to choose n.
//
// Keys are not kept, and told apart by a hash of 64 bits with a random seed, together
// with their place in the table: two of a million keys ever share a bucket with a
// probability of less than one in 10^12.
//
// A slot changes hands in a later step of the limit's time stamps than that of its last
// use. Steps are of 10 milliseconds or so at most, or of two tokens' time. For the few
// limits where they would have to be of more than 10 seconds (such as 2^48 tokens at one
// a second) New returns ErrInvalidLimit.
func WithMaxKeys(n int) Option {
	return func(c *config) {
		if n < 1 || n > maxMaxKeys {
			c.fail("WithMaxKeys: %d keys: must be between 1 and %d", n, maxMaxKeys)
			return
		}
		c.maxKeys = n
	}
}

// WithOverflow says what happens to a key that finds no slot in the table of
// WithMaxKeys, which must be given too.
func WithOverflow(policy Overflow) Option {
	return func(c *config) {
		if policy > OverflowEvict {
			c.fail("WithOverflow: %v: must be OverflowShare, OverflowDeny or OverflowEvict", policy)
			return
		}
		c.overflow, c.overflows = policy, true
	}
}
