package ratelimit

import (
	"sync/atomic"
	"time"
)

// A place is where the word of a key is. The default store gives each key a word for
// good; the table's slots change hands.
type place struct {
	word *atomic.Uint64 // nil: the key has none
	tag  *atomic.Uint64 // says whose the word is; nil: the key's, for good
	want uint64         // what tag holds while the word is the key's

	hash uint64 // of the key, for create
}

// left reports whether the word is no longer that of the key, so that it has to be looked
// up again. If not, then a word that was loaded before and is still there is the key's.
func (p *place) left() bool {
	if p.tag == nil {
		return false
	}
	schedpoint("tag", p.tag)
	return p.tag.Load() != p.want
}

// again loads the word once more. A word that is still the same was the key's at the
// look at the tag between, hence all the time: no two owners of a slot have a word in
// common.
func (p *place) again() uint64 {
	schedpoint("load", p.word)
	return p.word.Load()
}

// load returns the word if it is the key's, or removed. It takes effect at the first
// load of a word that is found again after a look at the tag.
func (p *place) load() uint64 {
	for p.word != nil {
		schedpoint("load", p.word)
		word := p.word.Load()
		if word == removed || p.left() {
			break
		}
		if p.tag == nil || p.again() == word {
			return word
		}
	}
	return removed
}

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

	// absent returns what a request at ns, now in units, for a key that was found to
	// have no bucket would meet: the word of the bucket that it would be charged to,
	// or no word and how long it would be denied at least.
	absent(at place, ns int64, now uint64) (word uint64, wait time.Duration)

	// sweep removes the buckets that are forgettable at the time that now returns
	// and reports how many those were.
	sweep(now func() int64) int

	// len returns the number of buckets.
	len() int

	// stats returns the number of buckets, and what was counted.
	stats(now uint64) Stats
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
