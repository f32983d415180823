//go:build race

package ratelimit

// raceEnabled makes the longest tests shorter under the race detector, which
// makes them ten times slower.
const raceEnabled = true
