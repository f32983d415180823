//go:build ratelimit_explore

package ratelimit

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file runs every interleaving of two and three callers of the real code. With
// the tag ratelimit_explore, schedpoint hands control to the explorer before each
// access to shared memory: every load and compare-and-swap of a word or a tag, the
// insertion, the steps of a removal and of a takeover, and the lock of a stripe. The
// callers are coroutines, so that one runs at a time, and the explorer decides which,
// in every possible order; of orders that differ only in accesses that commute, it runs
// one.
//
//	go test -tags ratelimit_explore -run TestInterleavings -v .

// A caller is one goroutine of a scenario: what it does, and the time that its
// clock shows, which may be older than what others have seen. Time is counted in
// what it takes to refill a token.
type caller struct {
	name string
	time int
	do   func(*scenario)
}

// A scenario is one run: a limiter and what was granted so far, by key.
type scenario struct {
	t       *testing.T
	tb      *TokenBucket
	token   time.Duration // refills one
	time    int           // of the running caller, or shared
	clock   int           // what the clock of all whose time is shared shows
	granted map[string]int
	first   map[string]int // the time of the first request, or an earlier one
}

// shared is the time of a caller that reads a clock which others move on.
const shared = -1

func (s *scenario) now() time.Time {
	time := s.time
	if time == shared {
		time = s.clock
	}
	return epoch.Add(duration(time) * s.token)
}

type duration = time.Duration // where a variable is called time

// as runs f as a caller at the given time, on its own.
func (s *scenario) as(time int, f func(*scenario)) {
	s.time = time
	f(s)
}

// takeOf takes n tokens of a key if it can.
func takeOf(key string, n int) func(*scenario) {
	return func(s *scenario) {
		if _, ok := s.first[key]; !ok {
			s.first[key] = max(0, s.time)
		}
		if allowN(s.t, s.tb, key, n).Allowed {
			s.granted[key] += n
		}
	}
}

// mustTakeOf takes n tokens that the bucket must hold.
func mustTakeOf(key string, n int) func(*scenario) {
	return func(s *scenario) {
		if d := allowN(s.t, s.tb, key, n); !d.Allowed {
			s.t.Errorf("%s: denied, retry after %v", key, d.RetryAfter)
		}
		s.granted[key] += n
	}
}

// then runs one after the other.
func then(all ...func(*scenario)) func(*scenario) {
	return func(s *scenario) {
		for _, f := range all {
			f(s)
		}
	}
}

func take(n int) func(*scenario) { return takeOf("k", n) }
func mustTake(s *scenario)       { mustTakeOf("k", 1)(s) }
func sweep(s *scenario)          { s.tb.Sweep() }
func refundOne(s *scenario)      { s.tb.Refund("k", 1); s.granted["k"]-- }
func reset(s *scenario)          { s.tb.Reset("k") }
func sweepTwice(s *scenario)     { s.tb.Sweep(); s.tb.Sweep() }
func peek(s *scenario)           { s.tb.Peek("k") }
func peekFull(s *scenario)       { require.Equal(s.t, State{Tokens: 2}, s.tb.Peek("k")) }
func moveClock(s *scenario)      { schedpoint("clock", nil); s.clock++ }
func drainOf(key string) func(*scenario) {
	return func(s *scenario) { s.granted[key] += drain(s.t, s.tb, key) }
}

// An interleaving is what TestInterleavings runs in every order. The capacity is 2. A
// scenario begins at 0 with what before does, and ends as a rule at 2, the time to refill
// 2 tokens, when the bucket of the key k is drained; total is how much must have been granted to k
// then, whatever came before what: capacity and two more tokens where the bucket was
// short of two by 0.
type interleaving struct {
	name    string
	before  func(*scenario)
	callers []caller
	total   []int
	end     int // 2, unless only what happens at once shows what went wrong
}

