package workload

import (
	"fmt"
	"testing"
)

// accesses are the orders in which the million known keys are asked for.
var accesses = []struct {
	name  string
	order func() order
}{
	{"uniform", uniform},
	{"zipf", zipf},
}

// KnownKeys asks for keys out of a million that are all in memory, which
// is far more than a processor's caches hold. What it times is mostly how many
// cache lines a call has to wait for, the key's own text included: that lies
// somewhere in 24 MB, while a server would have just received it. So the figures
// of all implementations contain the same wait, which is that of the floor.
func KnownKeys(b *testing.B, others ...Implementation) {
	for _, impl := range append(with(implementations, others), clockAndHash, clockHashAndLine) {
		// One limiter for all of an Implementation's benchmarks: filling it takes
		// longer than they do. A grant changes no more than a number in it.
		var l Limiter
		for _, access := range accesses {
			for _, procs := range []int{1, 2} {
				name := fmt.Sprintf("impl=%s/keys=1M/access=%s/verdict=granted/procs=%d", impl.Name, access.name, procs)
				b.Run(name, func(b *testing.B) {
					if l == nil {
						l = impl.New(lasting, million)
						fillKnown(b, l)
					}
					timed(b, l, workload{keys: lookupKeys(), order: access.order()}, procs, b.N, b.N)
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
