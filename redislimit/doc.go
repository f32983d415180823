// Package redislimit keeps one limit for a whole fleet: token buckets in a Redis or Valkey
// server, behind the interface of ratelimit.Limiter.
//
// Each decision is one atomic script on one key, in the time of the server's clock, in whole
// microseconds, and in integers only. For any key, whatever the number of processes:
//
//   - the grants of any span of the server's time are at most capacity + rate x span;
//   - after k/rate seconds exactly k tokens are back, at the first whole microsecond;
//   - a request that waits RetryAfter succeeds if nobody else took the tokens, and a
//     microsecond earlier it does not.
//
// A server that cannot answer is no denial. Every call is bounded by a timeout of its own,
// is sent once, and when it fails a stated policy decides: by default a bucket in the
// process takes over, which has been charged with all that this process was granted. A
// circuit breaker keeps calls from waiting for a server that is down.
//
// What a Redis cannot promise it does not promise here either: a failover may lose the
// last writes, and with them what was taken in that time.
package redislimit
