package main

import "fmt"

// A goal is what was aimed at before anything was measured: a ratio of two medians that
// is to be at least, or at most, so large.
type goal struct {
	Work, Claim string
	Of, To      operand
	Least, Most float64 // the other is 0
	Why         string  // it is missed, if it is
}

type operand struct {
	selector
	Impl string
}

// ratio returns the median of g.Of divided by that of g.To.
func (g goal) ratio(r *results) (float64, error) {
	of, to := r.find(g.Of.selector, g.Of.Impl), r.find(g.To.selector, g.To.Impl)
	if of == nil || to == nil {
		return 0, fmt.Errorf("no figures for the goal %q, %q", g.Work, g.Claim)
	}
	return of.median() / to.median(), nil
}

func (g goal) reached(ratio float64) bool {
	return ratio >= g.Least && (g.Most == 0 || ratio <= g.Most)
}

// wanted says what the ratio is to be.
func (g goal) wanted() string {
	if g.Most > 0 {
		return fmt.Sprintf("at most %v", g.Most)
	}
	return fmt.Sprintf("at least %v", g.Least)
}

const (
	whyClock = "Half of the check is the clock read (floor-clock in the raw results), which all of them need. The baseline with the same clock, " +
		"mutex-since, is as fast on one goroutine: what packed gains there is the cheaper clock, and the rest shows when goroutines contend."
	whyShared = "The floor has no key: no call with one, no hash, no lookup, no arithmetic. Those are the difference, some 20 ns."
	whyMisses = "xsync's map is a line, an entry in it, and a key and a bucket that the entry points to: as many dependent cache misses " +
		"as the baseline has with a Go map. What helps is WithMaxKeys."
	whyAllocs = "Three allocations a key (key, entry, bucket) against the baseline's two."
	whyLine   = "A table's cache line can only be fetched when the hash is known, and that when the text of the key is there: two misses " +
		"one after the other, where the goal counts one: see floor-clock+hash+line, which has both and nothing else."
)

func hot(verdict string, procs int) selector {
	return selector{"HotKey", fmt.Sprintf("verdict=%s procs=%d", verdict, procs), "ns/op"}
}

func known(dist, key string, procs int) selector {
	return selector{"KnownKeys", fmt.Sprintf("dist=%s key=%s procs=%d", dist, key, procs), "ns/op"}
}

func grow(procs int) selector {
	return selector{"Grow", fmt.Sprintf("key=ready procs=%d", procs), "ns/key"}
}

func churn(procs int) selector { return selector{"Churn", fmt.Sprintf("procs=%d", procs), "ns/op"} }

// faster is the goal that impl takes at most 1/times of what other takes.
func faster(work string, s selector, impl, other string, times float64, why string) goal {
	claim := fmt.Sprintf("%s %v times as fast as %s", impl, times, other)
	if times == 1 {
		claim = fmt.Sprintf("%s as fast as %s", impl, other)
	}
	return goal{work, claim, operand{s, other}, operand{s, impl}, times, 0, why}
}

// within is the goal that impl takes at most times of what the floor does.
func within(work string, s selector, impl, floor string, times float64, why string) goal {
	return goal{work, fmt.Sprintf("%s within %v times of %s", impl, times, floor), operand{s, impl}, operand{s, floor}, 0, times, why}
}

var goals = []goal{
	faster("one hot key, granted, 1 goroutine", hot("granted", 1), "packed", "mutex", 1.6, whyClock),
	faster("one hot key, granted, 1 goroutine", hot("granted", 1), "packed", "xtime-syncmap", 1.8, whyClock),
	faster("one hot key, granted, 1 goroutine", hot("granted", 1), "maxkeys", "mutex", 2.5, whyClock),
	faster("one hot key, granted, 1 goroutine", hot("granted", 1), "maxkeys", "packed", 1.4, whyClock),
	within("one hot key, granted, 2 goroutines", hot("granted", 2), "packed", "floor-clock+swap", 1.25, whyShared),
	within("one hot key, granted, 8 goroutines", hot("granted", 8), "packed", "floor-clock+swap", 1.25, whyShared),
	within("one hot key, granted, 2 goroutines", hot("granted", 2), "maxkeys", "floor-clock+swap", 1.25, whyShared),
	within("one hot key, granted, 8 goroutines", hot("granted", 8), "maxkeys", "floor-clock+swap", 1.25, whyShared),
	faster("one hot key, denied, 2 goroutines", hot("denied", 2), "packed", "mutex", 4,
		"The baseline suffers little from a second goroutine on this machine: compare its columns."),
	{"one hot key, denied", "packed with 2 goroutines as fast as with 1 on each of 2 processors", operand{hot("denied", 1), "packed"}, operand{hot("denied", 2), "packed"}, 1.8, 0,
		"With four goroutines the same ratio is 2: the rounds differ by more."},
	faster("a million keys, uniform, 1 goroutine", known("uniform", "ready", 1), "packed", "mutex", 1, whyMisses),
	faster("a million keys, uniform, 2 goroutines", known("uniform", "ready", 2), "packed", "mutex", 1, whyMisses),
	faster("a million keys, zipf, 1 goroutine", known("zipf", "ready", 1), "packed", "mutex", 1, whyMisses),
	faster("a million keys, zipf, 2 goroutines", known("zipf", "ready", 2), "packed", "mutex", 1, whyMisses),
	faster("a million keys, uniform, 1 goroutine", known("uniform", "ready", 1), "packed", "xtime-syncmap", 1.8, whyMisses),
	faster("a million keys, zipf, 1 goroutine", known("zipf", "ready", 1), "packed", "xtime-syncmap", 1.8, whyMisses),
	within("a million keys, uniform, 1 goroutine", known("uniform", "ready", 1), "maxkeys", "floor-clock+hash", 1.25, whyLine),
	within("a million keys, zipf, 1 goroutine", known("zipf", "ready", 1), "maxkeys", "floor-clock+hash", 1.25, whyLine),
	faster("a million keys, text at hand, 1 goroutine", known("uniform", "parsed", 1), "maxkeys", "mutex", 3, whyLine),
	faster("growing to a million keys, 1 goroutine", grow(1), "packed", "mutex", 1.4, whyAllocs),
	faster("growing to a million keys, 2 goroutines", grow(2), "packed", "mutex", 1.4, whyAllocs),
	faster("new keys without end, 1 goroutine", churn(1), "packed", "mutex", 1.4, whyAllocs),
	faster("new keys without end, 2 goroutines", churn(2), "packed", "mutex", 1.4, whyAllocs),
	faster("growing to a million keys, 1 goroutine", grow(1), "maxkeys", "mutex", 3,
		"A new key is a cache line to fetch and lock bits to set for WithMaxKeys, too; it saves allocations, not that."),
	faster("growing to a million keys, 2 goroutines", grow(2), "maxkeys", "mutex", 3, ""),
}
