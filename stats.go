package ratelimit

import (
	"math"
	"math/rand/v2"
)

// Stats is what a limiter holds and has done since it was made. It is a plain value.
// All but Keys and Live are 0 without WithMaxKeys.
type Stats struct {
	// Keys is the number of buckets in memory, as by Len.
	Keys int

	// Live is how many of them are short of tokens, or with WithMaxKeys cannot make room
	// for another key yet: what WithMaxKeys has to have room for. It is exact if there are
	// no more than 4096 buckets, or 65,536 slots; otherwise it is estimated from so many,
	// to within some hundredths of Keys as a rule, but not where a table is nearly empty.
	Live int

	// Takeovers is how many slots whose buckets had refilled were given to another key.
	// It includes Evicted.
	Takeovers int64

	// Shared is how many requests were charged to a shared bucket, and Refused is how
	// many were denied because a key had no bucket of its own: by the shared bucket,
	// or by OverflowDeny. Together they are the requests that met the overflow policy,
	// but for those that led to an eviction.
	Shared  int64
	Refused int64

	// Evicted is how many buckets that were short of tokens lost their slot to another
	// key (OverflowEvict), and Forgiven how many tokens these lacked.
	Evicted  int64
	Forgiven float64
}

// Stats returns the numbers of the limiter. With WithMaxKeys it takes up to 100
// microseconds and no lock. Without, it takes a millisecond per million keys, and locks a
// cache line of a map at a time, which only first checks of keys can wait for. It
// allocates nothing. The numbers are read one after the other while other calls go on.
func (tb *TokenBucket) Stats() Stats {
	if tb.store == nil {
		return Stats{}
	}
	return tb.store.stats(tb.layout.units(tb.clock.now()))
}

// Stats looks at the first few thousand buckets that it comes across, and at so many
// slots of a table at most.
const (
	sampleBuckets = 4096
	sampleSlots   = 1 << 16
)

func (t *table) stats(now uint64) Stats {
	// Hashes spread keys evenly over the sets, so that neighbouring ones are as good a
	// sample as any.
	n := uint64(len(t.sets))
	looked, live, from := 0, 0, rand.Uint64N(n)
	for i := range min(n, sampleSlots/setSlots) {
		s := &t.sets[(from+i)%n]
		for j := range s {
			if word := s[j].word.Load(); word != removed {
				looked++
				if !t.layout.vacant(word, now) {
					live++
				}
			}
		}
		if looked >= sampleBuckets {
			break
		}
	}
	s := t.counters.stats()
	s.Live = scale(live, looked, s.Keys)
	return s
}

// scale estimates how many of all there are, if there are n of the looked at. If none
// was looked at it may be all.
func scale(n, looked, all int) int {
	if looked == 0 {
		return all
	}
	return int(math.Round(float64(n) / float64(looked) * float64(all)))
}

func (s *shardmap) stats(now uint64) Stats {
	keys := s.len()
	looked, live := 0, 0
	for i, from := 0, rand.IntN(shardCount); i < shardCount && looked < sampleBuckets; i++ {
		if m := s.maps[(from+i)%shardCount].Load(); m != nil {
			m.Range(func(_ string, b *bucket) bool {
				looked++
				if word := b.word.Load(); word != removed && !s.layout.refilled(word, now) {
					live++
				}
				return true
			})
		}
	}
	return Stats{Keys: keys, Live: scale(live, looked, keys)}
}
