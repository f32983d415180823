package ratelimit

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
)

// counters are what a table counts. Each count goes to one of some cells, at random, so
// that goroutines that count do not wait for each other's cache line. Counting allocates
// nothing.
type counters struct {
	cells    [16]counterCell
	forgiven atomic.Uint64 // tokens, the bits of a float64
}

// A counterCell is a cache line.
type counterCell struct {
	keys, takeovers, shared, refused, evicted atomic.Int64
	_                                         [24]byte
}

func (c *counters) cell() *counterCell { return &c.cells[rand.Uint32()%uint32(len(c.cells))] }

// forgive adds tokens that an evicted bucket lacked.
func (c *counters) forgive(tokens float64) {
	for {
		old := c.forgiven.Load()
		if c.forgiven.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+tokens)) {
			return
		}
	}
}

func (c *counters) keys() (n int64) {
	for i := range c.cells {
		n += c.cells[i].keys.Load()
	}
	return n
}

// stats returns the sums, one after the other.
func (c *counters) stats() (s Stats) {
	s.Keys = int(c.keys())
	for i := range c.cells {
		cell := &c.cells[i]
		s.Takeovers += cell.takeovers.Load()
		s.Shared += cell.shared.Load()
		s.Refused += cell.refused.Load()
		s.Evicted += cell.evicted.Load()
	}
	s.Forgiven = math.Float64frombits(c.forgiven.Load())
	return s
}
