//go:build ratelimit_explore

package ratelimit

import "sync/atomic"

// onSchedpoint is called at every schedpoint. interleave_test.go sets it.
var onSchedpoint func(place string, v *atomic.Uint64)

func schedpoint(place string, v *atomic.Uint64) {
	if onSchedpoint != nil {
		onSchedpoint(place, v)
	}
}

// setSlots is the number of slots in a set of a table: one, so that all interleavings
// of the looks at them can be run.
const setSlots = 1
