package peers

import (
	"github.com/didip/tollbooth/v7"
	"github.com/didip/tollbooth/v7/limiter"
	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

func init() {
	peers = append(peers, workload.Implementation{Name: "tollbooth", New: newTollbooth, NoCopy: true})
}

// booth is github.com/didip/tollbooth: golang.org/x/time/rate in a cache with expiry.
type booth struct{ limiter *limiter.Limiter }

func newTollbooth(limit ratelimit.Limit, _ int) workload.Limiter {
	return booth{tollbooth.NewLimiter(limit.RefillPerSec, nil).SetBurst(limit.Capacity)}
}

func (b booth) Allow(key string) bool { return !b.limiter.LimitReached(key) }

func (b booth) Len() int { return -1 }
