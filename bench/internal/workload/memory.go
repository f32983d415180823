package workload

import (
	"runtime"
	"testing"
)

// Memory reports the heap that a million keys take, in bytes per key. It
// is the live heap with a full limiter, minus that with none, minus the key's own
// text. An Implementation that is not NoCopy keeps a copy of the text, of 24 bytes, which is
// what the allocator hands out for it; the string header
// that points to it counts as the Implementation's. The time is that of nothing in
// particular and not reported.
func Memory(b *testing.B, others ...Implementation) {
	for _, impl := range with(implementations, others) {
		b.Run("impl="+impl.Name+"/keys=1M", func(b *testing.B) {
			total := 0.0
			for range b.N {
				total += heapPerKey(b, impl)
			}
			b.ReportMetric(total/float64(b.N), "B/key")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heapPerKey returns the heap bytes that a key takes, without its text.
func heapPerKey(tb testing.TB, impl Implementation) float64 {
	tb.Helper()
	set := insertedKeys()
	before := liveHeap()
	l := impl.New(lasting, million)
	defer stop(l)
	fill(tb, l, set)
	after := liveHeap()
	runtime.KeepAlive(l)
	perKey := (float64(after) - float64(before)) / float64(set.len())
	if !impl.NoCopy {
		perKey -= keyBytes
	}
	return perKey
}

// liveHeap returns the bytes of heap that are in use. What the first collection
// frees by finalizers and cleanups, the second collects.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
