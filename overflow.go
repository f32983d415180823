package ratelimit

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Overflow says what happens to a request for a key that has no bucket, when every
// slot in which it could have one holds a bucket that is short of tokens
// (WithMaxKeys). Buckets of other keys are never touched but by OverflowEvict.
type Overflow uint8

const (
	// OverflowShare charges one of a few buckets that such keys share. Each has the
	// capacity and the rate of the limit, so that all such keys together get no more
	// than these few buckets: whoever rotates keys throttles himself. A key that was
	// granted something from a shared bucket gets a bucket of its own only when it
	// would have been full again, so that it never has more than the limit allows.
	// It is the default.
	OverflowShare Overflow = iota

	// OverflowDeny denies such requests. RetryAfter is the time until one of the
	// slots has refilled.
	OverflowDeny

	// OverflowEvict takes the slot of the fullest of these buckets, so that as few
	// tokens as possible are forgiven: a key that comes back after that is full, and
	// may have been granted more than the limit allows by what was forgiven, which
	// Stats counts. A public service should not use it: whoever rotates keys can
	// have his own bucket forgiven. (If every slot was used at this very instant, as
	// the clock tells it, the request is charged to a shared bucket.)
	OverflowEvict
)

// String returns the name of the policy, such as "OverflowShare".
func (o Overflow) String() string {
	switch o {
	case OverflowShare:
		return "OverflowShare"
	case OverflowDeny:
		return "OverflowDeny"
	case OverflowEvict:
		return "OverflowEvict"
	}
	return fmt.Sprintf("Overflow(%d)", uint8(o))
}

// A sharedBucket is a bucket for keys that have no slot, in a cache line of its own.
type sharedBucket struct {
	word atomic.Uint64
	_    [56]byte
}

// maxShared is the most shared buckets of a table: enough that a few keys without a
// slot, which there always are in a table that is nearly full, seldom meet in one.
const maxShared = 64

func newShared(l *layout, sets uint64) []sharedBucket {
	shared := make([]sharedBucket, min(maxShared, max(1, sets/64)))
	for i := range shared {
		shared[i].word.Store(l.fresh(0))
	}
	return shared
}

func (t *table) sharedOf(tag uint64) *atomic.Uint64 {
	i, _ := bits.Mul64(tag, uint64(len(t.shared)))
	return &t.shared[i].word
}

// refreshShared moves the last of shared buckets that are full up to now, before it
// wraps around.
func (t *table) refreshShared(now uint64) {
	for i := range t.shared {
		word := &t.shared[i].word
		if old := word.Load(); t.layout.vacant(old, now) {
			word.CompareAndSwap(old, t.layout.pack(t.layout.full, now))
		}
	}
}

// boundUntil returns the time until which keys with this tag are bound to a shared bucket.
//
// A key must not take a whole capacity from a shared bucket and another one from a
// bucket of its own. So whatever a key is granted from a shared bucket is booked here,
// as the time at which a bucket of its own would be full again: until then it stays
// with the shared one. (From a full bucket it goes to a shared one, which holds no more
// than its own would.) Few keys are granted anything from the few shared buckets,
// however many ask, so that it seldom matters to a key that it has the entry in common
// with others.
func (s *stripe) boundUntil(tag uint64) *latest {
	return &s.bound[tag%uint64(len(s.bound))]
}

// charge charges the shared bucket of a key and books what it grants. The caller holds
// the locks of the key's sets, so that the key does not get a slot meanwhile. The charge
// counts at the time from: not before the removal of a bucket of the key's own, which
// was full only then. The decision is for a caller at the time ns.
func (t *table) charge(home *stripe, tag uint64, ns, from int64, charge uint64) Decision {
	l := t.layout
	word := t.sharedOf(tag)
	now := l.units(from)
	for {
		schedpoint("load", word)
		old := word.Load()
		next, credit, ok := l.take(old, now, charge)
		if !ok {
			t.counters.refused.Inc()
			return l.deny(old, ns, l.units(ns), charge, credit)
		}
		schedpoint("cas", word)
		if word.CompareAndSwap(old, next) {
			bound := home.boundUntil(tag)
			since := max(from, bound.load())
			bound.raise(since + min(int64(l.delay(0, charge)), math.MaxInt64-max(0, since)))
			t.counters.shared.Inc()
			return Decision{Allowed: true, Remaining: l.whole(credit)}
		}
	}
}

