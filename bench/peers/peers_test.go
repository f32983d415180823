package peers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

// peers are the limiters that are measured. Each file adds its own.
var peers []workload.Implementation

func inOrder(impls []workload.Implementation) []workload.Implementation {
	slices.SortFunc(impls, func(a, b workload.Implementation) int { return strings.Compare(a.Name, b.Name) })
	return impls
}

func TestPeers(t *testing.T) {
	workload.Check(t, inOrder(peers)...)
	workload.Copies(t, inOrder(peers)...)
}

func BenchmarkHotKey(b *testing.B)      { workload.HotKey(b, inOrder(peers)...) }
func BenchmarkKnownKeys(b *testing.B)   { workload.KnownKeys(b, inOrder(peers)...) }
func BenchmarkGrow(b *testing.B)        { workload.Grow(b, inOrder(peers)...) }
func BenchmarkChurn(b *testing.B)       { workload.Churn(b) } // no other forgets as keys come
func BenchmarkFlood(b *testing.B)       { workload.Flood(b, inOrder(peers)...) }
func BenchmarkTail(b *testing.B)        { workload.Tail(b, newHistogram, inOrder(peers)...) }
func BenchmarkMemory(b *testing.B)      { workload.Memory(b, inOrder(peers)...) }
func BenchmarkGC(b *testing.B)          { workload.GC(b, inOrder(peers)...) }
func BenchmarkFloor(b *testing.B)       { workload.Floor(b) }
func BenchmarkFloorShared(b *testing.B) { workload.FloorShared(b) }
func BenchmarkFloorFetch(b *testing.B)  { workload.FloorFetch(b) }

// newHistogram keeps three digits of times from a nanosecond to a minute.
func newHistogram() workload.Histogram {
	return hdrhistogram.New(1, int64(time.Minute), 3)
}
