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
// of the capacity, or what those need who wait for it. When less than a quarter is left, the next one is booked in the
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
//     earned again (and what those needed who waited for them, and went away).
//
// RetryAfter is when to ask this process again: what Redis said, or a quarter of the term
// if that is longer (and a quarter of the time to fill, if that is shorter). Another process may
// have tokens before. Remaining is what is left of the booking.
//
// A check that has to ask Redis takes two timeouts at most: it may have to wait for a booking
// that is on its way, and then for another one. Checks that need not do not allocate.
//
// A Leased is safe for concurrent use and must not be copied. It has a goroutine while it
// has keys in memory, which Close ends; a key that is not asked for is forgotten after two or
// three terms, or ten, if it was denied. Until then one of 24 bytes takes some 215 bytes of
// memory: who lets anybody make up keys should count with that.
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
	limiter, c, err := build(client, limit, opts)
	if err != nil {
		return nil, err
	}
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
// cost tokens if so. Costs and failures are as for Limiter.AllowN; what was booked before a
// failure is spent first, and ctx is looked at only when Redis has to be asked. After Close
// it asks Redis every time.
func (l *Leased) AllowN(ctx context.Context, key string, cost int) (ratelimit.Decision, error) {
	if err := checkCost(cost, l.limiter.limit.Capacity); err != nil {
		return ratelimit.Decision{}, err
	}
	k := l.find(key)
	if k == nil {
		return l.limiter.AllowN(ctx, key, cost)
	}
	if d, decided := l.decide(key, k, cost); decided {
		return d, nil
	}
	if cost >= l.most { // a booking would not hold more than that
		return l.askOnce(ctx, key, k, cost)
	}
	return l.wait(ctx, key, cost)
}

// decide decides by what this process has booked, or knows to be denied.
func (l *Leased) decide(key string, k *leasedKey, cost int) (d ratelimit.Decision, decided bool) {
	now := l.now()
	if left, ok := k.take(now, cost); ok {
		if left < int(k.low.Load()) && k.flight.Load() == nil {
			l.bookAhead(key, k)
		}
		return ratelimit.Decision{Allowed: true, Remaining: left}, true
	}
	if d := k.denial.Load(); d != nil && now < d.until && cost >= d.cost {
		return ratelimit.Decision{RetryAfter: d.until - now}, true
	}
	return ratelimit.Decision{}, false
}

// askOnce has Redis decide, and remembers a denial.
func (l *Leased) askOnce(ctx context.Context, key string, k *leasedKey, cost int) (ratelimit.Decision, error) {
	d, err := l.limiter.AllowN(ctx, key, cost)
	if err == nil && !d.Allowed {
		d.RetryAfter = l.deny(k, cost, d.RetryAfter)
	}
	return d, err
}

// deny remembers a denial and returns for how long.
func (l *Leased) deny(k *leasedKey, cost int, wait time.Duration) time.Duration {
	wait = max(wait, l.pause)
	now := l.now()
	k.denial.Store(&denial{cost, now, now + wait})
	return wait
}

// errWaited is why a call fails that others were always ahead of.
var errWaited = errors.New("waited for others that booked tokens")

// wait waits for bookings until there are tokens for a request of the given cost, or a
// denial: for that of somebody else that is on its way, and one that knows of this request.
func (l *Leased) wait(ctx context.Context, key string, cost int) (ratelimit.Decision, error) {
	timeout := time.NewTimer(2 * l.limiter.remote.timeout)
	defer timeout.Stop()
	var k *leasedKey
	defer func() { k.waits(-cost) }()
	for {
		if found := l.find(key); found != k { // at first, or it was forgotten meanwhile
			k.waits(-cost)
			k = found
			k.waits(cost)
		}
		if k == nil {
			return l.limiter.AllowN(ctx, key, cost)
		}
		f, mine := k.board()
		if mine {
			go l.book(key, k, f, cost)
		}
		var err error
		select {
		case <-f.done:
			err = f.err
		case <-timeout.C:
			err = unavailable(errWaited)
		case <-ctx.Done():
			err = callerError(ctx)
		}
		if errors.Is(err, ErrUnavailable) {
			return l.limiter.fallback.decide(key, cost, err)
		}
		if err != nil {
			return ratelimit.Decision{}, err
		}
		if d, decided := l.decide(key, k, cost); decided {
			return d, nil
		}
	}
}

// book books tokens: as many as the size of the booking, or as those who wait need, or half of
// that, and so on, whatever there is; least is what the first of them needs, 0 if nobody
// waits. It belongs to the flight f, which it lands.
func (l *Leased) book(key string, k *leasedKey, f *flight, least int) {
	var err error
	var over leftover
	defer func() {
		k.land(f, err)
		l.giveBack(k, over, l.now())
	}()
	if k.gone {
		return
	}
	sent := l.now()
	largest := max(k.resize(sent, l.term, l.most), int(min(k.waiting.Load(), int64(l.limiter.limit.Capacity))), least)
	sizes := make([]int, 0, 16)
	for n := min(largest, maxLease); n > least; n /= 2 {
		sizes = append(sizes, n)
	}
	if least > 0 {
		sizes = append(sizes, least)
	}
	var a answer
	if a, err = l.limiter.ask(context.Background(), takeScript, key, sizes...); err != nil {
		return
	}
	k.scarce = a.taken != 1
	if a.taken == 0 {
		least = max(least, 1)
		l.deny(k, least, l.limiter.timing.wait(a.missing, least, a.ahead))
		return
	}
	booked := sizes[a.taken-1]
	l.booked.Add(int64(booked))
	l.limiter.fallback.charge(key, booked)
	if k.scarce { // what is earned meanwhile makes a larger booking
		l.deny(k, 1, 0)
	}
	k.low.Store(int32(booked / 4))
	over = k.put(booked, sent, sent+l.term, a.now)
}

// bookAhead books tokens in the background, if nobody does.
func (l *Leased) bookAhead(key string, k *leasedKey) {
	f, mine := k.board()
	if !mine {
		return
	}
	if d := k.denial.Load(); d != nil && l.now() < d.until {
		k.land(f, nil) // there are none
		return
	}
	go l.book(key, k, f, 0)
}

// LeaseStats are counts of one Leased, in one process, since it was made. It is a plain
// value.
type LeaseStats struct {
	Stats

	Booked   int64 // tokens that were booked in Redis, as far as it has answered
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
