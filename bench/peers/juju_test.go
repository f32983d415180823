package peers

import (
	"time"

	"github.com/juju/ratelimit"
	packed "github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

func init() {
	peers = append(peers, workload.Implementation{Name: "juju-syncmap", New: newJuju})
}

// newJuju is github.com/juju/ratelimit, a bucket for each key.
func newJuju(limit packed.Limit, _ int) workload.Limiter {
	interval := time.Duration(1e9 / limit.RefillPerSec)
	return &keyed[*ratelimit.Bucket]{
		make:  func() *ratelimit.Bucket { return ratelimit.NewBucket(interval, int64(limit.Capacity)) },
		allow: func(b *ratelimit.Bucket) bool { return b.TakeAvailable(1) == 1 },
	}
}
