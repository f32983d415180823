package ratelimit

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The figures of docs/concurrency.md and of Sweep's documentation; bench/ has those
// that need nothing from the inside.
//
//	go test -run '^$' -bench 'Order|Sweep' -count 6 .

// BenchmarkOrder has two goroutines take from one word, in the order of steps that the
// limiter has and in those that it does not have.
func BenchmarkOrder(b *testing.B) {
	tb := NewTokenBucket(1<<30, 1e-3)
	tb.take("k", 1)
	word, l, charge := tb.store.find("k").word, &tb.layout, tb.layout.charge(1)
	now := func() uint64 { return l.units(tb.clock.now()) }
	var mu sync.Mutex
	for _, order := range []struct {
		name string
		take func() (lost int)
	}{
		{"clock-load-swap", func() (lost int) {
			for t := now(); ; lost++ {
				old := word.Load()
				if next, _, _ := l.take(old, t, charge); word.CompareAndSwap(old, next) {
					return lost
				}
			}
		}},
		{"load-clock-swap", func() (lost int) {
			for ; ; lost++ {
				old := word.Load()
				if next, _, _ := l.take(old, now(), charge); word.CompareAndSwap(old, next) {
					return lost
				}
			}
		}},
		{"clock-mutex", func() int {
			t := now()
			mu.Lock()
			next, _, _ := l.take(word.Load(), t, charge)
			word.Store(next)
			mu.Unlock()
			return 0
		}},
	} {
		b.Run("order="+order.name, func(b *testing.B) {
			var lost atomic.Int64
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					mine := 0
					for range (b.N + 1) / 2 {
						mine += order.take()
					}
					lost.Add(int64(mine))
				})
			}
			wg.Wait()
			b.ReportMetric(float64(lost.Load())/float64(b.N), "lost/op")
		})
	}
}

// BenchmarkSweep sweeps a million buckets, none of which or all of which have
// refilled.
func BenchmarkSweep(b *testing.B) {
	const keys = 1_000_000
	stores := map[string][]Option{"shardmap": nil, "table": {WithMaxKeys(keys)}}
	for name, opts := range stores {
		for _, refilled := range []bool{false, true} {
			b.Run("store="+name+"/refilled="+strconv.FormatBool(refilled), func(b *testing.B) {
				var swept time.Duration
				for range b.N {
					var clock manualClock
					tb, err := New(Limit{1, 1}, append(opts, WithClock(clock.now))...)
					require.NoError(b, err)
					for i := range keys {
						tb.take(strconv.Itoa(i), 1)
					}
					if refilled {
						clock.advance(time.Second)
					}
					buckets := tb.Len()
					start := time.Now()
					if n := tb.Sweep(); (n == buckets) != refilled {
						b.Fatal(n, "swept")
					}
					swept += time.Since(start)
				}
				b.ReportMetric(float64(swept)/float64(b.N)/keys, "ns/key")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkStats looks at the numbers of a limiter with a million keys.
func BenchmarkStats(b *testing.B) {
	const keys = 1_000_000
	for name, opts := range map[string][]Option{"shardmap": nil, "table": {WithMaxKeys(keys)}} {
		tb, err := New(Limit{1, 1e-3}, opts...)
		require.NoError(b, err)
		for i := range keys {
			tb.take(strconv.Itoa(i), 1)
		}
		b.Run("store="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s := tb.Stats(); s.Keys < keys*9/10 {
					b.Fatal(s)
				}
			}
		})
	}
}
