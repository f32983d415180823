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
	// RetryAfter is the time until the shared bucket holds the cost, if nobody else
	// takes from it; the key may get a slot before. It is the default.
	OverflowShare Overflow = iota

	// OverflowDeny denies such requests. RetryAfter is the time until one of the
	// slots can be given to the key, if no other key gets it first.
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
			t.counters.cell().refused.Add(1)
			return l.deny(old, ns, l.units(ns), charge, credit)
		}
		schedpoint("cas", word)
		if word.CompareAndSwap(old, next) {
			bound := home.boundUntil(tag)
			since := max(from, bound.load())
			bound.raise(since + min(int64(l.delay(0, charge)), math.MaxInt64-max(0, since)))
			t.counters.cell().shared.Add(1)
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
	sets := t.setsOf(at.hash)
	from := t.notBefore(sets, ns)
	if t.mayOwn(sets, at.want, from) {
		return d, false
	}
	if t.overflow == OverflowDeny {
		if d.RetryAfter, ok = t.wait(sets, ns); !ok {
			return d, false
		}
	} else {
		schedpoint("load", t.sharedOf(at.want))
		word, credit, granted := l.take(t.sharedOf(at.want).Load(), l.units(from), charge)
		if granted {
			return d, false
		}
		d = l.deny(word, ns, l.units(ns), charge, credit)
	}
	// A slot that the key has got since it was looked up would be passed over.
	if t.owned(sets, at.want) != nil {
		return d, false
	}
	t.counters.cell().refused.Add(1)
	return d, true
}

// mayOwn reports whether a key that has no slot could get one at the time from. Without
// the locks of its sets, it may be wrong about slots that are being claimed.
func (t *table) mayOwn(sets [3]uint64, tag uint64, from int64) bool {
	if from < t.stripeOf(sets[0]).boundUntil(tag).load() {
		return false
	}
	now := t.layout.units(from)
	return t.overflow == OverflowEvict || t.anyVacant(sets[0], now) || t.anyVacant(sets[1], now) || t.anyVacant(sets[2], now)
}

func (t *table) absent(at place, ns int64, now uint64) (uint64, time.Duration) {
	sets := t.setsOf(at.hash)
	if t.mayOwn(sets, at.want, t.notBefore(sets, ns)) {
		return t.layout.fresh(now), 0
	}
	if t.overflow == OverflowDeny {
		if wait, ok := t.wait(sets, ns); ok {
			return removed, wait
		}
		return t.layout.fresh(now), 0
	}
	schedpoint("load", t.sharedOf(at.want))
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

// wait returns the time from ns until one of the slots of the sets is vacant, at least a
// nanosecond. It reports false if a slot is being claimed, or was freed, meanwhile.
func (t *table) wait(sets [3]uint64, ns int64) (wait time.Duration, ok bool) {
	wait = math.MaxInt64
	now := t.layout.units(ns)
	for _, set := range sets {
		for i := range t.sets[set] {
			s := &t.sets[set][i]
			schedpoint("load", &s.word)
			word := s.word.Load()
			if word == removed {
				return 1, false
			}
			wait = min(wait, t.layout.delay(ns, t.layout.untilVacant(word, now)))
		}
	}
	return max(1, wait), true
}

// claimFullest claims, of the slots of the sets, the one whose bucket lacks the
// fewest tokens, and counts these. It returns nil if all were used in the step of from.
func (t *table) claimFullest(sets [3]uint64, tag uint64, from int64) *slot {
	l := t.layout
	now := l.units(from)
	for {
		var fullest candidate
		var most uint64
		for _, set := range sets {
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
			t.counters.cell().evicted.Add(1)
			t.counters.forgive(float64(l.full-most) / float64(l.charge(1)))
			return fullest.slot
		}
	}
}
