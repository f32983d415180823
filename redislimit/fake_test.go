package redislimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A fakeRedis does what the scripts of a token bucket do, in Go, for simulations in which
// time does not pass by itself. TestFakeRedis holds it against the oracle.
type fakeRedis struct {
	mu      sync.Mutex
	buckets map[string]fakeBucket
	calls   atomic.Int64
}

type fakeBucket struct {
	full span
	last uint64
}

func newFakeRedis() *fakeRedis { return &fakeRedis{buckets: map[string]fakeBucket{}} }

// run answers a script at the time clock, in microseconds.
func (r *fakeRedis) run(sha, key string, clock uint64, args []any) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := func(i int) uint64 { return args[i].(uint64) }
	burst, parts := span{number(0), number(1)}, number(2)
	add := func(a, b span) span {
		a.micros, a.parts = a.micros+b.micros, a.parts+b.parts
		if a.parts >= parts {
			a.micros, a.parts = a.micros+1, a.parts-parts
		}
		return a
	}
	now, full := clock, span{clock, 0}
	b, known := r.buckets[key]
	if known {
		full = b.full
		if b.last > clock+burst.micros {
			full.micros -= b.last - clock
		} else if b.last > clock {
			now = b.last
		}
		if full.micros < now {
			full = span{now, 0}
		}
	}
	answer := func(which int) []int64 {
		return []int64{int64(which), int64(full.micros - now), int64(full.parts), int64(now - clock), int64(now)}
	}
	switch sha {
	case takeScript.sha:
		for i := 3; i < len(args); i += 2 {
			after := add(full, span{number(i), number(i + 1)})
			if !(span{now + burst.micros, burst.parts}).less(after) {
				full = after
				r.buckets[key] = fakeBucket{full, now}
				return answer((i - 1) / 2)
			}
		}
		if known && b.last > clock+burst.micros {
			r.buckets[key] = fakeBucket{full, now}
		}
		return answer(0)
	case refundScript.sha:
		if !known {
			return answer(1)
		}
		back := span{number(3), number(4)}
		if len(args) > 5 {
			if age := int64(now) - args[5].(int64); age < 0 || age > int64(back.micros) {
				back = span{}
			} else {
				back.micros -= uint64(age)
			}
		}
		full.micros -= back.micros
		if full.parts < back.parts {
			full.micros, full.parts = full.micros-1, full.parts+parts
		}
		full.parts -= back.parts
		if full.micros < now {
			full = span{now, 0}
		}
		r.buckets[key] = fakeBucket{full, now}
		return answer(1)
	case peekScript.sha:
		return answer(1)
	}
	panic("a script that is not known")
}

// A fakeNode is the client of one process to a fakeRedis, with the latency of a network.
type fakeNode struct {
	redis   *fakeRedis
	latency time.Duration
	cut     atomic.Bool // from the server
	lossy   func() bool // says of each call whether its answer is lost
}

var errCut = &net.OpError{Op: "read", Err: errors.New("cut")}

// nowhere is an address that is not asked, and needs no name server.
const nowhere = "127.0.0.1:1"

// client returns a client whose commands the fake answers.
func (n *fakeNode) client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: nowhere, ContextTimeoutEnabled: true})
	c.AddHook(n)
	return c
}

func (n *fakeNode) DialHook(next redis.DialHook) redis.DialHook { return next }
func (n *fakeNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (n *fakeNode) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		n.redis.calls.Add(1)
		if n.cut.Load() {
			<-ctx.Done() // no answer comes
			return fail(cmd, ctx.Err())
		}
		time.Sleep(n.latency / 2)
		args := cmd.Args()
		if args[0] != "evalsha" {
			return fail(cmd, fmt.Errorf("%v: not expected", args[0]))
		}
		numbers := n.redis.run(args[1].(string), args[3].(string), uint64(time.Now().UnixMicro()), args[4:])
		time.Sleep(n.latency / 2)
		if n.lossy != nil && n.lossy() {
			return fail(cmd, errCut)
		}
		answer := make([]any, len(numbers))
		for i, v := range numbers {
			answer[i] = v
		}
		cmd.(sendOnce).SetVal(answer)
		return nil
	}
}

func fail(cmd redis.Cmder, err error) error {
	cmd.SetErr(err)
	return err
}
