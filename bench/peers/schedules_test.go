package peers

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// This file has the schedules of TestExactness, which are known to have broken limiters.

// A quota is so many tokens per period, all of which may be taken at once.
type quota struct {
	tokens int
	per    time.Duration // 0 for a rate of NaN tokens a second
}

// rate returns the quota in tokens per second.
func (q quota) rate() float64 {
	if q.per == 0 {
		return math.NaN()
	}
	return float64(q.tokens) / q.per.Seconds()
}

// A takeFunc takes n tokens from the bucket of key and reports whether it could.
type takeFunc func(key string, n int) bool

// A schedule drives a limiter of a quota and returns how many tokens were granted to one
// key. due is what capacity and rate give in its time.
type schedule struct {
	name    string
	quota   quota
	due     int
	run     func(take takeFunc) (granted int)
	rounds  int  // run so often, of which the worst counts; once if 0
	instant bool // takes no time, and so needs no clock that can be set

	// overfull asks for more keys than a bounded limiter was made for: it is stated what
	// those get, and not that they get what is due.
	overfull bool
}

// endless is where all stops to ask.
const endless = 100_000

var schedules = []schedule{
	{name: "1 a minute, polled every millisecond for 10 minutes", quota: quota{1, time.Minute}, due: 1 + 10, run: func(take takeFunc) (granted int) {
		for range 10*time.Minute/time.Millisecond + 1 {
			granted += one(take)
			time.Sleep(time.Millisecond)
		}
		return granted
	}},
	{name: "600 a microsecond, drained every microsecond", quota: quota{600, time.Microsecond}, due: 600 * 1001, run: func(take takeFunc) (granted int) {
		for range 1001 {
			granted += all(take)
			time.Sleep(time.Microsecond)
		}
		return granted
	}},
	{name: "700 million a minute, all at once and drained every microsecond", quota: quota{700_000_000, time.Minute}, due: 700_000_000 + 700_000_000/60/1000, run: func(take takeFunc) (granted int) {
		if !take("k", 700_000_000) {
			return 0
		}
		granted = 700_000_000
		for range 1000 {
			time.Sleep(time.Microsecond)
			granted += all(take)
		}
		return granted
	}},
	{name: "a thousand million a second, drained every microsecond", quota: quota{1000, time.Microsecond}, due: 1000 * 1001, run: func(take takeFunc) (granted int) {
		for range 1001 {
			granted += all(take)
			time.Sleep(time.Microsecond)
		}
		return granted
	}},
	{name: "1 in 3 s, asked for exactly then", quota: quota{1, 3 * time.Second}, due: 1 + 10_000, run: func(take takeFunc) (granted int) {
		for range 10_001 {
			granted += one(take)
			time.Sleep(3 * time.Second)
		}
		return granted
	}},
	{name: "7 a second, asked for every 100 ms for 10,000 s", quota: quota{7, time.Second}, due: 7 + 70_000, run: func(take takeFunc) (granted int) {
		granted = all(take)
		for range 100_000 {
			time.Sleep(100 * time.Millisecond)
			granted += one(take)
		}
		return granted
	}},
	{name: "10 a second at the end of a window, and at its end again", quota: quota{10, time.Second}, due: 10 + 1, run: func(take takeFunc) (granted int) {
		take("k", 1) // begins a window
		granted = 1
		time.Sleep(950 * time.Millisecond)
		granted = all(take)
		time.Sleep(100 * time.Millisecond)
		return granted + all(take)
	}},
	{name: "a cost of -10, and then all there is", quota: quota{10, time.Hour}, due: 10, instant: true, run: func(take takeFunc) (granted int) {
		granted = all(take)
		take("k", -10)
		return granted + all(take)
	}},
	{name: "a cost of 2^63-1 when there are 10", quota: quota{10, time.Hour}, due: 10, instant: true, run: func(take takeFunc) (granted int) {
		if take("k", math.MaxInt) {
			return math.MaxInt
		}
		return all(take)
	}},
	{name: "a rate of NaN", quota: quota{10, 0}, due: 0, run: func(take takeFunc) (granted int) {
		for range 10 {
			granted += all(take)
			time.Sleep(time.Second)
		}
		return granted
	}},
	{name: "100 goroutines and 50 tokens, 100 times", quota: quota{50, 1000 * time.Hour}, due: 50, rounds: 100, instant: true, run: func(take takeFunc) int {
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { granted.Add(int64(one(take))) })
		}
		wg.Wait()
		return int(granted.Load())
	}},
	{name: "drained, and again after 10,000 other keys were", quota: quota{10, time.Hour}, due: 10, instant: true, run: func(take takeFunc) (granted int) {
		granted = all(take)
		for i := range 10_000 {
			take("made up "+strconv.Itoa(i), 10)
		}
		return granted + all(take)
	}},
	{name: "what those 10,000 are granted", quota: quota{10, time.Hour}, due: 10 * 10_000, instant: true, overfull: true, run: func(take takeFunc) (granted int) {
		all(take)
		for i := range 10_000 {
			if take("made up "+strconv.Itoa(i), 10) {
				granted += 10
			}
		}
		return granted
	}},
}

func one(take takeFunc) int {
	if take("k", 1) {
		return 1
	}
	return 0
}

func all(take takeFunc) (n int) {
	for range endless {
		if !take("k", 1) {
			break
		}
		n++
	}
	return n
}
