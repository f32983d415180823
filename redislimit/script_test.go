package redislimit

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/internal/rational"
	"github.com/packedbucket/ratelimit/internal/vectors"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The scripts as they are, but for the time, which is an argument, and the expiry, which
// is an hour later: the server's own clock goes on.
var (
	timedTake   = timed(takeScript)
	timedPeek   = timed(peekScript)
	timedRefund = timed(refundScript)
)

func timed(s script) script {
	source := strings.Replace(s.source, "redis.call('TIME')", "{table.remove(ARGV, 4), table.remove(ARGV, 4)}", 1)
	source = strings.ReplaceAll(source, "+ 1000)", "+ 3600000)")
	if source == s.source {
		panic("the scripts read the time in another way")
	}
	return newScript(source)
}

// A timedBucket is one bucket in Redis whose time is given.
type timedBucket struct {
	t      testing.TB
	client redis.UniversalClient
	timing timing
	key    string
}

func newTimedBucket(t testing.TB, client redis.UniversalClient, limit ratelimit.Limit, key string) *timedBucket {
	t.Helper()
	timing, err := newTiming(limit)
	require.NoError(t, err)
	require.NoError(t, client.Del(context.Background(), key).Err())
	return &timedBucket{t, client, timing, key}
}

func (b *timedBucket) run(s script, clock int64, tokens ...int) answer {
	b.t.Helper()
	args := slices.Insert(b.timing.args(tokens...), 3, any(clock/1e6), any(clock%1e6))
	numbers, err := s.run(context.Background(), b.client, answerLen, b.key, args)
	require.NoError(b.t, err)
	return newAnswer(numbers)
}

func (b *timedBucket) take(clock int64, cost int) ratelimit.Decision {
	return b.timing.decision(b.run(timedTake, clock, cost), cost)
}

func (b *timedBucket) peek(clock int64) ratelimit.State {
	return b.timing.state(b.run(timedPeek, clock))
}

func (b *timedBucket) refund(clock int64, tokens int) { b.run(timedRefund, clock, tokens) }

// refundBooked refunds tokens that were taken at the time booked, ahead of use.
func (b *timedBucket) refundBooked(clock int64, tokens int, booked int64) {
	b.t.Helper()
	args := append(slices.Insert(b.timing.args(tokens), 3, any(clock/1e6), any(clock%1e6)), booked)
	_, err := timedRefund.run(context.Background(), b.client, answerLen, b.key, args)
	require.NoError(b.t, err)
}

// epoch is a time of today, in microseconds.
const epoch = int64(1_790_000_000_000_000)

// limitsOfNote have numbers that are hard on somebody.
var limitsOfNote = []ratelimit.Limit{
	{Capacity: 1, RefillPerSec: 1},
	{Capacity: 10, RefillPerSec: 1.0 / 3},
	{Capacity: 7, RefillPerSec: 1e6 / 7},
	{Capacity: 100, RefillPerSec: 1.0 / (30 * 24 * 3600)}, // a token a month
	{Capacity: 1_000_000, RefillPerSec: 1e6},
	{Capacity: 1_000_000_000, RefillPerSec: 1e9},
	{Capacity: 180_000_000, RefillPerSec: 3e6},
	{Capacity: 1 << 30, RefillPerSec: 1},
	{Capacity: 3, RefillPerSec: 0.1},
	{Capacity: 50, RefillPerSec: 3.14159265358979},
	{Capacity: 1000, RefillPerSec: 999_999.123456},
	{Capacity: 1, RefillPerSec: 1e11},
}

// Decisions, waits, states and refunds are those of the oracle, to the microsecond.
func TestScriptsAgainstOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	client := client(t)
	rounds, steps := 60, 400
	if testing.Short() {
		rounds = 15
	}
	for round := range rounds {
		var limit ratelimit.Limit
		if round < len(limitsOfNote) {
			limit = limitsOfNote[round]
		} else {
			limit = randomLimit(rnd)
		}
		var script []byte
		for range steps * 4 {
			script = append(script, byte(rnd.Uint32()))
		}
		runScript(t, client, limit, script)
	}
}

