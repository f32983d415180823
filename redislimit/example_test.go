package redislimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/redislimit"
	"github.com/packedbucket/ratelimit/redislimit/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// exampleServer starts the Redis of an example.
func exampleServer() *redistest.Server {
	server, err := redistest.Start()
	if err != nil {
		panic(err)
	}
	return server
}

func Example() {
	server := exampleServer()
	defer server.Close()

	client := redis.NewClient(&redis.Options{
		Addr:                  server.Addr,
		ContextTimeoutEnabled: true, // or a call could take as long as the server
	})
	defer client.Close()
	limiter, err := redislimit.New(client, ratelimit.Per(2, time.Hour)) // for the whole fleet
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, err := limiter.Allow(context.Background(), "user")
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

// Two processes share a bucket.
func ExampleLimiter() {
	server := exampleServer()
	defer server.Close()
	ctx := context.Background()
	for process := range 2 {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
		defer client.Close()
		limiter, err := redislimit.New(client, ratelimit.Per(3, time.Hour), redislimit.WithTimeout(time.Second))
		if err != nil {
			panic(err)
		}
		for range 2 {
			d, _ := limiter.Allow(ctx, "user")
			fmt.Println("process", process, d.Allowed)
		}
	}
	// Output:
	// process 0 true
	// process 0 true
	// process 1 true
	// process 1 false
}

// A thousand checks of a key ask Redis a few times.
func ExampleLeased() {
	server := exampleServer()
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter, err := redislimit.NewLeased(client, ratelimit.Per(10_000, time.Hour), redislimit.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	defer limiter.Close()
	granted := 0
	for range 1000 {
		if d, err := limiter.Allow(context.Background(), "user"); err == nil && d.Allowed {
			granted++
		}
	}
	fmt.Println(granted, limiter.Stats().Calls < 50)
	// Output: 1000 true
}

func ExampleLeaseStats() {
	server := exampleServer()
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter, err := redislimit.NewLeased(client, ratelimit.Per(10_000, time.Hour), redislimit.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	for range 100 {
		_, _ = limiter.Allow(context.Background(), "user")
	}
	limiter.Close() // gives back what is not spent
	stats := limiter.Stats()
	fmt.Println(stats.Booked >= 100, stats.Booked-stats.Returned-stats.Lost, stats.Keys)
	// Output: true 100 0
}

func ExampleLimiter_Refund() {
	server := exampleServer()
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter, err := redislimit.New(client, ratelimit.Per(1000, 1000*time.Hour), redislimit.WithTimeout(time.Second))
	if err != nil {
		panic(err)
	}
	ctx := context.Background()

	// A request that may take 600, and takes 100.
	d, _ := limiter.AllowN(ctx, "user", 600)
	fmt.Println(d.Allowed, d.Remaining)
	if err := limiter.Refund(ctx, "user", 500); err != nil {
		panic(err)
	}
	state, _ := limiter.Peek(ctx, "user")
	fmt.Printf("%.0f\n", state.Tokens)
	// Output:
	// true 400
	// 900
}

// When Redis is down, FailClosed tells that from a denial.
func ExampleFailure() {
	server := exampleServer()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	server.Close()

	for _, failure := range []redislimit.Failure{redislimit.FailLocal, redislimit.FailOpen, redislimit.FailClosed} {
		limiter, err := redislimit.New(client, ratelimit.Per(1, time.Hour), redislimit.WithFailure(failure))
		if err != nil {
			panic(err)
		}
		for range 2 {
			d, err := limiter.Allow(context.Background(), "user")
			fmt.Println(failure, d.Allowed, err != nil)
		}
	}
	// Output:
	// local true false
	// local false false
	// open true false
	// open true false
	// closed false true
	// closed false true
}

func ExampleWindow() {
	server := exampleServer()
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter, err := redislimit.NewWindow(client, 2, time.Hour, redislimit.WithPrefix("signups:"))
	if err != nil {
		panic(err)
	}
	for range 3 {
		d, _ := limiter.Allow(context.Background(), "198.51.100.7")
		fmt.Println(d.Allowed, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

func ExampleStats() {
	server := exampleServer()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	server.Close()
	limiter, err := redislimit.New(client, ratelimit.Per(100, time.Minute), redislimit.WithBreaker(2, time.Minute))
	if err != nil {
		panic(err)
	}
	for range 10 {
		_, _ = limiter.Allow(context.Background(), "user")
	}
	fmt.Printf("%+v\n", limiter.Stats())
	// Output:
	// {Calls:2 Failures:2 Skipped:8 Fallbacks:10}
}

// Ten processes, each of which grants a tenth by itself while Redis is down, keep the
// limit together.
func ExampleOption() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer client.Close()
	_, err := redislimit.New(client, ratelimit.Per(1000, time.Minute),
		redislimit.WithPrefix("api:"),
		redislimit.WithTimeout(5*time.Millisecond),
		redislimit.WithLocal(ratelimit.Per(100, time.Minute), ratelimit.WithMaxKeys(100_000)))
	fmt.Println(err)
	// Output: <nil>
}
