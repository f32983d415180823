package ratelimit

import "sync/atomic"

// A place is where the word of a key is. The default store gives each key a word for
// good; the table's slots change hands.
type place struct {
	word *atomic.Uint64 // nil: the key has none
	tag  *atomic.Uint64 // says whose the word is; nil: the key's, for good
	want uint64         // what tag holds while the word is the key's

	hash uint64 // of the key, for create
}

// left reports whether the word is no longer, or not again, that of the key. A word
// that was loaded before and is not removed was the key's if it reports false.
func (p *place) left() bool { return p.tag != nil && p.tag.Load() != p.want }

// A store finds the bucket of a key. It is safe for concurrent use.
//
// What a store may do of its own accord is to remove a bucket that layout calls
// forgettable: it moves the word to removed before anything else, so that whoever
// still holds the place can see that the bucket is no longer there.
// docs/concurrency.md has the protocols as state machines.
type store interface {
	// find returns the place of the bucket of key. The bucket may have been removed
	// by the time that the caller looks at it.
	find(key string) place

	// create is called when key was found to have no bucket, or one that is removed.
	// It makes a bucket, charges it for the key's first request, and returns the
	// decision and true. If there is a bucket by now it returns its place and false.
	//
	// A new bucket is as if first seen at the time ns, but not before the removal of
	// any earlier bucket of the key.
	create(key string, at place, ns int64, charge uint64) (place, Decision, bool)

	// sweep removes the buckets that are forgettable at the time that now returns
	// and reports how many those were.
	sweep(now func() int64) int

	// len returns the number of buckets.
	len() int
}

// first returns the word of a bucket that is first seen at the time from and then
// charged, and the decision about the charge as of the time ns.
func (l *layout) first(from, ns int64, charge uint64) (uint64, Decision) {
	now := l.units(from)
	word, credit, ok := l.take(l.fresh(now), now, charge)
	if !ok {
		return word, l.deny(word, ns, l.units(ns), charge, credit)
	}
	return word, Decision{Allowed: true, Remaining: l.whole(credit)}
}

// deny returns the denial of a charge by a bucket in the state word, at the time ns,
// now in units, as of which it holds credit.
func (l *layout) deny(word uint64, ns int64, now, charge, credit uint64) Decision {
	return Decision{
		RetryAfter: l.delay(ns, l.until(word, now, l.empty+charge)),
		Remaining:  l.whole(credit),
	}
}
