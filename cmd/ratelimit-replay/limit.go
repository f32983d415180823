package main

// This file reads limits as they are written on the command line.

import (
	"errors"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/packedbucket/ratelimit"
)

// A limit is a ratelimit.Limit together with the exact rate that it stands for,
// which checker needs and float64 cannot hold.
type limit struct {
	ratelimit.Limit
	rate *big.Rat // tokens per second
}

// newLimit returns the limit of a capacity and a rate in tokens per second.
func newLimit(capacity int, rate *big.Rat) limit {
	nearest, _ := rate.Float64()
	return limit{ratelimit.Limit{Capacity: capacity, RefillPerSec: nearest}, rate}
}

// newPer returns the limit of n tokens per period.
func newPer(n int, period time.Duration) limit {
	rate := new(big.Rat).SetFrac64(int64(n), int64(period))
	return limit{ratelimit.Per(n, period), rate.Mul(rate, big.NewRat(int64(time.Second), 1))}
}

// isExact reports whether the limiter keeps the rate as it was written, and not
// another that rounds to the same float64: see ratelimit.Limit.
func (l limit) isExact() bool {
	return new(big.Int).Mul(l.rate.Num(), l.rate.Denom()).BitLen() <= 51
}

var (
	errCapacity = errors.New("must be an integer, 1 or more")
	errRate     = errors.New("must be tokens per second, more than 0: a number such as 5 or 0.5, or a quotient such as 1/60")
	errPer      = errors.New("must be tokens, a slash and a period, such as 100/1m; the period is a duration such as 10s, 1m, 1h30m or 7d, or a bare unit, one of s, sec, m, min, h, hour, d, day")
)

func parseCapacity(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errCapacity
	}
	return n, nil
}

// decimal is what parseRate takes on either side of the slash. It is short, so
// that the exact arithmetic is never about monstrous numbers.
var decimal = regexp.MustCompile(`^[0-9]{1,20}(\.[0-9]{1,20})?$`)

// parseRate reads a decimal number or a quotient of two, exactly.
func parseRate(s string) (*big.Rat, error) {
	num, denom, quotient := strings.Cut(s, "/")
	if !quotient {
		denom = "1"
	}
	for _, side := range []string{num, denom} {
		if !decimal.MatchString(side) {
			return nil, errRate
		}
	}
	n, _ := new(big.Rat).SetString(num)
	d, _ := new(big.Rat).SetString(denom)
	if n.Sign() == 0 || d.Sign() == 0 {
		return nil, errRate
	}
	return n.Quo(n, d), nil
}

// parsePer reads tokens per period, such as 100/1m.
func parsePer(s string) (limit, error) {
	tokens, text, _ := strings.Cut(s, "/")
	n, err := parseCapacity(tokens)
	if err != nil {
		return limit{}, errPer
	}
	period, ok := parsePeriod(text)
	if !ok {
		return limit{}, errPer
	}
	return newPer(n, period), nil
}

const day = 24 * time.Hour

var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second,
	"m": time.Minute, "min": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": day, "day": day,
}

// parsePeriod reads a bare unit, a whole number of days, or a Go duration.
func parsePeriod(s string) (time.Duration, bool) {
	if unit, ok := units[s]; ok {
		return unit, true
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 64)
		if err != nil || n < 1 || n > uint64(maxDuration/day) {
			return 0, false
		}
		return time.Duration(n) * day, true
	}
	period, err := time.ParseDuration(s)
	return period, err == nil && period > 0
}

// maxDuration is the largest time.Duration, about 292 years.
const maxDuration time.Duration = 1<<63 - 1
