package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var begin = time.Unix(1767603600, 0)

// after returns the time so many seconds after begin.
func after(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }

func TestReplay(t *testing.T) {
	r := newReplay(newPer(2, 10*time.Second), true)
	for i, c := range []struct {
		key     string
		at      int
		cost    int
		granted bool
		why     string
	}{
		{"a", 0, 1, true, "new keys are full"},
		{"a", 0, 1, true, ""},
		{"a", 0, 1, false, "empty"},
		{"a", 4, 1, false, "0.8 tokens"},
		{"a", 5, 1, true, "exactly one token is back"},
		{"b", 2, 2, true, "time goes back, for another key"},
		{"b", 1, 1, false, "time goes back for this key: nothing is there yet"},
		{"b", 11, 2, false, "9 seconds after the latest grant, not 10 after its time stamp"},
		{"b", 12, 2, true, ""},
		{"a", -3, 1, false, "before the first time stamp"},
		{"c", -3, 1, true, "a new key before the first time stamp"},
		{"c", 99, 2, true, "full, not more"},
		{"c", 99, 1, false, ""},
	} {
		granted, denied := r.granted, r.denied
		require.NoError(t, r.add(record{[]byte(c.key), after(c.at), c.cost}, place{"test", i}))
		if c.granted {
			granted++
		} else {
			denied++
		}
		assert.Equal(t, []int{granted, denied}, []int{r.granted, r.denied}, "%d: %s", i, c.why)
	}
	assert.Equal(t, after(-3), r.earliest.Local())
	assert.Equal(t, after(99), r.latest.Local())
	assert.Equal(t, begin, r.first.Local())
	assert.Equal(t, after(99), r.last.Local())
	assert.Equal(t, 4, r.wentBack)
	assert.Equal(t, 15*time.Second, r.wentBackBy)
	assert.Equal(t, 5*time.Second, r.longest, "a wait counts from where the request counts, not from its older time stamp")
	assert.Zero(t, r.check.failures, r.check.reports)
}

func TestCostsThatAreNoDecision(t *testing.T) {
	r := newReplay(newPer(10, 10*time.Second), true)
	for _, cost := range []int{11, 0, 10, 0, 11, 1} { // also as the first of a key
		require.NoError(t, r.add(record{[]byte("a"), begin, cost}, place{}))
	}
	assert.Equal(t, 2, r.exceeding)
	assert.Equal(t, 2, r.free)
	assert.Equal(t, 3, r.granted)
	assert.Equal(t, 1, r.denied)
	assert.Equal(t, 6, r.requests())
	assert.Equal(t, 2, r.check.decisions)
}

func TestTimeStampsFarApart(t *testing.T) {
	const day, year = 24 * 3600, 365 * 24 * 3600
	r := newReplay(newPer(1, 10*time.Second), true)
	for i, c := range []struct {
		key  string
		at   int // seconds
		says string
	}{
		{"a", 0, ""},
		{"a", -90 * day, ""},
		{"b", -90 * day, ""}, // a key of its own, as far back as it may be
		{"b", -90*day + 10, ""},
		{"a", -90*day - 1, "must be at most 90 days before the latest one so far, 2026-01-05T09:00:00Z; -sort"},
		{"a", 275 * day, ""}, // a year after the first
		{"c", 275*day + 1, "must be within 365 days of all others, which are from 2025-10-07T09:00:00Z to 2026-10-07T09:00:00Z"},
		{"b", 185*day - 1, "must be at most 90 days before the latest one so far, 2026-10-07T09:00:00Z; -sort"},
		{"b", 185 * day, ""},
		{"b", 185*day + 10, ""},
		{"c", 60 * year, "must be within 365 days"},
		{"c", -60 * year, "must be within 365 days"},
	} {
		err := r.add(record{[]byte(c.key), after(c.at), 1}, place{"test", i})
		if c.says == "" {
			require.NoError(t, err, "%d", i)
		} else {
			require.ErrorContains(t, err, c.says, "%d", i)
		}
	}
	assert.Equal(t, 7, r.requests())
	assert.Equal(t, 6, r.granted) // but for the one of a that counts at 0
	assert.Zero(t, r.check.failures, r.check.reports)
}

// TestLateLinesOfManyKeys has every key come back with a time stamp that is older
// than those of other keys by then. A limiter that forgets full buckets has
// forgotten some of these keys by the time it sees them, and grants.
func TestLateLinesOfManyKeys(t *testing.T) {
	r := newReplay(newPer(1, time.Minute), true)
	for i := range 20_000 {
		require.NoError(t, r.add(record{fmt.Append(nil, i), after(i), 1}, place{"first", i}))
		if i > 80 { // 30 seconds after it was granted
			require.NoError(t, r.add(record{fmt.Append(nil, i-80), after(i - 50), 1}, place{"again", i}))
		}
	}
	assert.Equal(t, 20_000, r.granted)
	assert.Equal(t, 20_000-81, r.denied)
	assert.Zero(t, r.check.failures, r.check.reports)
}

// TestRandomReplaysHold replays random requests, time stamps of a nanosecond's
// precision and going back, against many limits, and has them checked.
func TestRandomReplaysHold(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	limits := []limit{
		newPer(1, time.Second), newPer(7, 3*time.Second), newPer(100, time.Minute), newPer(3, 7*time.Hour),
		newPer(1000, time.Millisecond), newPer(1_000_000, time.Hour), newPer(1<<30, time.Hour), newPer(5, 300*day),
	}
	early := 0
	for _, l := range limits {
		require.True(t, l.isExact())
		r := newReplay(l, true)
		token := 1e9 / l.RefillPerSec // nanoseconds
		at := begin
		for i := range 20_000 {
			step := time.Duration(random.Float64() * 2 * token / 3)
			if random.IntN(4) == 0 {
				step = -step / 2
			}
			if next := at.Add(step); next.Sub(begin).Abs() < maxBack/2 {
				at = next
			}
			key := byte('a' + random.IntN(3))
			cost := 1 + random.IntN(min(3, l.Capacity))
			require.NoError(t, r.add(record{[]byte{key}, at, cost}, place{"random", i}))
		}
		assert.Zero(t, r.check.failures, "%v: %v", l.Limit, r.check.reports)
		assert.Equal(t, 20_000, r.check.decisions)
		early += r.check.early
	}
	t.Logf("%d grants came early, within a unit", early)
}
