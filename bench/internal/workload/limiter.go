package workload

import (
	"context"
	"slices"

	"github.com/packedbucket/ratelimit"
)

// A Limiter is what every implementation is driven through. All of them are
// called the same way: an interface method of an adapter, and in it one call that
// is not inlined. floor-adapter in BenchmarkFloor is the price of that.
type Limiter interface {
	// Allow charges one token to key and reports whether it was granted.
	Allow(key string) bool

	// Len returns the number of keys in memory, or -1 if the implementation
	// cannot tell; then that is not checked.
	Len() int
}

// An Implementation is one column of the tables. New makes a limiter of some limit, with
// room for a number of keys if it has to be told. What
// counts of the limit is how calls come out under it, for as long as a benchmark runs: an
// adapter of a limiter that cannot have this one may make the nearest that it can.
type Implementation struct {
	Name string
	New  func(limit ratelimit.Limit, keys int) Limiter

	// GivesUp is for a limiter that fails when goroutines contend for a key: its share of
	// grants is then reported, and not insisted upon.
	GivesUp bool

	// NoCopy is for a limiter that keeps no copy of a key's text, but a hash of it, or the
	// caller's own string, with whatever that is a part of.
	NoCopy bool
}

// stop ends what goes on in a limiter that is no longer needed, so that it does not stay
// in memory while others are measured: its method Close, if it has one.
func stop(l Limiter) {
	if l, ok := l.(interface{ Close() }); ok {
		l.Close()
	}
}

// with returns all and others, in a slice of its own.
func with(all, others []Implementation) []Implementation {
	return append(slices.Clone(all), others...)
}

// implementations are measured in every workload with known and with growing
// keys. The first is the one that benchstat compares the others with. bench/peers adds
// the limiters of other modules.
var implementations = []Implementation{
	{Name: "mutex", New: newMutex},
	{Name: "packed", New: newPacked},
	{Name: "maxkeys", New: newMaxKeys, NoCopy: true},
}

// churners are measured where old keys must be forgotten as new ones arrive. An
// implementation that never forgets does not belong here.
var churners = []Implementation{
	{Name: "mutex", New: newSweepingMutex},
	{Name: "packed", New: newPacked},
	{Name: "maxkeys", New: newMaxKeys, NoCopy: true},
}

// The limits of the workloads. Each keeps one verdict up for any number of calls,
// which the harness checks.
var (
	// exhausted holds one token and refills one a day: after the first call,
	// every call is denied.
	exhausted = ratelimit.Limit{Capacity: 1, RefillPerSec: 1.0 / (24 * 3600)}

	// lasting holds more tokens than a day of calls takes, and refills one in 1000
	// seconds: every call is granted, and no bucket may be forgotten meanwhile.
	lasting = ratelimit.Limit{Capacity: 1 << 30, RefillPerSec: 1e-3}

	// brief refills the token of a call in 100 microseconds: a key that is not
	// asked for again may be forgotten after that.
	brief = ratelimit.Limit{Capacity: 10, RefillPerSec: 10_000}

	// forgiving refills the token of a call in a millisecond, but holds more than a day
	// of calls takes: a key that is asked for again and again is not forgotten.
	forgiving = ratelimit.Limit{Capacity: 1 << 30, RefillPerSec: 1000}
)

// packed is the limiter of this module. What it computes beyond the verdict
// (Remaining, and RetryAfter of a denial) is part of its price.
type packed struct{ *ratelimit.TokenBucket }

func newPacked(limit ratelimit.Limit, _ int) Limiter {
	return packed{ratelimit.NewTokenBucket(limit.Capacity, limit.RefillPerSec)}
}

func (p packed) Allow(key string) bool {
	d, _ := p.TokenBucket.Allow(context.Background(), key)
	return d.Allowed
}

// maxKeys is the limiter with the table of WithMaxKeys. All but one in a thousand keys at
// least have a bucket of their own in it.
type maxKeys struct{ packed }

func newMaxKeys(limit ratelimit.Limit, keys int) Limiter {
	return maxKeys{packed{ratelimit.NewTokenBucket(limit.Capacity, limit.RefillPerSec, ratelimit.WithMaxKeys(keys))}}
}

// without returns how many keys of n may have no bucket of their own.
func (m maxKeys) without(n int) int { return n / 1000 }
