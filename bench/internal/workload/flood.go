package workload

import (
	"fmt"
	"testing"
)

// goodKeys are asked for again and again while others are made up.
const goodKeys = 1000

// Flood makes nine calls of ten for keys that were never seen and never come back, and the
// tenth for one of a thousand that are, and stay, short of tokens. One operation is a
// million calls. It reports the time per call, the live heap afterwards in MB (with
// WithMaxKeys for a hundred thousand keys, the tenth of what comes; others that
// know a bound are not given one), and fails if one of the calls is denied.
func Flood(b *testing.B, others ...Implementation) {
	for _, impl := range with(implementations, others) {
		b.Run(fmt.Sprintf("impl=%s/keys=inf/good=%d", impl.Name, goodKeys), func(b *testing.B) {
			heap := 0.0
			for range b.N {
				heap += flood(b, impl)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/call")
			b.ReportMetric(heap/float64(b.N)/1e6, "heap-MB")
			b.ReportMetric(0, "ns/op") // of a million; left out
		})
	}
}

// flood makes the million calls, timed by b, and returns the live heap they leave behind.
func flood(b *testing.B, impl Implementation) (heap float64) {
	b.StopTimer()
	good, madeUp := lookupKeys(), newKeys(million, million)
	before := liveHeap()
	l := impl.New(lasting, million/10)
	defer stop(l)
	for i := range uint32(goodKeys) {
		l.Allow(good.at(i))
	}
	granted := 0
	b.StartTimer()
	for i := range uint32(million) {
		key := madeUp.at(i)
		if i%10 == 0 {
			key = good.at(i / 10 % goodKeys)
		}
		if l.Allow(key) {
			granted++
		}
	}
	b.StopTimer()
	checkGranted(b, granted, million)
	heap = float64(liveHeap() - before)
	Sink.text = madeUp.at(0)
	return heap
}
