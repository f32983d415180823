package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/didip/tollbooth/v7"
	"github.com/go-chi/httprate"
	"github.com/hashicorp/golang-lru/v2"
	juju "github.com/juju/ratelimit"
	"github.com/packedbucket/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ululelimiter "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"
)

// This file puts limiters through the schedules and compares what they grant with what is
// due. Time passes in a synctest bubble.
//
//	go test -run 'TestExactness|TestOldClockReads' -v . | grep -o '|.*'

// A subject is a limiter that is put to the test.
type subject struct {
	name string
	new  func(q quota) (takeFunc, error)

	realClock bool // does not see the time of the bubble
}

// bounded is for how many keys those have room that can be given a bound.
const bounded = 1000

var (
	errOnlyOnes     = errors.New("has no costs")
	errOnlyIntegers = errors.New("has no float rates")
)

var subjects = []subject{
	{name: "packed", new: func(q quota) (takeFunc, error) {
		return takeOf(ratelimit.New(ratelimit.Limit{Capacity: q.tokens, RefillPerSec: q.rate()}))
	}},
	{name: "maxkeys", new: func(q quota) (takeFunc, error) {
		return takeOf(ratelimit.New(ratelimit.Limit{Capacity: q.tokens, RefillPerSec: q.rate()}, ratelimit.WithMaxKeys(bounded)))
	}},
	{name: "x/time/rate", new: func(q quota) (takeFunc, error) {
		limiters := &keyed[*rate.Limiter]{make: func() *rate.Limiter { return rate.NewLimiter(rate.Limit(q.rate()), q.tokens) }}
		return func(key string, n int) bool { return limiters.get(key).AllowN(time.Now(), n) }, nil
	}},
	{name: "x/time/rate in an LRU (1000 keys)", new: func(q quota) (takeFunc, error) {
		limiters, err := lru.New[string, *rate.Limiter](bounded)
		return func(key string, n int) bool {
			l, ok := limiters.Get(key)
			if !ok {
				l = rate.NewLimiter(rate.Limit(q.rate()), q.tokens)
				if before, ok, _ := limiters.PeekOrAdd(key, l); ok {
					l = before
				}
			}
			return l.AllowN(time.Now(), n)
		}, err
	}},
	{name: "juju/ratelimit", new: func(q quota) (takeFunc, error) {
		buckets := &keyed[*juju.Bucket]{make: func() *juju.Bucket { return juju.NewBucketWithRate(q.rate(), int64(q.tokens)) }}
		return func(key string, n int) bool {
			_, ok := buckets.get(key).TakeMaxDuration(int64(n), 0)
			return ok
		}, nil
	}},
	{name: "throttled (1000 keys)", new: func(q quota) (takeFunc, error) {
		if q.per == 0 {
			return nil, errOnlyIntegers
		}
		store, err := memstore.NewCtx(bounded)
		if err != nil {
			return nil, err
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
			MaxRate: throttled.PerDuration(q.tokens, q.per), MaxBurst: q.tokens - 1,
		})
		return func(key string, n int) bool {
			limited, _, err := l.RateLimitCtx(context.Background(), key, n)
			return !limited && err == nil
		}, err
	}},
	{name: "tollbooth", new: func(q quota) (takeFunc, error) {
		l := tollbooth.NewLimiter(q.rate(), nil).SetBurst(q.tokens)
		return onlyOnes(func(key string) bool { return !l.LimitReached(key) }), nil
	}},
	{name: "ulule/limiter", new: func(q quota) (takeFunc, error) {
		if q.per == 0 {
			return nil, errOnlyIntegers
		}
		l := ululelimiter.New(memory.NewStoreWithOptions(ululelimiter.StoreOptions{}), ululelimiter.Rate{Period: q.per, Limit: int64(q.tokens)})
		return func(key string, n int) bool {
			c, err := l.Increment(context.Background(), key, int64(n))
			return err == nil && !c.Reached
		}, nil
	}},
	{name: "httprate", new: func(q quota) (takeFunc, error) {
		if q.per == 0 {
			return nil, errOnlyIntegers
		}
		l := httprate.NewRateLimiter(q.tokens, q.per, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
		return func(key string, n int) bool {
			r := new(http.Request).WithContext(httprate.WithIncrement(context.Background(), n))
			return !l.OnLimit(nil, r, key)
		}, nil
	}},
	{name: "go-limiter", realClock: true, new: func(q quota) (takeFunc, error) {
		store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.tokens), Interval: q.per})
		return onlyOnes(func(key string) bool {
			_, _, _, ok, err := store.Take(context.Background(), key)
			return ok && err == nil
		}), err
	}},
}

func isOurs(name string) bool { return name == "packed" || name == "maxkeys" }

// takeOf adapts a limiter of this module.
func takeOf(tb *ratelimit.TokenBucket, err error) (takeFunc, error) {
	return func(key string, n int) bool {
		d, err := tb.AllowN(context.Background(), key, n)
		return err == nil && d.Allowed
	}, err
}

