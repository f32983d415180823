// Package peers runs the workloads of bench over the limiters of other modules, beside
// those of this one. It is a module of its own, so that nobody who imports ratelimit
// downloads them. There is nothing to import.
//
//	go test .                                        # they do what the benchmarks say
//	go test -short -run '^$' -bench . -benchtime 1x . # every benchmark once
//	go test -run '^$' -bench HotKey -count 10 . | tee peers.txt && benchstat -col /impl peers.txt
//
// One file is one adapter. To add a limiter, add a file with a line in its init function
// like the others. An adapter asks for the verdict alone, in the way that its limiter's
// documentation shows first for a limit per key; where the limiter has no keys, it is
// kept in a sync.Map, and a key is copied when it is stored.
//
// TestExactness and TestOldClockReads compare what the limiters grant with what is due,
// in schedules that have broken some of them.
//
// Not here, since the module proxy of this project's build did not serve them:
// github.com/webriots/rate, github.com/clipperhouse/rate, github.com/mennanov/limiters,
// and github.com/didip/tollbooth after v7.0.2. golang.org/x/time is at v0.14.0, since
// later versions need a later Go than this project does.
package peers
