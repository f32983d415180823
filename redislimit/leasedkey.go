package redislimit

import (
	"sync/atomic"
	"time"
)

// A leasedKey is what this process knows of a key.
type leasedKey struct {
	name    string        // in Redis
	lost    *atomic.Int64 // where to count tokens that are
	leases  [2]lease
	denial  atomic.Pointer[denial]
	flight  atomic.Pointer[flight] // the booking that is on its way, if any
	low     atomic.Int32           // book ahead when less is left
	waiting atomic.Int64           // tokens that somebody waits for

	// These belong to whoever has put the flight there.
	size   int           // of the next booking
	booked time.Duration // the time of the latest
	scarce bool          // that got less than its size
	gone   bool          // the key has been forgotten: look it up again
	server [2]int64      // the time of each lease on the server, in microseconds since 1970
}

// A denial says that no request of that cost or more is granted before a time.
type denial struct {
	cost      int
	at, until time.Duration
}

// A leftover is what is left of a lease that is over.
type leftover struct {
	tokens int
	end    time.Duration
	server int64 // the time of its booking on the server
}

// A flight is a call to Redis that others wait for. err is set before done is closed.
type flight struct {
	done chan struct{}
	err  error
}

// take spends tokens of the leases if they hold them, first of the one that ends first, and
// returns how many are left in both. It takes effect at the last compare-and-swap, or the last load.
func (k *leasedKey) take(now time.Duration, tokens int) (left int, ok bool) {
	first, second := &k.leases[0], &k.leases[1]
	if second.word.Load() < first.word.Load() {
		first, second = second, first
	}
	if left, ok = first.take(now, tokens); ok {
		return left + second.left(now), true
	}
	if left == 0 || second.left(now) < tokens-left {
		return second.take(now, tokens)
	}
	// All that the first one holds, and the rest from the second.
	got, word := first.takeAll(now, tokens)
	if left, ok = second.take(now, tokens-got); !ok {
		// Somebody was faster.
		if !first.putBack(got, word) {
			k.lost.Add(int64(got))
		}
	}
	return left, ok
}

// put begins a lease in place of the one that holds less, and returns what is left of that.
func (k *leasedKey) put(tokens int, now, end time.Duration, server int64) (over leftover) {
	i := 0
	if k.leases[1].left(now) < k.leases[0].left(now) {
		i = 1
	}
	over = k.leases[i].put(tokens, end)
	over.server, k.server[i] = k.server[i], server
	return over
}

// waits says that somebody waits for so many tokens, or if negative, no longer does. k may
// be nil.
func (k *leasedKey) waits(tokens int) {
	if k != nil {
		k.waiting.Add(int64(tokens))
	}
}

// board returns the flight that is on its way, or puts a new one there, which is then the
// caller's: it must land it.
func (k *leasedKey) board() (f *flight, mine bool) {
	var own *flight
	for {
		if other := k.flight.Load(); other != nil {
			return other, false
		}
		if own == nil {
			own = &flight{done: make(chan struct{})}
		}
		if k.flight.CompareAndSwap(nil, own) {
			return own, true
		}
	}
}

// land ends a flight.
func (k *leasedKey) land(f *flight, err error) {
	f.err = err
	k.flight.Store(nil)
	close(f.done)
}

// resize returns the size of the booking that is made now: twice that of the one before if
// that was spent in less than half a term, half of it if it took longer than one. One that
// got less than its size says nothing of how much is needed.
func (k *leasedKey) resize(now, term time.Duration, most int) int {
	switch since := now - k.booked; {
	case k.size == 0:
		k.size = 1
	case since < term/2 && !k.scarce:
		k.size = min(2*k.size, most)
	case since > term:
		k.size = max(k.size/2, 1)
	}
	k.booked = now
	return k.size
}
