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

// takeAll spends up to so many tokens, and returns how many, and the word that they were in.
func (l *lease) takeAll(now time.Duration, most int) (got int, word uint64) {
	for {
		old := l.word.Load()
		if got = min(leftOf(old, now), most); got == 0 || l.word.CompareAndSwap(old, old-uint64(got)) {
			return got, old
		}
	}
}

// putBack puts tokens back that were taken from a word and not spent, unless that lease is
// over.
func (l *lease) putBack(tokens int, word uint64) bool {
	for {
		old := l.word.Load()
		if old>>leaseBits != word>>leaseBits {
			return false
		}
		if l.word.CompareAndSwap(old, old+uint64(tokens)) {
			return true
		}
	}
}

// put begins a lease of so many tokens in place of an earlier one, and returns what is left
// of that.
func (l *lease) put(tokens int, end time.Duration) leftover {
	return over(l.word.Swap(uint64(end/time.Millisecond)<<leaseBits | uint64(tokens)))
}

// end ends the lease, if it is over at the time now, and returns what is left of it.
func (l *lease) end(now time.Duration) leftover {
	word := l.word.Load()
	if leftOf(word, now) > 0 || !l.word.CompareAndSwap(word, 0) {
		return leftover{}
	}
	return over(word)
}

func over(word uint64) leftover {
	return leftover{tokens: int(word & maxLease), end: time.Duration(word>>leaseBits) * time.Millisecond}
}
