// Package bench measures the limiter beside a mutex baseline and beside what the
// machine needs in any case. There is nothing to import.
//
// # Running
//
// All of it once, in some seconds, to see that it works:
//
//	go test -short -run xxx -bench . -benchtime 1x ./bench
//
// For figures, run the whole set several times over, so that what happens on the
// machine meanwhile hits every implementation alike, and let benchstat put the
// implementations side by side. That is what make bench does (COUNT=10 times, with
// the figures in bin/bench.txt); by hand it is
//
//	go test -c -o bench.test ./bench
//	for i in 1 2 3 4 5 6; do ./bench.test -test.run xxx -test.bench . -test.benchtime 300ms; done >figures.txt
//	benchstat -col /impl figures.txt
//
// A part of it is selected by the keys in the names, and -filter picks columns:
//
//	go test -run xxx -bench 'HotKey/impl=(mutex|packed|maxkeys)$/keys=1/verdict=denied' ./bench
//	benchstat -col /impl -filter '/impl:(mutex OR packed OR maxkeys)' figures.txt
//
// # Keys
//
//	impl     packed is the limiter, maxkeys the same with WithMaxKeys for as many keys
//	         as come (of a million some find no slot). mutex is the baseline: a map under an RWMutex,
//	         a mutex per bucket (internal/workload/baseline.go says what
//	         makes it a good one).
//	         mutex-since is the same with time.Since for time.Now, which reads the
//	         wall clock too and is how it is usually written. floor-... is no
//	         limiter: it is one step that a limiter cannot do without.
//	keys     how many keys are in memory: 1, 1M, or inf for new ones without end
//	verdict  what all the calls come to: granted or denied
//	dist     how keys are drawn: uniform, or zipf with exponent 1.1
//	key      ready before the timed loop, built in it as a string of its own, or
//	         parsed: written into one buffer again and again
//	procs    the number of goroutines, exactly
//	granted-% is no key but a figure: the share of calls that were granted
//
// The suffix -N that testing adds is GOMAXPROCS.
//
// # Benchmarks
//
//	HotKey       every goroutine asks for one key
//	KnownKeys    one key out of a million that are all in memory
//	Grow         from no keys to a million; in ns/key, growing included
//	Churn        new keys without end, while old ones refill and are forgotten
//	Flood        nine new keys for each call of a thousand known ones; in ns/call, with
//	             the heap that is left behind
//	FloodPolicy  what a table grants to whom while keys are made up; simulated
//	Memory       live heap per key without its text, in B/key
//	GC           a garbage collection while a million, or ten, are in memory
//	Floor        adapter, clock and hash functions, one goroutine
//	FloorShared  CompareAndSwap and Swap on a word that all goroutines share
//	FloorFetch   fetching the text of a key and hashing it
//
// bench/peers has these for other limiters as well, and Tail: quantiles of the time of
// single calls, while other keys arrive.
//
// # Reading
//
// ns/op is the time that passed divided by the calls of all goroutines together:
// half as much with two goroutines as with one means that they did not disturb
// each other. internal/workload/drive.go says more.
//
// All implementations are called through the same interface and adapter, whose
// price, with the loop, is that of floor-adapter: some 2 ns, contained in every
// figure. A figure divided by that of the floor beside it says how far it is from
// what can be had. The largest part of a call for a hot key is the clock.
//
// Only ratios of one run mean something. The same code takes 1.5 times as long on
// another machine, on a busy one, or in a virtual machine whose neighbours are; and
// where goroutines share a cache line, everything depends on how far apart the
// processors are that they run on. With fewer processors than goroutines, a shared
// line is less contended than it would be. Prefer medians, look at the spread that
// benchstat prints, and do not believe a difference that is smaller.
//
// The million keys make most of the figures a matter of the memory: cache misses,
// and translations of addresses that are not at hand, which cost more in a virtual
// machine. Transparent huge pages change them.
//
// How often a CompareAndSwap fails under contention cannot be seen from here; the
// package's own tests can, since take returns it.
//
// A profile of the timed loop is coarse: the samples gather at the instructions
// that wait for all others, which are the compare-and-swaps and the clock. Where the
// machine is too busy for times, processor cycles still compare (Linux; take the
// difference of two runs that differ in -benchtime, such as 4000000x and 12000000x,
// so that what is not in the loop cancels):
//
//	perf stat -e cycles:u ./bench.test -test.run xxx -test.bench NAME -test.benchtime 4000000x
//
// # Checks
//
// Before it times anything, every benchmark makes sure that its calls come out as
// its name says and that the number of keys in memory is right, and afterwards that
// all calls did. The tests of internal/workload check the rest: that keys are distinct, lie in
// other memory than those inserted, and are drawn with the shares that are claimed.
// A benchmark whose check fails prints no figure.
//
// # Adding an implementation
//
// A type with the two methods of workload.Limiter, and a line where the benchmark is
// called. Limiters of other modules are in bench/peers, a module of its own, one file
// each.
package bench