// These are run on both stores.
var interleavings = []interleaving{
	{"two takes of the last token", take(1), []caller{
		{"A", 0, take(1)}, {"B", 0, take(1)}}, []int{4}, 2},
	{"three takes of two tokens", peek, []caller{
		{"A", 0, take(1)}, {"B", 0, take(1)}, {"C", 0, take(1)}}, []int{4}, 2},
	{"two insertions of a key", peek, []caller{
		{"A", 0, take(2)}, {"B", 0, take(2)}}, []int{4}, 2},
	{"a fresh and an old clock read", take(2), []caller{
		{"A", 2, take(1)}, {"B", 1, take(1)}}, []int{4}, 2},
	{"three different clock reads", take(2), []caller{
		{"A", 2, take(1)}, {"B", 1, take(1)}, {"C", 0, take(1)}}, []int{4}, 2},
	{"a large cost at an old time", take(2), []caller{
		{"A", 2, take(1)}, {"B", 1, take(2)}}, []int{4}, 2},
	{"a take and a sweep", take(2), []caller{
		{"A", 2, take(1)}, {"S", 2, sweep}}, []int{4}, 2},
	{"an old take and a sweep", take(2), []caller{
		{"A", 1, take(2)}, {"S", 2, sweep}}, []int{4}, 2}, // granted by the successor alone
	{"two takes and a sweep", take(2), []caller{
		{"A", 2, take(1)}, {"B", 1, take(1)}, {"S", 2, sweep}}, []int{4}, 2},
	{"a take, a take of all and a sweep", take(2), []caller{
		{"A", 2, take(2)}, {"B", 0, take(2)}, {"S", 2, sweep}}, []int{4}, 2},
	{"a take and two sweeps", take(2), []caller{
		{"A", 1, take(2)}, {"S", 2, sweep}, {"T", 2, sweep}}, []int{4}, 2},
	{"an insertion and sweeps", peek, []caller{
		{"A", 0, take(2)}, {"S", 2, sweepTwice}}, []int{4}, 2},
	{"two insertions and a sweep", peek, []caller{
		{"A", 0, take(2)}, {"B", 0, take(2)}, {"S", 2, sweep}}, []int{4}, 2},
	{"a refund, a take and a sweep", take(2), []caller{
		{"A", 1, refundOne}, {"B", 1, take(2)}, {"S", 2, sweep}},
		// A refund of a full bucket is void: then what it gave back is lost.
		[]int{3, 4}, 2},
	{"a reset and a take", take(2), []caller{
		{"A", 0, reset}, {"B", 0, take(1)}},
		// Taken before the reset it is 2 + 2; after it 2 + 1, and full again at 2.
		[]int{2 + 2, 2 + 1 + 2}, 2},
	// One token is left, and the clock moves on by one while A asks: B takes it
	// or the new one, and the other is for A, who must not be denied for having
	// read the clock before B did. Then there are none, and one more by 2.
	{"a clock that moves on", take(1), []caller{
		{"A", shared, mustTake},
		{"B", shared, then(moveClock, mustTake)}}, []int{4}, 2},
	{"a clock that moves on and a sweep", take(1), []caller{
		{"A", shared, mustTake},
		{"B", shared, then(moveClock, mustTake)},
		{"S", shared, sweep}}, []int{4}, 2},
}

