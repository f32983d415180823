package stress

import (
	"context"
	"fmt"
	"math/big"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
)

// These tests check the promise itself, over more operations than a history could
// have: how many tokens each of a few keys gives out while many goroutines take
// from it as fast as they can and others sweep.

const (
	hammerKeys    = 4
	hammerWorkers = 8
)

// hammerStores are the options for the stores under the hammer. In the small table, the
// keys share eight slots with those of takeSlots.
var hammerStores = [endOfStores][]ratelimit.Option{
	largeTable: {ratelimit.WithMaxKeys(100)},
	smallTable: {ratelimit.WithMaxKeys(1), ratelimit.WithOverflow(ratelimit.OverflowDeny)},
}

// TestHammerBound runs on the real clock. Whatever the speed of the machine, the
// tokens that a key gives out are at most capacity + rate x elapsed + one unit. At
// the lower rate the buckets tend to be empty and the bound is close; at the
// higher one they fill and are swept.
func TestHammerBound(t *testing.T) {
	for st, options := range hammerStores {
		for _, rate := range []int64{2e6, 2e7} {
			t.Run(fmt.Sprintf("%v, rate %d", store(st), rate), func(t *testing.T) {
				testHammerBound(t, rate, options, store(st))
			})
		}
	}
}

func testHammerBound(t *testing.T, rate int64, options []ratelimit.Option, st store) {
	const (
		capacity = 3
		calls    = 50_000 // of each worker
	)
	begin := time.Now() // before the first call
	tb := ratelimit.NewTokenBucket(capacity, float64(rate), options...)
	var stop func() int
	if st == smallTable {
		stop = takeSlots(t, tb, func() bool { return true })
	} else {
		stop = sweepUntilStopped(tb)
	}
	var granted [hammerKeys]atomic.Int64
	var wg sync.WaitGroup
	for worker := range hammerWorkers {
		wg.Go(func() {
			for i := range calls {
				key, cost := (worker+i)%hammerKeys, 1+i%capacity
				d := takeFrom(t, tb, key, cost)
				if d.Allowed {
					granted[key].Add(int64(cost))
				}
			}
		})
	}
	wg.Wait()
	removed := stop()
	elapsed := time.Since(begin) // after the last call

	bound := new(big.Rat).Mul(big.NewRat(rate, int64(time.Second)), big.NewRat(int64(elapsed), 1))
	bound.Add(bound, big.NewRat(capacity, 1))
	unit := big.NewRat(1, 256)
	if twoNanos := big.NewRat(2*rate, int64(time.Second)); twoNanos.Cmp(unit) > 0 {
		unit = twoNanos
	}
	bound.Add(bound, unit)
	for key := range granted {
		n := granted[key].Load()
		if new(big.Rat).SetInt64(n).Cmp(bound) > 0 {
			t.Errorf("key %d: %d tokens granted in %v: want at most %s", key, n, elapsed, bound.FloatString(3))
		}
		t.Logf("key %d: %d of %s tokens granted", key, n, bound.FloatString(0))
	}
	t.Logf("%d buckets removed", removed)
}

// TestHammerConservation runs on a clock of its own and knows the sum exactly, so
// that a token lost is found as surely as a token too many.
//
// Whenever every bucket has been seen to be empty, time goes on by just as much as
// fills them: nothing overflows, and every bucket is full at once, ready to be
// swept while everybody takes from it. In the end each key has given out its
// capacity once and then once per step.
//
// In the small table other keys take the slots of those that are full. Three of them
// have room besides the four in eight slots, so that none of the four is ever refused.
func TestHammerConservation(t *testing.T) {
	for st, options := range hammerStores {
		t.Run(store(st).String(), func(t *testing.T) { testHammerConservation(t, options, store(st)) })
	}
}

