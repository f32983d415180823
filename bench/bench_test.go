package bench

import (
	"testing"

	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

func BenchmarkHotKey(b *testing.B)      { workload.HotKey(b) }
func BenchmarkKnownKeys(b *testing.B)   { workload.KnownKeys(b) }
func BenchmarkGrow(b *testing.B)        { workload.Grow(b) }
func BenchmarkChurn(b *testing.B)       { workload.Churn(b) }
func BenchmarkFlood(b *testing.B)       { workload.Flood(b) }
func BenchmarkMemory(b *testing.B)      { workload.Memory(b) }
func BenchmarkGC(b *testing.B)          { workload.GC(b) }
func BenchmarkFloor(b *testing.B)       { workload.Floor(b) }
func BenchmarkFloorShared(b *testing.B) { workload.FloorShared(b) }
func BenchmarkFloorFetch(b *testing.B)  { workload.FloorFetch(b) }