// onlyOnes adapts a limiter that knows no costs: a cost is so many calls until one is
// denied, and one that cannot be had so panics.
func onlyOnes(take func(key string) bool) takeFunc {
	return func(key string, n int) bool {
		if n < 1 || n > 1000 {
			panic(errOnlyOnes)
		}
		for range n {
			if !take(key) {
				return false
			}
		}
		return true
	}
}

// TestExactness prints the table, and fails if a limiter of this module grants anything
// but what is due.
func TestExactness(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	for _, s := range schedules {
		for _, of := range subjects {
			if of.realClock && !s.instant {
				continue
			}
			granted, err := s.worst(t, of)
			result := fmt.Sprint(granted)
			switch {
			case errors.Is(err, errOnlyOnes), errors.Is(err, errOnlyIntegers):
				result = "n/a: " + err.Error()
			case err != nil:
				result = "refused: " + err.Error()
			case granted%endless == 0 && granted > 0 && s.due < endless:
				result = "without end"
			case granted != s.due:
				result += " " + apart(granted, s.due)
			}
			t.Logf("| %s | %d | %s | %s |", s.name, s.due, of.name, result)
			if isOurs(of.name) && granted != s.due && !(s.overfull && of.name == "maxkeys") {
				t.Errorf("%s, %s: granted %d, due are %d", of.name, s.name, granted, s.due)
			}
		}
	}
}

// worst returns what was granted in the round in which it was farthest from what is due.
func (s schedule) worst(t *testing.T, of subject) (granted int, err error) {
	for round := range max(s.rounds, 1) {
		var n int
		once := func(*testing.T) {
			defer func() {
				switch p := recover().(type) {
				case nil:
				case error:
					err = p
				default:
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			var take takeFunc
			if take, err = of.new(s.quota); err == nil {
				n = s.run(take)
			}
		}
		if of.realClock {
			once(t)
		} else {
			synctest.Test(t, once)
		}
		if round == 0 || abs(n-s.due) > abs(granted-s.due) {
			granted = n
		}
	}
	return granted, err
}

// apart says how far granted is from due.
func apart(granted, due int) string {
	switch {
	case granted >= 2*due:
		return fmt.Sprintf("(%.3g times what is due)", float64(granted)/float64(due))
	case granted > due:
		return fmt.Sprintf("(%d too many)", granted-due)
	default:
		return fmt.Sprintf("(%d too few)", due-granted)
	}
}

func abs(n int) int { return max(n, -n) }

// TestOldClockReads has callers that read the clock alternately now and 10 s ago, as
// goroutines do that have to wait after they have read it: golang/go#71360. Only limiters
// that can be given a time are here.
func TestOldClockReads(t *testing.T) {
	const due = 2 + 10 // in 10 s
	start := time.Unix(0, 0)
	now := start
	packed := ratelimit.NewTokenBucket(2, 1, ratelimit.WithClock(func() time.Time { return now }))
	table := ratelimit.NewTokenBucket(2, 1, ratelimit.WithClock(func() time.Time { return now }), ratelimit.WithMaxKeys(bounded))
	xtime := rate.NewLimiter(1, 2)
	bucket := juju.NewBucketWithClock(time.Second, 2, clockOf(func() time.Time { return now }))
	store, err := memstore.New(0)
	if err != nil {
		t.Fatal(err)
	}
	store.SetTimeNow(func() time.Time { return now })
	gcra, err := throttled.NewGCRARateLimiterCtx(throttled.WrapStoreWithContext(store), throttled.RateQuota{MaxRate: throttled.PerSec(1), MaxBurst: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		name  string
		allow func() bool
	}{
		{"packed", func() bool { d, _ := packed.Allow(t.Context(), "k"); return d.Allowed }},
		{"maxkeys", func() bool { d, _ := table.Allow(t.Context(), "k"); return d.Allowed }},
		{"x/time/rate", func() bool { return xtime.AllowN(now, 1) }},
		{"juju/ratelimit", func() bool { return bucket.TakeAvailable(1) == 1 }},
		{"throttled", func() bool {
			limited, _, err := gcra.RateLimitCtx(t.Context(), "k", 1)
			return !limited && err == nil
		}},
	} {
		granted := 0
		for i := range 2000 {
			now = start.Add(time.Duration(i%2) * 10 * time.Second)
			if of.allow() {
				granted++
			}
		}
		result := fmt.Sprint(granted)
		if granted > due {
			result += " " + apart(granted, due)
		}
		t.Logf("| clock reads alternately now and 10 s ago | at most %d | %s | %s |", due, of.name, result)
		if isOurs(of.name) && granted > due {
			t.Errorf("granted %d, due are at most %d", granted, due)
		}
	}
}

type clockOf func() time.Time

func (c clockOf) Now() time.Time      { return c() }
func (c clockOf) Sleep(time.Duration) {}
