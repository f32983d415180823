// Package ratelimit limits how often things may happen, per key: requests per user,
// logins per address, bytes per API key. It keeps a token bucket for each key in one
// atomic word, so that a check of a key takes no lock and allocates nothing.
//
//	limiter := ratelimit.NewTokenBucket(20, 5) // a burst of 20, then 5 a second
//
//	d, err := limiter.Allow(ctx, userID)
//	if err == nil && !d.Allowed {
//		// Too many: try again after d.RetryAfter.
//	}
//
// A [TokenBucket] starts full, with capacity tokens, and refills continuously at its
// rate. A request is granted if the bucket holds its cost. Use
//
//   - [TokenBucket.Allow] for requests that all cost the same,
//   - [TokenBucket.AllowN] for those that do not,
//   - [TokenBucket.Refund] when a granted request was not carried out,
//   - [TokenBucket.Peek] to show a client what it has left.
//
// Code that only asks should take the interface [Limiter].
//
// The type's documentation has the promise: never more than capacity + rate x time,
// never less than was earned. The folder docs has its proof (packed-word.md), the
// concurrency of it (concurrency.md) and the reasons for the design (design.md).
package ratelimit