// These are about slots that change hands: in a table of two slots, both of them for
// every key. k and y look at the first one first, x at the other.
var takeovers = []interleaving{
	{"a take and a takeover", then(take(2), takeOf("x", 2)), []caller{
		{"A", 2, take(1)}, {"Y", 2, takeOf("y", 1)}}, []int{4}, 2},
	{"an old take and a takeover", then(take(2), takeOf("x", 1)), []caller{
		{"A", 1, take(2)}, {"Y", 2, takeOf("y", 2)}}, []int{4}, 2},
	{"an old take, and takes of the other key", then(take(1), takeOf("x", 1)), []caller{
		// Taken at 1, two tokens leave none, and one more by 2. If the bucket was full
		// until it was taken over at 2, they count at 2.
		{"A", 1, take(2)}, {"Y", 2, then(takeOf("y", 1), takeOf("y", 1))}}, []int{3, 4}, 2},
	{"an insertion and a takeover of the same slot", then(takeOf("w", 1), takeOf("x", 2)), []caller{
		{"A", 1, take(2)}, {"Y", 2, takeOf("y", 1)}}, []int{2, 3}, 2},
	// The bucket of k is full at 1. A finds its slot, which y then takes over and
	// empties; at 3 it goes back to k. What A sees meanwhile is no reason to deny.
	{"a slot that goes and comes back", then(take(1), takeOf("x", 1)), []caller{
		{"A", shared, mustTake},
		{"Y", shared, then(moveClock, takeOf("y", 2), moveClock, moveClock, mustTake)}}, []int{3, 4}, 3},
	{"a take, a takeover and a sweep", then(take(2), takeOf("x", 2)), []caller{
		{"A", 1, take(1)}, {"Y", 2, takeOf("y", 1)}, {"S", 2, sweep}}, []int{4}, 2},
	{"two insertions, one of them in a slot that is vacant later", then(takeOf("w", 2), takeOf("x", 1)), []caller{
		{"A", 1, take(2)}, {"B", 2, take(2)}}, []int{2, 3}, 2},
	{"a refund and a takeover", then(take(2), takeOf("x", 2)), []caller{
		{"A", 1, refundOne}, {"Y", 2, then(takeOf("y", 2), takeOf("y", 1))}}, []int{3}, 2},
	{"a reset and a takeover", then(take(2), takeOf("x", 2)), []caller{
		{"A", 2, reset}, {"Y", 2, takeOf("y", 2)}}, []int{4}, 2},
	{"a look at a slot that changes hands", then(take(1), takeOf("x", 1)), []caller{
		{"P", 2, peekFull}, {"Y", 2, takeOf("y", 2)}}, []int{3}, 2},
	// The bucket of k is full, but only since this instant. If y got its slot now, it
	// could have the word that A has seen.
	{"a take and a refund of all", take(1), []caller{
		{"A", 0, take(1)}, {"Y", 0, then(refundOne, takeOf("y", 1))}}, []int{2}, 0},
}

// In these k meets the overflow policy.
var (
	denials = []interleaving{
		{"an insertion and a takeover of the only vacant slot", then(takeOf("w", 1), takeOf("x", 2)), []caller{
			{"A", 1, take(1)}, {"Y", 1, takeOf("y", 1)}}, []int{2, 3}, 2},
		// There is room for k once, and what is not for A is for B.
		{"two insertions of a key in the only vacant slot", then(takeOf("w", 1), takeOf("x", 2)), []caller{
			{"A", 1, mustTake}, {"B", 1, mustTake}}, []int{3}, 2},
	}
	shares = []interleaving{
		// A is charged to the shared bucket, unless B makes k a bucket of its own before.
		{"a share and an insertion", then(takeOf("w", 2), takeOf("x", 2)), []caller{
			{"A", 0, take(2)}, {"B", 2, take(2)}}, []int{2, 4}, 2},
		// Two tokens of the shared bucket are two tokens of k: it is bound until 2.
		{"two shares and an insertion that is too early", then(takeOf("w", 1), takeOf("x", 2), take(1)), []caller{
			{"A", 0, take(1)}, {"B", 1, take(2)}}, []int{4}, 2},
		{"two shares and a takeover", then(takeOf("w", 2), takeOf("x", 2)), []caller{
			{"A", 0, take(1)}, {"B", 0, take(1)}, {"Y", 2, takeOf("y", 1)}}, []int{2, 3, 4}, 2},
	}
	evictions = []interleaving{
		// What k lacks when it is evicted it may be granted again.
		{"a take and an eviction", then(take(2), takeOf("x", 2)), []caller{
			{"A", 1, take(1)}, {"Y", 1, takeOf("y", 1)}}, []int{4, 5}, 2},
		{"a take, an eviction and a takeover", then(take(2), takeOf("x", 2)), []caller{
			{"A", 1, take(1)}, {"Y", 1, takeOf("y", 1)}, {"W", 2, takeOf("w", 1)}}, []int{4, 5}, 2},
		// Nothing is evicted that was used at this instant: y shares.
		{"a take and no eviction", then(take(1), takeOf("x", 2)), []caller{
			{"A", 0, take(1)}, {"Y", 0, takeOf("y", 1)}}, []int{2}, 0},
	}
)

