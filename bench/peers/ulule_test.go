package peers

import (
	"context"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func init() {
	peers = append(peers, workload.Implementation{Name: "ulule", New: newUlule})
}

// ulule is github.com/ulule/limiter with its store in memory: a window, here of a day.
type ulule struct{ limiter *limiter.Limiter }

func newUlule(limit ratelimit.Limit, _ int) workload.Limiter {
	rate := limiter.Rate{Period: 24 * time.Hour, Limit: int64(limit.Capacity)}
	return ulule{limiter.New(memory.NewStore(), rate)}
}

func (u ulule) Allow(key string) bool {
	c, err := u.limiter.Get(context.Background(), key)
	return err == nil && !c.Reached
}

func (u ulule) Len() int { return -1 }