func testHammerConservation(t *testing.T, options []ratelimit.Option, st store) {
	const (
		capacity = 4
		tick     = time.Second / 1000 // fills a bucket
	)
	steps := 10_000
	if testing.Short() {
		steps /= 10
	}
	var ticks atomic.Int64
	tb := ratelimit.NewTokenBucket(capacity, 4000, append(options, ratelimit.WithClock(func() time.Time {
		return clockStart.Add(time.Duration(ticks.Load()) * tick)
	}))...)
	var granted [hammerKeys]atomic.Int64
	// drain takes from key until it is denied.
	drain := func(key int) {
		for cost := 1; ; cost = cost%2 + 1 {
			switch d := takeFrom(t, tb, key, cost); {
			case d.Allowed:
				granted[key].Add(int64(cost))
			case cost == 1:
				return
			}
		}
	}

	var stop func() int
	if st == smallTable {
		// Two between moves of the clock: the time of a third may have moved on before it
		// was read.
		at, n := int64(0), 0
		stop = takeSlots(t, tb, func() bool {
			if now := ticks.Load(); now > at {
				at, n = now, 0
			}
			n++
			return n <= 2
		})
	} else {
		stop = sweepUntilStopped(tb)
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	for worker := range hammerWorkers {
		wg.Go(func() {
			for i := worker; !done.Load(); i++ {
				drain(i % hammerKeys)
				runtime.Gosched()
			}
		})
	}
	removed := 0
	for step := 0; ; step++ {
		for key := range hammerKeys {
			drain(key)
		}
		if step == steps {
			break
		}
		ticks.Add(1)
		if step%8 == 0 {
			removed += tb.Sweep() // in case that the sweeper is never fast enough
		} else {
			runtime.Gosched()
		}
	}
	done.Store(true)
	wg.Wait()
	removed += stop()

	for key := range granted {
		if got, want := granted[key].Load(), int64(capacity*(steps+1)); got != want {
			t.Errorf("key %d: %d tokens granted, want %d", key, got, want)
		}
	}
	if removed == 0 {
		t.Error("no bucket was removed: the test does not test what it should")
	}
	t.Logf("%d steps, %d buckets removed", steps, removed)
}

// TestHammerRefund stops the clock, so that the only tokens are those of the full
// buckets: the workers can never hold more of a key than its capacity, and when
// all is put back the bucket is full again. (In a table no slot changes hands while the
// clock stands still.)
func TestHammerRefund(t *testing.T) {
	for _, st := range []store{defaultStore, largeTable} {
		t.Run(st.String(), func(t *testing.T) { testHammerRefund(t, hammerStores[st]) })
	}
}

func testHammerRefund(t *testing.T, options []ratelimit.Option) {
	const (
		capacity = 3
		calls    = 50_000 // of each worker
	)
	tb := ratelimit.NewTokenBucket(capacity, 1, append(options, ratelimit.WithClock(func() time.Time { return clockStart }))...)
	stop := sweepUntilStopped(tb)
	var held [hammerKeys]atomic.Int64 // never more than is held in fact
	var wg sync.WaitGroup
	for worker := range hammerWorkers {
		wg.Go(func() {
			for i := range calls {
				key, cost := (worker+i)%hammerKeys, 1+i%capacity
				d := takeFrom(t, tb, key, cost)
				if !d.Allowed {
					continue
				}
				if n := held[key].Add(int64(cost)); n > capacity {
					t.Errorf("key %d: %d tokens held, want at most %d", key, n, capacity)
				}
				if i%2 == 0 {
					runtime.Gosched() // hold on, so that a token too many is one that is held
				}
				held[key].Add(-int64(cost))
				tb.Refund(strconv.Itoa(key), cost)
			}
		})
	}
	wg.Wait()
	t.Logf("%d buckets removed", stop())
	for key := range hammerKeys {
		if got, want := tb.Peek(strconv.Itoa(key)), (ratelimit.State{Tokens: capacity}); got != want {
			t.Errorf("key %d after all is put back: got %+v, want %+v", key, got, want)
		}
	}
}

// takeFrom asks for cost tokens of key, where no error can be.
func takeFrom(t *testing.T, tb *ratelimit.TokenBucket, key, cost int) ratelimit.Decision {
	d, err := tb.AllowN(context.Background(), strconv.Itoa(key), cost)
	if err != nil {
		t.Error(err)
	}
	return d
}

// sweepUntilStopped sweeps all the time, until the function that it returns is
// called; that returns how many buckets were removed.
func sweepUntilStopped(tb *ratelimit.TokenBucket) (stop func() int) {
	var done atomic.Bool
	swept := make(chan int)
	go func() {
		n := 0
		for !done.Load() {
			n += tb.Sweep()
			runtime.Gosched()
		}
		swept <- n
	}()
	return func() int {
		done.Store(true)
		return <-swept
	}
}

// takeSlots uses ever new keys whenever may says so, until the function that it returns
// is called; that returns how many slots went from one key to another. Each key gives
// back what it takes, so that it needs its slot for an instant.
func takeSlots(t *testing.T, tb *ratelimit.TokenBucket, may func() bool) (stop func() int) {
	var done atomic.Bool
	stopped := make(chan struct{})
	go func() {
		for key := hammerKeys; !done.Load(); {
			if may() {
				takeFrom(t, tb, key, 1)
				tb.Refund(strconv.Itoa(key), 1)
				key++
			}
			runtime.Gosched()
		}
		close(stopped)
	}()
	return func() int {
		done.Store(true)
		<-stopped
		return int(tb.Stats().Takeovers)
	}
}
