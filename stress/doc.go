// Package stress holds tests of ratelimit that need other modules: it is a module
// of its own so that users of the limiter do not download them. It has no code
// besides its tests.
//
// # What is checked
//
// TestLinearizable runs the real limiter through its public methods, with several
// goroutines on a few small buckets that refill quickly, while other goroutines
// sweep and insert keys that set off automatic sweeps. It records each call with
// its answer and gives the history of each key to porcupine, which searches for an
// order of the operations, compatible with the order in which they were seen to
// happen, in which a sequential token bucket in exact arithmetic would have given
// the same answers, to the token and the nanosecond. Sweeping is no operation of
// that bucket: it has to be invisible.
//
// It does so with the default store, with a table (WithMaxKeys) that has room for all
// keys, and with tables so small that the slot of a key is taken by another one whenever
// its bucket has refilled, which has to be invisible too. A request that meets the
// overflow policy would not be: there are few enough keys at a time that this is rare,
// Stats tells when it happens, and such a round is not judged.
//
// An operation's time is what it read from the clock, which nobody else can see.
// So the specification is nondeterministic: any time will do that the clock showed
// between the call and the return. In the variant with a stale clock, readings are
// up to four moves of the clock older than that, and so are the times that will do.
//
// TestBrokenLimiters gives the same treatment to limiters with one known mistake
// each, all of which must be found out; TestToyLimiter gives it to the limiter
// that they are made from, which must pass.
//
// TestHammerBound, TestHammerConservation and TestHammerRefund check sums over more
// operations than a search could deal with, with both stores. TestNoGoroutine,
// TestCloseEndsGoroutine and TestDropEndsGoroutine look for goroutines left behind.
//
// TestModel is not about the code but about the protocol by which a table's slots change
// hands: spin goes through every interleaving of a model of it, table.pml. Its broken
// versions, each without one rule of the protocol, must be found out by
// TestBrokenModels.
//
// # What would be missed
//
//   - An interleaving that did not happen. Goroutines are made to overlap between
//     the clock read and the first look at the map; between the other steps only
//     the scheduler puts them, so that a mistake in a window of a few instructions
//     takes a soak to show, or never does. (A table without the second load before a
//     denial, or whose slots are vacant in the step of their last use, passes.) The root
//     module's tests with the tag ratelimit_explore go through those interleavings one by
//     one, and so does TestModel.
//   - A difference between the model and the code.
//   - A wrong time that the clock did show during the call. With few moves of the
//     clock per call there are not many of these.
//   - Errors smaller than 1/128 token, errors at rates, capacities and ages of a bucket
//     that do not occur here, negative times, and the real clock, save for the
//     bound of TestHammerBound. The root module's fuzz tests are for those.
//   - Errors across keys. Each key is checked alone; Len is not checked.
//   - Missing memory barriers that only some processors need, and data races: the
//     counter that orders the operations also synchronizes the goroutines between
//     their calls.
//   - Shared buckets and evictions, of which only TestModel knows the latter.
//   - WithStartEmpty, and limits whose time stamps count in steps (high rates, large
//     capacities), where a caller with an old clock read may see fewer tokens than
//     this specification says.
//
// # Running
//
// TestLinearizable has six parts, two for each kind of store. Each takes four seconds,
// half a second with -short, or as long as RATELIMIT_STRESS says:
//
//	RATELIMIT_STRESS=1h go test -run TestLinearizable -timeout 7h
//
// TestModel needs spin and gcc, and is skipped without them, unless RATELIMIT_NEED_SPIN is
// set. It takes half a minute on two processors and up to a gigabyte.
//
// A violation is printed with the history of its key, and the name of a file with
// porcupine's picture of it.
package stress
