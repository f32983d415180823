package ratelimit

import (
	"math"
	"sync/atomic"
	"time"
)

// This file says when a shardmap sweeps of its own accord. Nothing runs while
// nothing happens: the call that inserts a key may sweep one shard.
//
//	by count  A shard into which as many keys were inserted as its last sweep kept
//	          is swept. So an insertion pays for two visits of a bucket, and buckets
//	          that could be forgotten are never many more than the others, however
//	          fast new keys arrive.
//	by time   The shards are also swept in turn, at a pace of one visit per 2
//	          microseconds and one round per second at most, so that few
//	          insertions are enough to free what an earlier flood left behind.

const (
	minInsertions = 64 // into a shard before it is swept by count
	nanosPerVisit = 2000
	minRound      = int64(time.Second)
)

// A pace says which shard is swept next by time, and when.
type pace struct {
	sweeping atomic.Bool  // at most one automatic sweep runs at a time
	due      atomic.Int64 // the next shard is swept at this time, in nanoseconds
	next     uint64       // that shard; owned by whoever set sweeping
	rest     int64        // the least time from one shard to the next, in nanoseconds
}

// init sets the pace for a limit: no bucket that anything was taken from refills by
// itself in less than the time of one token, so that there is no use in a faster
// round.
func (p *pace) init(l *layout) {
	token := l.delay(0, l.charge(1))
	p.rest = max(minRound, int64(token)) / shardCount
	p.due.Store(p.rest)
}

// sweepAfterInsertion sweeps at most one shard after a key was inserted at the
// time ns.
func (s *shardmap) sweepAfterInsertion(shard uint64, ns int64) {
	state := &s.states[shard]
	byCount := state.inserted.Add(1) >= max(minInsertions, state.kept.Load())
	byTime := ns >= s.pace.due.Load()
	if !byCount && !byTime || !s.layout.forgets() || !s.pace.sweeping.CompareAndSwap(false, true) {
		return
	}
	defer s.pace.sweeping.Store(false)
	if byCount {
		s.sweepShard(shard, ns)
		return
	}
	shard = s.pace.next
	s.sweepShard(shard, ns)
	s.pace.next = (shard + 1) % shardCount
	rest := max(s.pace.rest, nanosPerVisit*s.states[shard].kept.Load())
	due := min(s.pace.due.Load(), math.MaxInt64-rest) + rest
	if s.pace.next == 0 {
		due = max(due, ns) // a round that comes late is made up for once, not often
	}
	s.pace.due.Store(due)
}
