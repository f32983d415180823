package stress

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/packedbucket/ratelimit"
)

// checkLimit bounds the search in one history. It takes milliseconds, unless a
// worker was off its processor in the middle of an operation for half the round:
// then there is too much order to choose.
const checkLimit = 5 * time.Second

// TestLinearizable runs the limiter under load, round after round, and asks
// whether each history could have come from the sequential specification.
func TestLinearizable(t *testing.T) {
	for st := range endOfStores {
		t.Run(st.String(), func(t *testing.T) {
			t.Run("clock exact", func(t *testing.T) { testLinearizable(t, st, 0) })
			t.Run("clock stale", func(t *testing.T) { testLinearizable(t, st, 4) })
		})
	}
}

func testLinearizable(t *testing.T, st store, stale int) {
	var rounds, operations, granted, denied, swept, autoSwept, unknown int
	var judged, takeovers, returns int
	for deadline := time.Now().Add(budget(t)); rounds < minRounds || time.Now().Before(deadline); rounds++ {
		l := newLoad(st, rounds, stale)
		rec := l.run(t, newTokenBucket(l))
		operations += len(rec.history)
		granted += rec.granted
		denied += rec.denied
		swept += rec.swept
		autoSwept += rec.autoSwept
		if !rec.judged {
			continue
		}
		judged++
		takeovers += rec.takeovers
		returns += rec.returns
		switch check(l.spec, rec.history) {
		case porcupine.Unknown:
			unknown++
		case porcupine.Illegal:
			t.Fatalf("round %d is not linearizable (%v)\n%s", rounds, l, evidence(l.spec, rec.history, ""))
		}
	}
	t.Logf("%d rounds, %d operations: %d granted, %d denied; removed by Sweep %d, by insertions %d; %d slots taken over, workers' keys came back %d times; judged %d, unknown %d",
		rounds, operations, granted, denied, swept, autoSwept, takeovers, returns, judged, unknown)

	// A check of a limiter that is idle, or never sweeps, proves nothing.
	if granted < operations/10 || denied < operations/10 {
		t.Errorf("of %d operations %d were granted and %d denied: want a tenth of each", operations, granted, denied)
	}
	if st == smallTable {
		if judged < rounds*9/10 {
			t.Errorf("%d of %d rounds were judged: want nine of ten", judged, rounds)
		}
		if takeovers < 10*judged || returns < judged {
			t.Errorf("in %d rounds %d slots were taken over and workers' keys came back %d times: want 10 and 1 a round", judged, takeovers, returns)
		}
	} else {
		if judged < rounds {
			t.Errorf("in %d of %d rounds a key found no slot: want none", rounds-judged, rounds)
		}
		if swept < rounds/2 {
			t.Errorf("in %d rounds Sweep removed %d buckets: want half as many", rounds, swept)
		}
	}
	if st == defaultStore && autoSwept < rounds/2 {
		t.Errorf("in %d rounds insertions removed %d buckets: want half as many", rounds, autoSwept)
	}
	if unknown > 1+rounds/100 {
		t.Errorf("%d of %d histories could not be decided within %v: want at most one, and one in a hundred", unknown, rounds, checkLimit)
	}
}

// minRounds is enough to go through all combinations of limits and sweepers.
const minRounds = 30

// budget returns for how long a test is to go on: RATELIMIT_STRESS if that is set.
func budget(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("RATELIMIT_STRESS"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("RATELIMIT_STRESS: %v", err)
		}
		return d
	}
	if testing.Short() {
		return time.Second / 2
	}
	return 4 * time.Second
}

// newTokenBucket makes the limiter that all this is about.
func newTokenBucket(l load) func(*spec, *clock) limiter {
	return func(s *spec, c *clock) limiter {
		options := []ratelimit.Option{ratelimit.WithClock(c.now)}
		if l.maxKeys > 0 {
			options = append(options, ratelimit.WithMaxKeys(l.maxKeys), ratelimit.WithOverflow(ratelimit.OverflowDeny))
		}
		return ratelimit.NewTokenBucket(s.limit.Capacity, s.limit.RefillPerSec, options...)
	}
}

func check(s *spec, history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(s.model(), history, checkLimit)
}

// evidence returns the histories of the keys that are not linearizable as text,
// and says where in dir porcupine's picture of each is. With dir "" that is a
// place that outlives the test.
func evidence(s *spec, history []porcupine.Operation, dir string) string {
	var text strings.Builder
	for _, part := range partition(history) {
		result, info := porcupine.CheckOperationsVerbose(s.model(), part, checkLimit)
		if result != porcupine.Illegal {
			continue
		}
		fmt.Fprintf(&text, "%s: picture %s\n", part[0].Input.(call).key, picture(s, info, dir))
		text.WriteString(transcript(part))
	}
	return text.String()
}

// picture writes porcupine's visualization to a file in dir and returns its name.
func picture(s *spec, info porcupine.LinearizationInfo, dir string) string {
	f, err := os.CreateTemp(dir, "ratelimit-history-*.html")
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := porcupine.Visualize(s.model(), info, f); err != nil {
		return err.Error()
	}
	return f.Name()
}

// transcript returns a history as text, a line per operation in the order of the
// calls: the worker, the sequence numbers of call and return, what was asked, the
// times at which it may have taken effect, and the answer.
func transcript(history []porcupine.Operation) string {
	history = slices.Clone(history)
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	for _, op := range history {
		fmt.Fprintf(&text, "  worker %d [%d, %d] %s\n", op.ClientId, op.Call, op.Return, describe(op.Input, op.Output))
	}
	return text.String()
}

// TestEvidence checks that what is printed about a violation shows the operations
// of the key that is to blame and of no other, and that the picture is there.
func TestEvidence(t *testing.T) {
	s := &specs[0]
	grant := ratelimit.Decision{Allowed: true}
	history := []porcupine.Operation{
		{Input: call{kind: take, key: "guilty", n: 1, times: []int64{0}}, Call: 1, Output: grant, Return: 2},
		{Input: call{kind: take, key: "guilty", n: 1, times: []int64{0, 7}}, Call: 3, Output: grant, Return: 4},
		{Input: call{kind: take, key: "innocent", n: 1, times: []int64{7}}, Call: 5, Output: grant, Return: 6},
	}
	if got := check(s, history); got != porcupine.Illegal {
		t.Fatalf("one token granted twice in 7/8 of the time of one: got %v, want %v", got, porcupine.Illegal)
	}
	dir := t.TempDir()
	text := evidence(s, history, dir)
	for _, want := range []string{
		"guilty: picture " + dir,
		"worker 0 [1, 2] take 1 at tick 0: granted, 0 remain\n",
		"worker 0 [3, 4] take 1 at tick 0..7: granted, 0 remain\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("evidence: got %q, want it to contain %q", text, want)
		}
	}
	if strings.Contains(text, "innocent") {
		t.Errorf("evidence: got %q, want nothing about another key", text)
	}
	pictures, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(pictures) != 1 {
		t.Errorf("pictures: got %v, %v; want one", pictures, err)
	}
}
