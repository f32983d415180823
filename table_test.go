package ratelimit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/packedbucket/ratelimit/internal/rational"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
)

// What a set and a stripe are for is that one look at them waits for one cache line.
func TestSetsAreCacheLines(t *testing.T) {
	if setSlots == 4 {
		require.EqualValues(t, 64, unsafe.Sizeof(set{}))
	}
	require.EqualValues(t, 64, unsafe.Sizeof(stripe{}))
	require.EqualValues(t, 64, unsafe.Sizeof(sharedBucket{}))
	tab := tableOf(NewTokenBucket(1, 1, WithMaxKeys(10_000)))
	require.Zero(t, uintptr(unsafe.Pointer(&tab.sets[0]))%64)
}

func tableOf(tb *TokenBucket) *table { return tb.store.(*table) }

// spread reports whether keys are spread over the sets of a table, which they are not
// where hash_collide.go is used.
func spread() bool {
	_, a := tableHash("a", 0)
	_, b := tableHash("b", 0)
	return a != b
}

// The promise of WithMaxKeys(n): of n keys that are short of tokens, fewer than one in
// a thousand find no slot, in 32 bytes a key: when an empty table fills, and when each key
// that has refilled makes room for another one.
func TestTableHoldsMaxKeys(t *testing.T) {
	if !spread() {
		t.Skip("all keys have the same sets")
	}
	for _, n := range []int{1, 2, 3, 10, 100, 1000, 20_000, manyKeys(1 << 20)} {
		before := liveHeap()
		tb := NewTokenBucket(10, minRate, WithMaxKeys(n), WithOverflow(OverflowDeny))
		bytes := liveHeap() - before
		if n >= 20_000 {
			require.LessOrEqual(t, float64(bytes)/float64(n), 32.0, "%d keys", n)
		}
		for i := range n {
			allow(t, tb, fmt.Sprint(i))
		}
		stats := tb.Stats()
		require.LessOrEqual(t, stats.Refused, int64(n/1000+3)) // of few keys, one is many
		require.EqualValues(t, n, int64(stats.Keys)+stats.Refused)
		require.Zero(t, stats.Takeovers)
		require.InDelta(t, stats.Keys, stats.Live, float64(stats.Keys)/10)
		if n < sampleBuckets {
			require.Equal(t, stats.Keys, stats.Live)
		}
		t.Logf("%d keys, %d bytes: %d without a slot", n, bytes, stats.Refused)
		if n > 20_000 {
			continue // would take long
		}

		without := comeAndGo(t, n, n)
		t.Logf("%d keys that come and go: %.4f %% without a slot", n, 100*without)
		require.LessOrEqual(t, without, 0.001+4/float64(n))
	}
}

// How many requests find no slot when more keys than the table is made for are short of
// tokens, and come and go: docs/sizing.md.
func TestOverflowByLoad(t *testing.T) {
	if !spread() {
		t.Skip("all keys have the same sets")
	}
	last := 0.0
	for _, load := range []float64{0.5, 1, 1.1, 1.25, 1.5, 1.75} {
		n := manyKeys(50_000)
		without := comeAndGo(t, n, int(load*float64(n)))
		t.Logf("%.2f n keys: %.3f %% without a slot", load, 100*without)
		require.GreaterOrEqual(t, without, last)
		last = without
	}
	require.Less(t, last, 0.3)
}

// comeAndGo keeps so many keys short of tokens in a table of n, each of which makes room
// for a new one in its turn, and returns the share of the new ones that find no slot.
func comeAndGo(t *testing.T, n, keys int) float64 {
	var clock manualClock
	tb := NewTokenBucket(10, 1e-6, WithMaxKeys(n), WithOverflow(OverflowDeny), WithClock(clock.now))
	rnd := rand.New(rand.NewPCG(25, uint64(n)))
	live := make([]string, keys)
	var before int64
	const rounds, settle = 8, 4
	for i := range rounds * keys {
		if i == settle*keys {
			before = tb.Stats().Refused
		}
		k := i
		if i >= keys {
			k = rnd.IntN(keys)
			tb.Reset(live[k]) // it makes room from the next instant on
		}
		clock.advance(time.Second)
		live[k] = fmt.Sprint(i)
		allow(t, tb, live[k])
	}
	return float64(tb.Stats().Refused-before) / float64((rounds-settle)*keys)
}

func TestSetsOfKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(19, 20))
	for _, n := range []int{1, 4, 5, 7, 100, 12345} {
		tab := tableOf(NewTokenBucket(1, 1, WithMaxKeys(n)))
		sets := len(tab.sets)
		first, second, third := make([]int, sets), make([]int, sets), make([]int, sets)
		const draws = 200_000
		for range draws {
			s := tab.setsOf(rnd.Uint64())
			require.NotEqual(t, s[0], s[1])
			first[s[0]]++
			second[s[1]]++
			third[s[2]]++
		}
		for _, hits := range [][]int{first, second, third} {
			mean := draws / float64(sets)
			require.InDelta(t, mean, float64(slices.Max(hits)), 6*math.Sqrt(mean)+1)
			require.InDelta(t, mean, float64(slices.Min(hits)), 6*math.Sqrt(mean)+1)
		}
		for _, hash := range []uint64{0, math.MaxUint64, 1 << 32, 1<<32 - 1} {
			s := tab.setsOf(hash)
			require.Less(t, slices.Max(s[:]), uint64(sets))
			require.NotEqual(t, s[0], s[1])
		}
	}
}

