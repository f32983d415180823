//go:build ratelimit_explore

package ratelimit

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file runs every interleaving of two and three callers of the real code. With
// the tag ratelimit_explore, schedpoint hands control to the explorer before each
// access to shared memory: the lookup, the load and the compare-and-swap of the
// word, the insertion, and the four steps of a removal. The callers are coroutines,
// so that one runs at a time, and the explorer decides which, in every possible
// order; of orders that differ only in accesses that commute, it runs one.
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

// A scenario is one run: a limiter and what was granted so far.
type scenario struct {
	t       *testing.T
	tb      *TokenBucket
	token   time.Duration // refills one
	time    int           // of the running caller, or shared
	clock   int           // what the clock of all whose time is shared shows
	granted int
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

func take(n int) func(*scenario) {
	return func(s *scenario) {
		if allowN(s.t, s.tb, "k", n).Allowed {
			s.granted += n
		}
	}
}

// mustTake takes a token that the bucket must hold.
func mustTake(s *scenario) {
	if d := allow(s.t, s.tb, "k"); !d.Allowed {
		s.t.Errorf("denied, retry after %v", d.RetryAfter)
	}
	s.granted++
}

func sweep(s *scenario)       { s.tb.Sweep() }
func refundOne(s *scenario)   { s.tb.Refund("k", 1); s.granted-- }
func reset(s *scenario)       { s.tb.Reset("k") }
func sweepTwice(s *scenario)  { s.tb.Sweep(); s.tb.Sweep() }
func peek(s *scenario)        { s.tb.Peek("k") }
func moveClock(s *scenario)   { schedpoint("clock"); s.clock++ }
func drainBucket(s *scenario) { s.granted += drain(s.t, s.tb, "k") }

func TestInterleavings(t *testing.T) {
	// The capacity is 2. A scenario begins at 0 with what before does, and ends at 2,
	// the time to refill 2 tokens, when the bucket is drained; total is how much must
	// have been granted then, whatever came before what: capacity and two more tokens
	// where the bucket was short of two by 0. Each runs with a token in 5 s, and with
	// one in a nanosecond, where last counts in steps.
	for _, test := range []struct {
		name    string
		before  func(*scenario)
		callers []caller
		total   []int
	}{
		{"two takes of the last token", take(1), []caller{
			{"A", 0, take(1)}, {"B", 0, take(1)}}, []int{4}},
		{"three takes of two tokens", peek, []caller{
			{"A", 0, take(1)}, {"B", 0, take(1)}, {"C", 0, take(1)}}, []int{4}},
		{"two insertions of a key", peek, []caller{
			{"A", 0, take(2)}, {"B", 0, take(2)}}, []int{4}},
		{"a fresh and an old clock read", take(2), []caller{
			{"A", 2, take(1)}, {"B", 1, take(1)}}, []int{4}},
		{"three different clock reads", take(2), []caller{
			{"A", 2, take(1)}, {"B", 1, take(1)}, {"C", 0, take(1)}}, []int{4}},
		{"a large cost at an old time", take(2), []caller{
			{"A", 2, take(1)}, {"B", 1, take(2)}}, []int{4}},
		{"a take and a sweep", take(2), []caller{
			{"A", 2, take(1)}, {"S", 2, sweep}}, []int{4}},
		{"an old take and a sweep", take(2), []caller{
			{"A", 1, take(2)}, {"S", 2, sweep}}, []int{4}}, // granted by the successor alone
		{"two takes and a sweep", take(2), []caller{
			{"A", 2, take(1)}, {"B", 1, take(1)}, {"S", 2, sweep}}, []int{4}},
		{"a take, a take of all and a sweep", take(2), []caller{
			{"A", 2, take(2)}, {"B", 0, take(2)}, {"S", 2, sweep}}, []int{4}},
		{"a take and two sweeps", take(2), []caller{
			{"A", 1, take(2)}, {"S", 2, sweep}, {"T", 2, sweep}}, []int{4}},
		{"an insertion and sweeps", peek, []caller{
			{"A", 0, take(2)}, {"S", 2, sweepTwice}}, []int{4}},
		{"two insertions and a sweep", peek, []caller{
			{"A", 0, take(2)}, {"B", 0, take(2)}, {"S", 2, sweep}}, []int{4}},
		{"a refund, a take and a sweep", take(2), []caller{
			{"A", 1, refundOne}, {"B", 1, take(2)}, {"S", 2, sweep}},
			// A refund of a full bucket is void: then what it gave back is lost.
			[]int{3, 4}},
		{"a reset and a take", take(2), []caller{
			{"A", 0, reset}, {"B", 0, take(1)}},
			// Taken before the reset it is 2 + 2; after it 2 + 1, and full again at 2.
			[]int{2 + 2, 2 + 1 + 2}},
		// One token is left, and the clock moves on by one while A asks: B takes it
		// or the new one, and the other is for A, who must not be denied for having
		// read the clock before B did. Then there are none, and one more by 2.
		{"a clock that moves on", take(1), []caller{
			{"A", shared, mustTake},
			{"B", shared, func(s *scenario) { moveClock(s); mustTake(s) }}}, []int{4}},
		{"a clock that moves on and a sweep", take(1), []caller{
			{"A", shared, mustTake},
			{"B", shared, func(s *scenario) { moveClock(s); mustTake(s) }},
			{"S", shared, sweep}}, []int{4}},
	} {
		for _, token := range []time.Duration{5 * time.Second, time.Nanosecond} {
			t.Run(fmt.Sprint(test.name, ", a token in ", token), func(t *testing.T) {
				seen := map[int]int{}
				runs := explore(t, test.callers, func() *scenario {
					s := newScenario(t, token)
					s.as(0, test.before)
					return s
				}, func(s *scenario, schedule string) {
					if n := s.tb.Len(); n > 1 {
						t.Fatalf("%d buckets for one key after\n%s", n, schedule)
					}
					s.as(2, drainBucket)
					seen[s.granted]++
					if !slices.Contains(test.total, s.granted) {
						t.Fatalf("granted %d, want %v after\n%s", s.granted, test.total, schedule)
					}
				})
				t.Logf("%d interleavings, granted in total: %v", runs, seen)
				require.Greater(t, runs, 1)
				require.ElementsMatch(t, test.total, slices.Collect(maps.Keys(seen)))
			})
		}
	}
}

func newScenario(t *testing.T, token time.Duration) *scenario {
	s := &scenario{t: t, token: token}
	tb, err := New(Per(2, 2*token), WithClock(s.now))
	require.NoError(t, err)
	require.Equal(t, token == time.Nanosecond, !tb.layout.precise())
	s.tb = tb
	// A run can only be repeated with the same seed; and insertions sweep in passing,
	// beginning with the first shards.
	m := tb.store.(*shardmap)
	for m.seed = 1; m.shardOf("k") != shardCount-1; m.seed++ {
	}
	m.maps[shardCount-1].Store(newKeymap())
	return s
}

// accesses says what a caller does to shared memory between the schedpoint of that
// name and the next one. A test that adds a schedpoint adds it here.
var accesses = map[string]struct{ reads, writes string }{
	"begin":        {reads: "clock"},
	"clock":        {writes: "clock"},
	"find":         {reads: "map"},
	"create":       {reads: "word removedAt", writes: "map"},
	"load":         {reads: "word clock"}, // the clock if the layout is not precise
	"cas":          {writes: "word"},
	"sweep range":  {reads: "map"},
	"sweep load":   {reads: "word"},
	"sweep raise":  {writes: "removedAt"},
	"sweep cas":    {writes: "word"},
	"sweep delete": {writes: "map"},
}

// commute reports whether two accesses have the same effect in either order: they
// do unless one writes what the other reads or writes.
func commute(a, b string) bool {
	x, y := accesses[a], accesses[b]
	for _, v := range []string{"clock", "map", "word", "removedAt"} {
		if strings.Contains(x.writes, v) && strings.Contains(y.reads+y.writes, v) ||
			strings.Contains(y.writes, v) && strings.Contains(x.reads+x.writes, v) {
			return false
		}
	}
	return true
}

// A node is a place in the tree of schedules: which callers have not ended and
// what each will access next; which one runs; and which ones need not, because a
// schedule that was run already differs from theirs only in the order of accesses
// that commute (the sleep sets of P. Godefroid, Partial-Order Methods for the
// Verification of Concurrent Systems, 1996).
type node struct {
	next   map[int]string // by caller
	asleep map[int]bool
	runs   int
}

// pick chooses the next caller to run, -1 if there is none left.
func (n *node) pick(callers int) bool {
	for c := range callers {
		if _, ok := n.next[c]; ok && !n.asleep[c] {
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
		step  func() (string, bool)
		yield func(string)
	}
	active := map[int]coroutine{}
	next := map[int]string{}
	var stops []func()
	defer func() {
		onSchedpoint = nil // those that have not ended run to their end, unobserved
		for _, stop := range stops {
			stop()
		}
	}()
	for i, c := range callers {
		step, stop := iter.Pull(func(yield func(string) bool) {
			onSchedpoint = func(place string) { yield(place) }
			yield("begin")
			c.do(s)
		})
		stops = append(stops, stop)
		next[i], _ = step() // up to "begin"
		active[i] = coroutine{step, onSchedpoint}
	}
	var log strings.Builder
	for depth := 0; len(active) > 0; depth++ {
		if depth == len(*path) {
			n := &node{next: maps.Clone(next), asleep: map[int]bool{}}
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
		place, more := active[c].step()
		if !more {
			fmt.Fprintf(&log, "  %s: %s, and ends\n", callers[c].name, next[c])
			delete(active, c)
			delete(next, c)
			continue
		}
		if _, ok := accesses[place]; !ok {
			s.t.Fatalf("the test does not know the schedpoint %q", place)
		}
		fmt.Fprintf(&log, "  %s: %s\n", callers[c].name, next[c])
		next[c] = place
	}
	return log.String(), true
}
