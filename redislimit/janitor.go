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
	if k, ok := l.keys.Load(key); ok {
		return k
	}
	j := &l.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	k, _ := l.keys.LoadOrCompute(strings.Clone(key), func() *leasedKey { return new(leasedKey) })
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

// visit gives back what is left of leases that have ended, or of all, and forgets the keys that have
// none and of which nothing else need be remembered.
func (l *Leased) visit(all bool) {
	for key, k := range l.keys.Range {
		now := l.now()
		if !all {
			l.giveBack(key, k, now, false)
		}
		f, mine := k.board()
		for all && !mine {
			<-f.done
			f, mine = k.board()
		}
		if !mine {
			continue // it is in use
		}
		d := k.denial.Load()
		remembered := d != nil && now < d.until
		if all || !remembered && now-k.booked > 2*l.term && k.leases[0].left(now)+k.leases[1].left(now) == 0 {
			l.giveBack(key, k, now, all)
			k.gone = true
			l.keys.Delete(key)
		}
		k.land(f, nil)
	}
}

// giveBack ends the leases of a key that are over, or all.
func (l *Leased) giveBack(key string, k *leasedKey, now time.Duration, all bool) {
	for i := range k.leases {
		l.end(key, &k.leases[i], now, all)
	}
}

// end ends a lease that is over, or any, and refunds what is left of it, as far as nothing
// is gained by it.
func (l *Leased) end(key string, of *lease, now time.Duration, all bool) {
	word := of.word.Load()
	end := time.Duration(word>>leaseBits) * time.Millisecond
	if word == 0 || end > now && !all || !of.word.CompareAndSwap(word, 0) {
		return
	}
	left := int(word & maxLease)
	age := now - (end - l.term) + l.limiter.remote.timeout // when Redis does it
	back := l.refundable(left, age)
	if back > 0 && l.limiter.Refund(context.Background(), key, back) == nil {
		l.returned.Add(int64(back))
		left -= back
	}
	l.lost.Add(int64(left))
}

// refundable returns how many tokens of those that are left of a lease of some age may go
// back: less what the bucket may have earned since they were booked. Had they not been, the bucket
// might have been full meanwhile and earned nothing.
func (l *Leased) refundable(left int, age time.Duration) int {
	earned := math.Ceil(l.limiter.limit.RefillPerSec * age.Seconds() * (1 + 1e-9))
	return left - int(min(earned, float64(left)))
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
