// Command report writes docs/benchmarks.md, its charts, and the table of the README from the raw results that are
// kept in bench/results: speed.txt, what the benchmarks printed, with the machine and the
// command at its head; exactness.txt, the rows of TestExactness; and versions.txt.
//
//	make bench-record    # measure, into bench/results
//	make bench-report    # go run . in this folder
//
// It is a module of its own for the sake of the library that draws the charts.
package main
