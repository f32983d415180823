package peers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/didip/tollbooth/v7"
	juju "github.com/juju/ratelimit"
	"github.com/packedbucket/ratelimit"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ululelimiter "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// This file puts limiters through schedules that are known to have broken some, and
// compares what they grant with what is due. The clock is that of a synctest bubble, and so
// go-limiter is not here: it reads the runtime's own.
//
//	go test -run TestExactness -v . | grep '|'

// A quota is so many tokens per period, all of which may be taken at once.
type quota struct {
	tokens int
	per    time.Duration
}

// A subject is a limiter of one key. take takes n tokens and reports whether it could.
type subject struct {
	name string
	new  func(t *testing.T, q quota) (take func(n int) bool, err error)
}

var subjects = []subject{
	{"packed", func(_ *testing.T, q quota) (func(int) bool, error) {
		return takeOf(ratelimit.New(ratelimit.Per(q.tokens, q.per)))
	}},
	{"packed, WithMaxKeys", func(_ *testing.T, q quota) (func(int) bool, error) {
		return takeOf(ratelimit.New(ratelimit.Per(q.tokens, q.per), ratelimit.WithMaxKeys(1000)))
	}},
	{"x/time/rate", func(_ *testing.T, q quota) (func(int) bool, error) {
		l := rate.NewLimiter(rate.Limit(float64(q.tokens)/q.per.Seconds()), q.tokens)
		return func(n int) bool { return l.AllowN(time.Now(), n) }, nil
	}},
	{"juju/ratelimit", func(_ *testing.T, q quota) (func(int) bool, error) {
		b := juju.NewBucketWithRate(float64(q.tokens)/q.per.Seconds(), int64(q.tokens))
		return func(n int) bool {
			_, ok := b.TakeMaxDuration(int64(n), 0)
			return ok
		}, nil
	}},
	{"throttled", func(_ *testing.T, q quota) (func(int) bool, error) {
		store, err := memstore.NewCtx(0)
		if err != nil {
			return nil, err
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
			MaxRate: throttled.PerDuration(q.tokens, q.per), MaxBurst: q.tokens - 1,
		})
		return func(n int) bool {
			limited, _, err := l.RateLimitCtx(context.Background(), "k", n)
			return !limited && err == nil
		}, err
	}},
	{"tollbooth", func(_ *testing.T, q quota) (func(int) bool, error) {
		l := tollbooth.NewLimiter(float64(q.tokens)/q.per.Seconds(), nil).SetBurst(q.tokens)
		return func(n int) bool {
			if n != 1 {
				panic(errNoCosts)
			}
			return !l.LimitReached("k")
		}, nil
	}},
	{"ulule/limiter", func(_ *testing.T, q quota) (func(int) bool, error) {
		l := ululelimiter.New(memory.NewStoreWithOptions(ululelimiter.StoreOptions{}), ululelimiter.Rate{Period: q.per, Limit: int64(q.tokens)})
		return func(n int) bool {
			c, err := l.Increment(context.Background(), "k", int64(n))
			return err == nil && !c.Reached
		}, nil
	}},
}

func takeOf(tb *ratelimit.TokenBucket, err error) (func(int) bool, error) {
	return func(n int) bool {
		d, err := tb.AllowN(context.Background(), "k", n)
		return err == nil && d.Allowed
	}, err
}

// errNoCosts is for limiters that know no costs.
var errNoCosts = errors.New("knows no costs")

// A schedule drives a limiter of a quota and returns how many tokens were granted. due is
// what capacity and rate give in its time.
type schedule struct {
	name  string
	quota quota
	due   int
	run   func(take func(n int) bool) (granted int)
}

