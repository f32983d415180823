package redislimit

import (
	"strings"
	"time"

	"github.com/packedbucket/ratelimit"
)

// An Option changes how New and NewWindow make a limiter. Of an option that is given twice,
// the last one counts; an argument that is out of bounds is an error in any case, which is
// ratelimit.ErrInvalidOption.
type Option func(*config)

// config is what the options ask for.
type config struct {
	prefix       string
	timeout      time.Duration
	failure      Failure
	local        ratelimit.Limit // of the bucket that takes over; the limit itself if zero
	localOptions []ratelimit.Option
	trip         int
	pause        time.Duration
	term         time.Duration // of Leased
	err          error         // of the first option that was wrong
}

const (
	defaultTimeout = 20 * time.Millisecond
	defaultTrip    = 5
	defaultPause   = time.Second
	defaultTerm    = time.Second
)

// fail keeps the first error.
func (c *config) fail(format string, args ...any) {
	if c.err == nil {
		c.err = errorf(ratelimit.ErrInvalidOption, format, args...)
	}
}

func newConfig(opts []Option) (config, error) {
	c := config{prefix: "ratelimit:", timeout: defaultTimeout, trip: defaultTrip, pause: defaultPause, term: defaultTerm}
	for i, opt := range opts {
		if opt == nil {
			c.fail("option %d: must not be nil", i)
			continue
		}
		opt(&c)
	}
	return c, c.err
}

// WithPrefix puts prefix before the name of every key in Redis, in place of "ratelimit:". Limiters
// with different limits on one server need different prefixes: a bucket does not know its
// limit. The prefix is up to 128 bytes without braces, which mean something to a Cluster, and
// without = and #, of which one ends it.
func WithPrefix(prefix string) Option {
	return func(c *config) {
		if len(prefix) > longestKey || strings.ContainsAny(prefix, notInPrefix) {
			c.fail("WithPrefix %.40q: must be at most %d bytes without any of %s", prefix, longestKey, notInPrefix)
		}
		c.prefix = prefix
	}
}

// WithTimeout sets how long a call may take, from 1 millisecond to 1 minute; 20
// milliseconds is the default. A deadline of the caller's context that is earlier counts
// instead, and so does a ReadTimeout of the client that is shorter, which ends a call as
// a failure (3 seconds, if it was not set). A context that is canceled is noticed before a call,
// and otherwise when it ends.
func WithTimeout(timeout time.Duration) Option {
	return func(c *config) {
		if timeout < time.Millisecond || timeout > time.Minute {
			c.fail("WithTimeout %v: must be between 1ms and 1m", timeout)
		}
		c.timeout = timeout
	}
}

// A Failure says who decides when Redis cannot answer.
type Failure int

const (
	// FailLocal, the default, has a bucket in the process decide. It is charged with all that
	// this process is granted by Redis as well, so that a key that was short of tokens
	// still is. While it decides, each process grants up to the whole limit by
	// itself, or that of WithLocal.
	FailLocal Failure = iota

	// FailOpen grants.
	FailOpen

	// FailClosed denies, with an error that is ErrUnavailable.
	FailClosed
)

func (f Failure) String() string {
	switch f {
	case FailLocal:
		return "local"
	case FailOpen:
		return "open"
	case FailClosed:
		return "closed"
	}
	return "invalid"
}

// WithFailure sets who decides when Redis cannot answer.
func WithFailure(failure Failure) Option {
	return func(c *config) {
		if failure < FailLocal || failure > FailClosed {
			c.fail("WithFailure %d: must be FailLocal, FailOpen or FailClosed", int(failure))
		}
		c.failure = failure
	}
}

// WithLocal sets the limit of the bucket in the process that FailLocal means: for n
// processes, an n-th of the limit makes that all of them together still keep it. Options
// are those of ratelimit.New, such as ratelimit.WithMaxKeys. A limit of no tokens at all,
// ratelimit.Limit{}, stands for the limit of the fleet.
func WithLocal(limit ratelimit.Limit, opts ...ratelimit.Option) Option {
	return func(c *config) { c.local, c.localOptions = limit, opts }
}

// WithBreaker sets after how many failures in a row Redis is not asked any more, and for
// how long; then one call tries it. The default is 5, and a second. failures is from 1 to
// 1,000,000 and pause from 1 millisecond to 1 hour.
func WithBreaker(failures int, pause time.Duration) Option {
	return func(c *config) {
		if failures < 1 || failures > 1_000_000 || pause < time.Millisecond || pause > time.Hour {
			c.fail("WithBreaker %d, %v: must be between 1 and 1000000 failures, and between 1ms and 1h", failures, pause)
		}
		c.trip, c.pause = failures, pause
	}
}

// WithTerm sets for how long tokens that a Leased has booked may be spent, from 10
// milliseconds to 1 minute; a second is the default. A longer term means fewer calls to
// Redis, and more tokens that one process holds and another one lacks. New and NewWindow book
// nothing, and do not care.
func WithTerm(term time.Duration) Option {
	return func(c *config) {
		if term < 10*time.Millisecond || term > time.Minute {
			c.fail("WithTerm %v: must be between 10ms and 1m", term)
		}
		c.term = term
	}
}
