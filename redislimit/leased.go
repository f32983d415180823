package redislimit

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/puzpuzpuz/xsync/v3"
	"github.com/redis/go-redis/v9"
)

// A Leased is a ratelimit.Limiter for keys that are asked for often: it books tokens in
// Redis ahead of use, and spends them at the speed of memory. How many depends on how fast
// they are spent: the first check of a key books what it costs, and one that was spent in
// less than half the term of WithTerm makes the next booking twice as large, up to an eighth
// of the capacity. When less than a quarter is left, the next one is booked in the
// background. What is not spent within the term is void, or given back as far as nothing
// can be gained by it. A denial is remembered, and until its RetryAfter is over, Redis is not
// asked for the key again.
//
// Whatever the number of processes, and whether they crash:
//
//   - the grants of any span of the server's time are at most capacity + rate x (span + term), and
//     since the bucket was full, at most capacity + rate x span;
//   - tokens that are booked and not spent are lost for a while: at most a sixth of the
//     capacity for each key and process that crashes, or that stops to ask, until they are
//     earned again.
//
// RetryAfter is when to ask this process again: what Redis said, or a quarter of the term
// if that is longer (and a quarter of the time to fill, if that is shorter). Another process may
// have tokens before. Remaining is what is left of the booking.
//
// A Leased is safe for concurrent use and must not be copied. It has a goroutine while it
// has keys in memory, which Close ends; a key that is not asked for is forgotten after one or two
// terms. Checks that need not ask Redis do not allocate.
type Leased struct {
	limiter *Limiter
	term    time.Duration
	most    int           // tokens in a booking
	pause   time.Duration // the least for which a denial is remembered
	base    time.Time
	keys    *xsync.MapOf[string, *leasedKey]
	janitor janitor

	booked, returned, lost atomic.Int64
}

var _ ratelimit.Limiter = (*Leased)(nil)

// NewLeased returns a limiter that books tokens in the Redis of client. Arguments and errors
// are those of New.
func NewLeased(client redis.UniversalClient, limit ratelimit.Limit, opts ...Option) (*Leased, error) {
	limiter, err := New(client, limit, opts...)
	if err != nil {
		return nil, err
	}
	c, _ := newConfig(opts) // New has seen that they are good
	fill := time.Duration(limiter.timing.burst.micros) * time.Microsecond
	return &Leased{
		limiter: limiter,
		term:    c.term,
		most:    min(max(1, limit.Capacity/8), maxLease),
		pause:   min(c.term, fill) / 4,
		base:    time.Now(),
		keys:    xsync.NewMapOf[string, *leasedKey](),
		janitor: janitor{stop: make(chan struct{})},
	}, nil
}

// now is the time of this process's monotonic clock since the limiter was made.
func (l *Leased) now() time.Duration { return time.Since(l.base) }

// Allow is AllowN with a cost of 1.
func (l *Leased) Allow(ctx context.Context, key string) (ratelimit.Decision, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN decides whether a request of the given cost for key may go ahead now, and takes
// cost tokens if so. Costs, failures and ctx are as for Limiter.AllowN; what was booked before a
// failure is spent first. After Close it asks Redis every time.
func (l *Leased) AllowN(ctx context.Context, key string, cost int) (ratelimit.Decision, error) {
	if err := checkCost(cost, l.limiter.limit.Capacity); err != nil {
		return ratelimit.Decision{}, err
	}
	k := l.find(key)
	if k == nil {
		return l.limiter.AllowN(ctx, key, cost)
	}
	for {
		now := l.now()
		if left, ok := k.take(now, cost); ok {
			if left < int(k.low.Load()) && k.flight.Load() == nil {
				l.bookAhead(key, k)
			}
			return ratelimit.Decision{Allowed: true, Remaining: left}, nil
		}
		if d := k.denial.Load(); d != nil && now < d.until && cost >= d.cost {
			return ratelimit.Decision{RetryAfter: d.until - now}, nil
		}
		f, mine := k.board()
		if mine {
			if k.gone {
				k.land(f, nil)
				return l.AllowN(ctx, key, cost)
			}
			d, err := l.book(ctx, key, k, cost)
			k.land(f, err)
			if errors.Is(err, ErrUnavailable) {
				return l.limiter.fallback.decide(key, cost, err)
			}
			return d, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return ratelimit.Decision{}, callerError(ctx)
		}
		if errors.Is(f.err, ErrUnavailable) {
			return l.limiter.fallback.decide(key, cost, f.err)
		}
		// There are tokens, or a denial, or it is this caller's turn to ask.
	}
}

// book books tokens for a request of the given cost, or for those to come if that is 0: as many
// as the size of the booking, or half of that, and so on, whatever there is. It takes what the request
// costs and puts the rest into the lease. Only one goroutine does this at a time for a key.
func (l *Leased) book(ctx context.Context, key string, k *leasedKey, cost int) (ratelimit.Decision, error) {
	sent := l.now()
	sizes := make([]int, 0, 16)
	for n := k.resize(sent, l.term, l.most); n > cost; n /= 2 {
		sizes = append(sizes, n)
	}
	if cost > 0 {
		sizes = append(sizes, cost)
	}
	a, err := l.limiter.ask(ctx, takeScript, key, sizes...)
	if err != nil {
		return ratelimit.Decision{}, err
	}
	if a.taken == 0 {
		least := max(cost, 1)
		wait := max(l.limiter.timing.wait(a.missing, least, a.ahead), l.pause)
		k.denial.Store(&denial{least, l.now() + wait})
		k.scarce = true
		whole, _ := l.limiter.timing.tokens(a.missing)
		return ratelimit.Decision{RetryAfter: wait, Remaining: int(whole)}, nil
	}
	booked := sizes[a.taken-1]
	l.booked.Add(int64(booked))
	l.limiter.fallback.charge(key, booked)
	rest := booked - cost
	if k.scarce = a.taken > 1; k.scarce { // what is earned meanwhile makes a larger booking
		k.denial.Store(&denial{1, l.now() + l.pause})
	}
	k.low.Store(int32(rest / 4))
	if rest > 0 {
		l.lost.Add(int64(k.put(rest, sent, sent+l.term)))
	}
	return ratelimit.Decision{Allowed: true, Remaining: rest}, nil
}

// bookAhead books tokens in the background, if nobody does.
func (l *Leased) bookAhead(key string, k *leasedKey) {
	f, mine := k.board()
	if !mine {
		return
	}
	if d := k.denial.Load(); k.gone || d != nil && l.now() < d.until {
		k.land(f, nil) // there are none
		return
	}
	go func() {
		_, err := l.book(context.Background(), key, k, 0)
		k.land(f, err)
	}()
}

// LeaseStats are counts of one Leased, in one process, since it was made. It is a plain
// value.
type LeaseStats struct {
	Stats

	Booked   int64 // tokens that were booked in Redis
	Returned int64 // of those, tokens that were given back
	Lost     int64 // of those, tokens that were neither spent nor given back
	Keys     int   // keys in memory
}

// Stats returns the counts. It takes some nanoseconds for each shard of a map.
func (l *Leased) Stats() LeaseStats {
	return LeaseStats{
		Stats:    l.limiter.Stats(),
		Booked:   l.booked.Load(),
		Returned: l.returned.Load(),
		Lost:     l.lost.Load(),
		Keys:     l.keys.Size(),
	}
}
