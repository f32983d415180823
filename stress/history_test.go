package stress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/packedbucket/ratelimit"
)

// This file runs a limiter under load and writes down what happened.

// A limiter is what is put under load: a *ratelimit.TokenBucket, or one of the
// broken ones.
type limiter interface {
	Allow(ctx context.Context, key string) (ratelimit.Decision, error)
	AllowN(ctx context.Context, key string, cost int) (ratelimit.Decision, error)
	Refund(key string, tokens int)
	Peek(key string) ratelimit.State
	Reset(key string)
	Sweep() int
	Len() int
}

// A clock shows the ticks of a schedule, one after the other; it moves on when the
// workers say so. Few moves fall into one operation, so that few times have to be
// tried to explain it, and no real time passes.
type clock struct {
	ticks    []int64 // ascending, from 0
	tick     time.Duration
	position atomic.Int64
	stale    int         // a reading is up to so many positions old
	linger   atomic.Bool // the next reading takes its time
}

// clockStart is nothing but a time.Time to count from.
var clockStart = time.Unix(1e9, 0)

// newClock returns a clock that can be advanced moves times, by a fraction of the
// time of a token and now and then so far that every bucket fills.
func newClock(s *spec, moves int, rng *rand.Rand) *clock {
	c := &clock{ticks: make([]int64, moves+1), tick: s.tick}
	for i := range moves {
		step := 1 + rng.Int64N(s.timeOf(grainsPerToken/4))
		if rng.IntN(16) == 0 {
			step = s.timeOf(s.full)
		}
		c.ticks[i+1] = c.ticks[i] + step
	}
	return c
}

// read is the clock as the limiter sees it. Sometimes, having read, it lets the
// other goroutines run: the time between the clock read of an operation and its
// first look at the map is where a reading grows old, and the one place within an
// operation that a caller's code can stretch. The workers ask for it with linger;
// a sweep reads the clock 128 times, and would never end if each took its time.
func (c *clock) read() int64 {
	position := c.position.Load()
	if c.stale > 0 {
		position = max(0, position-rand.Int64N(int64(c.stale)+1))
	}
	if c.linger.Swap(false) || rand.IntN(64) == 0 {
		runtime.Gosched()
	}
	return c.ticks[position]
}

func (c *clock) now() time.Time {
	return clockStart.Add(time.Duration(c.read()) * c.tick)
}

func (c *clock) advance() { c.position.Add(1) }

// between returns every tick that the clock may have shown to an operation that
// was called when it stood at the position from and has returned at to.
func (c *clock) between(from, to int64) []int64 {
	return c.ticks[max(0, from-int64(c.stale)) : to+1]
}

// A store says where the limiter keeps its buckets.
type store int

const (
	defaultStore store = iota
	largeTable         // WithMaxKeys, with room for all keys
	smallTable         // WithMaxKeys, with keys that take each other's slots all the time

	endOfStores
)

func (s store) String() string {
	return [endOfStores]string{"default store", "large table", "small table"}[s]
}

// A load says how a limiter is used in one round.
type load struct {
	store   store
	spec    *spec
	seed    uint64 // of what the workers ask for; the interleaving has none
	procs   int    // GOMAXPROCS
	workers int
	keys    int
	calls   int // of each worker
	pace    int // the clock advances after one call in so many
	stale   int // see clock

	sweeper bool // a goroutine that calls Sweep all the time
	filler  bool // a goroutine that uses ever new keys, each of which may set off an automatic sweep

	crowd   int // the most keys that the filler uses between two moves of the clock
	maxKeys int // of a table
}