// TestSlotsChangeHands is FuzzTable with random scripts.
func TestSlotsChangeHands(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	rounds, own, others, takeovers := manyKeys(300), 0, 0, 0
	for round := range rounds {
		limit := limits[rnd.IntN(len(limits))]
		if round%2 == 0 {
			limit = Limit{1 + rnd.IntN(100), randomRate(rnd)}
		}
		script := make([]byte, 10_000)
		for i := range script {
			script[i] = byte(rnd.Uint32())
		}
		o, n, taken := runTable(t, limit, script)
		own, others, takeovers = own+o, others+n, takeovers+taken
	}
	t.Logf("%d decisions by buckets of their own, %d by the overflow policy, %d takeovers", own, others, takeovers)
	require.Greater(t, own, rounds*100)
	require.Greater(t, others, rounds*100)
	require.Greater(t, takeovers, rounds*10)
}

// runTable runs a script of operations on many more keys than there are slots, and on one
// oracle per key that knows nothing of slots. Whatever changes hands, a decision is the
// oracle's, unless it is one of the overflow policy; and that never grants what the
// oracle would not, but for what is forgiven by an eviction.
func runTable(t *testing.T, limit Limit, script []byte) (own, others, takeovers int) {
	if len(script) == 0 {
		return
	}
	policy := Overflow(script[0] % 3)
	var clock manualClock
	tb, err := New(limit, WithClock(clock.now), WithMaxKeys(1), WithOverflow(policy))
	if errors.Is(err, ErrInvalidLimit) {
		return // steps that are too long (TestLimitsOfTables)
	}
	require.NoError(t, err)
	tab := tableOf(tb)
	const keys = 16
	var oracles [keys]*oracle
	var granted [keys]*big.Int
	key := 0
	for i, op := range steps(script, limit) {
		// All keys are asked for within seven eighths of the range of last.
		clock.ns.Store(clampTime(clock.ns.Load() + max(0, op.move)/keys))
		ns := clock.ns.Load()
		if op.n%4 != 0 { // or the same key once more
			key = (key + 1 + op.n%3) % keys
		}
		name := string(rune('a' + key))
		if oracles[key] == nil {
			oracles[key] = newOracle(&tb.layout, limit.Capacity, false, ns)
			granted[key] = new(big.Int)
		}
		o := oracles[key]
		p := tab.find(name)
		owned := tab.owned(tab.setsOf(p.hash), p.want) != nil
		switch op.kind {
		case opAllow:
			before := tb.Stats()
			d := allowN(t, tb, name, op.n)
			after := tb.Stats()
			if d.Allowed {
				granted[key].Add(granted[key], big.NewInt(int64(op.n)))
			}
			switch {
			case after.Refused > before.Refused:
				require.False(t, d.Allowed)
				require.Positive(t, d.RetryAfter)
				others++
			case policy == OverflowEvict:
				// What was forgiven may be granted again.
			case after.Shared > before.Shared:
				require.True(t, d.Allowed)
				require.True(t, o.allow(ns, op.n).Allowed, "step %d: more from a shared bucket than one of its own would hold", i)
				others++
			default:
				require.Equal(t, o.allow(ns, op.n), d, "step %d, %+v, key %s at %d ns, cost %d", i, limit, name, ns, op.n)
				own++
			}
		case opRefund:
			tb.Refund(name, op.n)
			if owned && !o.sameAsNeverSeen(ns) {
				o.refund(ns, min(op.n, limit.Capacity))
			}
			granted[key].Sub(granted[key], big.NewInt(int64(min(op.n, limit.Capacity))))
		case opReset:
			tb.Reset(name)
			if owned && !o.sameAsNeverSeen(ns) {
				o.reset(ns)
			}
			granted[key].Sub(granted[key], big.NewInt(int64(limit.Capacity)))
		case opSweep:
			tb.Sweep()
		}
	}
	requireTableInOrder(t, tb)

	// Never more: since the first request, and what was forgiven or given back.
	stats := tb.Stats()
	for key, n := range granted {
		if n == nil {
			continue
		}
		due := new(big.Rat).Mul(rational.Nearest(limit.RefillPerSec), big.NewRat(clock.ns.Load(), 1e9))
		due.Add(due, new(big.Rat).SetInt64(int64(limit.Capacity)))
		due.Add(due, new(big.Rat).SetFloat64(stats.Forgiven))
		due.Add(due, unitOf(tb))
		require.LessOrEqual(t, new(big.Rat).SetInt(n).Cmp(due), 0, "key %d: %v granted, due are %s", key, n, due.FloatString(3))
	}
	return own, others, int(stats.Takeovers)
}

// fillSets gives every slot of a small table to a key that takes all of a bucket.
func fillSets(t *testing.T, tb *TokenBucket, prefix string) {
	for i := 0; tb.Stats().Live < 2*setSlots; i++ {
		require.Less(t, i, 1000)
		tb.AllowN(ctx, fmt.Sprint(prefix, i), tb.limit.Capacity)
	}
}

