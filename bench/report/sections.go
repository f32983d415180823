package main

import "slices"

// A section of the page has a chart and a table with the same figures: a row for each
// implementation and a column for each series.
type section struct {
	File   string // of the chart, without theme and extension
	Title  string
	Text   string // what was measured, and how to read it
	Axis   string // what is drawn, with its unit
	Series []series
}

// A series is a column of a section.
type series struct {
	Name string
	selector
}

var sections = []section{
	{
		File: "hot-granted", Title: "One hot key, granted",
		Text: "All goroutines ask for the same key, and get it. Each grant has to write what all others read next, " +
			"so two processors cannot be faster than one. floor-clock+swap is a clock read and an atomic Swap on one shared word, " +
			"without a key, a lookup or a decision.",
		Axis: "ns per check, of all goroutines together",
		Series: []series{
			{"1 goroutine", selector{"HotKey", "verdict=granted procs=1", "ns/op"}},
			{"2 goroutines", selector{"HotKey", "verdict=granted procs=2", "ns/op"}},
			{"4 goroutines", selector{"HotKey", "verdict=granted procs=4", "ns/op"}},
			{"8 goroutines", selector{"HotKey", "verdict=granted procs=8", "ns/op"}},
		},
	},
	{
		File: "hot-denied", Title: "One hot key, denied",
		Text: "The same when the key has no tokens left, as under attack. Who writes nothing on a denial is twice as fast with " +
			"two processors. floor-clock+load is a clock read and a load of one shared word.",
		Axis: "ns per check, of all goroutines together",
		Series: []series{
			{"1 goroutine", selector{"HotKey", "verdict=denied procs=1", "ns/op"}},
			{"2 goroutines", selector{"HotKey", "verdict=denied procs=2", "ns/op"}},
			{"4 goroutines", selector{"HotKey", "verdict=denied procs=4", "ns/op"}},
			{"8 goroutines", selector{"HotKey", "verdict=denied procs=8", "ns/op"}},
		},
	},
	{
		File: "million", Title: "One of a million known keys",
		Text: "Keys drawn at random from a million that are all in memory, by one goroutine: uniform, or zipf with exponent 1.1. " +
			"This is cache misses, the one for the text of the caller's key included; \"text at hand\" is uniform with the text " +
			"written into a buffer before each check, as a server has it that has just parsed a request. " +
			"floor-clock+hash reads the clock and hashes the key; +line also changes a word in a table of 28 MB at the place that the hash names.",
		Axis: "ns per check, one goroutine",
		Series: []series{
			{"uniform", selector{"KnownKeys", "dist=uniform key=ready procs=1", "ns/op"}},
			{"zipf", selector{"KnownKeys", "dist=zipf key=ready procs=1", "ns/op"}},
			{"text at hand", selector{"KnownKeys", "dist=uniform key=parsed procs=1", "ns/op"}},
		},
	},
	{
		File: "million-2", Title: "One of a million known keys, two goroutines",
		Text: "The same by two goroutines on two processors: half of the figures above means that they do not disturb each other.",
		Axis: "ns per check, of both goroutines together",
		Series: []series{
			{"uniform", selector{"KnownKeys", "dist=uniform key=ready procs=2", "ns/op"}},
			{"zipf", selector{"KnownKeys", "dist=zipf key=ready procs=2", "ns/op"}},
			{"text at hand", selector{"KnownKeys", "dist=uniform key=parsed procs=2", "ns/op"}},
		},
	},
	{
		File: "new", Title: "New keys",
		Text: "An empty limiter grows to a million keys, none of which it has seen before, resizes and garbage collection included. " +
			"floor-clone+new copies the key and allocates eight bytes. In the flood nine calls of ten are for keys that never come back; " +
			"maxkeys has room for a tenth of them there, and all others keep them all.",
		Axis: "ns per key (growing) and per check (flood)",
		Series: []series{
			{"growing, 1 goroutine", selector{"Grow", "key=ready procs=1", "ns/key"}},
			{"growing, 2 goroutines", selector{"Grow", "key=ready procs=2", "ns/key"}},
			{"flood", selector{"Flood", "", "ns/call"}},
		},
	},
	{
		File: "churn", Title: "New keys without end",
		Text: "Keys come once, refill, and are forgotten: sweeps are part of the time. Only the limiters of this module and the " +
			"baseline forget as keys arrive; of the others some do so by a timer, and some never.",
		Axis: "ns per check, of all goroutines together",
		Series: []series{
			{"1 goroutine", selector{"Churn", "procs=1", "ns/op"}},
			{"2 goroutines", selector{"Churn", "procs=2", "ns/op"}},
		},
	},
	{
		File: "tail", Title: "The slowest checks, while a limiter grows",
		Text: "Single checks of a thousand known keys, timed one by one while another goroutine brings in a million new ones: maps are " +
			"resized, and garbage is collected. Each figure contains a clock read and what the machine did meanwhile, which is what floor-none shows. " +
			"Quantiles of all rounds' histograms, of which the median is given; max is the longest of a round. It is the garbage collector " +
			"that makes a check of packed wait for so long at most, for a processor: with GOGC=off its max is 1 ms, and that of mutex, " +
			"which waits while the map is resized, 4 to 5 ms (`GOGC=off go test -run '^$' -bench Tail -benchtime 1x .` in bench/peers).",
		Axis: "ns of a single check",
		Series: []series{
			{"p50", selector{"Tail", "while=grow", "p50-ns"}},
			{"p99", selector{"Tail", "while=grow", "p99-ns"}},
			{"p99.9", selector{"Tail", "while=grow", "p99.9-ns"}},
			{"max", selector{"Tail", "while=grow", "max-ns"}},
		},
	},
	{
		File: "tail-churn", Title: "The slowest checks, while keys come and go",
		Text: "The same while new keys may be forgotten a millisecond after they came, so that those who can forget sweep meanwhile.",
		Axis: "ns of a single check",
		Series: []series{
			{"p50", selector{"Tail", "while=churn", "p50-ns"}},
			{"p99", selector{"Tail", "while=churn", "p99-ns"}},
			{"p99.9", selector{"Tail", "while=churn", "p99.9-ns"}},
			{"max", selector{"Tail", "while=churn", "max-ns"}},
		},
	},
	{
		File: "memory", Title: "Memory",
		Text: "Live heap per key at a million keys, without the text of the key. (Limiters that keep the caller's own string, go-limiter, throttled and " +
			"tollbooth, keep alive whatever it is a part of, which is not counted.)",
		Axis: "bytes per key",
		Series: []series{
			{"bytes per key", selector{"Memory", "", "B/key"}},
		},
	},
	{
		File: "flood", Title: "Memory after a flood",
		Text: "Live heap after the flood of a million checks, nine hundred thousand of them for keys that never come back, with the copies of their text.",
		Axis: "MB",
		Series: []series{
			{"MB after the flood", selector{"Flood", "", "heap-MB"}},
		},
	},
	{
		File: "gc", Title: "Garbage collection",
		Text: "Processor time of one collection with nothing in memory but the limiter and its keys. These are ten collections of one limiter that was filled once, " +
			"one after the other, so that the spread says less than elsewhere.",
		Axis: "ms of processor time",
		Series: []series{
			{"1 M keys", selector{"GC", "keys=1M", "cpu-ns/op"}},
			{"10 M keys", selector{"GC", "keys=10M", "cpu-ns/op"}},
		},
	},
	{
		File: "scan", Title: "What the garbage collector looks through",
		Text: "Heap that may hold pointers, which does not depend on the machine.",
		Axis: "MB",
		Series: []series{
			{"1 M keys", selector{"GC", "keys=1M", "scan-MB"}},
			{"10 M keys", selector{"GC", "keys=10M", "scan-MB"}},
		},
	},
}

