package workload

import (
	"sync"
	"testing"
	"unsafe"
)

// A workload is which keys are asked for, in which order.
type workload struct {
	keys   keys
	order  order
	first  int  // the place in the order to begin at
	built  bool // make each key a string of its own in the timed loop
	parsed bool // write each key into the same buffer in the timed loop
}

// Sink keeps the compiler from dropping what nobody needs: it might be read elsewhere.
var Sink struct {
	granted int
	text    string
	word    *uint64
}

// run calls l for n keys, beginning at the place from of the order, and returns
// how many calls were granted. It is the timed loop: nothing in it is shared
// between goroutines but l, the text of the keys and the order, which are read.
func (w workload) run(l Limiter, from, n int) (granted int) {
	switch {
	case w.built:
		return w.runBuilt(l, from, n)
	case w.parsed:
		return w.runParsed(l, from, n)
	}
	at := from
	for range n {
		if l.Allow(w.keys.at(w.order[at])) {
			granted++
		}
		if at++; at == len(w.order) {
			at = 0
		}
	}
	return granted
}

// runBuilt is run with the key of each call built on the spot.
func (w workload) runBuilt(l Limiter, from, n int) (granted int) {
	at := from
	var text [keyBytes]byte
	for range n {
		if l.Allow(string(appendKey(text[:0], uint64(w.order[at])))) {
			granted++
		}
		if at++; at == len(w.order) {
			at = 0
		}
	}
	return granted
}

// runParsed is run with the keys in a buffer that is used again, as a server's is that
// parses requests: their text is in the processor's cache, and not a string to keep.
func (w workload) runParsed(l Limiter, from, n int) (granted int) {
	at := from
	text := make([]byte, 0, keyBytes)
	for range n {
		text = appendKey(text[:0], uint64(w.order[at]))
		if l.Allow(unsafe.String(&text[0], keyBytes)) {
			granted++
		}
		if at++; at == len(w.order) {
			at = 0
		}
	}
	return granted
}

// drive makes n calls from procs goroutines, timed by b, and returns how many
// were granted. It starts the goroutines itself, because RunParallel can only
// start multiples of GOMAXPROCS and hands out the calls from a shared counter.
//
// How to read ns/op: it is the time that passed, divided by the calls of all
// goroutines together; its inverse is the throughput. If calls do not disturb
// each other, ns/op with two goroutines on two processors is half of what it is
// with one. If they all need the same cache line it is more than with one, since
// the line has to travel. With more goroutines than processors they take turns,
// and a call then costs ns/op x processors of processor time.
//
// Each goroutine makes the same number of calls, to within one. So the slowest
// sets the time: on a machine that does other work, the higher figures say less.
func drive(b *testing.B, l Limiter, w workload, procs, n int) (granted int) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	grants := make([]int, procs)
	ready.Add(procs)
	for p := range procs {
		done.Go(func() {
			from, calls := (w.first+part(len(w.order), procs, p))%len(w.order), share(n, procs, p)
			ready.Done()
			<-start
			grants[p] = w.run(l, from, calls)
		})
	}
	ready.Wait()
	b.StartTimer()
	close(start)
	done.Wait()
	b.StopTimer()
	for _, g := range grants {
		granted += g
	}
	Sink.granted += granted
	return granted
}

// timed times as many calls as b asks for, fails unless from least to most of them are
// granted, and reports their share.
func timed(b *testing.B, l Limiter, w workload, procs, least, most int) {
	b.ReportAllocs()
	b.ResetTimer()
	b.StopTimer()
	granted := drive(b, l, w, procs, b.N)
	if granted < least || granted > most {
		b.Fatalf("%d calls of %d were granted, want from %d to %d", granted, b.N, least, most)
	}
	b.ReportMetric(100*float64(granted)/float64(b.N), "granted-%")
}

// part returns where the part p of n things divided into parts begins.
func part(n, parts, p int) int { return n * p / parts }

// share returns the size of that part.
func share(n, parts, p int) int { return part(n, parts, p+1) - part(n, parts, p) }

// fill makes one call for every key and fails if they were not all granted or the
// keys are not all there.
func fill(tb testing.TB, l Limiter, set keys) {
	tb.Helper()
	granted := 0
	for i := range set.len() {
		if l.Allow(set.at(uint32(i))) {
			granted++
		}
	}
	checkGranted(tb, granted, set.len())
	checkLen(tb, l, set.len())
}

// checkGranted fails if the number of grants is not what the name of the workload
// says: a limiter that denies is not doing the work of one that grants.
func checkGranted(tb testing.TB, granted, want int) {
	tb.Helper()
	if granted != want {
		tb.Fatalf("%d calls were granted, want %d", granted, want)
	}
}

// checkLen fails if the number of keys in memory is not the one of the workload.
func checkLen(tb testing.TB, l Limiter, want int) {
	tb.Helper()
	without := 0
	if l, ok := l.(interface{ without(int) int }); ok {
		without = l.without(want)
	}
	if n := l.Len(); n >= 0 && (n > want || n < want-without) {
		tb.Fatalf("%d keys in memory, want %d", n, want)
	}
}
