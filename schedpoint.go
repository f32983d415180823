//go:build !ratelimit_explore

package ratelimit

import "sync/atomic"

// schedpoint marks the place before an access to memory that goroutines share: to the
// word or tag v, or if that is nil to what the place says. It does nothing and is
// inlined away; with the tag ratelimit_explore, a test takes control there and runs
// every interleaving of these accesses.
func schedpoint(place string, v *atomic.Uint64) {}

// setSlots is the number of slots in a set of a table: as many as a cache line holds.
const setSlots = 4