var schedules = []schedule{
	{"1 a minute, polled every millisecond for 10 minutes", quota{1, time.Minute}, 1 + 10, func(take func(int) bool) (granted int) {
		for range 10*time.Minute/time.Millisecond + 1 {
			granted += one(take)
			time.Sleep(time.Millisecond)
		}
		return granted
	}},
	{"600 a microsecond, drained every microsecond", quota{600, time.Microsecond}, 600 * 1001, func(take func(int) bool) (granted int) {
		for range 1001 {
			granted += all(take)
			time.Sleep(time.Microsecond)
		}
		return granted
	}},
	{"700 million a minute, all at once and drained every microsecond", quota{700_000_000, time.Minute}, 700_000_000 + 700_000_000/60/1000, func(take func(int) bool) (granted int) {
		if !take(700_000_000) {
			return 0
		}
		granted = 700_000_000
		for range 1000 {
			time.Sleep(time.Microsecond)
			granted += all(take)
		}
		return granted
	}},
	{"1 in 3 s, asked for exactly then", quota{1, 3 * time.Second}, 1 + 10_000, func(take func(int) bool) (granted int) {
		for range 10_001 {
			granted += one(take)
			time.Sleep(3 * time.Second)
		}
		return granted
	}},
	{"7 a second, asked for every 100 ms for 10,000 s", quota{7, time.Second}, 7 + 70_000, func(take func(int) bool) (granted int) {
		granted = all(take)
		for range 100_000 {
			time.Sleep(100 * time.Millisecond)
			granted += one(take)
		}
		return granted
	}},
	{"10 a second at the end of a window, and at its end again", quota{10, time.Second}, 10 + 1, func(take func(int) bool) (granted int) {
		take(1) // begins a window
		granted = 1
		time.Sleep(950 * time.Millisecond)
		granted = all(take)
		time.Sleep(100 * time.Millisecond)
		return granted + all(take)
	}},
	{"a cost of -10, and then all there is", quota{10, time.Hour}, 10, func(take func(int) bool) (granted int) {
		granted = all(take)
		take(-10)
		return granted + all(take)
	}},
	{"a cost of 2^63-1 when there are 10", quota{10, time.Hour}, 10, func(take func(int) bool) (granted int) {
		if take(math.MaxInt) {
			return math.MaxInt
		}
		return all(take)
	}},
	{"100 goroutines and 50 tokens, 100 times", quota{50, 1000 * time.Hour}, 50, func(take func(int) bool) int {
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { granted.Add(int64(one(take))) })
		}
		wg.Wait()
		return int(granted.Load())
	}},
}

func one(take func(int) bool) int {
	if take(1) {
		return 1
	}
	return 0
}

func all(take func(int) bool) (n int) {
	for range 100_000 {
		if !take(1) {
			break
		}
		n++
	}
	return n
}

// TestExactness prints the table, and fails if a limiter of this module grants anything
// but what is due.
func TestExactness(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	for _, s := range schedules {
		for _, of := range subjects {
			rounds := 1
			if s.quota.tokens == 50 {
				rounds = 100
			}
			var granted int
			var err error
			for range rounds {
				var n int
				synctest.Test(t, func(t *testing.T) {
					var take func(int) bool
					defer func() {
						if recover() != nil {
							err = errNoCosts
						}
					}()
					if take, err = of.new(t, s.quota); err == nil {
						n = s.run(take)
					}
				})
				if granted == 0 || abs(n-s.due) > abs(granted-s.due) {
					granted = n // the worst
				}
			}
			result := fmt.Sprint(granted)
			switch {
			case err != nil:
				result = err.Error()
			case granted > s.due:
				result += fmt.Sprintf(", %.3g times what is due", float64(granted)/float64(s.due))
			case granted < s.due:
				result += ", less than is due"
			}
			t.Logf("| %s | %d | %s | %s |", s.name, s.due, of.name, result)
			if of.name[:6] == "packed" && granted != s.due {
				t.Errorf("%s, %s: granted %d, due are %d", of.name, s.name, granted, s.due)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

// TestOldClockReads has callers that read the clock alternately now and 10 s ago, as
// goroutines do that have to wait after they have read it: golang/go#71360.
func TestOldClockReads(t *testing.T) {
	const due = 2 + 10 // in 10 s
	start := time.Unix(0, 0)
	now := start
	packed := ratelimit.NewTokenBucket(2, 1, ratelimit.WithClock(func() time.Time { return now }))
	xtime := rate.NewLimiter(1, 2)
	bucket := juju.NewBucketWithClock(time.Second, 2, clockOf(func() time.Time { return now }))
	for _, of := range []struct {
		name  string
		allow func() bool
	}{
		{"packed", func() bool { d, _ := packed.Allow(t.Context(), "k"); return d.Allowed }},
		{"x/time/rate", func() bool { return xtime.AllowN(now, 1) }},
		{"juju/ratelimit", func() bool { return bucket.TakeAvailable(1) == 1 }},
	} {
		granted := 0
		for i := range 2000 {
			now = start.Add(time.Duration(i%2) * 10 * time.Second)
			if of.allow() {
				granted++
			}
		}
		t.Logf("| clock reads alternately now and 10 s ago | at most %d | %s | %d |", due, of.name, granted)
		if of.name == "packed" && granted > due {
			t.Errorf("granted %d", granted)
		}
	}
}

type clockOf func() time.Time

func (c clockOf) Now() time.Time      { return c() }
func (c clockOf) Sleep(time.Duration) {}
