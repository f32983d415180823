package main

import (
	"fmt"
	"strings"
)

// This file has the table of the README, which is a part of what is in docs/benchmarks.md.

const (
	readmeBegin = "<!-- figures: make bench-report -->\n"
	readmeEnd   = "<!-- end of figures -->\n"
)

// A readmeRow is a figure of some limiters.
type readmeRow struct {
	label string
	selector
	floor   string  // the implementation, if there is one
	divisor float64 // of the figures
}

var readmeColumns = []string{"packed", "maxkeys", "mutex", "xtime-syncmap"}

var readmeRows = []readmeRow{
	{"one hot key, granted, 1 goroutine", hot("granted", 1), "floor-clock+swap", 1},
	{"… 2 goroutines", hot("granted", 2), "floor-clock+swap", 1},
	{"… 8 goroutines", hot("granted", 8), "floor-clock+swap", 1},
	{"one hot key, denied, 1 goroutine", hot("denied", 1), "floor-clock+load", 1},
	{"… 8 goroutines", hot("denied", 8), "floor-clock+load", 1},
	{"one of a million keys, uniform, 1 goroutine", known("uniform", "ready", 1), "floor-clock+hash+line", 1},
	{"… 2 goroutines", known("uniform", "ready", 2), "floor-clock+hash+line", 1},
	{"one of a million keys, Zipf 1.1, 1 goroutine", known("zipf", "ready", 1), "floor-clock+hash+line", 1},
	{"a new key, growing to a million, 1 goroutine", grow(1), "floor-clone+new", 1},
	{"… 2 goroutines", grow(2), "floor-clone+new", 1},
	{"p99.9 of a check while a million keys arrive", selector{"Tail", "while=grow", "p99.9-ns"}, "floor-none", 1},
	{"… the longest check, µs", selector{"Tail", "while=grow", "max-ns"}, "floor-none", 1000},
	{"bytes per key, without its text", selector{"Memory", "", "B/key"}, "", 1},
	{"a garbage collection, 10 M keys, ms of processor time", selector{"GC", "keys=10M", "cpu-ns/op"}, "floor-empty", 1e6},
}

// readme puts the table into the text of the README, between its marks.
func readme(text string, r *results) (string, error) {
	before, rest, ok := strings.Cut(text, readmeBegin)
	_, after, ok2 := strings.Cut(rest, readmeEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("the README has no %q and %q", readmeBegin, readmeEnd)
	}
	var b strings.Builder
	b.WriteString("| work | default | `WithMaxKeys` | mutex | x/time/rate | floor |\n|---|---|---|---|---|---|\n")
	for _, of := range readmeRows {
		fmt.Fprintf(&b, "| %s |", of.label)
		for _, impl := range readmeColumns {
			fmt.Fprintf(&b, " %s |", of.cell(r, impl))
		}
		floor := ""
		if f := r.find(of.selector, of.floor); f != nil {
			floor = of.number(f.median())
		}
		fmt.Fprintf(&b, " %s |\n", floor)
	}
	b.WriteString("| allocations, known key | 0 | 0 | 0 | 0 | |\n")
	return before + readmeBegin + b.String() + readmeEnd + after, nil
}

// cell is the median, and the least and the most; bold, for a limiter of this module,
// if that of another one is better by more than chance.
func (of readmeRow) cell(r *results, impl string) string {
	f := r.find(of.selector, impl)
	if f == nil {
		return ""
	}
	text := of.number(f.median())
	if least, most := of.number(f.least()), of.number(f.most()); least != most {
		text += " [" + least + ".." + most + "]"
	}
	if rank(impl) >= len(ours) {
		return text
	}
	for _, other := range r.impls {
		g := r.find(of.selector, other)
		if g != nil && rank(other) >= len(ours) && !isFloor(other) && g.median() < f.median() && significant(g, f) {
			return "**" + text + "**"
		}
	}
	return text
}

func (of readmeRow) number(v float64) string {
	v /= of.divisor
	if v >= 10 || v == 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return number(v)
}
