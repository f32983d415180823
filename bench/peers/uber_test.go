package peers

import (
	"testing"

	packed "github.com/packedbucket/ratelimit"
	"go.uber.org/ratelimit"
)

// BenchmarkSingle compares limiters without keys: go.uber.org/ratelimit, which has none and
// does not deny but waits, here never, since the rate is more than anybody asks for.
func BenchmarkSingle(b *testing.B) {
	b.Run("impl=uber", func(b *testing.B) {
		l := ratelimit.New(1_000_000_000)
		for b.Loop() {
			l.Take()
		}
	})
	b.Run("impl=packed", func(b *testing.B) {
		l := packed.NewTokenBucket(1<<30, 1e9)
		for b.Loop() {
			if d, _ := l.Allow(b.Context(), "k"); !d.Allowed {
				b.Fatal("denied")
			}
		}
	})
}
