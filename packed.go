package ratelimit

import (
	"math"
	"math/bits"
	"time"
)

// This file is the arithmetic of one bucket and nothing else: no atomics, no
// clock, no map, no allocation. Every function in it is pure. layout.go chooses
// the numbers of a layout; bucket.go owns the compare-and-swap.
//
// Time is measured in tokens. One unit is 2^-f token, and the clock is read as
// the number of units that the rate has produced since the limiter was made, so
// that a refill is an addition. A bucket is one word of two fixed-point fields,
// from high to low:
//
//	 63             T  T-1            0
//	+----------------+---------------+
//	| credit: K bits | last: T bits  |      K + T = 64, chosen per limit
//	+----------------+---------------+
//
//	last    the instant of the latest grant, refund or reset, in steps of 2^g
//	        units, modulo 2^T. The range of 2^T steps is at least two years and at
//	        least four times the time to fill the bucket. Usually g is 0.
//	credit  the tokens at the beginning of the step last, in units, plus a bias
//	        that keeps the field above zero: the debt that the limit allows, and
//	        2^g, since last is up to 2^g-1 units too early.
//
// last is the low field because it is compared modulo its range: the credit above
// it drops out with one mask. credit is the high one because it is compared as a
// number: one shift extracts it, and its carry has nowhere to go.
//
// An instant is compared with last as if it lay between an eighth of the range
// before it (an old clock read) and seven eighths after it.
//
// The invariants, each with the test that fails if it is broken:
//
//	W1  last never moves back                           FuzzStep
//	W2  1 <= credit <= full, and from last on the tokens are not below the
//	    deepest debt                                    FuzzStep
//	W3  a denied take leaves the word alone             FuzzStep, TestDenialWritesNothing
//	W4  no word that these functions return is removed  FuzzStep
//	W5  credit at any later instant is the exact sum of what was earned and
//	    what was taken, cut off at full: no remainder is ever dropped
//	                                                    FuzzStep, TestOracleDifferential
//	W6  delay returns the first nanosecond at which units reaches the target
//	                                                    FuzzRetryAfter
//
// docs/packed-word.md has the proofs.

// removed is the one word that is not the state of a bucket: there is none, or none
// any more. It is the zero value, so that memory that was never written says so. Its
// credit would be 0, which a layout never reaches (W4).
const removed = uint64(0)

// A layout holds the numbers that turn nanoseconds into units and split a word
// into its fields, all derived from one limit by newLayout. It is read-only
// after that.
type layout struct {
	mantissa uint64 // m: units(ns) = floor(ns * m / 2^s), 2^63 <= m < 2^64
	shift    uint8  // s, 1..127
	unitBits uint8  // f, 0..20: a token is 2^f units
	stepBits uint8  // g: last counts steps of 2^g units
	lastBits uint8  // T, 3..62

	lastMask uint64 // 2^T-1
	stepMask uint64 // 2^g-1
	behind   uint64 // 2^(T-3): how many steps now may be behind last

	// Levels of the credit field, in units, bias included.
	empty uint64 // no token: the bias itself
	full  uint64 // capacity tokens
	start uint64 // a bucket that was never seen: full, or empty with WithStartEmpty
}

// units returns the units that the rate has produced ns nanoseconds after the
// limiter was made, rounded down, modulo 2^64. It never decreases with ns, also
// below zero, where a clock that was set back may lead.
func (l *layout) units(ns int64) uint64 {
	hi, lo := l.product(ns)
	if l.shift >= 64 {
		return uint64(int64(hi) >> (l.shift & 63))
	}
	return hi<<(-l.shift&63) | lo>>(l.shift&63)
}

// product returns ns * mantissa as a signed 128-bit number.
func (l *layout) product(ns int64) (hi, lo uint64) {
	hi, lo = bits.Mul64(uint64(ns), l.mantissa)
	return hi - l.mantissa&uint64(ns>>63), lo
}

// delay returns how long after ns the clock has moved on by the given units: the
// smallest d with units(ns+d) >= units(ns)+units. It inverts the multiplication
// of units and so cannot disagree with it. A delay of more than the largest
// time.Duration, 292 years, is returned as that.
func (l *layout) delay(ns int64, units uint64) time.Duration {
	if units == 0 {
		return 0
	}
	if bits.Len64(units)+int(l.shift) > 128 {
		return math.MaxInt64
	}
	// units(ns+d) >= units(ns)+units  <=>  d*m >= units*2^s - ns*m mod 2^s.
	hi, lo := l.product(ns)
	var wantHi, wantLo uint64
	if l.shift >= 64 {
		hi &= 1<<(l.shift&63) - 1
		wantHi = units << (l.shift & 63)
	} else {
		hi, lo = 0, lo&(1<<(l.shift&63)-1)
		wantHi, wantLo = units>>(-l.shift&63), units<<(l.shift&63)
	}
	wantLo, borrow := bits.Sub64(wantLo, lo, 0)
	wantHi, _ = bits.Sub64(wantHi, hi, borrow)
	if wantHi >= l.mantissa {
		return math.MaxInt64
	}
	d, rest := bits.Div64(wantHi, wantLo, l.mantissa)
	if rest > 0 {
		d++
	}
	return time.Duration(min(d, math.MaxInt64))
}