func randomLimit(rnd *rand.Rand) ratelimit.Limit {
	for {
		limit := ratelimit.Limit{
			Capacity:     1 + int(rnd.Uint64N(1<<rnd.UintN(40))),
			RefillPerSec: float64(1+rnd.Uint64N(1<<rnd.UintN(40))) / float64(1+rnd.Uint64N(1<<rnd.UintN(30))),
		}
		if rnd.UintN(2) == 0 { // any float64
			limit.RefillPerSec *= rnd.Float64() + 0.5
		}
		if _, err := newTiming(limit); err == nil {
			return limit
		}
	}
}

// runScript lets bytes decide what is done to a bucket in Redis and to an oracle, four at
// a time, and fails where they differ.
func runScript(t *testing.T, client redis.UniversalClient, limit ratelimit.Limit, bytes []byte) {
	t.Helper()
	o := newOracle(limit)
	b := newTimedBucket(t, client, limit, fmt.Sprintf("oracle:%v", limit))
	clock := epoch
	fill, _ := o.fill.Float64() // microseconds
	token, _ := new(big.Rat).Inv(o.rate).Float64()
	for ; len(bytes) >= 4; bytes = bytes[4:] {
		op, move, amount := bytes[0], bytes[1], int(bytes[2])<<8|int(bytes[3])
		switch size := float64(amount) / 65535; move % 8 {
		case 0, 1: // the same instant
		case 2: // around a token's time
			clock += int64(size * 2 * token)
		case 3:
			clock += int64(size * fill / 10)
		case 4:
			clock += 1 + int64(move/8)
		case 5: // set back
			clock -= int64(size * fill / 4)
		case 6: // set back by far, or on by far
			if move >= 128 {
				clock -= int64(size * 3 * fill)
			} else {
				clock += int64(size * 3 * fill)
			}
		case 7: // exactly when a token is there
			clock += int64(o.peek(clock).RetryAfter/time.Microsecond) - int64(move/128)
		}
		clock = min(max(clock, epoch/2), 2*epoch)
		cost := 1 + amount%limit.Capacity
		if op >= 128 {
			cost = min(1+amount%4, limit.Capacity)
		}
		what := fmt.Sprintf("%v: op %d of %d at %d", limit, op%8, cost, clock)
		switch op % 8 {
		case 0:
			if op >= 192 {
				booked := clock - int64(move)*int64(move)*int64(token)/1000 + int64(amount%2)*int64(token)
				o.refundBooked(clock, cost, booked)
				b.refundBooked(clock, cost, booked)
				break
			}
			o.refund(clock, cost)
			b.refund(clock, cost)
		case 1:
			o.refund(clock, limit.Capacity)
			b.refund(clock, limit.Capacity)
		case 2:
			requireState(t, o.peek(clock), b.peek(clock), what)
		default:
			require.Equal(t, o.take(clock, cost), b.take(clock, cost), what)
		}
	}
	requireState(t, o.peek(clock), b.peek(clock), "at the end")
}

// What was booked at a time that is still to come, since the clock was set back, stays taken.
func TestScriptRefundOfTheFuture(t *testing.T) {
	b := newTimedBucket(t, client(t), ratelimit.Limit{Capacity: 10, RefillPerSec: 1}, "future")
	require.True(t, b.take(epoch, 8).Allowed)
	b.refundBooked(epoch, 3, epoch+1)
	require.Equal(t, 2.0, b.peek(epoch).Tokens)
	b.refundBooked(epoch, 3, epoch)
	require.Equal(t, 5.0, b.peek(epoch).Tokens)
	b.refundBooked(epoch+1_000_000, 3, epoch)
	require.Equal(t, 8.0, b.peek(epoch+1_000_000).Tokens, "one earned, and three less the one given back")
}

func requireState(t *testing.T, want, got ratelimit.State, what string) {
	t.Helper()
	require.InEpsilon(t, want.Tokens+1, got.Tokens+1, 1e-14, what)
	require.Equal(t, want.RetryAfter, got.RetryAfter, what)
	require.Equal(t, want.ResetAfter, got.ResetAfter, what)
}

