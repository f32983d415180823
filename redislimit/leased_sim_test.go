package redislimit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/stretchr/testify/require"
)

// A fleet is what is simulated: processes that share one key, in the time of a bubble.
type fleet struct {
	name    string
	nodes   int
	limit   ratelimit.Limit
	offered float64 // requests a second, of all nodes together
	uneven  bool    // one node has half of the traffic, the next a quarter, and so on
	crashes int     // nodes that die half way, one after the other
	cuts    int     // nodes that are cut off from Redis in the second half
	lossy   float64 // share of the answers that are lost
	seconds int

	fewer  float64 // the least share of the calls that is saved, of one for each check
	usable float64 // the least share of what is due that the fleet could use
}

var fleets = []fleet{
	{name: "1 node, half the limit", nodes: 1, limit: ratelimit.Limit{Capacity: 1000, RefillPerSec: 1000}, offered: 500, seconds: 20, fewer: 0.95, usable: 0.99},
	{name: "1 node, twice the limit", nodes: 1, limit: ratelimit.Limit{Capacity: 1000, RefillPerSec: 1000}, offered: 2000, seconds: 20, fewer: 0.95, usable: 0.95},
	{name: "10 nodes, 80 % of the limit", nodes: 10, limit: ratelimit.Limit{Capacity: 2000, RefillPerSec: 2000}, offered: 1600, seconds: 20, fewer: 0.95, usable: 0.95},
	{name: "10 nodes, 80 % of the limit, uneven", nodes: 10, limit: ratelimit.Limit{Capacity: 2000, RefillPerSec: 2000}, offered: 1600, uneven: true, seconds: 20, fewer: 0.95, usable: 0.95},
	{name: "10 nodes, twice the limit, uneven", nodes: 10, limit: ratelimit.Limit{Capacity: 2000, RefillPerSec: 2000}, offered: 4000, uneven: true, seconds: 20, fewer: 0.95, usable: 0.93},
	{name: "100 nodes, 80 % of the limit", nodes: 100, limit: ratelimit.Limit{Capacity: 20_000, RefillPerSec: 20_000}, offered: 16_000, seconds: 10, fewer: 0.95, usable: 0.95},
	{name: "100 nodes, twice the limit", nodes: 100, limit: ratelimit.Limit{Capacity: 20_000, RefillPerSec: 20_000}, offered: 40_000, seconds: 10, fewer: 0.95, usable: 0.87},
	{name: "1000 nodes, 80 % of the limit", nodes: 1000, limit: ratelimit.Limit{Capacity: 100_000, RefillPerSec: 100_000}, offered: 80_000, seconds: 6, fewer: 0.95, usable: 0.95},
	{name: "1000 nodes, twice the limit", nodes: 1000, limit: ratelimit.Limit{Capacity: 100_000, RefillPerSec: 100_000}, offered: 200_000, seconds: 4, fewer: 0.95, usable: 0.85},
	{name: "100 nodes, half of which crash", nodes: 100, limit: ratelimit.Limit{Capacity: 20_000, RefillPerSec: 20_000}, offered: 16_000, crashes: 50, seconds: 10, fewer: 0.95, usable: 0.82},
	{name: "100 nodes, half of which are cut off", nodes: 100, limit: ratelimit.Limit{Capacity: 20_000, RefillPerSec: 20_000}, offered: 16_000, cuts: 50, seconds: 10, fewer: 0.95, usable: 0.72},
	{name: "10 nodes, a tenth of the answers lost", nodes: 10, limit: ratelimit.Limit{Capacity: 2000, RefillPerSec: 2000}, offered: 4000, lossy: 0.1, seconds: 20, fewer: 0.95, usable: 0.82},
}

// The fleet never gets more than is due, in any span, and what it gets costs few calls:
//
//	go test -run TestLeasedFleets -v . | grep '|'
func TestLeasedFleets(t *testing.T) {
	for _, f := range fleets {
		if testing.Short() && f.nodes > 100 {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f.simulate(t) })
		})
	}
}