// newLoad returns the load of the given round: the rounds go through the limits,
// the sweepers and GOMAXPROCS, and draw the rest.
func newLoad(st store, round, stale int) load {
	rng := rand.New(rand.NewPCG(uint64(round), 0))
	sweepers := round / len(specs) % 3
	l := load{
		store:   st,
		spec:    &specs[round%len(specs)],
		seed:    uint64(round),
		procs:   []int{1, 2, 4, 8}[rng.IntN(4)],
		workers: 4 + rng.IntN(5),
		keys:    3 + rng.IntN(6),
		calls:   25 + rng.IntN(50),
		pace:    1 + rng.IntN(4),
		stale:   stale,
		sweeper: sweepers != 1,
		filler:  sweepers != 0,
	}
	switch st {
	case defaultStore:
		l.crowd = 16
	case largeTable:
		l.crowd = 8
		l.maxKeys = 1 << 13
	case smallTable:
		l.filler, l.sweeper = true, sweepers == 0
		switch rng.IntN(3) {
		case 0:
			// Two sets for all keys, and room in them for all keys that are short at once.
			l.maxKeys = 1
			l.keys = min(l.keys, 4)
			l.crowd = 2
			if stale > 0 {
				l.crowd = 1 // the keys of several moves may seem to be of one
			}
		case 1:
			// Four sets, so that two are full now and then when there is room in a third.
			l.maxKeys = 8
			l.keys = min(l.keys, 6)
			l.crowd = 6
		case 2:
			// Sets of two stripes, and more keys, so that there are some to refill.
			l.maxKeys = 75
			l.keys *= 3
			l.crowd = 32
		}
	}
	return l
}

func (l load) String() string {
	return fmt.Sprintf("%v, capacity %d, %v tokens/s, tick %v, seed %d, GOMAXPROCS %d, workers %d, keys %d, calls %d, pace %d, stale %d, sweeper %t, filler %t, table for %d, crowd %d",
		l.store, l.spec.limit.Capacity, l.spec.limit.RefillPerSec, l.spec.tick, l.seed, l.procs, l.workers, l.keys, l.calls, l.pace, l.stale, l.sweeper, l.filler, l.maxKeys, l.crowd)
}

// A record is what came of one round.
type record struct {
	history []porcupine.Operation
	granted int
	denied  int

	// Buckets that were removed, in the rounds in which it can be told by whom:
	swept     int // the workers' buckets, by Sweep, if there was no filler
	autoSwept int // any buckets, by insertions, if there was no sweeper

	// Of a small table: whether no request met the overflow policy, which is no matter of
	// token buckets; how many slots were given to another key; and how often a worker's
	// key got a bucket after it had lost one.
	judged    bool
	takeovers int
	returns   int
}

