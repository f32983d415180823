package stress

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
	"go.uber.org/goleak"
)

// leakStores are the options for the two stores.
var leakStores = map[string][]ratelimit.Option{
	"default store": nil,
	"table":         {ratelimit.WithMaxKeys(1000)},
}

// TestNoGoroutine checks that a limiter starts no goroutine: none is left, with
// the limiter still in use, after many keys and sweeps.
func TestNoGoroutine(t *testing.T) {
	for name, options := range leakStores {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			tb := ratelimit.NewTokenBucket(10, 1000, options...)
			useManyKeys(t, tb)
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
			runtime.KeepAlive(tb)
		})
	}
}

// TestCloseEndsGoroutine checks that Close ends the goroutine of WithCoarseClock,
// the only one that there is.
func TestCloseEndsGoroutine(t *testing.T) {
	for name, options := range leakStores {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			tb := ratelimit.NewTokenBucket(10, 1000, append(options, ratelimit.WithCoarseClock(time.Millisecond))...)
			useManyKeys(t, tb)
			if err := tb.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
			runtime.KeepAlive(tb) // it was Close, not the garbage collector
		})
	}
}

// TestDropEndsGoroutine checks that a limiter with WithCoarseClock that is dropped
// and not closed leaves no goroutine behind.
func TestDropEndsGoroutine(t *testing.T) {
	for name, options := range leakStores {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			useManyKeys(t, ratelimit.NewTokenBucket(10, 1000, append(options, ratelimit.WithCoarseClock(time.Millisecond))...))

			// The collector has to find the limiter, a goroutine of the runtime to run
			// the cleanup, and the limiter's goroutine to see the result.
			const collections = 10
			var err error
			for range collections {
				runtime.GC()
				runtime.Gosched()
				if err = goleak.Find(before); err == nil {
					return
				}
			}
			t.Errorf("after %d collections: %v", collections, err)
		})
	}
}

// useManyKeys takes from many buckets, some of which sweeps remove.
func useManyKeys(t *testing.T, tb *ratelimit.TokenBucket) {
	t.Helper()
	for i := range 10_000 {
		if _, err := tb.Allow(context.Background(), strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			tb.Sweep()
		}
	}
}
