package redislimit

import (
	"sync/atomic"
	"time"
)

// A lease is tokens that were booked in Redis and may be spent in this process until the
// lease ends. What is not spent by then is void.
//
// It is one word: the end, in milliseconds of the limiter's clock, and in the low bits the
// tokens that are left.
type lease struct{ word atomic.Uint64 }

const (
	leaseBits = 24 // of the tokens: the end has 40, which is 34 years

	// maxLease is the most tokens in a lease.
	maxLease = 1<<leaseBits - 1
)

// take spends tokens of the lease if it holds them at the time now, and returns how many are
// left. It takes effect at the compare-and-swap, or at the load.
func (l *lease) take(now time.Duration, tokens int) (left int, ok bool) {
	for {
		old := l.word.Load()
		left = leftOf(old, now)
		if left < tokens {
			return left, false
		}
		if l.word.CompareAndSwap(old, old-uint64(tokens)) {
			return left - tokens, true
		}
	}
}

// left returns how many tokens may be spent at the time now.
func (l *lease) left(now time.Duration) int { return leftOf(l.word.Load(), now) }

func leftOf(word uint64, now time.Duration) int {
	if uint64(now/time.Millisecond) >= word>>leaseBits {
		return 0 // ended; a lease ends at the beginning of its last millisecond
	}
	return int(word & maxLease)
}

// put begins a lease of so many tokens in place of an earlier one, and returns how many
// that had left.
func (l *lease) put(tokens int, end time.Duration) (left int) {
	return int(l.word.Swap(uint64(end/time.Millisecond)<<leaseBits|uint64(tokens)) & maxLease)
}