// newSmallTable returns a limiter of 3 tokens, one a second, with two sets of four slots.
func newSmallTable(t *testing.T, policy Overflow) (*TokenBucket, *manualClock) {
	clock := new(manualClock)
	tb := NewTokenBucket(3, 1, WithClock(clock.now), WithMaxKeys(1), WithOverflow(policy))
	require.Len(t, tableOf(tb).sets, 2)
	return tb, clock
}

func TestOverflowDeny(t *testing.T) {
	tb, clock := newSmallTable(t, OverflowDeny)
	fillSets(t, tb, "full ")
	before := tb.Stats().Refused
	clock.advance(time.Second)
	require.Equal(t, Decision{RetryAfter: 2 * time.Second}, allow(t, tb, "k"))
	require.Equal(t, State{RetryAfter: 2 * time.Second, ResetAfter: 2 * time.Second}, tb.Peek("k"))
	require.Equal(t, before+1, tb.Stats().Refused)
	clock.advance(2*time.Second - 1)
	require.Equal(t, Decision{RetryAfter: 1}, allow(t, tb, "k"))
	clock.advance(1)
	require.Equal(t, State{Tokens: 3}, tb.Peek("k"))
	require.Equal(t, 3, drain(t, tb, "k"))
	require.Equal(t, 2*setSlots, tb.Len())
	require.EqualValues(t, 1, tb.Stats().Takeovers)
	require.EqualValues(t, 1, tb.Stats().Live)

	// A bucket that is full only since this instant keeps its slot until the next one.
	fillSets(t, tb, "again ")
	for i := range 1000 {
		tb.Reset(fmt.Sprint("again ", i))
	}
	tb.Reset("k")
	require.Equal(t, 2*setSlots, tb.Stats().Live)
	d := allow(t, tb, "one more")
	require.False(t, d.Allowed)
	require.Less(t, d.RetryAfter, time.Millisecond)
	clock.advance(d.RetryAfter - 1)
	require.Equal(t, Decision{RetryAfter: 1}, allow(t, tb, "one more"))
	clock.advance(1)
	require.True(t, allow(t, tb, "one more").Allowed)
}

func TestOverflowShare(t *testing.T) {
	tb, clock := newSmallTable(t, OverflowShare)
	fillSets(t, tb, "full ")
	clock.advance(2 * time.Second)
	require.Len(t, tableOf(tb).shared, 1)
	// One key too many may have been charged to it.
	tableOf(tb).shared[0].word.Store(tb.layout.fresh(tb.layout.units(clock.ns.Load())))
	for i := range tableOf(tb).stripes[0].bound {
		tableOf(tb).stripes[0].bound[i] = latest{}
	}
	before := tb.Stats()
	other := unbound("k")

	// k and another key share 3 tokens.
	require.Equal(t, State{Tokens: 3}, tb.Peek("k"))
	require.Equal(t, Decision{Allowed: true, Remaining: 1}, allowN(t, tb, "k", 2))
	require.Equal(t, Decision{Allowed: true}, allow(t, tb, other))
	require.Equal(t, Decision{RetryAfter: time.Second}, allow(t, tb, "k"))
	require.Equal(t, Decision{RetryAfter: time.Second}, allow(t, tb, other))
	require.Equal(t, State{RetryAfter: time.Second, ResetAfter: 3 * time.Second}, tb.Peek("k"))
	require.Equal(t, before.Shared+2, tb.Stats().Shared)
	require.Equal(t, before.Refused+2, tb.Stats().Refused)
	require.Equal(t, before.Keys, tb.Stats().Keys)

	// A second later all slots are vacant. A key that has nothing from the shared bucket
	// gets one; k lacks one token, and so it is bound to the shared bucket.
	clock.advance(time.Second)
	require.Equal(t, 3, drain(t, tb, unbound("k", other)))
	require.Equal(t, State{Tokens: 1, ResetAfter: 2 * time.Second}, tb.Peek("k"), "of the shared bucket")
	require.Equal(t, Decision{Allowed: true}, allow(t, tb, "k"))
	require.Equal(t, before.Shared+3, tb.Stats().Shared)
	require.Equal(t, Decision{RetryAfter: time.Second}, allow(t, tb, "k"))
	tb.Refund("k", 3)
	tb.Reset("k")
	require.Equal(t, Decision{RetryAfter: time.Second}, allow(t, tb, "k"), "neither reaches a shared bucket")

	// From 5 s on, k would have all of its own again: 2 at 2 s and 1 at 3 s.
	clock.advance(2*time.Second - 1)
	require.Equal(t, 1, drain(t, tb, "k"), "the shared bucket holds no more")
	clock.advance(time.Second + 1) // and one more, until 6 s
	require.Equal(t, 3, drain(t, tb, "k"), "of its own")
	require.Equal(t, before.Shared+4, tb.Stats().Shared)
}

