package peers

import (
	"context"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

func init() {
	peers = append(peers, workload.Implementation{Name: "go-limiter", New: newGoLimiter, NoCopy: true})
}

// goLimiter is github.com/sethvargo/go-limiter: so many tokens per interval, here a day.
type goLimiter struct{ store limiter.Store }

func newGoLimiter(limit ratelimit.Limit, _ int) workload.Limiter {
	store, err := memorystore.New(&memorystore.Config{
		Tokens:        uint64(limit.Capacity),
		Interval:      24 * time.Hour,
		SweepInterval: 24 * time.Hour,
	})
	if err != nil {
		panic(err)
	}
	return goLimiter{store}
}

func (g goLimiter) Allow(key string) bool {
	_, _, _, ok, err := g.store.Take(context.Background(), key)
	return ok && err == nil
}

func (g goLimiter) Len() int { return -1 }

func (g goLimiter) Close() { _ = g.store.Close(context.Background()) }