// scale is what the values of a series are divided by.
func (s series) scale() float64 {
	if s.Unit == "cpu-ns/op" {
		return 1e6 // ms
	}
	return 1
}

// A row is an implementation in a section, with a figure for each series, or nil.
type row struct {
	Impl    string
	Figures []figure
}

// rows returns the rows of a section: this module's limiters, the baselines, the others
// by name, and the floors.
func (s section) rows(r *results) (rows []row) {
	for _, impl := range r.impls {
		of := row{Impl: impl}
		any := false
		for _, of1 := range s.Series {
			f := slices.Clone(r.find(of1.selector, impl))
			for i := range f {
				f[i] /= of1.scale()
			}
			of.Figures = append(of.Figures, f)
			any = any || f != nil
		}
		if any {
			rows = append(rows, of)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return rank(a.Impl) - rank(b.Impl) })
	return rows
}

// ours are the limiters of this module.
var ours = []string{"packed", "maxkeys"}

func isFloor(impl string) bool { return len(impl) > 5 && impl[:5] == "floor" }

func rank(impl string) int {
	switch {
	case slices.Contains(ours, impl):
		return slices.Index(ours, impl)
	case impl == "mutex":
		return 2
	case impl == "mutex-since":
		return 3
	case isFloor(impl):
		return 5
	default:
		return 4
	}
}