// What a key is granted from a shared bucket at an old time is booked at the time at which it
// counts, which is that of the latest removal.
func TestBookingAtAnOldTime(t *testing.T) {
	tb, clock := newSmallTable(t, OverflowShare)
	for i := range 100 {
		allow(t, tb, fmt.Sprint("at 0 s ", i))
	}
	clock.set(10 * time.Second)
	for i := range 100 { // takes all slots over, until 11 s
		allow(t, tb, fmt.Sprint("at 10 s ", i))
	}
	tableOf(tb).shared[0].word.Store(tb.layout.fresh(tb.layout.units(clock.ns.Load())))
	for i := range tableOf(tb).stripes[0].bound {
		tableOf(tb).stripes[0].bound[i] = latest{}
	}
	clock.set(5 * time.Second)
	before := tb.Stats().Shared
	require.True(t, allowN(t, tb, "k", 3).Allowed) // counts at 10 s
	require.Equal(t, before+1, tb.Stats().Shared)
	clock.set(12 * time.Second)
	require.Equal(t, 2, drain(t, tb, "k"), "of the shared bucket; its own would be full at 13 s")
	require.Equal(t, before+3, tb.Stats().Shared)
}

// A bucket is not made before the removal of any other from any of the key's three sets,
// whichever stripe they belong to.
func TestRemovalsOfAllSets(t *testing.T) {
	if !spread() {
		t.Skip("all keys have the same sets")
	}
	var clock manualClock
	tb := NewTokenBucket(3, 1, WithClock(clock.now), WithMaxKeys(tableKeys))
	tab := tableOf(tb)
	seen := 0
	for i := 0; seen < 30; i++ {
		key := fmt.Sprint("key ", i)
		sets := tab.setsOf(tab.find(key).hash)
		if a, b, c := sets[0]/stripeSets, sets[1]/stripeSets, sets[2]/stripeSets; a == b || b == c || a == c {
			continue
		}
		for j := range tab.stripes {
			tab.stripes[j].removedAt = latest{}
		}
		tab.stripes[sets[0]/stripeSets].spilled.Store(math.MaxUint32)
		clock.set(5 * time.Second)
		tab.stripes[sets[seen%3]/stripeSets].removedAt.raise(int64(10 * time.Second))
		require.Equal(t, 3, drain(t, tb, key))
		require.Equal(t, Decision{RetryAfter: 6 * time.Second}, allow(t, tb, key), "set %d", seen%3)
		seen++
	}
}

// A key whose first two sets are taken gets a slot in its third one, and is found there.
func TestThirdSet(t *testing.T) {
	if !spread() {
		t.Skip("all keys have the same sets")
	}
	tb := NewTokenBucket(3, minRate, WithMaxKeys(tableKeys), WithOverflow(OverflowDeny))
	tab := tableOf(tb)
	third := 0
	for i := range 3 * tableKeys / 2 {
		key := fmt.Sprint("key ", i)
		if !allow(t, tb, key).Allowed {
			continue
		}
		p := tab.find(key)
		require.NotNil(t, p.word, key)
		sets := tab.setsOf(p.hash)
		if tab.sets[sets[0]].tagged(p.want) == nil && tab.sets[sets[1]].tagged(p.want) == nil {
			third++
			// Whoever looked the key up before it got its slot finds it under the locks.
			again, _, made := tab.create(key, place{want: p.want, hash: p.hash}, 0, tab.layout.charge(1))
			require.False(t, made)
			require.Equal(t, p.word, again.word)
		}
		require.Equal(t, 2, drain(t, tb, key))
	}
	require.Greater(t, third, 3)
	require.Zero(t, tb.Stats().Takeovers)
	requireTableInOrder(t, tb)
}

// A slot that is free, or about to be somebody's, is no reason to say how long to wait.
func TestNoWaitForAFreeSlot(t *testing.T) {
	tb, _ := newSmallTable(t, OverflowDeny)
	fillSets(t, tb, "full ")
	tab := tableOf(tb)
	sets := [3]uint64{0, 1, 0}
	wait, ok := tab.wait(sets, 0)
	require.True(t, ok)
	require.Equal(t, 3*time.Second, wait)
	tab.sets[1][setSlots-1].word.Store(removed)
	_, ok = tab.wait(sets, 0)
	require.False(t, ok)
}

func TestStripesOf(t *testing.T) {
	for _, test := range []struct{ sets, stripes []uint64 }{
		{[]uint64{5}, []uint64{0}},
		{[]uint64{40, 5}, []uint64{0, 1}},
		{[]uint64{5, 40}, []uint64{0, 1}},
		{[]uint64{40, 63, 32}, []uint64{1}},
		{[]uint64{100, 40, 5}, []uint64{0, 1, 3}},
		{[]uint64{40, 5, 100}, []uint64{0, 1, 3}},
		{[]uint64{40, 100, 41}, []uint64{1, 3}},
	} {
		stripes, n := stripesOf(test.sets)
		require.Equal(t, test.stripes, stripes[:n], "%v", test.sets)
	}
}

// unbound returns a key that is not bound to a shared bucket because one of the keys is.
func unbound(keys ...string) string {
	share := func(key string) uint64 {
		tag, _ := tableHash(key, 0)
		return tag % uint64(len(stripe{}.bound))
	}
	for i := 0; ; i++ {
		other := fmt.Sprint("unbound ", i)
		if !slices.ContainsFunc(keys, func(key string) bool { return share(key) == share(other) }) {
			return other
		}
	}
}