func (f fleet) simulate(t *testing.T) {
	server := newFakeRedis()
	start := time.Now()
	end := start.Add(time.Duration(f.seconds) * time.Second)
	var mu sync.Mutex
	perMilli := make([]int, f.seconds*1000+2000)
	checks := 0
	var wg sync.WaitGroup
	for n := range f.nodes {
		rnd := rand.New(rand.NewPCG(uint64(n), 1))
		node := &fakeNode{redis: server, latency: time.Duration(500+rnd.IntN(1000)) * time.Microsecond}
		if f.lossy > 0 {
			losses := rand.New(rand.NewPCG(uint64(n), 2))
			var mu sync.Mutex
			node.lossy = func() bool {
				mu.Lock()
				defer mu.Unlock()
				return losses.Float64() < f.lossy
			}
		}
		c := node.client()
		l, err := NewLeased(c, f.limit, WithFailure(FailClosed))
		require.NoError(t, err)
		rate := f.offered / float64(f.nodes)
		if f.uneven {
			rate = f.offered * math.Pow(0.5, float64(min(n+1, f.nodes-1)))
		}
		stops := end
		if n < f.crashes { // one after the other
			stops = start.Add(end.Sub(start) * time.Duration(f.crashes+n) / time.Duration(2*f.crashes))
		}
		wg.Go(func() {
			granted, asked := make([]int, len(perMilli)), 0
			for time.Now().Before(stops) {
				time.Sleep(time.Duration(rnd.ExpFloat64() / rate * 1e9))
				if f.cuts > n && time.Now().After(start.Add(end.Sub(start)/2)) {
					node.cut.Store(true)
				}
				if !time.Now().Before(stops) {
					break
				}
				asked++
				if d, err := l.Allow(context.Background(), "k"); err == nil && d.Allowed {
					granted[time.Since(start).Milliseconds()]++
				}
			}
			if stops.Before(end) {
				node.cut.Store(true) // dead: it gives nothing back
			}
			l.Close()
			c.Close()
			mu.Lock()
			defer mu.Unlock()
			checks += asked
			for i, g := range granted {
				perMilli[i] += g
			}
		})
	}
	wg.Wait()
	total, worst := bound(perMilli, f.limit.RefillPerSec)
	seconds := float64(f.seconds)
	due := min(f.offered*seconds, float64(f.limit.Capacity)+f.limit.RefillPerSec*seconds)
	fewer := 1 - float64(server.calls.Load())/float64(checks)
	t.Logf("| %s | %d | %d | %.1f %% | %.1f %% |", f.name, checks, server.calls.Load(), 100*fewer, 100*float64(total)/due)

	require.LessOrEqual(t, float64(total), float64(f.limit.Capacity)+f.limit.RefillPerSec*(seconds+0.01), "since the bucket was full")
	require.LessOrEqual(t, worst, float64(f.limit.Capacity)+f.limit.RefillPerSec*(defaultTerm.Seconds()+0.001), "in any span")
	require.GreaterOrEqual(t, fewer, f.fewer, "fewer calls")
	require.GreaterOrEqual(t, float64(total)/due, f.usable, "of what is due")
}

// bound returns the sum of what was granted in all milliseconds, and the most that was granted in a
// span beyond what the rate gives in it.
func bound(perMilli []int, rate float64) (total int, worst float64) {
	beyond := 0.0
	for _, n := range perMilli {
		total += n
		beyond = max(0, beyond-rate/1000) + float64(n)
		worst = max(worst, beyond)
	}
	return total, worst
}

// The fake server of the simulations decides as the oracle does.
func TestFakeRedis(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		limit := randomLimit(rnd)
		timing, err := newTiming(limit)
		require.NoError(t, err)
		fake, o := newFakeRedis(), newOracle(limit)
		clock := epoch
		for range 200 {
			clock += int64(rnd.Float64() * rnd.Float64() * rnd.Float64() * float64(timing.burst.micros))
			cost := 1 + rnd.IntN(limit.Capacity)
			what := fmt.Sprintf("%v: %d at %d", limit, cost, clock)
			switch rnd.IntN(4) {
			case 0:
				o.refund(clock, cost)
				fake.run(refundScript.sha, "k", uint64(clock), timing.args(cost))
			case 1:
				requireState(t, o.peek(clock), timing.state(newAnswer(fake.run(peekScript.sha, "k", uint64(clock), timing.args()))), what)
			default:
				a := newAnswer(fake.run(takeScript.sha, "k", uint64(clock), timing.args(cost)))
				require.Equal(t, o.take(clock, cost), timing.decision(a, cost), what)
			}
		}
	}
}