// run runs one round on the limiter that newLimiter returns.
func (l load) run(t *testing.T, newLimiter func(*spec, *clock) limiter) record {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(l.procs))

	rng := rand.New(rand.NewPCG(l.seed, 1))
	c := newClock(l.spec, 1+l.stale+l.workers*l.calls, rng)
	lim := newLimiter(l.spec, c)
	c.stale = l.stale // from now on: the limiter counts from tick 0

	var (
		swept    int
		inserted int          // keys of the filler that got a bucket
		refused  int          // those that did not
		sequence atomic.Int64 // orders calls and returns
		workers  sync.WaitGroup
		others   sync.WaitGroup
		done     atomic.Bool
	)
	if l.filler {
		insert := func() {
			key := "filler" + strconv.Itoa(inserted+refused)
			d, err := lim.Allow(context.Background(), key)
			switch {
			case err == nil && d.Allowed:
				inserted++
			case err == nil && l.store == smallTable:
				refused++
			default:
				t.Errorf("first request of a key: got %+v, %v; want a grant", d, err)
			}
			if l.store == smallTable {
				lim.Refund(key, 1)
			}
		}
		// Some at once, before the clock moves, so that later automatic sweeps find
		// something to remove in every shard, and a small table has no free slot.
		for range 512 {
			insert()
		}
		if l.store == smallTable {
			// A slot is vacant at a later time than that of its last use.
			for range 1 + l.stale {
				c.advance()
			}
		}
		others.Go(func() {
			position, n := int64(-1), 0
			for !done.Load() {
				if p := c.position.Load(); p > position {
					position, n = p, 0
				}
				if n < l.crowd {
					insert()
					n++
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	if l.sweeper {
		others.Go(func() {
			for !done.Load() {
				swept += lim.Sweep()
				runtime.Gosched()
			}
		})
	}
	histories := make([][]porcupine.Operation, l.workers)
	for i := range histories {
		workers.Go(func() {
			histories[i] = l.work(t, i, lim, c, &sequence)
		})
	}
	workers.Wait()
	done.Store(true)
	others.Wait()

	var rec record
	if !l.filler {
		rec.swept = swept
	}
	if !l.sweeper {
		rec.autoSwept = max(0, inserted-lim.Len())
	}
	for _, h := range histories {
		for _, op := range h {
			if l.store != smallTable || !noSlot(op.Output) {
				rec.history = append(rec.history, op)
			}
		}
	}
	if tb, ok := lim.(*ratelimit.TokenBucket); ok {
		stats := tb.Stats()
		rec.judged = stats.Refused+stats.Shared == int64(refused)
		rec.takeovers = int(stats.Takeovers)
		if l.store == smallTable {
			// Whatever got a slot has it still, or was swept, or lost it to another key.
			// (What insertions swept is not counted.)
			rec.returns = max(0, stats.Keys+swept+rec.takeovers-inserted-l.keys)
		}
	}
	for _, op := range rec.history {
		if d, ok := op.Output.(ratelimit.Decision); ok && d.Allowed {
			rec.granted++
		} else if ok {
			rec.denied++
		}
	}
	return rec
}

// noSlot reports whether Peek may have found that a key has no slot and finds none, with
// OverflowDeny. That leaves every bucket as it is, and can be left out.
func noSlot(output any) bool {
	s, ok := output.(ratelimit.State)
	return ok && s.Tokens == 0 && s.RetryAfter == s.ResetAfter
}

// work is one worker: it makes its calls and returns their history.
//
// The sequence is one counter for all workers. It orders the operations, and the
// processors' view of memory between operations, more strictly than the limiter
// alone would; a clock would not, but has ties and a resolution. Data races are
// for the race detector and the tests of the limiter's own package.
func (l load) work(t *testing.T, id int, lim limiter, c *clock, sequence *atomic.Int64) []porcupine.Operation {
	rng := rand.New(rand.NewPCG(l.seed, uint64(2+id)))
	history := make([]porcupine.Operation, 0, l.calls)
	for range l.calls {
		in := call{key: "key" + strconv.Itoa(rng.IntN(l.keys))}
		switch p := rng.IntN(100); {
		case p < 65:
			in.kind, in.n = take, 1+rng.IntN(l.spec.limit.Capacity)
		case p < 75:
			in.kind, in.n = refund, 1+rng.IntN(l.spec.limit.Capacity)
		case p < 80:
			in.kind = reset
		default:
			in.kind = peek
		}

		c.linger.Store(rng.IntN(2) == 0)
		from := c.position.Load()
		called := sequence.Add(1)
		out, err := do(lim, in)
		returned := sequence.Add(1)
		in.times = c.between(from, c.position.Load())
		if err != nil {
			t.Errorf("%+v: %v", in, err)
		}
		history = append(history, porcupine.Operation{
			ClientId: id, Input: in, Call: called, Output: out, Return: returned,
		})
		if rng.IntN(l.pace) == 0 {
			c.advance()
		}
	}
	return history
}

// do carries out one call and returns its result as spec.apply would.
func do(lim limiter, c call) (any, error) {
	switch c.kind {
	case take:
		if c.n == 1 {
			d, err := lim.Allow(context.Background(), c.key)
			return d, err
		}
		d, err := lim.AllowN(context.Background(), c.key, c.n)
		return d, err
	case refund:
		lim.Refund(c.key, c.n)
		return nil, nil
	case reset:
		lim.Reset(c.key)
		return nil, nil
	default:
		return lim.Peek(c.key), nil
	}
}
