//go:build ratelimit_explore

package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// More goroutines, keys and stripes than every interleaving of can be run: real goroutines
// that give way to others at random before each access to shared memory, and clock reads
// that grow old the same way. No key is granted more than the promise, and the table is in
// order afterwards. Run it for longer with -count.
func TestInterleavingsAtRandom(t *testing.T) {
	giveWay := func() {
		if n := rand.Uint32(); n%3 == 0 {
			for range 1 + n/3%64/60 {
				runtime.Gosched()
			}
		}
	}
	onSchedpoint = func(string, *atomic.Uint64) { giveWay() }
	defer func() { onSchedpoint = nil }()
	const rounds = 10_000
	for round := range rounds {
		token := []time.Duration{5 * time.Second, 100, 1}[round%3]
		capacity := 1 + rand.IntN(3)
		policy := Overflow(rand.IntN(3))
		maxKeys := []int{1, 40, 80}[rand.IntN(3)]
		keys := []int{2 + rand.IntN(4), 30, 200}[rand.IntN(3)]
		var clock atomic.Int64
		tb, err := New(Per(capacity, time.Duration(capacity)*token), WithMaxKeys(maxKeys), WithOverflow(policy), WithClock(func() time.Time {
			ns := clock.Load()
			giveWay()
			return epoch.Add(time.Duration(ns))
		}))
		require.NoError(t, err)
		granted, given := make([]atomic.Int64, keys), make([]atomic.Int64, keys)
		var wg sync.WaitGroup
		for range 2 + rand.IntN(5) {
			wg.Go(func() {
				for range 1 + rand.IntN(8) {
					k := rand.IntN(keys)
					if rand.IntN(2) == 0 {
						k = rand.IntN(2)
					}
					key := fmt.Sprint(k)
					switch rand.IntN(16) {
					case 0:
						tb.Sweep()
					case 1:
						given[k].Add(1)
						tb.Refund(key, 1)
					case 2:
						given[k].Add(int64(capacity))
						tb.Reset(key)
					case 3:
						tb.Peek(key)
					case 4, 5, 6:
						clock.Add(int64(token) * int64(1+rand.IntN(2)))
					default:
						n := 1 + rand.IntN(capacity)
						if d, _ := tb.AllowN(ctx, key, n); d.Allowed {
							granted[k].Add(int64(n))
						}
					}
				}
			})
		}
		wg.Wait()
		for k := range 2 {
			granted[k].Add(int64(drain(t, tb, fmt.Sprint(k))))
		}
		forgiven := int64(tb.Stats().Forgiven)
		for k := range granted {
			most := int64(capacity) + clock.Load()/int64(token) + given[k].Load() + forgiven
			require.LessOrEqual(t, granted[k].Load(), most, "round %d, key %d, %v, capacity %d, a token in %v, table for %d", round, k, policy, capacity, token, maxKeys)
		}
		requireTableInOrder(t, tb)
	}
}