func TestInterleavings(t *testing.T) {
	table := func(o Overflow) []Option { return []Option{WithMaxKeys(1), WithOverflow(o)} }
	for _, of := range []struct {
		store string
		opts  []Option
		tests []interleaving
		fast  time.Duration // refills a token at a rate at which last counts in steps
	}{
		{"shardmap", nil, interleavings, 1},
		{"table", table(OverflowDeny), interleavings, 1},
		// A slot changes hands in a later step only: here 3 ns later.
		{"table", table(OverflowDeny), takeovers, 100},
		{"table that denies", table(OverflowDeny), denials, 100},
		{"table that shares", table(OverflowShare), shares, 100},
		{"table that evicts", table(OverflowEvict), evictions, 100},
	} {
		for _, test := range of.tests {
			for _, token := range []time.Duration{5 * time.Second, of.fast} {
				t.Run(fmt.Sprint(of.store, ", ", test.name, ", a token in ", token), func(t *testing.T) {
					seen := map[int]int{}
					runs := explore(t, test.callers, func() *scenario {
						s := newScenario(t, token, of.opts)
						s.as(0, test.before)
						return s
					}, func(s *scenario, schedule string) {
						checkBuckets(s, schedule)
						s.as(test.end, drainOf("k"))
						seen[s.granted["k"]]++
						if t.Failed() || !slices.Contains(test.total, s.granted["k"]) {
							t.Fatalf("granted %d, want %v after\n%s", s.granted["k"], test.total, schedule)
						}
						forgiven := int(s.tb.Stats().Forgiven)
						for key, n := range s.granted {
							most := 2 + test.end - s.first[key] + forgiven
							if n > most && !strings.Contains(test.name, "reset") {
								t.Fatalf("%s: granted %d, want at most %d, after\n%s", key, n, most, schedule)
							}
						}
					})
					t.Logf("%d interleavings, granted in total: %v", runs, seen)
					require.Greater(t, runs, 1)
					require.ElementsMatch(t, test.total, slices.Collect(maps.Keys(seen)))
				})
			}
		}
	}
}

// checkBuckets fails if a key has two buckets, or if not all is as it should be in a
// store that nobody uses any more.
func checkBuckets(s *scenario, schedule string) {
	tab, ok := s.tb.store.(*table)
	if !ok {
		if n := s.tb.Len(); n > 1 {
			s.t.Fatalf("%d buckets for one key after\n%s", n, schedule)
		}
		return
	}
	owned := map[uint64]bool{}
	n := 0
	for i := range tab.sets {
		for j := range tab.sets[i] {
			tag, word := tab.sets[i][j].tag.Load(), tab.sets[i][j].word.Load()
			if (tag == 0) != (word == removed) {
				s.t.Fatalf("tag %x and word %x after\n%s", tag, word, schedule)
			}
			if tag == 0 {
				continue
			}
			if owned[tag] {
				s.t.Fatalf("a key owns two slots after\n%s", schedule)
			}
			owned[tag] = true
			n++
		}
	}
	if n != s.tb.Len() {
		s.t.Fatalf("%d slots are owned, and Len is %d, after\n%s", n, s.tb.Len(), schedule)
	}
}

func newScenario(t *testing.T, token time.Duration, opts []Option) *scenario {
	s := &scenario{t: t, token: token, granted: map[string]int{}, first: map[string]int{}}
	tb, err := New(Per(2, 2*token), append(opts[:len(opts):len(opts)], WithClock(s.now))...)
	require.NoError(t, err)
	require.Equal(t, token < time.Microsecond, !tb.layout.precise())
	s.tb = tb
	switch m := tb.store.(type) {
	case *shardmap:
		// A run can only be repeated with the same seed; and insertions sweep in
		// passing, beginning with the first shards.
		for m.seed = 1; m.shardOf("k") != shardCount-1; m.seed++ {
		}
		m.maps[shardCount-1].Store(newKeymap())
	case *table:
		first := func(key string) uint64 {
			_, hash := tableHash(key, m.seed)
			return m.setsOf(hash)[0]
		}
		for m.seed = 1; first("k") != 0 || first("x") != 1 || first("y") != 0 || first("w") != 0; m.seed++ {
		}
		require.Len(t, m.sets, 2)
		require.Len(t, m.stripes, 1, "the explorer knows one lock")
	}
	return s
}

