package ratelimit

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// A table is the store of WithMaxKeys: memory that is allocated once and holds no
// pointer. It is an array of sets, a cache line each, of slots that hold the tag and
// the word of one key. A key's slot is in one of two sets, or in a third one if these
// were full of buckets that are short of tokens, so that a check touches one cache line or
// two.
//
// Keys are not kept. Two hash functions, both seeded at random, stand for a key: the
// tag is one of them, the sets come from both (hash.go). Two keys share a bucket if
// their tags are equal and they meet in a set.
//
// # The life of a slot
//
//	state    tag  word     left by                                              to
//	FREE     0    removed  create for the key k: tag.Store(k)                   CLAIMED
//	CLAIMED  any  removed  the same, or sweep: tag.Store(k), word.Store(fresh)  OWNED
//	                                           tag.Store(0)                     FREE
//	OWNED    k    live     take, refund, reset of k: CAS(word, w, w')           OWNED
//	                       create for another key, sweep: CAS(word, w, removed),
//	                       where w is vacant (or evicted)                       CLAIMED
//
// A slot changes its state under the lock of the stripe that its set belongs to. A live
// word changes without: takes of a key that owns a slot know nothing of locks.
//
// The invariants, each with the tests that fail if it is broken:
//
//	T1  A key owns at most one slot: it gets one under the locks of its first two sets
//	    (and of the third one, if that is where), after a look at all that it may be in.
//	                                   TestInterleavings, table.pml
//	T2  The first word of an owner has a later last than any word of the owner before:
//	    a slot is claimed at a later step than its word's last, and a free one not before
//	    the set's removedAt. So a word is never that of two owners, and a swap from a word that was loaded before the tag was found
//	    to be k happens to the bucket of k, or not at all.
//	                                   TestInterleavings, TestSlotsChangeHands, table.pml
//	T3  No bucket of a key is older than the removal of the one before it: a claim raises
//	    removedAt of the set's stripe before it moves the word, and create reads that of
//	    all sets that it may have been in, after it has seen that the key has no bucket.
//	                                   TestSuccessorIsNotOlderThanRemoval, table.pml
//
// docs/concurrency.md has the argument for each.
type table struct {
	layout   *layout
	seed     uint64
	sets     []set
	stripes  []stripe
	shared   []sharedBucket
	overflow Overflow
	counters counters
	pace     pace
}

// A slot holds the bucket of the key that tag stands for.
type slot struct {
	tag  atomic.Uint64 // 0: nobody's
	word atomic.Uint64 // removed: there is no bucket
}

// A set is the slots that one cache line holds.
type set [setSlots]slot

// stripeSets is how many neighbouring sets share a stripe.
const stripeSets = 32

// A stripe, a cache line as well, is what some sets know besides their slots.
type stripe struct {
	mu        sync.Mutex // of all changes of slots in these sets, but for those of a live word
	removedAt latest     // not before any removal from these sets, in nanoseconds

	// bound is, for the keys whose first set is one of these and whose tag picks the
	// entry, the time until which they are bound to a shared bucket (overflow.go), in
	// nanoseconds.
	bound [5]latest

	// spilled has a bit for each of the sets: whether a key whose first set it is may
	// have its slot in its third one.
	spilled atomic.Uint32
	_       [4]byte
}

func newTable(l *layout, maxKeys int, overflow Overflow) *table {
	sets := setsFor(maxKeys)
	t := &table{
		layout:   l,
		seed:     rand.Uint64(),
		sets:     make([]set, sets),
		stripes:  make([]stripe, (sets+stripeSets-1)/stripeSets),
		shared:   newShared(l, sets),
		overflow: overflow,
	}
	t.pace.init(l, tableRound)
	return t
}

// setsFor returns the number of sets for maxKeys keys that are short of tokens: so
// many that eight of fifteen slots are taken then. With as many keys all the time, of which
// each makes room for another one, one request in 3000 finds no slot; if the table was
// empty before, one in 20,000 (TestTableHoldsMaxKeys).
func setsFor(maxKeys int) uint64 {
	return max(2, (15*uint64(maxKeys)+8*setSlots-1)/(8*setSlots))
}

// setsOf returns the sets of a key. The first two differ.
func (t *table) setsOf(hash uint64) [3]uint64 {
	a, b := t.firstSetsOf(hash)
	return [3]uint64{a, b, t.thirdSetOf(hash)}
}

func (t *table) firstSetsOf(hash uint64) (a, b uint64) {
	n := uint64(len(t.sets))
	a, _ = bits.Mul64(hash, n)
	b, _ = bits.Mul64(hash<<32, n-1) // the other half of the bits
	if b += a + 1; b >= n {
		b -= n
	}
	return a, b
}

func (t *table) thirdSetOf(hash uint64) uint64 {
	c, _ := bits.Mul64(hash*0x9e3779b97f4a7c15, uint64(len(t.sets))) // all bits, mixed
	return c
}