func TestOverflowEvict(t *testing.T) {
	tb, clock := newSmallTable(t, OverflowEvict)
	for i := range 2 * setSlots { // all slots, each with a token more than the one before
		clock.advance(time.Millisecond)
		require.True(t, allowN(t, tb, fmt.Sprint(i), 3).Allowed)
	}
	require.Equal(t, 2*setSlots, tb.Stats().Live)
	clock.advance(time.Second - 2*setSlots*time.Millisecond + time.Millisecond) // key 0 has one token
	tableOf(tb).shared[0].word.Store(tb.layout.pack(tb.layout.empty, tb.layout.units(clock.ns.Load())))
	require.Equal(t, State{Tokens: 3}, tb.Peek("k"))
	require.Equal(t, 3, drain(t, tb, "k"))
	stats := tb.Stats()
	require.EqualValues(t, 1, stats.Evicted)
	require.EqualValues(t, 1, stats.Takeovers)
	require.Equal(t, 2.0, stats.Forgiven, "of key 0, which was the fullest")
	require.Zero(t, stats.Shared+stats.Refused)

	// The evicted key may have what it was forgiven.
	require.Equal(t, 3, drain(t, tb, "0"))
	require.EqualValues(t, 2, tb.Stats().Evicted)

	// Of what was used at this very instant nothing is evicted.
	for i := 0; tb.Stats().Shared == 0; i++ {
		require.Less(t, i, 1000)
		tableOf(tb).shared[0].word.Store(tb.layout.fresh(tb.layout.units(clock.ns.Load())))
		require.True(t, allowN(t, tb, fmt.Sprint("now ", i), 3).Allowed)
	}
	require.EqualValues(t, 2*setSlots, tb.Stats().Evicted)
}

// A request at an old time that meets the overflow policy counts, like one that makes a
// bucket, not before the removal of a bucket that its key may have had.
func TestOverflowAtAnOldTime(t *testing.T) {
	tb, clock := newSmallTable(t, OverflowShare)
	fillSets(t, tb, "at 0 s ")
	clock.set(4 * time.Second)
	allowN(t, tb, "somebody", 1) // is in a slot, all of which are vacant
	tableOf(tb).shared[0].word.Store(tb.layout.pack(tb.layout.empty, tb.layout.units(clock.ns.Load())))
	clock.set(10 * time.Second)
	fillSets(t, tb, "at 10 s ")
	tableOf(tb).shared[0].word.Store(tb.layout.pack(tb.layout.empty, tb.layout.units(int64(4*time.Second))))
	clock.set(5 * time.Second)
	require.Equal(t, 1.0, tb.Peek("k").Tokens, "of the shared bucket now")
	require.True(t, allowN(t, tb, "k", 3).Allowed, "as of 10 s")
	require.Equal(t, Decision{RetryAfter: 6 * time.Second}, allow(t, tb, "k"))
}

// With WithStartEmpty a table forgets as well, and then a key has less than it has
// earned, but never more.
func TestStartEmptyInAFullTable(t *testing.T) {
	var clock manualClock
	tb := NewTokenBucket(3, 1, WithClock(clock.now), WithMaxKeys(1), WithOverflow(OverflowDeny), WithStartEmpty())
	for i := range 100 {
		require.False(t, allow(t, tb, fmt.Sprint(i)).Allowed)
	}
	require.LessOrEqual(t, tb.Len(), 2*setSlots)
	clock.advance(3 * time.Second)
	require.Zero(t, tb.Sweep())
	for i := range 100 {
		require.False(t, allow(t, tb, fmt.Sprint("new ", i)).Allowed)
	}
	require.EqualValues(t, 2*setSlots, tb.Stats().Takeovers)
	granted := 0
	for i := range 100 {
		granted += drain(t, tb, fmt.Sprint(i))
	}
	require.Zero(t, granted, "all were forgotten")

	// A bucket that is made for a request at an old time begins with the removal of others.
	clock.set(time.Minute)
	fresh := tableOf(NewTokenBucket(3, 1, WithClock(clock.now), WithMaxKeys(1), WithStartEmpty()))
	fresh.stripes[0].removedAt.raise(int64(10 * time.Second))
	_, d, ok := fresh.create("", fresh.find("k"), int64(5*time.Second), fresh.layout.charge(1))
	require.True(t, ok)
	require.Equal(t, Decision{RetryAfter: 6 * time.Second}, d)
}

// Until then a key is bound to a shared bucket may be beyond the clock.
func TestBoundForEver(t *testing.T) {
	var clock manualClock
	tb := NewTokenBucket(3, minRate, WithClock(clock.now), WithMaxKeys(1))
	fillSets(t, tb, "full ")
	clock.advance(time.Hour)
	tableOf(tb).shared[0].word.Store(tb.layout.fresh(tb.layout.units(clock.ns.Load())))
	require.True(t, allow(t, tb, "k").Allowed)
	shared := tb.Stats().Shared
	for i := range 1000 {
		tb.Reset(fmt.Sprint("full ", i))
	}
	clock.advance(1000 * time.Hour)
	require.Zero(t, tb.Stats().Live, "every slot is vacant")
	require.Equal(t, 2, drain(t, tb, "k"))
	require.Equal(t, shared+2, tb.Stats().Shared)
}

