package ratelimit

import "sync/atomic"

// A bucket is the word of one key. Nothing but the word ever changes in it, and
// only by compare-and-swap; once the word is removed it stays so.
type bucket struct {
	word atomic.Uint64
}

// A store finds the bucket of a key. It is safe for concurrent use.
//
// What a store may do of its own accord is to remove a bucket that layout calls
// forgettable: it moves the word to removed and then forgets the bucket, in this
// order, so that whoever still holds the bucket can see that it is no longer the
// one of its key. docs/concurrency.md has the protocol as a state machine.
type store interface {
	// find returns the bucket of key, or nil if the key has none. The bucket may
	// have been removed by the time the caller looks at it.
	find(key string) *bucket

	// create returns the bucket of key and makes one if the key has none, or has
	// one that is removed. A new bucket is fresh at the time ns, but not before
	// the removal of any earlier bucket of the key.
	create(key string, ns int64) *bucket

	// sweep removes the buckets that are forgettable at the time that now returns
	// and reports how many those were.
	sweep(now func() int64) int

	// len returns the number of buckets.
	len() int
}