func (t *table) stripeOf(set uint64) *stripe { return &t.stripes[set/stripeSets] }

func (t *table) find(key string) place {
	tag, hash := tableHash(key, t.seed)
	p := place{want: tag, hash: hash}
	a, b := t.firstSetsOf(hash)
	s := t.sets[a].tagged(tag)
	if s == nil {
		s = t.sets[b].tagged(tag)
	}
	if s != nil {
		p.word, p.tag = &s.word, &s.tag
		return p
	}
	if t.hasSpilled(a) {
		if s = t.sets[t.thirdSetOf(hash)].tagged(tag); s != nil {
			p.word, p.tag = &s.word, &s.tag
		}
	}
	return p
}

// hasSpilled reports whether a key whose first set this is may have a slot in its third
// one. Under the lock of the set it is the truth.
func (t *table) hasSpilled(set uint64) bool {
	schedpoint("spilled", nil)
	return t.stripeOf(set).spilled.Load()&(1<<(set%stripeSets)) != 0
}

// used returns those of a key's sets in which it may have, or have had, a slot.
func (t *table) used(sets *[3]uint64) []uint64 {
	if t.hasSpilled(sets[0]) {
		return sets[:]
	}
	return sets[:2]
}

// tagged returns the slot with a tag, or nil.
func (s *set) tagged(tag uint64) *slot {
	for i := range s {
		schedpoint("tag", &s[i].tag)
		if s[i].tag.Load() == tag {
			return &s[i]
		}
	}
	return nil
}

// owned returns the slot that a key owns, or nil: under the locks of its first two sets,
// that is all there is to know, since nobody else can give it one.
func (t *table) owned(sets [3]uint64, tag uint64) *slot {
	for _, set := range t.used(&sets) {
		s := &t.sets[set]
		for i := range s {
			schedpoint("tag", &s[i].tag)
			if s[i].tag.Load() != tag {
				continue
			}
			schedpoint("load", &s[i].word)
			if s[i].word.Load() != removed {
				return &s[i]
			}
		}
	}
	return nil
}

func (t *table) create(_ string, at place, ns int64, charge uint64) (place, Decision, bool) {
	if d, ok := t.refuse(at, ns, charge); ok {
		return place{}, d, true
	}
	sets := t.setsOf(at.hash)
	p, d, result := t.insert(sets, 2, at, ns, charge)
	if result == full {
		p, d, result = t.insert(sets, 3, at, ns, charge)
	}
	if result == decided && ns >= t.pace.due.Load() && t.layout.forgets() && t.pace.begin() {
		t.sweepPart(t.pace.next, ns)
		t.pace.advance(ns, int64(len(t.sets)*setSlots/sweepParts))
		t.pace.end()
	}
	return p, d, result == decided
}

// What comes of an insertion.
type insertion int

const (
	decided insertion = iota // about the request
	found                    // the bucket that the key has by now
	full                     // the sets that were to be looked at
)

// insert gives the key a slot in the first of its sets, as many as reach says, and charges
// it; or a shared bucket; or it finds the bucket that the key has by now.
func (t *table) insert(sets [3]uint64, reach int, at place, ns int64, charge uint64) (place, Decision, insertion) {
	t.lock(sets[:reach])
	defer t.unlock(sets[:reach])

	if s := t.owned(sets, at.want); s != nil {
		return place{word: &s.word, tag: &s.tag, want: at.want, hash: at.hash}, Decision{}, found
	}
	home := t.stripeOf(sets[0])
	if reach == 3 {
		// Before notBefore, which is to look at the third set from now on.
		schedpoint("spill", nil)
		home.spilled.Or(1 << (sets[0] % stripeSets))
	}
	from := t.notBefore(sets, ns)
	if from >= home.boundUntil(at.want).load() {
		s := t.claimVacant(sets[:2], at.want, from)
		if s == nil && reach == 2 {
			return place{}, Decision{}, full
		}
		if s == nil {
			s = t.claimVacant(sets[2:], at.want, from)
		}
		if s == nil && t.overflow == OverflowEvict {
			s = t.claimFullest(sets, at.want, from)
		}
		if s != nil {
			word, d := t.layout.first(from, ns, charge)
			schedpoint("own", &s.word)
			s.word.Store(word)
			return place{}, d, decided
		}
	}
	if t.overflow == OverflowDeny {
		wait, _ := t.wait(sets, ns)
		t.counters.cell().refused.Add(1)
		return place{}, Decision{RetryAfter: wait}, decided
	}
	return place{}, t.charge(home, at.want, ns, from, charge), decided
}

// lock locks the stripes of some sets of a key.
func (t *table) lock(sets []uint64) {
	schedpoint("lock", nil)
	stripes, n := stripesOf(sets)
	for _, s := range stripes[:n] {
		t.stripes[s].mu.Lock()
	}
}

func (t *table) unlock(sets []uint64) {
	schedpoint("unlock", nil)
	stripes, n := stripesOf(sets)
	for _, s := range stripes[:n] {
		t.stripes[s].mu.Unlock()
	}
}