// A slot that nobody has had yet is taken before one that somebody might come back to.
func TestFreeSlotsAreTakenFirst(t *testing.T) {
	if !spread() {
		t.Skip("there are but eight slots for all keys")
	}
	var clock manualClock
	tb := NewTokenBucket(3, 1, WithClock(clock.now), WithMaxKeys(tableKeys))
	for i := range 100 {
		clock.advance(time.Minute)
		allow(t, tb, fmt.Sprint(i))
	}
	require.LessOrEqual(t, tb.Stats().Takeovers, int64(1))
}

func TestTableHash(t *testing.T) {
	if !spread() {
		t.Skip("all keys have the same two sets")
	}
	tag, hash := tableHash("k", 1)
	again, other := tableHash("k", 2)
	require.Equal(t, tag, again)
	require.NotEqual(t, hash, other, "it depends on the table's own seed")
	require.NotZero(t, tag)
}

// Nothing that is done with any number of keys of any size allocates.
func TestTableDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	keys := make([]string, 20_000)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	large := strings.Repeat("x", 1<<20)
	for _, policy := range []Overflow{OverflowShare, OverflowDeny, OverflowEvict} {
		tb := NewTokenBucket(10, 1e6, WithMaxKeys(1000), WithOverflow(policy))
		slow := NewTokenBucket(10, minRate, WithMaxKeys(1000), WithOverflow(policy))
		i := 0
		next := func() string { i++; return keys[i%len(keys)] }
		for name, f := range map[string]func(){
			"new keys that take over":  func() { tb.Allow(ctx, next()) },
			"new keys that find none":  func() { slow.Allow(ctx, next()) },
			"peek, refund and reset":   func() { tb.Peek(next()); tb.Refund(next(), 1); tb.Reset(next()) },
			"peek at a full table":     func() { slow.Peek(next()) },
			"a key of a megabyte":      func() { tb.Allow(ctx, large[i%100:]); i++ },
			"a look at the statistics": func() { tb.Stats() },
		} {
			require.Zero(t, testing.AllocsPerRun(5000, f), "%s, %v", name, policy)
		}
		require.Greater(t, tb.Stats().Takeovers, int64(1000))
		stats := slow.Stats()
		require.Greater(t, stats.Shared+stats.Refused+stats.Evicted, int64(1000))
	}
}

// An attacker whose own key is throttled asks for ten times as many fresh keys as there
// is room for, faster than they refill. He gets not one token on his own key before its
// time, memory does not move, and a thousand clients who use all that they are due are
// granted at least 99 % of it.
func TestKeyRotationIsUseless(t *testing.T) {
	n := manyKeys(20_000)
	stores := map[string][]Option{
		"shardmap":    nil,
		"table/share": {WithMaxKeys(n)},
		"table/deny":  {WithMaxKeys(n), WithOverflow(OverflowDeny)},
	}
	for name, opts := range stores {
		t.Run(name, func(t *testing.T) {
			if opts != nil && !spread() {
				t.Skip("there are but eight slots for all keys")
			}
			const capacity, rate = 10, 1
			var clock manualClock
			tb, err := New(Limit{capacity, rate}, append(opts, WithClock(clock.now))...)
			require.NoError(t, err)
			clients := make([]string, min(1000, n/10))
			for i := range clients {
				clients[i] = fmt.Sprint("client ", i)
				drain(t, tb, clients[i]) // they come before the attack, and use what they have
			}
			const seconds = 20 // 10 n keys in that time, each short of tokens for 10 s
			require.Equal(t, capacity, drain(t, tb, "attacker"))
			reference := NewTokenBucket(capacity, rate, WithClock(clock.now)) // without an attack
			for _, client := range clients {
				drain(t, reference, client)
			}
			granted, due, attacker, fresh := 0, 0, 0, 0
			heap := liveHeap()
			for tick := range seconds * 100 {
				clock.advance(10 * time.Millisecond)
				for range 10 * n / (seconds * 100) {
					fresh++
					allowN(t, tb, fmt.Sprint("fresh ", fresh), capacity)
				}
				if allow(t, tb, "attacker").Allowed {
					attacker++
					require.Zero(t, (tick+1)%100, "before its time")
				}
				for i := tick % 50; i < len(clients); i += 50 { // each twice a second
					if allow(t, tb, clients[i]).Allowed {
						granted++
					}
					if allow(t, reference, clients[i]).Allowed {
						due++
					}
				}
			}
			require.Equal(t, seconds*rate, attacker)
			t.Logf("of %d due the clients got %d; %d of %d keys met the overflow policy", due, granted, tb.Stats().Shared+tb.Stats().Refused, fresh)
			require.GreaterOrEqual(t, granted, due*99/100)
			require.LessOrEqual(t, granted, due)
			require.Greater(t, due, len(clients)*(seconds-2)*rate)
			if opts != nil {
				require.Less(t, liveHeap()-heap, int64(10_000), "memory does not move")
				require.Greater(t, tb.Stats().Shared+tb.Stats().Refused, int64(fresh/2), "the attack is one")
			}
		})
	}
}

