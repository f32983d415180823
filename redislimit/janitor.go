package redislimit

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"
)

// A janitor is the goroutine that gives back what was booked and not spent, and forgets
// keys. It runs while there are any.
type janitor struct {
	mu      sync.Mutex
	running bool
	closed  bool
	stop    chan struct{}
	ended   sync.WaitGroup
}

// find returns what is known of a key, or nil after Close.
func (l *Leased) find(key string) *leasedKey {
	id := shortened(key)
	if k, ok := l.keys.Load(id); ok {
		return k
	}
	j := &l.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	k, _ := l.keys.LoadOrCompute(strings.Clone(id), func() *leasedKey {
		return &leasedKey{name: name(l.limiter.remote.prefix, key), lost: &l.lost}
	})
	if !j.running {
		j.running = true
		j.ended.Add(1)
		go l.clean()
	}
	return k
}

// clean visits all keys once a term, until there are none.
func (l *Leased) clean() {
	j := &l.janitor
	defer j.ended.Done()
	ticks := time.NewTicker(l.term)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-j.stop:
			return
		}
		l.visit(false)
		j.mu.Lock()
		if l.keys.Size() == 0 && !j.closed {
			j.running = false
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
	}
}

// remembered is for how many terms a denial is kept in memory at most, of a key that is
// not asked for or whose denial is longer: then Redis is asked again.
const remembered = 10

// visit gives back what is left of leases that have ended, or of all, and forgets the keys that have
// none and of which nothing else need be remembered.
func (l *Leased) visit(all bool) {
	for id, k := range l.keys.Range {
		f, mine := k.board()
		for all && !mine {
			<-f.done
			f, mine = k.board()
		}
		if !mine {
			continue // it is in use
		}
		now := l.now()
		ends := now
		if all {
			ends = math.MaxInt64
		}
		for i := range k.leases {
			over := k.leases[i].end(ends)
			over.server = k.server[i]
			l.giveBack(k, over, now)
		}
		d := k.denial.Load()
		denied := d != nil && now < min(d.until, d.at+remembered*l.term)
		if all || !denied && now-k.booked > 2*l.term && k.leases[0].left(now)+k.leases[1].left(now) == 0 {
			k.gone = true
			l.keys.Delete(id)
		}
		k.land(f, nil)
	}
}

// giveBack refunds what is left of a lease, less what the bucket may have earned since it was
// booked, which the script computes: if that is all of it, it is not asked.
func (l *Leased) giveBack(k *leasedKey, over leftover, now time.Duration) {
	if over.tokens == 0 {
		return
	}
	t := l.limiter.timing
	charge := t.refill(over.tokens)
	back := 0
	if age := now - (over.end - l.term); age/time.Microsecond < time.Duration(charge.micros) {
		args := append(t.args(over.tokens), over.server)
		numbers, err := l.limiter.remote.run(context.Background(), refundScript, answerLen, k.name, args)
		if err == nil {
			back = t.within(charge, newAnswer(numbers).now-over.server)
		}
	}
	l.returned.Add(int64(back))
	l.lost.Add(int64(over.tokens - back))
}

// Close gives back what is booked and not spent, as far as Redis can be reached, and ends the
// goroutine. It always returns nil, and may be called more than once.
func (l *Leased) Close() error {
	j := &l.janitor
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.stop)
	}
	j.mu.Unlock()
	j.ended.Wait()
	l.visit(true)
	return nil
}
