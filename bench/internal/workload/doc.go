// Package workload is the harness of the benchmarks in bench and bench/peers: what is
// asked for, in which order, by how many goroutines; the baseline and the floors; and the
// checks that calls come out as the name of a benchmark says. Each function that takes a
// *testing.B is a benchmark, to which the caller may add implementations of its own.
package workload
