package main

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// decision is one decision of a made-up limiter.
type decision struct {
	nanos   int64 // after begin
	cost    int
	granted bool
}

func TestChecker(t *testing.T) {
	const s = int64(time.Second)
	// A capacity of 2 and a token in 5 seconds: a unit is 5/256 s, 19531250 ns.
	for _, c := range []struct {
		why       string
		decisions []decision
		early     int
		fails     string // the first report; empty if the promise held
	}{
		{"as it should be", []decision{{0, 1, true}, {0, 1, true}, {0, 1, false}, {5 * s, 1, true}}, 0, ""},
		{"denied a nanosecond too early for the token", []decision{{0, 2, true}, {5*s - 1, 1, false}}, 0, ""},
		{"denied with the token there", []decision{{0, 2, true}, {5 * s, 1, false}}, 0, "test:1: key k, cost 1: denied with 1.000000 tokens in the bucket"},
		{"denied at the first request", []decision{{0, 1, false}}, 0, "test:0: key k, cost 1: denied with 2.000000 tokens in the bucket"},
		{"granted a nanosecond early", []decision{{0, 2, true}, {5*s - 1, 1, true}}, 1, ""},
		{"granted just less than a unit early", []decision{{0, 2, true}, {5*s - 19531249, 1, true}}, 1, ""},
		{"granted a unit early", []decision{{0, 2, true}, {5*s - 19531250, 1, true}}, 1, "test:1: key k, cost 1: granted with 0.996094 tokens in the bucket"},
		{"a unit, but only once", []decision{{0, 2, true}, {5*s - 15e6, 1, true}, {10*s - 30e6, 1, true}}, 2, "test:2: key k, cost 1: granted with 0.994000 tokens in the bucket"},
		{"a third grant at once", []decision{{0, 2, true}, {0, 1, true}}, 1, "test:1: key k, cost 1: granted with 0.000000 tokens in the bucket"},
		{"an early grant is paid for", []decision{{0, 2, true}, {5*s - 1, 1, true}, {10*s - 1, 1, false}, {10 * s, 1, true}}, 1, ""},
		{"not more than full", []decision{{0, 2, true}, {99 * s, 2, true}, {99 * s, 1, false}}, 0, ""},
		{"more than full", []decision{{0, 2, true}, {99 * s, 2, true}, {99 * s, 1, true}}, 1, "test:2: key k, cost 1: granted with 0.000000 tokens in the bucket"},
		{"an older request sees the bucket as of the latest grant", []decision{{10 * s, 1, true}, {0, 1, true}, {5 * s, 1, false}, {15*s - 1, 1, false}, {15 * s, 1, true}}, 0, ""},
		{"a denial does not move time", []decision{{0, 2, true}, {4 * s, 1, false}, {3 * s, 1, false}, {5 * s, 1, true}}, 0, ""},
		{"time that goes back mints nothing", []decision{{10 * s, 2, true}, {0, 1, true}}, 1, "test:1: key k, cost 1: granted with 0.000000 tokens in the bucket"},
	} {
		t.Run(c.why, func(t *testing.T) {
			check := newChecker(newPer(2, 10*time.Second))
			key, other := &tally{key: "k"}, &tally{key: "other"}
			for i, d := range c.decisions {
				at := begin.Add(time.Duration(d.nanos))
				check.observe(key, at, d.cost, d.granted, place{"test", i})
				check.observe(other, begin, 1, i < 2, place{"test", i}) // keys are apart
			}
			assert.Equal(t, c.early, check.early)
			assert.Equal(t, 2, check.keys)
			assert.Equal(t, 2*len(c.decisions), check.decisions)
			if c.fails == "" {
				assert.Zero(t, check.failures, check.reports)
				return
			}
			assert.Positive(t, check.failures)
			report, window, _ := strings.Cut(check.reports[0], "; ")
			assert.Equal(t, c.fails, report)
			if !strings.Contains(report, "granted with 0.996094") && !strings.Contains(report, "denied") { // that is just within a unit
				assert.Contains(t, window, "the grants of a window that ends here exceed rate x window by ")
			}
		})
	}
}

// TestCheckerWindows tests the second half of the check without the first.
func TestCheckerWindows(t *testing.T) {
	for _, c := range []struct {
		why    string
		grants []int // seconds at which one token was granted
		fails  bool
	}{
		{"two at once", []int{0, 0}, false},
		{"three at once", []int{0, 0, 0}, true},
		{"one in five seconds, after two", []int{0, 0, 5, 10, 15}, false},
		{"a second early", []int{0, 0, 5, 9}, true},
		{"capacity is there again", []int{0, 0, 10, 10}, false},
		{"a window that does not begin with the first grant", []int{0, 0, 50, 50, 54}, true},
	} {
		t.Run(c.why, func(t *testing.T) {
			check := newChecker(newPer(2, 10*time.Second))
			a := &account{begin: begin, granted: new(big.Int), lowest: new(big.Int)}
			check.cost.Set(check.tokenParts)
			failure := ""
			for _, at := range c.grants {
				failure += check.window(a, after(at))
			}
			assert.Equal(t, c.fails, failure != "", failure)
		})
	}
}

func TestFailedCheckIsReported(t *testing.T) {
	cfg, err := parseFlags([]string{"-limit", "1/m", "-check", "-json"})
	assert.NoError(t, err)
	s := &session{cfg: cfg, parser: newParser(cfg), replay: newReplay(cfg.limit, true)}
	k := &tally{key: "k"}
	for range 12 { // more than are kept
		s.replay.check.observe(k, begin, 1, false, place{"test", 1})
	}
	sum := summarize(s, true)
	assert.EqualError(t, sum.verdict(), "the check has failed")
	result := sum.Check
	assert.False(t, result.Held)
	assert.Equal(t, 12, result.Failures)
	assert.Len(t, result.Reports, maxFailures)
	assert.Contains(t, result.String(), "promise: 1 keys, 12 decisions checked against exact arithmetic: FAILED 12 times\npromise: FAILED: test:1: key k")
}