// stripesOf returns the stripes of up to three sets, each once and in ascending order: in
// which everybody locks them, or two could wait for each other.
func stripesOf(sets []uint64) (stripes [3]uint64, n int) {
	for _, set := range sets {
		s, i := set/stripeSets, n
		for i > 0 && stripes[i-1] > s {
			i--
		}
		if i > 0 && stripes[i-1] == s {
			continue
		}
		copy(stripes[i+1:], stripes[i:n])
		stripes[i] = s
		n++
	}
	return stripes, n
}

// notBefore returns the earliest time, but not before ns, at which a bucket may begin
// in the sets. The caller must have seen that its key has none.
func (t *table) notBefore(sets [3]uint64, ns int64) int64 {
	used := t.used(&sets)
	schedpoint("removedAt", nil)
	for _, set := range used {
		ns = max(ns, t.stripeOf(set).removedAt.load())
	}
	return ns
}

// A candidate is a slot that may be claimed as long as its word is the one seen.
type candidate struct {
	slot *slot
	set  uint64
	word uint64 // removed if the slot is free
}

// claimVacant claims a vacant slot for the key: one that is free, or whose bucket has
// refilled. Of the sets it takes the one with most of these, which evens out how full
// sets are, and there the one left alone for longest. It returns nil if there is no such
// slot.
func (t *table) claimVacant(sets []uint64, tag uint64, from int64) *slot {
	now := t.layout.units(from)
	for {
		most, best := 0, candidate{}
		for _, set := range sets {
			if n, c := t.vacant(set, now); n > most {
				most, best = n, c
			}
			if most == setSlots {
				break
			}
		}
		if most == 0 {
			return nil
		}
		if t.claim(best, tag, from) {
			return best.slot
		}
	}
}

// vacant returns how many slots of a set are vacant at now, and the best of them.
func (t *table) vacant(set, now uint64) (n int, best candidate) {
	var longest int64
	for i := range setSlots {
		c, age := t.look(set, i, now)
		if age < 0 {
			continue
		}
		n++
		if best.slot == nil || age > longest {
			best, longest = c, age
		}
	}
	return n, best
}

// look returns a slot as it is, and for how long in units its bucket has not changed if
// it is vacant at now, -1 if it is not.
func (t *table) look(set uint64, i int, now uint64) (c candidate, age int64) {
	s := &t.sets[set][i]
	schedpoint("load", &s.word)
	c = candidate{s, set, s.word.Load()}
	switch {
	case c.word == removed:
		return c, math.MaxInt64
	case t.layout.vacant(c.word, now):
		return c, t.layout.age(c.word, now)
	}
	return c, -1
}

// claim claims a slot for a key, or with the tag 0 for nobody, at the time from. It
// fails if the word has changed. The caller holds the lock of the set.
func (t *table) claim(c candidate, tag uint64, from int64) bool {
	// The order matters: first removedAt, since the third set of a key is looked at
	// without its lock; then the word, then the tag.
	if c.word != removed {
		schedpoint("raise", nil)
		t.stripeOf(c.set).removedAt.raise(from)
		schedpoint("claim", &c.slot.word)
		if !c.slot.word.CompareAndSwap(c.word, removed) {
			return false
		}
	}
	schedpoint("retag", &c.slot.tag)
	c.slot.tag.Store(tag)
	switch {
	case c.word == removed:
		t.counters.cell().keys.Add(1)
	case tag == 0:
		t.counters.cell().keys.Add(-1)
	default:
		t.counters.cell().takeovers.Add(1)
	}
	return true
}

func (t *table) len() int { return int(t.counters.keys()) }

// sweep frees the slots of buckets that have refilled. Nothing needs it but Len, since
// such a slot is vacant as it is; and a last that wraps around, if a bucket was left
// alone for that long.
func (t *table) sweep(now func() int64) int {
	swept := 0
	for part := range uint64(sweepParts) {
		ns := now()
		swept += t.sweepPart(part, ns)
	}
	return swept
}

// sweepPart does so in one part of the table.
func (t *table) sweepPart(part uint64, ns int64) (swept int) {
	if !t.layout.forgets() {
		return 0
	}
	now := t.layout.units(ns)
	n := uint64(len(t.sets))
	for set := part * n / sweepParts; set < (part+1)*n/sweepParts; set++ {
		swept += t.sweepSet(set, ns, now)
	}
	if part == 0 {
		t.refreshShared(now)
	}
	return swept
}

// sweepSet does so in one set. It takes the lock for slots that it can free.
func (t *table) sweepSet(set uint64, ns int64, now uint64) (swept int) {
	for i := range setSlots {
		c, age := t.look(set, i, now)
		if age < 0 || c.word == removed {
			continue
		}
		t.lock([]uint64{set})
		if t.claim(c, 0, ns) {
			swept++
		}
		t.unlock([]uint64{set})
	}
	return swept
}
