package main

// This file reads the exercise that -format commands is for, and answers it:
//
//	3                 the capacity in tokens
//	10                the window in seconds, in which the capacity refills
//	2                 the number of commands
//	request alice 0   a client and a time in seconds, which never decreases
//	request bob 4

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/packedbucket/ratelimit"
)

const (
	// maxSeconds is how far the times of an exercise may be apart, and the largest
	// window: the largest time.Duration in whole seconds, 292 years.
	maxSeconds = int64(maxDuration / time.Second)

	// forgetEvery is how often the limiter must be made to forget what is full.
	forgetEvery = 180 * day
)

// replayCommands answers the commands one by one; those before an error are
// answered.
func replayCommands(cfg *config, stdin io.Reader, stdout io.Writer) error {
	src, err := openSource(cfg.files[0], stdin, nil)
	if err != nil {
		return err
	}
	defer src.file.Close()

	in := commandReader{src: src}
	limit, count, err := in.head()
	if err != nil {
		return err
	}
	var ex *exercise
	for i := range count {
		client, seconds, err := in.command(i+1, count)
		if err != nil {
			return err
		}
		if ex == nil {
			ex = newExercise(limit)
		}
		answer := "deny\n"
		if ex.request(client, seconds) {
			answer = "allow\n"
		}
		if _, err := io.WriteString(stdout, answer); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return in.end(count)
}

// An exercise is a limiter that runs on the times of the commands.
type exercise struct {
	limiter *ratelimit.TokenBucket
	now     time.Time // what its clock reads, from the Unix epoch on
	forgot  time.Time // when it last forgot the buckets that are full
}

// newExercise returns an exercise for a valid limit. Its time begins at the first
// command.
func newExercise(limit ratelimit.Limit) *exercise {
	begin := time.Unix(0, 0)
	ex := &exercise{now: begin, forgot: begin}
	ex.limiter = ratelimit.NewTokenBucket(limit.Capacity, limit.RefillPerSec,
		ratelimit.WithClock(func() time.Time { return ex.now }))
	return ex
}

// request answers a command, given its time in seconds after the first one.
//
// The limiter may take a bucket for one that has seen a later time if it was last
// used more than 639 days and 3.5 times the time to fill it ago: see
// ratelimit.WithClock. An exercise may well skip years. So twice a year the buckets
// that are full are forgotten, which changes no decision; the others were used not
// long ago.
func (ex *exercise) request(client string, seconds int64) bool {
	at := time.Unix(seconds, 0)
	for at.Sub(ex.forgot) > forgetEvery {
		ex.forgot = ex.forgot.Add(forgetEvery)
		ex.now = ex.forgot
		ex.limiter.Sweep()
	}
	ex.now = at
	d, _ := ex.limiter.Allow(context.Background(), client) // no error: the limiter was made
	return d.Allowed
}

// A commandReader reads an exercise and insists on its form.
type commandReader struct {
	src    *source
	any    bool  // whether there was a command
	begin  int64 // time of the first command
	latest int64 // time of the latest command
}

// head reads the three numbers.
func (in *commandReader) head() (limit ratelimit.Limit, count int64, err error) {
	capacity, err := in.number("the capacity in tokens", 1, math.MaxInt)
	if err != nil {
		return limit, 0, err
	}
	window, err := in.number("the window in seconds", 1, maxSeconds)
	if err != nil {
		return limit, 0, err
	}
	limit = ratelimit.Per(int(capacity), time.Duration(window)*time.Second)
	if err := limit.Validate(); err != nil {
		return limit, 0, in.errorf("a capacity of %d in a window of %d seconds: %w", capacity, window, err)
	}
	count, err = in.number("the number of commands", 0, math.MaxInt64)
	return limit, count, err
}

// number reads a line with one integer.
func (in *commandReader) number(what string, least, most int64) (int64, error) {
	line, err := in.line("must be " + what)
	if err != nil {
		return 0, err
	}
	n, ok := parseInteger(line)
	if !ok || n < least || n > most {
		return 0, in.errorf("%.60q: must be %s, an integer from %d to %d", line, what, least, most)
	}
	return n, nil
}

// command reads the i-th command and returns its client and its time in seconds
// after the first one.
func (in *commandReader) command(i, count int64) (client string, seconds int64, err error) {
	what := fmt.Sprintf("must be command %d of %d, of the form request CLIENT TIME", i, count)
	line, err := in.line(what)
	if err != nil {
		return "", 0, err
	}
	fields := strings.Split(line, " ")
	if len(fields) != 3 || fields[0] != "request" || fields[1] == "" {
		return "", 0, in.errorf("%.60q: %s, with one blank between the words", line, what)
	}
	at, ok := parseInteger(fields[2])
	if !ok {
		return "", 0, in.errorf("time %.30q: must be an integer from 0 to %d, in seconds", fields[2], int64(math.MaxInt64))
	}
	if !in.any {
		in.any, in.begin, in.latest = true, at, at
	}
	if at < in.latest {
		return "", 0, in.errorf("time %d: must not be before that of the command before, %d", at, in.latest)
	}
	if at-in.begin > maxSeconds {
		return "", 0, in.errorf("time %d: must be at most %d seconds after that of the first command, %d", at, maxSeconds, in.begin)
	}
	in.latest = at
	return fields[1], at - in.begin, nil
}

// end checks that nothing follows the last command.
func (in *commandReader) end(count int64) error {
	line, err := in.src.next()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return in.errorf("%.60q: must be the end of the input, after %d commands", line, count)
	default:
		return in.src.wrap(err)
	}
}

// line reads a line; what says what it must be.
func (in *commandReader) line(what string) (string, error) {
	line, err := in.src.next()
	switch {
	case err == io.EOF:
		return "", fmt.Errorf("%v: the input ends here, but this line %s", place{in.src.name, in.src.number + 1}, what)
	case errors.Is(err, errLineTooLong):
		return "", in.errorf("%w: %s", err, what)
	case err != nil:
		return "", in.src.wrap(err)
	}
	return string(line), nil
}

// errorf says at which line something is wrong.
func (in *commandReader) errorf(format string, args ...any) error {
	return fmt.Errorf("%v: %w", place{in.src.name, in.src.number}, fmt.Errorf(format, args...))
}

// parseInteger reads decimal digits and nothing else.
func parseInteger(s string) (int64, bool) {
	if !isDigits([]byte(s)) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
