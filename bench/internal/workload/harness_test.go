package workload

import (
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// These tests check the harness and not the limiters: that a benchmark does what
// its name says. None of them asserts a time.

// everyone is each Implementation once, under the name it is reported by.
var everyone = append([]Implementation{
	{Name: "mutex-since", New: newMutexSince},
	{Name: "mutex-sweeping", New: newSweepingMutex},
}, implementations...)

func TestHarnessChecks(t *testing.T) { Check(t, everyone...) }

func TestHarnessDistinctKeys(t *testing.T) {
	const n = 20_000
	set := newKeys(0, n)
	distinct := map[string]bool{}
	for i := range n {
		key := set.at(uint32(i))
		if len(key) != keyBytes || key != string(appendKey(nil, uint64(i))) {
			t.Fatalf("key %d is %q", i, key)
		}
		distinct[key] = true
	}
	if len(distinct) != n {
		t.Fatalf("%d distinct keys of %d", len(distinct), n)
	}
}

func TestHarnessLookupKeysAreInOtherMemory(t *testing.T) {
	inserted := newKeys(0, 1000)
	lookup := inserted.clone()
	for i := range uint32(1000) {
		if inserted.at(i) != lookup.at(i) {
			t.Fatalf("key %d differs", i)
		}
		if unsafe.StringData(inserted.at(i)) == unsafe.StringData(lookup.at(i)) {
			t.Fatalf("key %d is the same memory", i)
		}
	}
	if unsafe.StringData(insertedKeys().text) == unsafe.StringData(lookupKeys().text) {
		t.Fatal("the million keys are the same memory")
	}
}

func TestHarnessChurnForgets(t *testing.T) {
	for _, impl := range churners {
		t.Run(impl.Name, func(t *testing.T) { prepareChurn(t, impl.New(brief, fewKeys)) })
	}
}

// The work is divided without a rest, whatever the number of goroutines.
func TestHarnessShares(t *testing.T) {
	for _, n := range []int{0, 1, 7, 1000} {
		for _, procs := range hotProcs {
			total := 0
			for p := range procs {
				if part(n, procs, p) != total {
					t.Fatalf("part %d of %d/%d begins at %d, want %d", p, n, procs, part(n, procs, p), total)
				}
				total += share(n, procs, p)
			}
			if total != n {
				t.Fatalf("%d goroutines do %d of %d", procs, total, n)
			}
		}
	}
}

// A run makes as many calls as it is told to, in the order of the workload, from
// the place where it begins.
func TestHarnessRun(t *testing.T) {
	for _, w := range []workload{{}, {built: true}, {parsed: true}} {
		w.keys, w.order = newKeys(0, 3), order{2, 0, 1, 1}
		var seen recorder
		if n := w.run(&seen, 3, 6); n != 6 {
			t.Errorf("built=%v parsed=%v: %d grants of 6", w.built, w.parsed, n)
		}
		want := make([]string, 0, 6)
		for _, i := range []uint32{1, 2, 0, 1, 1, 2} {
			want = append(want, w.keys.at(i))
		}
		if !slices.Equal(seen, want) {
			t.Errorf("built=%v parsed=%v: asked for %q, want %q", w.built, w.parsed, seen, want)
		}
	}
}

// A recorder grants every call and keeps the keys.
type recorder []string

func (r *recorder) Allow(key string) bool { *r = append(*r, strings.Clone(key)); return true }
func (r *recorder) Len() int              { return -1 }

// The random orders have the shares that their comments and names promise.
func TestHarnessOrders(t *testing.T) {
	for _, dist := range dists {
		calls := make([]int, million)
		for _, i := range dist.order() {
			calls[i]++
		}
		distinct := 0
		for _, n := range calls {
			if n > 0 {
				distinct++
			}
		}
		slices.Sort(calls)
		slices.Reverse(calls)
		top, topTen := float64(calls[0])/draws, 0.0
		for _, n := range calls[:10] {
			topTen += float64(n) / draws
		}
		t.Logf("%s: %d keys, the first %.2g and the first ten %.2g of the calls", dist.name, distinct, top, topTen)
		switch dist.name {
		case "uniform":
			// 1 - e^-(draws/million) of the keys are drawn at all.
			if distinct < 870_000 || distinct > 885_000 || calls[0] > 20 {
				t.Errorf("uniform: %d keys, the first %d times", distinct, calls[0])
			}
		case "zipf":
			if top < 0.10 || top > 0.15 || topTen < 0.30 || topTen > 0.45 {
				t.Errorf("zipf: the first key has %.2g of the calls, the first ten %.2g", top, topTen)
			}
		}
	}
}

// Every floor is driven like a limiter and grants or denies as its place demands.
func TestHarnessFloors(t *testing.T) {
	w := workload{keys: newKeys(0, 100), order: inTurn()[:100]}
	for _, f := range []struct {
		Implementation
		granted int
	}{
		{clockAndSwap, 100}, {clockAndLoad, 0}, {clockAndHash, 100}, {clockHashAndLine, 100}, {cloneAndNew, 100},
	} {
		if n := w.run(f.New(lasting, million), 0, 100); n != f.granted {
			t.Errorf("%s: %d grants, want %d", f.Name, n, f.granted)
		}
	}
}

// Known keys allocate nothing; the benchmarks report it, this test insists.
func TestHarnessKnownKeysDoNotAllocate(t *testing.T) {
	for _, impl := range implementations {
		for _, v := range []verdict{granted, denied} {
			l := impl.New(v.limit, 1)
			prepareHotKey(t, l, v)
			key := newKeys(0, 1).at(0)
			if n := testing.AllocsPerRun(1000, func() { l.Allow(key) }); n != 0 {
				t.Errorf("%s: a call that is %s allocates %v times", impl.Name, v.name, n)
			}
		}
	}
}

// A limiter that is said to keep copies of keys does not keep alive what the caller's
// strings are parts of.
func TestHarnessCopies(t *testing.T) {
	Copies(t, implementations...)
}
