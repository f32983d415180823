package peers

import (
	"slices"
	"strings"
	"testing"

	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

// peers are the limiters that are measured. Each file adds its own.
var peers []workload.Implementation

func inOrder(impls []workload.Implementation) []workload.Implementation {
	slices.SortFunc(impls, func(a, b workload.Implementation) int { return strings.Compare(a.Name, b.Name) })
	return impls
}

func TestPeers(t *testing.T) { workload.Check(t, inOrder(peers)...) }

func BenchmarkHotKey(b *testing.B)    { workload.HotKey(b, inOrder(peers)...) }
func BenchmarkKnownKeys(b *testing.B) { workload.KnownKeys(b, inOrder(peers)...) }
func BenchmarkGrow(b *testing.B)      { workload.Grow(b, inOrder(peers)...) }
func BenchmarkMemory(b *testing.B)    { workload.Memory(b, inOrder(peers)...) }