// Whoever knows the seed of xxh3 can make keys that collide in it: of 17 to 128 bytes,
// where 8 of them cancel the secret that the next 8 are multiplied by. Neither store
// depends on it alone.
func TestKeysThatCollideInXXH3(t *testing.T) {
	if !spread() {
		t.Skip("all keys collide")
	}
	const secret = 0xbe4ba423396cfeb8 // the first 8 bytes of the default secret
	onBothStores(t, func(t *testing.T, store Option) {
		tb := NewTokenBucket(3, minRate, store)
		var seed uint64
		switch s := tb.store.(type) {
		case *shardmap:
			seed = s.seed
		case *table:
			seed = s.seed
		}
		const n = tableKeys / 2
		key := func(i int) string {
			k := binary.LittleEndian.AppendUint64(nil, secret+seed)
			k = binary.LittleEndian.AppendUint64(k, uint64(i))
			return string(append(k, "0123456789abcdef"...))
		}
		for i := range n {
			require.Equal(t, xxh3.HashStringSeed(key(0), seed), xxh3.HashStringSeed(key(i), seed), "the attack is one")
			require.True(t, allowN(t, tb, key(i), 3).Allowed)
			require.False(t, allow(t, tb, key(i)).Allowed)
		}
		if tab, ok := tb.store.(*table); ok {
			require.LessOrEqual(t, tb.Stats().Shared, int64(3), "they are spread over the sets")
			_, hash0 := tableHash(key(0), tab.seed)
			_, hash1 := tableHash(key(1), tab.seed)
			require.NotEqual(t, hash0, hash1)
		} else {
			require.Equal(t, n, tb.Len())
		}
	})
}

// Keys used once do not look as if they came from the future when last has wrapped
// around, as long as new keys arrive now and then.
func TestTableIsSweptByTime(t *testing.T) {
	if !spread() {
		t.Skip("there are but eight slots for all keys")
	}
	var clock manualClock
	tb := NewTokenBucket(10, 1, WithClock(clock.now), WithMaxKeys(tableKeys))
	for i := range 200 {
		require.Equal(t, 10, drain(t, tb, fmt.Sprint("once ", i)))
	}
	require.Positive(t, tb.Len())
	day := 24 * time.Hour
	for i := range 650 {
		clock.advance(day)
		allow(t, tb, fmt.Sprint("day ", i))
		allow(t, tb, "daily")
	}
	require.Less(t, tb.Len(), 200, "each round takes %d insertions", sweepParts)
	for i := range 200 {
		key := fmt.Sprint("once ", i)
		require.Equal(t, State{Tokens: 10}, tb.Peek(key))
	}
	// Nor do the shared buckets.
	now := tb.layout.units(clock.ns.Load())
	for i := range tableOf(tb).shared {
		require.Less(t, tb.layout.age(tableOf(tb).shared[i].word.Load(), now), int64(tb.layout.units(int64(400*day))))
	}

	// The pace: a part at a time, a round in an hour at most.
	clock.advance(time.Hour)
	tab := tableOf(tb)
	tab.pace.due.Store(clock.ns.Load())
	next := tab.pace.next
	allow(t, tb, "a new key")
	require.Equal(t, (next+1)%sweepParts, tab.pace.next)
	require.GreaterOrEqual(t, tab.pace.due.Load(), clock.ns.Load()+int64(time.Hour)/sweepParts)
	allow(t, tb, "another one")
	require.Equal(t, (next+1)%sweepParts, tab.pace.next, "not due")
}

// Goroutines with keys of their own and keys in common, in a table that is too small for
// all: not a token too many is granted, and the table is in order afterwards.
func TestTableHammered(t *testing.T) {
	const goroutines, capacity = 8, 3
	calls := 200_000
	if raceEnabled || testing.Short() {
		calls = 20_000
	}
	limit := Limit{Capacity: capacity, RefillPerSec: 1e5}
	for i := range 6 {
		policy, maxKeys := Overflow(i%3), []int{4, 200}[i/3] // one stripe, or three
		var clock manualClock
		tb, err := New(limit, WithMaxKeys(maxKeys), WithOverflow(policy),
			WithClock(func() time.Time { return epoch.Add(time.Duration(clock.ns.Add(100))) }))
		require.NoError(t, err)
		granted := make([]atomic.Int64, 16*maxKeys)
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(g), 23))
				for i := range calls {
					key := rnd.IntN(4)
					if rnd.IntN(2) == 0 {
						key = rnd.IntN(len(granted)) // most of the time these are gone
					}
					if allow(t, tb, fmt.Sprint("key ", key)).Allowed {
						granted[key].Add(1)
					}
					if i%1000 == 0 {
						tb.Sweep()
						tb.Stats()
					}
				}
			})
		}
		wg.Wait()
		stats := tb.Stats()
		span := float64(clock.ns.Load()) / 1e9
		for key := range granted {
			most := capacity + span*limit.RefillPerSec + 1 + stats.Forgiven
			require.LessOrEqual(t, float64(granted[key].Load()), most, "%v, key %d", policy, key)
		}
		require.Greater(t, stats.Takeovers, int64(calls/10))
		requireTableInOrder(t, tb)
	}
}

// requireTableInOrder checks the invariants of a table that nobody uses any more.
func requireTableInOrder(t *testing.T, tb *TokenBucket) {
	t.Helper()
	tab := tableOf(tb)
	owned := map[uint64]bool{}
	for i := range tab.sets {
		for j := range tab.sets[i] {
			tag, word := tab.sets[i][j].tag.Load(), tab.sets[i][j].word.Load()
			require.Equal(t, tag == 0, word == removed, "tag %x, word %x", tag, word)
			require.False(t, tag != 0 && owned[tag], "a key owns two slots")
			owned[tag] = tag != 0
		}
	}
	delete(owned, 0)
	require.Equal(t, len(owned), tb.Len())
}

