package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/go-redis/redis_rate/v10"
	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/redislimit"
	"github.com/packedbucket/ratelimit/redislimit/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// An implementation makes a limiter of so many tokens, all refilled in an hour.
type implementation struct {
	name string
	new  func(client *redis.Client, tokens int) (allow func(ctx context.Context, key string) (bool, error), err error)
}

var implementations = []implementation{
	{"direct", func(c *redis.Client, tokens int) (func(context.Context, string) (bool, error), error) {
		return allowOf(redislimit.New(c, ratelimit.Per(tokens, time.Hour), closed...))
	}},
	{"window", func(c *redis.Client, tokens int) (func(context.Context, string) (bool, error), error) {
		return allowOf(redislimit.NewWindow(c, tokens, time.Hour, closed...))
	}},
	{"leased", func(c *redis.Client, tokens int) (func(context.Context, string) (bool, error), error) {
		return allowOf(redislimit.NewLeased(c, ratelimit.Per(tokens, time.Hour), closed...))
	}},
	{"redis_rate", func(c *redis.Client, tokens int) (func(context.Context, string) (bool, error), error) {
		limiter, limit := redis_rate.NewLimiter(c), redis_rate.PerHour(tokens)
		return func(ctx context.Context, key string) (bool, error) {
			r, err := limiter.Allow(ctx, key, limit)
			return err == nil && r.Allowed > 0, err
		}, nil
	}},
	// What a round trip costs at least.
	{"floor-get", func(c *redis.Client, tokens int) (func(context.Context, string) (bool, error), error) {
		return func(ctx context.Context, key string) (bool, error) {
			err := c.Get(ctx, key).Err()
			return tokens > 1, skipNil(err)
		}, nil
	}},
}

// closed makes a failure one of the benchmark.
var closed = []redislimit.Option{redislimit.WithFailure(redislimit.FailClosed), redislimit.WithTimeout(10 * time.Second)}

func allowOf(l ratelimit.Limiter, err error) (func(context.Context, string) (bool, error), error) {
	return func(ctx context.Context, key string) (bool, error) {
		d, err := l.Allow(ctx, key)
		return d.Allowed, err
	}, err
}

func skipNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

// BenchmarkCheck asks for one of a hundred keys, which all have tokens, or have none.
func BenchmarkCheck(b *testing.B) {
	server, err := redistest.Start()
	if err != nil {
		b.Skip(err)
	}
	defer server.Close()
	for _, verdict := range []struct {
		name   string
		tokens int
	}{{"granted", 1 << 30}, {"denied", 1}} {
		for _, procs := range []int{1, 8, 64} {
			for _, impl := range implementations {
				b.Run(fmt.Sprintf("impl=%s/keys=100/verdict=%s/procs=%d", impl.name, verdict.name, procs), func(b *testing.B) {
					c := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, PoolSize: procs, MinIdleConns: procs})
					defer c.Close()
					if err := c.FlushAll(b.Context()).Err(); err != nil {
						b.Fatal(err)
					}
					allow, err := impl.new(c, verdict.tokens)
					if err != nil {
						b.Fatal(err)
					}
					check(b, allow, verdict.tokens > 1, procs)
				})
			}
		}
	}
}

// check times b.N checks by so many goroutines.
func check(b *testing.B, allow func(context.Context, string) (bool, error), want bool, procs int) {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprintf("user %d", i)
		if _, err := allow(b.Context(), keys[i]); err != nil {
			b.Fatal(err)
		}
	}
	all := hdrhistogram.New(1, int64(time.Minute), 3)
	var mu sync.Mutex
	var wg sync.WaitGroup
	b.ResetTimer()
	for p := range procs {
		wg.Go(func() {
			h := hdrhistogram.New(1, int64(time.Minute), 3)
			for i := b.N * p / procs; i < b.N*(p+1)/procs; i++ {
				before := time.Now()
				got, err := allow(b.Context(), keys[i%len(keys)])
				_ = h.RecordValue(int64(time.Since(before)))
				if err != nil || got != want {
					b.Errorf("%v, %v: want %v", got, err, want)
					return
				}
			}
			mu.Lock()
			all.Merge(h)
			mu.Unlock()
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(all.ValueAtQuantile(50)), "p50-ns")
	b.ReportMetric(float64(all.ValueAtQuantile(99)), "p99-ns")
}
