package redislimit

import (
	"sync/atomic"
	"time"
)

// A leasedKey is what this process knows of a key.
type leasedKey struct {
	leases [2]lease
	denial atomic.Pointer[denial]
	flight atomic.Pointer[flight] // the booking that is on its way, if any
	low    atomic.Int32           // book ahead when less is left

	// These belong to whoever has put the flight there.
	size   int           // of the next booking
	booked time.Duration // the time of the latest
	scarce bool          // that got less than its size
	gone   bool          // the key has been forgotten: look it up again
}

// A denial says that no request of that cost or more is granted before a time.
type denial struct {
	cost  int
	until time.Duration
}

// A flight is a call to Redis that others wait for. err is set before done is closed.
type flight struct {
	done chan struct{}
	err  error
}

// take spends tokens of one of the leases if one holds them, first of the one that ends
// first, and returns how many are left in both.
func (k *leasedKey) take(now time.Duration, tokens int) (left int, ok bool) {
	first, second := &k.leases[0], &k.leases[1]
	if second.word.Load() < first.word.Load() {
		first, second = second, first
	}
	if left, ok = first.take(now, tokens); ok {
		return left + second.left(now), true
	}
	left, ok = second.take(now, tokens)
	return left, ok
}

// put begins a lease in place of the one that holds less, and returns what that had left.
func (k *leasedKey) put(tokens int, now, end time.Duration) (lost int) {
	i := 0
	if k.leases[1].left(now) < k.leases[0].left(now) {
		i = 1
	}
	return k.leases[i].put(tokens, end)
}

// board returns the flight that is on its way, or puts a new one there, which is then the
// caller's: it must land it.
func (k *leasedKey) board() (f *flight, mine bool) {
	if other := k.flight.Load(); other != nil {
		return other, false
	}
	f = &flight{done: make(chan struct{})}
	for {
		if k.flight.CompareAndSwap(nil, f) {
			return f, true
		}
		if other := k.flight.Load(); other != nil {
			return other, false
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
