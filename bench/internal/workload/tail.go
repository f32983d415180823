package workload

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
)

// A Histogram keeps times in nanoseconds. Those of github.com/HdrHistogram/hdrhistogram-go
// are meant.
type Histogram interface {
	RecordValue(ns int64) error
	ValueAtQuantile(percent float64) int64
	Max() int64
}

// Tail times calls for a thousand known keys one by one while another goroutine brings in a
// million new keys, and reports quantiles in nanoseconds: p50, p99, p99.9 and the longest
// of all. With while=grow the new keys stay, and maps are resized; with while=churn they
// may be forgotten a millisecond later, and are, by those who can: sweeps run.
//
// Each figure contains one clock read, and what else the machine did meanwhile: those are
// what floor-none shows. They are the times of calls that were made one after the other,
// by one who waits for each; a queue of requests would feel a pause several times.
func Tail(b *testing.B, newHistogram func() Histogram, others ...Implementation) {
	none := newFloor("floor-none", func() func(string) bool { return func(string) bool { return true } })
	for _, of := range []struct {
		while string
		impls []Implementation
		tail  tail
	}{
		{"grow", implementations, tail{lasting, million}},
		{"churn", churners, tail{forgiving, fewKeys}},
	} {
		for _, impl := range append(with(of.impls, others), none) {
			b.Run(fmt.Sprintf("impl=%s/keys=1M/while=%s", impl.Name, of.while), func(b *testing.B) {
				h := newHistogram()
				for range b.N {
					l := impl.New(of.tail.limit, of.tail.keys)
					of.tail.run(b, l, h)
					stop(l)
				}
				b.ReportMetric(0, "ns/op") // of a million and more; left out
				for _, percent := range []float64{50, 99, 99.9} {
					b.ReportMetric(float64(h.ValueAtQuantile(percent)), fmt.Sprintf("p%v-ns", percent))
				}
				b.ReportMetric(float64(h.Max()), "max-ns")
			})
		}
	}
}

// leastSamples is how many calls are timed at least.
const leastSamples = million

// A tail is what is asked of a limiter meanwhile.
type tail struct {
	limit ratelimit.Limit
	keys  int
}

// run times calls until the new keys are all in, and records them.
func (t tail) run(tb testing.TB, l Limiter, h Histogram) {
	tb.Helper()
	known, added := lookupKeys(), insertedKeys()
	for i := range uint32(goodKeys) {
		l.Allow(known.at(i))
	}
	var granted atomic.Int64
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		n := workload{keys: added, order: inTurn()}.run(l, goodKeys, million-goodKeys)
		granted.Store(int64(n))
	}()
	base, refused := time.Now(), 0
	before := time.Since(base)
	for i := 0; i < leastSamples || !done.Load(); i++ {
		if !l.Allow(known.at(uint32(i % goodKeys))) {
			refused++
		}
		after := time.Since(base)
		if err := h.RecordValue(int64(after - before)); err != nil {
			tb.Fatal(err)
		}
		before = time.Since(base)
	}
	if refused > 0 {
		tb.Fatalf("%d calls were denied", refused)
	}
	checkGranted(tb, int(granted.Load()), million-goodKeys)
}
