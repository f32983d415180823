package ratelimit

import (
	"math"
	"sync/atomic"
	"time"
)

// This file says when a store sweeps of its own accord. Nothing runs while nothing
// happens: the call that inserts a key may sweep one shard, or one part of a table.
//
//	by count  A shard into which as many keys were inserted as its last sweep kept
//	          is swept. So an insertion pays for two visits of a bucket, and buckets
//	          that could be forgotten are never many more than the others, however
//	          fast new keys arrive.
//	by time   The shards are also swept in turn, at a pace of one visit per 2
//	          microseconds and one round per second at most, so that few
//	          insertions are enough to free what an earlier flood left behind. A
//	          table is swept by time alone, at one round per hour at most.

const (
	minInsertions = 64 // into a shard before it is swept by count
	nanosPerVisit = 2000
	minRound      = int64(time.Second)

	// A table has no need to be swept in order to forget, only in order that Len
	// follows, and that no bucket is left alone for as long as last can count.
	tableRound = int64(time.Hour)
)

// sweepParts is how many parts a store is swept in.
const sweepParts = 128

// A pace says which part is swept next by time, and when.
type pace struct {
	sweeping atomic.Bool  // at most one automatic sweep runs at a time
	due      atomic.Int64 // the next part is swept at this time, in nanoseconds
	next     uint64       // that part; owned by whoever set sweeping
	rest     int64        // the least time from one part to the next, in nanoseconds
}

// init sets the pace of a round for a limit: no bucket that anything was taken from
// refills by itself in less than the time of one token, so that there is no use in a
// faster round.
func (p *pace) init(l *layout, round int64) {
	token := l.delay(0, l.charge(1))
	p.rest = max(round, int64(token)) / sweepParts
	p.due.Store(p.rest)
}

// begin reports whether the caller may sweep, and then call end.
func (p *pace) begin() bool { return p.sweeping.CompareAndSwap(false, true) }
func (p *pace) end()        { p.sweeping.Store(false) }

// advance goes on to the next part after one has been swept at the time ns; visits is
// what the next round's sweep of that part will have to visit.
func (p *pace) advance(ns, visits int64) {
	p.next = (p.next + 1) % sweepParts
	rest := max(p.rest, nanosPerVisit*visits)
	due := min(p.due.Load(), math.MaxInt64-rest) + rest
	if p.next == 0 {
		due = max(due, ns) // a round that comes late is made up for once, not often
	}
	p.due.Store(due)
}

// sweepAfterInsertion sweeps at most one shard after a key was inserted at the
// time ns.
func (s *shardmap) sweepAfterInsertion(shard uint64, ns int64) {
	state := &s.states[shard]
	byCount := state.inserted.Add(1) >= max(minInsertions, state.kept.Load())
	byTime := ns >= s.pace.due.Load()
	if !byCount && !byTime || !s.layout.forgets() || !s.pace.begin() {
		return
	}
	defer s.pace.end()
	if byCount {
		s.sweepShard(shard, ns)
		return
	}
	shard = s.pace.next
	s.sweepShard(shard, ns)
	s.pace.advance(ns, s.states[shard].kept.Load())
}
