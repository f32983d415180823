package bench

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
)

// BenchmarkFloodPolicy reports what a table is worth while somebody makes up keys: how much of
// what is due to them a thousand clients are granted meanwhile, in percent. flood is how
// many made-up keys are short of tokens at once, as a multiple of the n of WithMaxKeys.
// The time is simulated, and so the figures do not depend on the machine.
//
//	polite-%  to clients who ask for half of what their limit allows: their buckets
//	          are full most of the time, and then another key may take the slot
//	heavy-%   to clients who ask for twice as much, who are short of tokens all the time
//	over-%    grants to a client who is short of tokens and asks at every occasion,
//	          beyond what is due to him
func BenchmarkFloodPolicy(b *testing.B) {
	for _, policy := range []ratelimit.Overflow{ratelimit.OverflowShare, ratelimit.OverflowDeny, ratelimit.OverflowEvict} {
		for _, flood := range []float64{1, 1.5, 2, 10} {
			b.Run(fmt.Sprintf("policy=%v/flood=%v", policy, flood), func(b *testing.B) {
				for range b.N {
					floodTable(b, policy, flood)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func floodTable(b *testing.B, policy ratelimit.Overflow, flood float64) {
	const (
		maxKeys  = 10_000
		clients  = 1000 // of each kind
		capacity = 10   // tokens, one a second: each made-up key lacks all ten, for ten seconds
		seconds  = 30
		tick     = 10 * time.Millisecond
		perTick  = maxKeys / (10 * time.Second / tick)
	)
	now := time.Unix(0, 0)
	clock := ratelimit.WithClock(func() time.Time { return now })
	limiter := ratelimit.NewTokenBucket(capacity, 1, clock, ratelimit.WithMaxKeys(maxKeys), ratelimit.WithOverflow(policy))
	alone := ratelimit.NewTokenBucket(capacity, 1, clock) // what would be, without the flood
	ask := func(tb *ratelimit.TokenBucket, key string, cost int) int {
		if d, _ := tb.AllowN(context.Background(), key, cost); d.Allowed {
			return 1
		}
		return 0
	}
	var polite, politeDue, heavy, heavyDue, over, overDue int
	madeUp := 0
	for t := range seconds * int(time.Second/tick) {
		now = now.Add(tick)
		for range int(float64(perTick) * flood) {
			madeUp++
			ask(limiter, "made up "+strconv.Itoa(madeUp), capacity)
		}
		for i := t % 200; i < clients; i += 200 { // each once in two seconds
			key := "polite " + strconv.Itoa(i)
			polite += ask(limiter, key, 1)
			politeDue += ask(alone, key, 1)
		}
		for i := t % 50; i < clients; i += 50 { // each twice a second
			key := "heavy " + strconv.Itoa(i)
			heavy += ask(limiter, key, 1)
			heavyDue += ask(alone, key, 1)
		}
		over += ask(limiter, "greedy", 1)
		overDue += ask(alone, "greedy", 1)
	}
	percent := func(n, of int) float64 { return 100 * float64(n) / float64(of) }
	b.ReportMetric(percent(polite, politeDue), "polite-%")
	b.ReportMetric(percent(heavy, heavyDue), "heavy-%")
	b.ReportMetric(percent(over-overDue, overDue), "over-%")
}
