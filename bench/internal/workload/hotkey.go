package workload

import (
	"fmt"
	"testing"

	"github.com/packedbucket/ratelimit"
)

// hotProcs are the numbers of goroutines that ask for one key at once.
var hotProcs = []int{1, 2, 4, 8}

// A verdict is a limit under which all calls for a key come out alike.
type verdict struct {
	name  string
	limit ratelimit.Limit
	grant bool
}

var (
	granted = verdict{"granted", lasting, true}
	denied  = verdict{"denied", exhausted, false}
)

// HotKey has all goroutines ask for the same key. A grant has to write
// what all others have to read next, so it cannot get faster by more processors
// than one; a denial need not write, and should.
func HotKey(b *testing.B, others ...Implementation) {
	since := Implementation{Name: "mutex-since", New: newMutexSince}
	for _, of := range []struct {
		verdict
		floor Implementation
	}{
		{granted, clockAndSwap},
		{denied, clockAndLoad},
	} {
		for _, procs := range hotProcs {
			for _, impl := range append(with(implementations, others), since, of.floor) {
				name := fmt.Sprintf("impl=%s/keys=1/verdict=%s/procs=%d", impl.Name, of.verdict.name, procs)
				b.Run(name, func(b *testing.B) { hotKey(b, impl, of.verdict, procs) })
			}
		}
	}
}

// hotKey times calls for one key that all come out as v says.
func hotKey(b *testing.B, impl Implementation, v verdict, procs int) {
	l := impl.New(v.limit, 1)
	defer stop(l)
	prepareHotKey(b, l, v)
	least, most := 0, 0
	if v.grant {
		least, most = b.N, b.N
	}
	if impl.GivesUp && procs > 1 {
		least = 0
	}
	timed(b, l, workload{keys: newKeys(0, 1), order: order{0}}, procs, least, most)
}

// prepareHotKey makes the key of a hot key workload known, in memory of its own,
// and fails if further calls for it do not come out as v says.
func prepareHotKey(tb testing.TB, l Limiter, v verdict) {
	tb.Helper()
	const calls = 1000
	key := newKeys(0, 1).at(0)
	l.Allow(key)
	n, want := 0, 0
	for range calls {
		if l.Allow(key) {
			n++
		}
	}
	if v.grant {
		want = calls
	}
	checkGranted(tb, n, want)
	checkLen(tb, l, 1)
}
