package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/packedbucket/ratelimit"
)

func Example() {
	ctx := context.Background()
	limiter := ratelimit.NewTokenBucket(3, 1) // a burst of 3, then 1 a second

	for range 4 {
		d, err := limiter.Allow(ctx, "alice")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}

// A clock of one's own makes a test of a limit exact and fast.
func ExampleTokenBucket() {
	ctx := context.Background()
	now := time.Date(2025, time.March, 1, 12, 0, 0, 0, time.UTC)
	limiter := ratelimit.NewTokenBucket(1, 4, ratelimit.WithClock(func() time.Time { return now }))

	d, _ := limiter.Allow(ctx, "alice")
	fmt.Println(d.Allowed)
	d, _ = limiter.Allow(ctx, "alice")
	fmt.Println(d.Allowed, "retry after", d.RetryAfter)

	now = now.Add(d.RetryAfter)
	d, _ = limiter.Allow(ctx, "alice")
	fmt.Println(d.Allowed)
	// Output:
	// true
	// false retry after 250ms
	// true
}

// A limit of bytes: a request costs what it transfers.
func ExampleTokenBucket_AllowN() {
	ctx := context.Background()
	limiter := ratelimit.NewTokenBucket(1_000_000, 100_000)

	d, _ := limiter.AllowN(ctx, "alice", 600_000)
	fmt.Println(d.Allowed, d.Remaining)
	d, _ = limiter.AllowN(ctx, "alice", 600_000)
	fmt.Println(d.Allowed)
	_, err := limiter.AllowN(ctx, "alice", 2_000_000)
	fmt.Println(err)
	fmt.Println(errors.Is(err, ratelimit.ErrCostExceedsCapacity))
	// Output:
	// true 400000
	// false
	// ratelimit: cost 2000000: must be between 1 and the capacity, 1000000 tokens; it can never be granted
	// true
}

func ExampleTokenBucket_Refund() {
	ctx := context.Background()
	limiter := ratelimit.NewTokenBucket(3, 1.0/60)

	d, _ := limiter.Allow(ctx, "alice")
	fmt.Println(d.Remaining)
	limiter.Refund("alice", 1) // the request was not carried out
	fmt.Println(limiter.Peek("alice").Tokens)
	// Output:
	// 2
	// 3
}

func ExampleTokenBucket_Sweep() {
	ctx := context.Background()
	now := time.Date(2025, time.March, 1, 12, 0, 0, 0, time.UTC)
	limiter := ratelimit.NewTokenBucket(10, 1, ratelimit.WithClock(func() time.Time { return now }))

	limiter.AllowN(ctx, "alice", 1)
	limiter.AllowN(ctx, "bob", 10)
	now = now.Add(5 * time.Second)
	fmt.Println(limiter.Sweep(), "had refilled,", limiter.Len(), "is left")
	// Output:
	// 1 had refilled, 1 is left
}

func ExampleNew() {
	_, err := ratelimit.New(ratelimit.Limit{Capacity: 10, RefillPerSec: -1})
	fmt.Println(err)
	fmt.Println(errors.Is(err, ratelimit.ErrInvalidLimit))
	// Output:
	// ratelimit: refill rate -1: must be between 1e-12 and 1e+11 tokens per second
	// true
}

// A function that only asks takes a Limiter.
func ExampleLimiter() {
	serve := func(limiter ratelimit.Limiter, user string) {
		d, err := limiter.Allow(context.Background(), user)
		switch {
		case err != nil:
			fmt.Println("error:", err)
		case !d.Allowed:
			fmt.Println("denied")
		default:
			fmt.Println("hello,", user)
		}
	}
	limiter := ratelimit.NewTokenBucket(1, 1.0/3600)
	serve(limiter, "alice")
	serve(limiter, "alice")
	serve(limiter, "bob")
	// Output:
	// hello, alice
	// denied
	// hello, bob
}

// RetryAfter in whole seconds, rounded up, is what the HTTP header of that name wants.
func ExampleDecision() {
	d := ratelimit.Decision{RetryAfter: 2100 * time.Millisecond}
	seconds := (d.RetryAfter + time.Second - 1) / time.Second
	fmt.Printf("Retry-After: %d\n", seconds)
	// Output:
	// Retry-After: 3
}

func ExampleLimit() {
	limits := map[string]ratelimit.Limit{
		"free": ratelimit.Per(60, time.Minute),
		"paid": {Capacity: 200, RefillPerSec: 50},
	}
	for _, plan := range []string{"free", "paid"} {
		fmt.Println(plan, limits[plan].Capacity, limits[plan].RefillPerSec, limits[plan].Validate())
	}
	// Output:
	// free 60 1 <nil>
	// paid 200 50 <nil>
}

func ExamplePer() {
	fmt.Println(ratelimit.Per(180, time.Minute))
	// Output:
	// {180 3}
}

// What a client may be shown, for example in RateLimit headers.
func ExampleState() {
	limiter := ratelimit.NewTokenBucket(100, 10)
	limiter.AllowN(context.Background(), "alice", 100)

	state := limiter.Peek("alice")
	fmt.Println(state.Tokens < 1, state.RetryAfter <= 100*time.Millisecond, state.ResetAfter <= 10*time.Second)
	fmt.Println(limiter.Peek("bob"))
	// Output:
	// true true true
	// {100 0s 0s}
}

func ExampleOption() {
	limiter, err := ratelimit.New(ratelimit.Per(100, time.Second),
		ratelimit.WithStartEmpty(),
		ratelimit.WithCoarseClock(time.Millisecond),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()

	d, _ := limiter.Allow(context.Background(), "alice")
	fmt.Println(d.Allowed)
	// Output:
	// false
}

// A service that anyone can call keeps its memory fixed: here 31 MB, whatever keys are
// asked for.
func ExampleWithMaxKeys() {
	limiter := ratelimit.NewTokenBucket(100, 10, ratelimit.WithMaxKeys(1_000_000))

	d, _ := limiter.Allow(context.Background(), "203.0.113.7")
	fmt.Println(d.Allowed, d.Remaining)
	// Output:
	// true 99
}

// With OverflowDeny, a key that finds no slot is denied until one has refilled.
func ExampleOverflow() {
	ctx := context.Background()
	now := time.Date(2025, time.March, 1, 12, 0, 0, 0, time.UTC)
	limiter := ratelimit.NewTokenBucket(3, 1,
		ratelimit.WithClock(func() time.Time { return now }),
		ratelimit.WithMaxKeys(1), // in fact it has eight slots
		ratelimit.WithOverflow(ratelimit.OverflowDeny))

	for i := range 100 {
		limiter.AllowN(ctx, fmt.Sprint("key ", i), 3)
	}
	d, _ := limiter.Allow(ctx, "one more")
	fmt.Println(d.Allowed, "retry after", d.RetryAfter)
	now = now.Add(d.RetryAfter)
	d, _ = limiter.Allow(ctx, "one more")
	fmt.Println(d.Allowed)
	// Output:
	// false retry after 3s
	// true
}

// What to look at, and to scrape, in a service with WithMaxKeys.
func ExampleStats() {
	ctx := context.Background()
	limiter := ratelimit.NewTokenBucket(3, 1.0/60, ratelimit.WithMaxKeys(1000))
	for i := range 5 {
		limiter.Allow(ctx, fmt.Sprint("client ", i))
	}

	stats := limiter.Stats()
	fmt.Println("short of tokens:", stats.Live)
	fmt.Println("met the overflow policy:", stats.Shared+stats.Refused+stats.Evicted)
	// Output:
	// short of tokens: 5
	// met the overflow policy: 0
}
