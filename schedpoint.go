//go:build !ratelimit_explore

package ratelimit

// schedpoint marks the place before an access to memory that goroutines share. It
// does nothing and is inlined away; with the tag ratelimit_explore, a test takes
// control there and runs every interleaving of these accesses.
func schedpoint(string) {}