// Slots change hands in a later step only, so that steps must not be long.
func TestLimitsOfTables(t *testing.T) {
	for _, test := range []struct {
		limit Limit
		step  time.Duration // at most
	}{
		{Limit{10, 1}, 10 * time.Microsecond},
		{Per(100, time.Minute), 20 * time.Microsecond},
		{Per(100_000, time.Minute), 10 * time.Millisecond},
		{Limit{100e6, 10e6}, 10 * time.Millisecond},
		{Per(1<<30, time.Hour), 20 * time.Millisecond},
		{Per(1<<30, 24*time.Hour), 100 * time.Millisecond},
		{Limit{1e9, 1e9}, 10 * time.Millisecond},
		{Limit{1 << 30, 1}, 2 * time.Second}, // two tokens
		{Limit{10, minRate}, math.MaxInt64},  // far less than a token
	} {
		if test.limit.Capacity < 1 {
			continue // an int of 32 bits
		}
		l := newLayout(uint64(test.limit.Capacity), 0, test.limit.RefillPerSec, goodStep)
		t.Logf("%+v: steps of %v, units of 2^-%d token", test.limit, l.step(), l.unitBits)
		require.LessOrEqual(t, l.step(), test.step, "%+v", test.limit)
		require.NoError(t, newErr(test.limit, WithMaxKeys(1)))

		// A slot is not pinned for longer than its bucket is short of tokens, or a step.
		var clock manualClock
		tb, err := New(test.limit, WithClock(clock.now), WithMaxKeys(1), WithOverflow(OverflowDeny))
		require.NoError(t, err)
		cost := 1 + test.limit.Capacity/100_000
		for i := range 100 {
			tb.AllowN(ctx, fmt.Sprint(i), cost)
		}
		wait := allowN(t, tb, "k", cost).RetryAfter
		require.LessOrEqual(t, wait, max(2*l.step(), l.delay(0, l.charge(cost))), "%+v", test.limit)
	}
	if largest := int64(maxCapacity); int64(int(largest)) == largest { // where an int has 64 bits
		err := newErr(Limit{int(largest), 1}, WithMaxKeys(1))
		require.ErrorIs(t, err, ErrInvalidLimit)
		require.ErrorContains(t, err, "ratelimit: capacity 281474976710656 at 1 tokens per second: must not be used with WithMaxKeys, since its time stamps would count in steps of ")
	}
}

func TestOptionsOfTables(t *testing.T) {
	for _, test := range []struct {
		opts []Option
		text string
	}{
		{[]Option{WithMaxKeys(0)}, fmt.Sprintf("ratelimit: WithMaxKeys: 0 keys: must be between 1 and %d", int64(maxMaxKeys))},
		{[]Option{WithMaxKeys(-1)}, fmt.Sprintf("ratelimit: WithMaxKeys: -1 keys: must be between 1 and %d", int64(maxMaxKeys))},
		{[]Option{WithMaxKeys(math.MaxInt)}, fmt.Sprintf("ratelimit: WithMaxKeys: %d keys: must be between 1 and %d", math.MaxInt, int64(maxMaxKeys))},
		{[]Option{WithOverflow(OverflowDeny)}, "ratelimit: WithOverflow: must not be used without WithMaxKeys"},
		{[]Option{WithMaxKeys(1), WithOverflow(3)}, "ratelimit: WithOverflow: Overflow(3): must be OverflowShare, OverflowDeny or OverflowEvict"},
	} {
		err := newErr(Limit{1, 1}, test.opts...)
		require.EqualError(t, err, test.text)
		require.ErrorIs(t, err, ErrInvalidOption)
	}
	require.NoError(t, newErr(Limit{1, 1}, WithOverflow(OverflowEvict), WithMaxKeys(1)))
	require.Equal(t, "OverflowShare OverflowDeny OverflowEvict", fmt.Sprint(OverflowShare, OverflowDeny, OverflowEvict))
}

func TestStats(t *testing.T) {
	onBothStores(t, func(t *testing.T, store Option) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now), store)
		require.Equal(t, Stats{}, tb.Stats())
		for i := range 5 {
			allowN(t, tb, fmt.Sprint(i), 1+i)
		}
		clock.advance(2 * time.Second)
		require.Equal(t, Stats{Keys: 5, Live: 3}, tb.Stats())
		clock.advance(time.Hour)
		require.Equal(t, Stats{Keys: 5}, tb.Stats())
		tb.Sweep()
		require.Equal(t, Stats{}, tb.Stats())
	})
	t.Run("estimated", func(t *testing.T) {
		var clock manualClock
		tb := NewTokenBucket(10, 1, WithClock(clock.now))
		n := manyKeys(200_000)
		for i := range n {
			allowN(t, tb, fmt.Sprint(i), 1+9*(i%2))
		}
		clock.advance(5 * time.Second) // half of them are short of tokens
		stats := tb.Stats()
		require.Equal(t, n, stats.Keys)
		require.InEpsilon(t, n/2, stats.Live, 0.2)
	})
	require.Zero(t, new(TokenBucket).Stats())
}