// accesses says what a caller does to shared memory between the schedpoint of that
// name and the next one; v is the word or tag that the schedpoint names. A test that
// adds a schedpoint adds it here.
var accesses = map[string]struct{ reads, writes string }{
	"begin":        {reads: "clock"},
	"clock":        {writes: "clock"},
	"find":         {reads: "map"},
	"create":       {reads: "word removedAt", writes: "map"},
	"load":         {reads: "v clock"}, // the clock if the layout is not precise
	"cas":          {writes: "v share"},
	"sweep range":  {reads: "map"},
	"sweep load":   {reads: "v"},
	"sweep raise":  {writes: "removedAt"},
	"sweep cas":    {writes: "v"},
	"sweep delete": {writes: "map"},
	"tag":          {reads: "v"},
	"removedAt":    {reads: "removedAt share"},
	"lock":         {writes: "lock"},
	"unlock":       {writes: "lock"},
	"raise":        {writes: "removedAt"},
	"spilled":      {reads: "spilled"},
	"spill":        {writes: "spilled"},
	"claim":        {writes: "v"},
	"retag":        {writes: "v"},
	"own":          {writes: "v"},
}

// An access is what a caller is about to do: a schedpoint and the word or tag that it
// names, if any.
type access struct{ place, v string }

func (a access) String() string { return strings.TrimSpace(a.place + " " + a.v) }

// access returns the access of a schedpoint, with a name for v that is the same in
// every run.
func (s *scenario) access(place string, v *atomic.Uint64) access {
	if _, ok := accesses[place]; !ok {
		s.t.Fatalf("the test does not know the schedpoint %q", place)
	}
	name := ""
	if v != nil {
		name = "word"
	}
	if tab, ok := s.tb.store.(*table); ok && v != nil {
		name = "shared"
		for i := range tab.sets {
			for j := range tab.sets[i] {
				switch v {
				case &tab.sets[i][j].tag:
					name = fmt.Sprint("tag", i, j)
				case &tab.sets[i][j].word:
					name = fmt.Sprint("word", i, j)
				}
			}
		}
	}
	return access{place, name}
}

func (a access) touches() (reads, writes []string) {
	fields := func(s string) []string {
		all := strings.Fields(s)
		for i := range all {
			if all[i] == "v" {
				all[i] = a.v
			}
		}
		return all
	}
	x := accesses[a.place]
	return fields(x.reads), fields(x.writes)
}

// commute reports whether two accesses have the same effect in either order: they
// do unless one writes what the other reads or writes.
func commute(a, b access) bool {
	aReads, aWrites := a.touches()
	bReads, bWrites := b.touches()
	meet := func(x, y []string) bool {
		return slices.ContainsFunc(x, func(v string) bool { return slices.Contains(y, v) })
	}
	return !meet(aWrites, bWrites) && !meet(aWrites, bReads) && !meet(aReads, bWrites)
}

// A node is a place in the tree of schedules: which callers have not ended and
// what each will access next; which one runs; and which ones need not, because a
// schedule that was run already differs from theirs only in the order of accesses
// that commute (the sleep sets of P. Godefroid, Partial-Order Methods for the
// Verification of Concurrent Systems, 1996).
type node struct {
	next   map[int]access // by caller
	holder int            // of the lock that callers at "lock" wait for, -1 if it is free
	asleep map[int]bool
	runs   int
}

// pick chooses the next caller to run, and reports false if there is none left.
func (n *node) pick(callers int) bool {
	for c := range callers {
		if next, ok := n.next[c]; ok && !n.asleep[c] && (next.place != "lock" || n.holder < 0) {
			n.runs = c
			return true
		}
	}
	return false
}

// explore runs the callers in every order in which their accesses to shared memory
// can happen, each time on a new scenario, and returns the number of orders.
func explore(t *testing.T, callers []caller, setup func() *scenario, check func(s *scenario, schedule string)) (runs int) {
	var path []*node
	for {
		s := setup()
		schedule, complete := runSchedule(s, callers, &path)
		if complete {
			check(s, schedule)
			runs++
		}
		// Back to the last node where another caller can run instead.
		for {
			if len(path) == 0 {
				return runs
			}
			n := path[len(path)-1]
			n.asleep[n.runs] = true
			if n.pick(len(callers)) {
				break
			}
			path = path[:len(path)-1]
		}
	}
}