// FuzzScripts is TestScriptsAgainstOracle for limits and operations that somebody else
// thinks of.
func FuzzScripts(f *testing.F) {
	for _, limit := range limitsOfNote {
		f.Add(limit.Capacity, limit.RefillPerSec, []byte("\x03\x00\x00\x01\x83\x02\x80\x00\x05\x05\x10\x00\x02\x07\x00\x00\x00\x04\x00\x01\x03\x06\xff\xff\x03\xfe\x80\x00"))
	}
	client := newClient(server.Addr)
	f.Cleanup(func() { client.Close() })
	f.Fuzz(func(t *testing.T, capacity int, rate float64, bytes []byte) {
		limit := ratelimit.Limit{Capacity: capacity, RefillPerSec: rate}
		if _, err := newTiming(limit); err != nil || len(bytes) > 400 {
			return
		}
		runScript(t, client, limit, bytes)
	})
}

// A request is granted after RetryAfter and not a microsecond earlier, and a capacity takes
// exactly capacity/rate to come back.
func TestScriptWaits(t *testing.T) {
	client := client(t)
	for _, limit := range limitsOfNote {
		b := newTimedBucket(t, client, limit, fmt.Sprintf("waits:%v", limit))
		require.True(t, b.take(epoch, limit.Capacity).Allowed)
		rate := rational.Nearest(limit.RefillPerSec)
		for _, cost := range []int{1, (limit.Capacity + 1) / 2, limit.Capacity} {
			d := b.take(epoch, cost)
			exact := new(big.Rat).SetInt64(int64(cost) * 1e6)
			exact.Quo(exact, rate)
			want, rest := new(big.Int).QuoRem(exact.Num(), exact.Denom(), new(big.Int))
			if rest.Sign() > 0 {
				want.Add(want, big.NewInt(1))
			}
			require.Equal(t, want.Int64(), int64(d.RetryAfter/time.Microsecond), "%v: cost %d", limit, cost)
			require.False(t, b.take(epoch+want.Int64()-1, cost).Allowed, "%v: cost %d, a microsecond early", limit, cost)
		}
		wait := int64(b.take(epoch, limit.Capacity).RetryAfter / time.Microsecond)
		require.True(t, b.take(epoch+wait, limit.Capacity).Allowed, "%v", limit)
	}
}

// A clock that is set back by more than it takes to fill up, and a smaller limit, do not
// starve a key: who waits for RetryAfter has a token.
func TestScriptDoesNotStarve(t *testing.T) {
	client := client(t)
	limit := ratelimit.Limit{Capacity: 10, RefillPerSec: 1}
	for what, clock := range map[string]int64{"set back": epoch - 3600_000_000, "set back a little": epoch - 5_000_000} {
		b := newTimedBucket(t, client, limit, what)
		require.True(t, b.take(epoch, 10).Allowed)
		for range 20 {
			d := b.take(clock, 1)
			require.False(t, d.Allowed, what)
			clock += int64(d.RetryAfter / time.Microsecond)
			require.False(t, b.take(clock-1, 1).Allowed, "%s: a microsecond early", what)
			require.True(t, b.take(clock, 1).Allowed, "%s: RetryAfter was %v", what, d.RetryAfter)
		}
	}
	large := newTimedBucket(t, client, ratelimit.Per(100, time.Hour), "smaller")
	require.True(t, large.take(epoch, 100).Allowed)
	small := &timedBucket{t, client, large.timing, "smaller"}
	var err error
	small.timing, err = newTiming(ratelimit.Per(100, time.Second))
	require.NoError(t, err)
	d := small.take(epoch, 1)
	require.Equal(t, ratelimit.Decision{RetryAfter: 10 * time.Millisecond}, d)
	require.True(t, small.take(epoch+10_000, 1).Allowed)
}

