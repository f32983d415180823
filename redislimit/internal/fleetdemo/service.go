package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/redislimit"
	"github.com/redis/go-redis/v9"
)

// limit is that of each user, for all processes of the service together.
var limit = ratelimit.Limit{Capacity: 500, RefillPerSec: 1000}

// newLimiter is what a service needs. The timeout is longer than usual, since here all of it
// runs on one machine that may be busy.
func newLimiter(client *redis.Client, leased bool) (ratelimit.Limiter, error) {
	timeout := redislimit.WithTimeout(time.Second)
	if leased {
		return redislimit.NewLeased(client, limit, timeout)
	}
	return redislimit.New(client, limit, timeout)
}

// serve is one process of the service. It prints its address, and ends with its standard input.
func serve(redisAddr string, leased bool) error {
	client := redis.NewClient(&redis.Options{Addr: redisAddr, ContextTimeoutEnabled: true})
	defer client.Close()
	limiter, err := newLimiter(client, leased)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d, err := limiter.Allow(r.Context(), r.Header.Get("X-User"))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case !d.Allowed:
			seconds := (d.RetryAfter + time.Second - 1) / time.Second
			w.Header().Set("Retry-After", fmt.Sprint(int64(seconds)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		default:
			fmt.Fprintln(w, "hello")
		}
	})
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, nil)
}
