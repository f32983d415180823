package workload

import (
	"fmt"
	"runtime"
	"testing"
)

// Grow fills an empty limiter with a million keys it has never seen.
// Growing is part of it, and so is the garbage collector, as far as it runs
// meanwhile. One operation is all of the million, so that every Implementation is
// timed over the same sizes, however fast it is; what is reported is the time and
// the allocations per key.
//
// With key=ready the keys exist before. With key=built each is made in the timed
// loop, as by a server that has to compose them: one more allocation.
func Grow(b *testing.B, others ...Implementation) {
	for _, of := range []struct {
		key   string
		procs int
	}{
		{"ready", 1}, {"ready", 2}, {"built", 1},
	} {
		for _, impl := range append(with(implementations, others), cloneAndNew) {
			name := fmt.Sprintf("impl=%s/keys=1M/key=%s/procs=%d", impl.Name, of.key, of.procs)
			b.Run(name, func(b *testing.B) {
				grow(b, impl, workload{keys: insertedKeys(), order: inTurn(), built: of.key == "built"}, of.procs)
			})
		}
	}
}

func grow(b *testing.B, impl Implementation, w workload, procs int) {
	var allocs uint64
	b.ResetTimer()
	b.StopTimer()
	for range b.N {
		l := impl.New(lasting, million)
		runtime.GC() // what earlier runs left is not this one's to pay for
		before := mallocs()
		checkGranted(b, drive(b, l, w, procs, million), million)
		allocs += mallocs() - before
		checkLen(b, l, million)
		stop(l)
	}
	perKey := 1 / float64(b.N) / million
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())*perKey, "ns/key")
	b.ReportMetric(float64(allocs)*perKey, "allocs/key")
	b.ReportMetric(0, "ns/op") // of a million; left out
}

// mallocs returns the number of allocations up to now.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// Churn inserts keys without end while earlier ones are forgotten: a
// bucket has refilled 100 microseconds after its call, and is swept sooner or later. By the
// time a key comes again, a million calls later, it is new again.
func Churn(b *testing.B, others ...Implementation) {
	for _, impl := range append(with(churners, others), cloneAndNew) {
		for _, procs := range []int{1, 2} {
			name := fmt.Sprintf("impl=%s/keys=inf/key=ready/procs=%d", impl.Name, procs)
			b.Run(name, func(b *testing.B) {
				l := impl.New(brief, fewKeys)
				defer stop(l)
				prepareChurn(b, l)
				timed(b, l, workload{keys: insertedKeys(), order: inTurn()}, procs, b.N, b.N)
				checkForgets(b, l)
			})
		}
	}
}

// mostUnswept is how many refilled keys a limiter may keep in the steady state of
// BenchmarkChurn. It is far below a million, so that every key is new.
const mostUnswept = 50_000

// fewKeys is what WithMaxKeys is told there, so that the table has to forget.
const fewKeys = mostUnswept * 8 / 15

// prepareChurn brings l into its steady state.
func prepareChurn(tb testing.TB, l Limiter) {
	tb.Helper()
	others := newKeys(million, 4*mostUnswept)
	granted := 0
	for i := range others.len() {
		if l.Allow(others.at(uint32(i))) {
			granted++
		}
	}
	checkGranted(tb, granted, others.len())
	checkForgets(tb, l)
}

// checkForgets fails if l holds so many keys that some may have been known.
func checkForgets(tb testing.TB, l Limiter) {
	tb.Helper()
	if n := l.Len(); n > mostUnswept {
		tb.Fatalf("%d keys in memory, want at most %d", n, mostUnswept)
	}
}