// Over a long time nothing is lost and nothing gained, however often a bucket is asked.
func TestScriptDoesNotDrift(t *testing.T) {
	client := client(t)
	steps := 10_000
	if testing.Short() {
		steps = 1000
	}
	for _, limit := range []ratelimit.Limit{{Capacity: 2, RefillPerSec: 1e6 / 7}, {Capacity: 1, RefillPerSec: 1.0 / 3}, {Capacity: 5, RefillPerSec: 999_999.123456}} {
		b := newTimedBucket(t, client, limit, fmt.Sprintf("drift:%v", limit))
		clock, granted := epoch, 0
		rate := rational.Nearest(limit.RefillPerSec)
		for range steps {
			for b.take(clock, 1).Allowed {
				granted++
			}
			clock += int64(b.take(clock, 1).RetryAfter / time.Microsecond)
		}
		due := new(big.Rat).SetInt64(clock - epoch)
		due.Mul(due, rate).Quo(due, big.NewRat(1e6, 1))
		most := limit.Capacity + whole(due)
		require.LessOrEqual(t, granted, most, "%v", limit)
		require.GreaterOrEqual(t, granted, most-2, "%v", limit) // of the last instant
	}
}

// A value that no limiter of this limit has written does no harm.
func TestScriptMeetsOtherValues(t *testing.T) {
	client := client(t)
	limit := ratelimit.Limit{Capacity: 10, RefillPerSec: 3}
	b := newTimedBucket(t, client, limit, "values")
	ctx := context.Background()
	set := func(value string) { require.NoError(t, client.Set(ctx, b.key, value, 0).Err()) }

	set(fmt.Sprintf("%d:0:%d", epoch+3600_000_000, epoch)) // of a much larger limit
	require.Equal(t, ratelimit.Decision{RetryAfter: 333_334 * time.Microsecond}, b.take(epoch, 1), "it is empty, no less")
	set(fmt.Sprintf("%d:999999999:%d", epoch+100, epoch)) // parts of another limit
	require.Equal(t, 8, b.take(epoch, 1).Remaining)
	set("99999999999999999999999:5:99999999999999999999999") // of no clock
	require.True(t, b.take(epoch, 10).Allowed)
	for _, foreign := range []string{"", "7", "1:2", "1:2:3:4", "-1:0:0", "1.5:0:0", "x:y:z"} {
		set(foreign)
		_, err := takeScript.run(ctx, client, answerLen, b.key, b.timing.args(1))
		require.ErrorContains(t, err, "RATELIMIT", "%q", foreign)
		value, err := client.Get(ctx, b.key).Result()
		require.NoError(t, err)
		require.Equal(t, foreign, value, "it is still there")
	}
}

// What is kept for a key is short, and forgotten when the bucket is full.
func TestScriptExpiry(t *testing.T) {
	client := client(t)
	ctx := context.Background()
	l := newLimiter(t, client, ratelimit.Limit{Capacity: 100, RefillPerSec: 10})
	d, err := l.AllowN(ctx, "k", 50) // back in 5 s
	require.NoError(t, err)
	require.True(t, d.Allowed)
	key := name(t.Name()+":", "k")
	value, err := client.Get(ctx, key).Result()
	require.NoError(t, err)
	require.Less(t, len(value), 40)
	full, err := strconv.ParseInt(strings.Split(value, ":")[0], 10, 64)
	require.NoError(t, err)
	expiry, err := client.PExpireTime(ctx, key).Result()
	require.NoError(t, err)
	require.Greater(t, expiry.Microseconds(), full, "not before it is full")
	require.Less(t, expiry.Microseconds(), full+2_000_000, "and not much later")

	_, err = l.AllowN(ctx, "k", 100) // denied
	require.NoError(t, err)
	again, err := client.Get(ctx, key).Result()
	require.NoError(t, err)
	require.Equal(t, value, again, "a denial writes nothing")
}

// The decisions of testdata/vectors.txt, which the limiter in memory makes too.
func TestVectors(t *testing.T) {
	file, err := os.Open("../testdata/vectors.txt")
	require.NoError(t, err)
	defer file.Close()
	all, err := vectors.Read(file)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	client := client(t)
	for i, v := range all {
		b := newTimedBucket(t, client, ratelimit.Limit{Capacity: v.Capacity, RefillPerSec: v.Rate}, fmt.Sprintf("vectors:%d", i))
		for _, s := range v.Steps {
			if !s.Take {
				b.refund(epoch+s.At, s.Tokens)
				continue
			}
			want := ratelimit.Decision{Allowed: s.Granted, Remaining: s.Remaining, RetryAfter: s.RetryAfter}
			require.Equal(t, want, b.take(epoch+s.At, s.Tokens), "%+v", s)
		}
	}
}