// refuse denies the request of a key that has no slot and cannot get one, if its
// shared bucket denies it, or the policy. It writes nothing but counts, and takes no
// lock, so that a key under attack costs little here as well; it returns false if
// it takes more to decide.
func (t *table) refuse(at place, ns int64, charge uint64) (d Decision, ok bool) {
	l := t.layout
	a, b := t.setsOf(at.hash)
	from := t.notBefore(a, b, ns)
	if from >= t.stripeOf(a).boundUntil(at.want).load() {
		if t.overflow == OverflowEvict || t.anyVacant(a, l.units(from)) || t.anyVacant(b, l.units(from)) {
			return d, false
		}
	}
	if t.overflow == OverflowDeny {
		d = t.refusal(a, b, ns)
	} else {
		schedpoint("load", t.sharedOf(at.want))
		word, credit, granted := l.take(t.sharedOf(at.want).Load(), l.units(from), charge)
		if granted {
			return d, false
		}
		d = l.deny(word, ns, l.units(ns), charge, credit)
	}
	// A slot that the key has got since it was looked up would be passed over.
	if t.owned(a, b, at.want) != nil {
		return d, false
	}
	t.counters.refused.Inc()
	return d, true
}

func (t *table) absent(at place, ns int64, now uint64) (uint64, time.Duration) {
	a, b := t.setsOf(at.hash)
	from := t.notBefore(a, b, ns)
	if from >= t.stripeOf(a).boundUntil(at.want).load() {
		if t.overflow == OverflowEvict || t.anyVacant(a, t.layout.units(from)) || t.anyVacant(b, t.layout.units(from)) {
			return t.layout.fresh(now), 0
		}
	}
	if t.overflow == OverflowDeny {
		return removed, t.refusal(a, b, ns).RetryAfter
	}
	return t.sharedOf(at.want).Load(), 0
}

// anyVacant reports whether any slot of the set is vacant at now, or may be: it may have
// been claimed for another key.
func (t *table) anyVacant(set, now uint64) bool {
	for i := range t.sets[set] {
		if _, age := t.look(set, i, now); age >= 0 {
			return true
		}
	}
	return false
}

// refusal returns the denial of a key that gets no bucket: until one of the slots of
// its two sets is vacant.
func (t *table) refusal(a, b uint64, ns int64) Decision {
	wait := time.Duration(math.MaxInt64)
	now := t.layout.units(ns)
	for _, set := range [2]uint64{a, b} {
		for i := range t.sets[set] {
			s := &t.sets[set][i]
			schedpoint("load", &s.word)
			if word := s.word.Load(); word != removed {
				wait = min(wait, t.layout.delay(ns, t.layout.untilVacant(word, now)))
			}
		}
	}
	return Decision{RetryAfter: max(1, wait)}
}

// claimFullest claims, of the slots of the two sets, the one whose bucket lacks the
// fewest tokens, and counts these. It returns nil if all were used in the step of from.
func (t *table) claimFullest(a, b, tag uint64, from int64) *slot {
	l := t.layout
	now := l.units(from)
	for {
		var fullest candidate
		var most uint64
		for _, set := range [2]uint64{a, b} {
			for i := range t.sets[set] {
				c, _ := t.look(set, i, now)
				if c.word == removed || l.age(c.word, now) <= int64(l.stepMask) {
					continue
				}
				if credit, _ := l.at(c.word, now); credit > most {
					fullest, most = c, credit
				}
			}
		}
		if fullest.slot == nil {
			return nil
		}
		if t.claim(fullest, tag, from) {
			t.counters.evicted.Inc()
			t.counters.forgiven.Add(int64(l.full - most))
			return fullest.slot
		}
	}
}