// pack returns the word of a bucket that holds credit at the instant now.
func (l *layout) pack(credit, now uint64) uint64 {
	step := now >> (l.stepBits & 63) & l.lastMask
	return (credit-now&l.stepMask)<<(l.lastBits&63) | step
}

// fresh returns the word of a bucket that is seen for the first time at now.
func (l *layout) fresh(now uint64) uint64 {
	return l.pack(l.start, now)
}

// age returns the units from the beginning of the step last of word to now. It is
// negative if last is a later step than now: then now is an old clock read.
func (l *layout) age(word, now uint64) int64 {
	steps := (now>>(l.stepBits&63)-word+l.behind)&l.lastMask - l.behind
	return int64(steps<<(l.stepBits&63) + now&l.stepMask)
}

// at returns the credit of word at now, or at the word's own last if that is
// later, and the instant at which it holds.
func (l *layout) at(word, now uint64) (credit, instant uint64) {
	credit = word >> (l.lastBits & 63)
	age := l.age(word, now)
	if age < 0 {
		return credit, now - uint64(age)
	}
	return min(credit+uint64(age), l.full), now
}

// precise reports whether the word knows its last to the unit, so that a caller with
// an older clock read sees the tokens as of last. Where it counts in steps, such a
// caller sees fewer: those at the beginning of the step, or as of its own read.
func (l *layout) precise() bool { return l.stepBits == 0 }

// conclusive reports whether now is not older than anything that word has seen, as
// far as the word can tell, or whether that makes no difference. A later step than
// last is later than all instants of last.
func (l *layout) conclusive(word, now uint64) bool {
	return l.precise() || l.age(word, now) > int64(l.stepMask)
}

// take charges cost units at now. If the bucket holds them it returns the word
// after the charge and the credit left; otherwise the same word, the credit it
// holds, and false.
func (l *layout) take(word, now, cost uint64) (next, credit uint64, ok bool) {
	credit, instant := l.at(word, now)
	if credit < cost+l.empty {
		return word, credit, false
	}
	credit -= cost
	return l.pack(credit, instant), credit, true
}

// refund puts units back at now, up to a full bucket.
func (l *layout) refund(word, now, units uint64) uint64 {
	credit, instant := l.at(word, now)
	return l.pack(min(credit+units, l.full), instant)
}

// reset returns the word of a bucket that is as if first seen at now, or at the
// word's own last if that is later.
func (l *layout) reset(word, now uint64) uint64 {
	credit, instant := l.at(word, now)
	if l.start == l.empty {
		// An old clock read may see less than nothing: leave it at that.
		return l.pack(min(credit, l.start), instant)
	}
	return l.pack(l.start, instant)
}

// until returns the units from now to the instant at which the credit of word
// reaches level, if nobody takes any. It is 0 if the credit is there already.
func (l *layout) until(word, now, level uint64) uint64 {
	credit := word >> (l.lastBits & 63)
	age := l.age(word, now)
	if age < 0 && credit >= level {
		return 0 // an old clock read sees the tokens as of last
	}
	return uint64(max(0, int64(level-credit)-age))
}

// forgets reports whether there is any state in which a bucket is the same as one
// that was never seen. With WithStartEmpty there is none: a bucket that was seen
// has earned what it holds.
func (l *layout) forgets() bool { return l.start == l.full }

// forgettable reports whether at now a bucket in the state word is the same as one
// that was never seen, so that forgetting it changes no later decision.
func (l *layout) forgettable(word, now uint64) bool { return l.forgets() && l.refilled(word, now) }

// refilled reports whether a bucket in the state word is full at now.
func (l *layout) refilled(word, now uint64) bool {
	age := l.age(word, now)
	return age >= 0 && word>>(l.lastBits&63)+uint64(age) >= l.full
}

// vacant reports whether at now the slot of a bucket in the state word may be given to
// another key: the bucket has refilled, and now is in a later step than last, so that
// every word of the other key will differ from every word of this one.
func (l *layout) vacant(word, now uint64) bool {
	age := l.age(word, now)
	return age > int64(l.stepMask) && word>>(l.lastBits&63)+uint64(age) >= l.full
}

// untilVacant returns the units from now to the instant at which word is vacant, if
// the bucket is not used again.
func (l *layout) untilVacant(word, now uint64) uint64 {
	laterStep := int64(l.stepMask) + 1 - l.age(word, now)
	return max(l.until(word, now, l.full), uint64(max(0, laterStep)))
}

// whole returns the whole tokens in credit, 0 while it is in debt.
func (l *layout) whole(credit uint64) int {
	if credit < l.empty {
		return 0
	}
	return int((credit - l.empty) >> (l.unitBits & 63))
}

// tokens returns the tokens in credit with their fraction, negative in debt, or as an
// old clock read sees them.
func (l *layout) tokens(credit uint64) float64 {
	return math.Ldexp(float64(int64(credit-l.empty)), -int(l.unitBits))
}

// charge returns n tokens in units.
func (l *layout) charge(n int) uint64 {
	return uint64(n) << (l.unitBits & 63)
}
