package workload

import (
	"fmt"
	"testing"
)

// dists are the orders in which the million known keys are asked for.
var dists = []dist{
	{"uniform", uniform},
	{"zipf", zipf},
}

type dist struct {
	name  string
	order func() order
}

// KnownKeys asks for keys out of a million that are all in memory, which
// is far more than a processor's caches hold. What it times is mostly how many
// cache lines a call has to wait for, with key=ready the key's own text included: that lies
// somewhere in 24 MB. So the figures of all implementations contain the same wait, which
// is that of the floor. With key=parsed the text is written into a buffer before each call,
// like that of a request which a server has just received.
func KnownKeys(b *testing.B, others ...Implementation) {
	for _, impl := range append(with(implementations, others), clockAndHash, clockHashAndLine) {
		// One limiter for all of an Implementation's benchmarks: filling it takes
		// longer than they do. A grant changes no more than a number in it.
		var l Limiter
		next := 0 // where in the order the run before has ended
		for _, of := range []struct {
			dist
			key string
		}{
			{dists[0], "ready"}, {dists[1], "ready"}, {dists[0], "parsed"},
		} {
			for _, procs := range []int{1, 2} {
				name := fmt.Sprintf("impl=%s/keys=1M/dist=%s/key=%s/verdict=granted/procs=%d", impl.Name, of.name, of.key, procs)
				b.Run(name, func(b *testing.B) {
					if l == nil {
						l = impl.New(lasting, million)
						fillKnown(b, l)
					}
					timed(b, l, workload{keys: lookupKeys(), order: of.order(), parsed: of.key == "parsed", first: next}, procs, b.N, b.N)
					next += b.N
					if l.Len() >= 0 {
						checkLen(b, l, million)
					}
				})
			}
		}
		stop(l)
	}
}

// fillKnown makes the million keys known and fails if they are not, or if a call
// for one of them is not granted.
func fillKnown(tb testing.TB, l Limiter) {
	tb.Helper()
	fill(tb, l, insertedKeys())
	fill(tb, l, lookupKeys())
}
