package main

// This file asks the limiter about one request after the other and keeps the
// totals. It knows nothing of files and formats.

import (
	"context"
	"fmt"
	"time"

	"github.com/packedbucket/ratelimit"
)

// maxSpan is how far apart the time stamps of a replay may be, and maxBack how far
// before the latest one so far. The limiter tells times apart over 639 days, and
// follows a clock back for 90: see ratelimit.WithClock.
const (
	maxSpan = 365 * day
	maxBack = 90 * day
)

// A replay is a limiter that runs on the time stamps of the requests.
type replay struct {
	limit   limit
	limiter *ratelimit.TokenBucket // made at the first request
	now     time.Time              // what its clock reads
	tallies map[string]*tally
	check   *checker // nil unless decisions are checked

	tally                    // of all keys; its key is empty
	free       int           // granted without asking, for a cost of 0
	wentBack   int           // time stamps earlier than one before
	wentBackBy time.Duration // the most that one was

	first, last      time.Time // in the order of the log
	earliest, latest time.Time
}

// A tally is what became of the requests of one key.
type tally struct {
	key       string
	granted   int
	denied    int
	exceeding int           // cost above the capacity: neither granted nor denied
	longest   time.Duration // the largest RetryAfter of a denial

	latest  time.Time // of the grants
	filled  bool      // whether the limiter has a bucket for the key
	account account   // for the checker
}

func (t *tally) requests() int { return t.granted + t.denied + t.exceeding }

func newReplay(l limit, check bool) *replay {
	r := &replay{limit: l, tallies: make(map[string]*tally)}
	if check {
		r.check = newChecker(l)
	}
	return r
}

// add replays one request, of which place says where it is in the log. It counts at
// its time stamp, or at that of the latest grant of its key if that is later: for
// one key, time never goes back. The error says what is wrong with the time stamp;
// then the request counts as never made.
func (r *replay) add(rec record, place place) error {
	if err := r.advance(rec.at); err != nil {
		return err
	}
	t := r.tallies[string(rec.key)]
	if t == nil {
		t = &tally{key: string(rec.key)}
		r.tallies[t.key] = t
	}
	if rec.cost == 0 {
		r.free++
		r.granted++
		t.granted++
		return nil
	}
	if t.latest.After(rec.at) {
		r.now = t.latest
	}
	d, err := r.ask(t, rec.cost)
	if err != nil { // the only one there can be: the limit is valid and the cost is positive
		r.exceeding++
		t.exceeding++
		return nil
	}
	if d.Allowed {
		r.granted++
		t.granted++
		t.latest = r.now
	} else {
		r.denied++
		t.denied++
		t.longest = max(t.longest, d.RetryAfter)
		r.longest = max(r.longest, d.RetryAfter)
	}
	if r.check != nil {
		r.check.observe(t, rec.at, rec.cost, d.Allowed, place)
	}
	return nil
}

// advance moves the clock to the time stamp of a request.
func (r *replay) advance(at time.Time) error {
	if r.limiter == nil {
		return r.start(at)
	}
	if at.Sub(r.earliest) > maxSpan || r.latest.Sub(at) > maxSpan {
		return fmt.Errorf("time stamp %s: must be within 365 days of all others, which are from %s to %s; replay a longer log in parts",
			at.UTC().Format(time.RFC3339), r.earliest.Format(time.RFC3339), r.latest.Format(time.RFC3339))
	}
	if r.latest.Sub(at) > maxBack {
		return fmt.Errorf("time stamp %s: must be at most 90 days before the latest one so far, %s; -sort replays in the order of the time stamps",
			at.UTC().Format(time.RFC3339), r.latest.Format(time.RFC3339))
	}
	r.now, r.last = at, at.UTC()
	switch {
	case at.After(r.latest):
		r.latest = r.last
	case at.Before(r.latest):
		r.wentBack++
		r.wentBackBy = max(r.wentBackBy, r.latest.Sub(at))
		if at.Before(r.earliest) {
			r.earliest = r.last
		}
	}
	return nil
}

// start makes the limiter, so that its time begins with the first request.
//
// Its buckets must start full, as they do by default. But then the limiter forgets
// buckets that are full by the time of the request at hand, which is right only if
// time never goes back for any key; in a log it does, and an earlier request of a
// forgotten key would find a full bucket. So they start empty, which makes the
// limiter remember them all, and ask fills them.
func (r *replay) start(at time.Time) error {
	r.now = at
	limiter, err := ratelimit.New(r.limit.Limit, ratelimit.WithStartEmpty(),
		ratelimit.WithClock(func() time.Time { return r.now }))
	if err != nil {
		return err // not for a limit that parseFlags returned
	}
	r.limiter = limiter
	r.first, r.last, r.earliest, r.latest = at.UTC(), at.UTC(), at.UTC(), at.UTC()
	return nil
}

// ask returns what the limiter decides about a request of the key of t.
func (r *replay) ask(t *tally, cost int) (ratelimit.Decision, error) {
	ctx := context.Background()
	d, err := r.limiter.AllowN(ctx, t.key, cost)
	if err != nil || t.filled {
		return d, err
	}
	// The bucket was made by this call, empty.
	t.filled = true
	r.limiter.Refund(t.key, r.limit.Capacity)
	return r.limiter.AllowN(ctx, t.key, cost)
}
