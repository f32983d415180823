package ratelimit

import "sync/atomic"

// A latest is the latest of some times, in nanoseconds. The zero value is that of none:
// earlier than any time.
type latest struct {
	biased atomic.Uint64 // such that 0 is the least int64
}

func (l *latest) load() int64 { return int64(l.biased.Load() ^ 1<<63) }

// raise sets it to ns if that is later.
func (l *latest) raise(ns int64) {
	biased := uint64(ns) ^ 1<<63
	for {
		old := l.biased.Load()
		if old >= biased || l.biased.CompareAndSwap(old, biased) {
			return
		}
	}
}
