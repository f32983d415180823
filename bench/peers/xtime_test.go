package peers

import (
	"strings"
	"sync"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
	"golang.org/x/time/rate"
)

func init() {
	peers = append(peers,
		workload.Implementation{Name: "xtime-syncmap", New: func(limit ratelimit.Limit, _ int) workload.Limiter {
			return &keyed[*rate.Limiter]{
				make:  func() *rate.Limiter { return rate.NewLimiter(rate.Limit(limit.RefillPerSec), limit.Capacity) },
				allow: (*rate.Limiter).Allow,
			}
		}},
		workload.Implementation{Name: "xtime-mutex", New: func(limit ratelimit.Limit, _ int) workload.Limiter {
			return &xtimeMutex{limit: limit, limiters: map[string]*rate.Limiter{}}
		}},
	)
}

// xtimeMutex is golang.org/x/time/rate in a map under a mutex, which is the other way in
// which it is usually given keys.
type xtimeMutex struct {
	limit    ratelimit.Limit
	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

func (x *xtimeMutex) Allow(key string) bool {
	x.mu.Lock()
	l := x.limiters[key]
	if l == nil {
		l = rate.NewLimiter(rate.Limit(x.limit.RefillPerSec), x.limit.Capacity)
		x.limiters[strings.Clone(key)] = l
	}
	x.mu.Unlock()
	return l.Allow()
}

func (x *xtimeMutex) Len() int { return len(x.limiters) }
