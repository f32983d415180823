package workload

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
)

// GC times a garbage collection while a limiter is full of keys: ns/op until it is done,
// cpu-ns/op of processor time, and the scan-MB of heap that it has to look through, which
// do not depend on the machine. There is nothing else in memory but the text of other
// keys, without pointers, as floor-empty shows.
//
// With -short only a million keys are tried.
func GC(b *testing.B, others ...Implementation) {
	empty := newFloor("floor-empty", func() func(string) bool { return func(string) bool { return true } })
	for _, n := range []int{million, 10 * million} {
		for _, impl := range append(with(implementations, others), empty) {
			var l Limiter
			b.Run(fmt.Sprintf("impl=%s/keys=%dM", impl.Name, n/million), func(b *testing.B) {
				if testing.Short() && n > million {
					b.Skip("with -short")
				}
				if l == nil {
					l = impl.New(lasting, n)
					fillBuilt(b, l, n)
					liveHeap()
				}
				gc := readGC()
				b.ResetTimer()
				for range b.N {
					runtime.GC()
				}
				b.StopTimer()
				b.ReportMetric((readGC().cpuSeconds-gc.cpuSeconds)*1e9/float64(b.N), "cpu-ns/op")
				b.ReportMetric(readGC().scanBytes/1e6, "scan-MB")
				runtime.KeepAlive(l)
			})
			stop(l)
		}
	}
}

// fillBuilt makes one call for each of n keys whose text is nowhere else, and fails if
// they were not all granted.
func fillBuilt(tb testing.TB, l Limiter, n int) {
	tb.Helper()
	w := workload{order: make(order, n), built: true}
	for i := range w.order {
		w.order[i] = uint32(i)
	}
	checkGranted(tb, w.run(l, 0, n), n)
	checkLen(tb, l, n)
}

// gcCost is what the runtime says of collections.
type gcCost struct{ cpuSeconds, scanBytes float64 }

func readGC() gcCost {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/gc/scan/heap:bytes"},
	}
	metrics.Read(samples)
	return gcCost{samples[0].Value.Float64(), float64(samples[1].Value.Uint64())}
}