// runSchedule runs the callers one access at a time along path, and from its end on
// along the first branches, which it appends. It reports false if it gave up because
// the rest would repeat what was run before.
func runSchedule(s *scenario, callers []caller, path *[]*node) (trace string, complete bool) {
	type coroutine struct {
		step  func() (access, bool)
		yield func(string, *atomic.Uint64)
	}
	active := map[int]coroutine{}
	next := map[int]access{}
	holder := -1
	var stops []func()
	defer func() {
		onSchedpoint = nil // those that have not ended run to their end, unobserved
		if holder >= 0 {
			stops[holder]()
		}
		for _, stop := range stops {
			stop()
		}
	}()
	for i, c := range callers {
		step, stop := iter.Pull(func(yield func(access) bool) {
			onSchedpoint = func(place string, v *atomic.Uint64) { yield(s.access(place, v)) }
			yield(access{place: "begin"})
			c.do(s)
		})
		stops = append(stops, stop)
		next[i], _ = step() // up to "begin"
		active[i] = coroutine{step, onSchedpoint}
	}
	var log strings.Builder
	for depth := 0; len(active) > 0; depth++ {
		if depth == len(*path) {
			n := &node{next: maps.Clone(next), holder: holder, asleep: map[int]bool{}}
			if depth > 0 {
				parent := (*path)[depth-1]
				for c, asleep := range parent.asleep {
					n.asleep[c] = asleep && commute(parent.next[c], parent.next[parent.runs])
				}
			}
			if !n.pick(len(callers)) {
				return log.String(), false
			}
			*path = append(*path, n)
		}
		c := (*path)[depth].runs
		s.time = callers[c].time
		onSchedpoint = active[c].yield
		switch next[c].place {
		case "lock":
			holder = c
		case "unlock":
			holder = -1
		}
		then, more := active[c].step()
		if !more {
			fmt.Fprintf(&log, "  %s: %s, and ends\n", callers[c].name, next[c])
			delete(active, c)
			delete(next, c)
			continue
		}
		fmt.Fprintf(&log, "  %s: %s\n", callers[c].name, next[c])
		next[c] = then
	}
	return log.String(), true
}

// A key that spills into its third set for the first time may get a slot there that has
// just been freed, by a sweep of a later time than its own clock read. Its first word must
// be later than the sweep all the same, or it could be the one that a request in flight
// for the slot's last owner has seen, which would then take from it.
func TestFirstSpillIsNotOlderThanRemoval(t *testing.T) {
	var clock manualClock
	tb := NewTokenBucket(2, 1, WithMaxKeys(60), WithOverflow(OverflowDeny), WithClock(clock.now))
	tab := tableOf(tb)
	key := func(name string, ok func(sets [3]uint64) bool) (string, [3]uint64) {
		for i := 0; ; i++ {
			key := fmt.Sprint(name, i)
			if sets := tab.setsOf(tab.find(key).hash); ok(sets) {
				return key, sets
			}
		}
	}
	stripe := func(set uint64) uint64 { return set / stripeSets }
	k, ks := key("k", func(s [3]uint64) bool { return stripe(s[2]) != stripe(s[0]) && stripe(s[2]) != stripe(s[1]) })
	j, _ := key("j", func(s [3]uint64) bool { return s[0] == ks[2] && s[1] != ks[0] && s[1] != ks[1] })
	x, _ := key("x", func(s [3]uint64) bool { return s[0] == ks[0] && s[1] != ks[1] && s[1] != ks[2] })
	y, _ := key("y", func(s [3]uint64) bool { return s[0] == ks[1] && s[1] != ks[0] && s[1] != ks[2] })

	clock.set(2 * time.Second)
	require.True(t, allow(t, tb, j).Allowed)
	onSchedpoint = func(place string, _ *atomic.Uint64) {
		if place != "cas" {
			return
		}
		onSchedpoint = nil
		// The second request of j is about to swap, and has to wait.
		clock.set(3 * time.Second)
		require.Equal(t, 1, tb.Sweep())
		allowN(t, tb, x, 2)
		allowN(t, tb, y, 2)
		clock.set(1 * time.Second)
		require.True(t, allow(t, tb, k).Allowed)
		clock.set(2 * time.Second)
		require.True(t, allow(t, tb, k).Allowed)
	}
	allow(t, tb, j)
	require.Nil(t, onSchedpoint)
	clock.set(3 * time.Second)
	require.Equal(t, 0, drain(t, tb, k), "two were taken, as of 3 s")
	require.LessOrEqual(t, drain(t, tb, j), 2)
	require.Equal(t, 0, drain(t, tb, j))
}
