package peers

import (
	"context"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

func init() {
	peers = append(peers, workload.Implementation{Name: "throttled", New: newThrottled, GivesUp: true, NoCopy: true})
}

// throttledGCRA is github.com/throttled/throttled with its store in memory. A call returns an
// error when others were faster ten times.
type throttledGCRA struct{ limiter *throttled.GCRARateLimiterCtx }

func newThrottled(limit ratelimit.Limit, _ int) workload.Limiter {
	store, err := memstore.NewCtx(0) // as many keys as there are
	if err != nil {
		panic(err)
	}
	// A token a day is the slowest that it counts in; where the limit is longer than
	// it can count, one a second.
	quota := throttled.RateQuota{MaxRate: throttled.PerDay(1), MaxBurst: limit.Capacity - 1}
	if limit.Capacity > 1000 {
		quota.MaxRate = throttled.PerSec(1)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		panic(err)
	}
	return throttledGCRA{limiter}
}

func (t throttledGCRA) Allow(key string) bool {
	limited, _, err := t.limiter.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}

func (t throttledGCRA) Len() int { return -1 }
