//go:build ratelimit_explore

package ratelimit

// onSchedpoint is called at every schedpoint. interleave_test.go sets it.
var onSchedpoint func(place string)

func schedpoint(place string) {
	if onSchedpoint != nil {
		onSchedpoint(place)
	}
}
