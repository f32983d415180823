// Ratelimit-replay replays an access log against a limit and says what a token
// bucket limiter of package [github.com/packedbucket/ratelimit] would have done:
// how many requests it would have granted and denied, which keys would have been
// denied most, and how long they would have had to wait.
//
// Usage:
//
//	ratelimit-replay -limit 100/1m [flags] [file ...]
//	ratelimit-replay -capacity N -rate R [flags] [file ...]
//	ratelimit-replay -format commands [file]
//	ratelimit-replay -demo [flags]
//
// It reads the files in the order given, oldest first, or standard input if there
// is none or one is named "-". Gzip is recognized by its first bytes. Flags come
// before files.
//
// # Limit
//
// The limit is given in one of two ways:
//
//	-limit N/PERIOD   N tokens of capacity, refilled evenly over the period: a
//	                  duration such as 10s, 1m, 1h30m or 7d, or a bare unit, one
//	                  of s, sec, m, min, h, hour, d, day
//	-capacity N       tokens a bucket holds, and with it
//	-rate R           tokens per second it refills: 5, 0.5, or a quotient: 1/60
//
// and applies to every key for itself:
//
//	-key FIELDS       what makes a key in an access log, default addr: one or
//	                  more, separated by commas, of addr, net (the /24 of an IPv4
//	                  and the /64 of an IPv6 address), ident, user, request,
//	                  method, path (without the query), target (with it), status,
//	                  referer, agent, all (one bucket for the whole log)
//	-cost COST        tokens of a request, default 1: a number, or bytes, which is
//	                  the size of the response in an access log
//
// # Input
//
//	-format FORMAT    auto (the default), clf, lines or commands
//	-sort             replay in the order of the time stamps, not of the lines
//	-strict           end at the first malformed line, with exit status 1
//	-show-malformed N how many malformed lines to report in detail, default 10
//
// The format clf is the common or combined log format of Apache and nginx. The
// format lines is one request per line, as key, time stamp and optionally cost,
// separated by blanks; the time stamp is RFC 3339 or Unix seconds with up to nine
// decimals. The default, auto, takes whichever of the two the first well-formed
// line is in. A request without bytes costs nothing under -cost bytes: it is
// granted without asking the limiter and counted as free.
//
// The replay runs on the time stamps of the log, so that the same input always
// gives the same output. A time stamp that is earlier than one before it is
// counted as going back; if its key was granted something at a later time, the
// request counts at that later time. Other keys make no difference to a key. Where
// many time stamps go back, as in a log that several processes write in blocks,
// requests are denied for being late; -sort, which holds the log in memory, then
// gives the better answer. The time stamps of one replay may be up to 365 days
// apart, and without -sort up to 90 days before the latest one so far; others are
// malformed.
//
// Empty lines are skipped. A malformed line, among them one longer than 1 MiB, is
// reported on standard error, counted and skipped.
//
// # Output
//
//	-top N            how many of the keys denied most to list, default 10
//	-json             print one JSON object instead of text
//	-check            check every decision against exact arithmetic
//
// The report goes to standard output and is the same byte for byte for the same
// input. The speed of the replay, diagnostics and, on a terminal, a progress bar
// go to standard error. An interrupt ends the input where it is; the report is
// about what was read.
//
// # Demo
//
// With -demo the program generates an access log by itself, of about 100,000
// requests in a simulated hour, replays it (with 60/1m unless a limit is given),
// and checks every decision.
//
// # Commands
//
// With -format commands the input is an exercise: a line with the capacity, a line
// with the window in seconds, a line with the number of commands, then so many
// lines "request CLIENT TIME", with times in whole seconds that never decrease.
// The capacity refills evenly over one window. The output is a line "allow" or
// "deny" per command and nothing else.
//
// # Exit status
//
//	0  the input was replayed to its end
//	1  the input could not be read to its end, has malformed lines only, or is
//	   malformed under -strict or -format commands; or -check has failed
//	2  the command line was wrong
package main

// This file runs the command: it knows the exit statuses and nothing of the rest.

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

const (
	exitOK    = 0
	exitInput = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command but for the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		io.WriteString(stdout, usage)
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "ratelimit-replay: %v (-h shows the usage)\n", err)
		return exitUsage
	}

	out := bufio.NewWriter(stdout)
	if cfg.format == formatCommands {
		err = replayCommands(cfg, stdin, out)
	} else {
		err = replayLog(ctx, cfg, stdin, out, stderr)
	}
	if flushErr := out.Flush(); flushErr != nil {
		err = errors.Join(err, fmt.Errorf("standard output: %w", flushErr))
	}
	if err != nil {
		fmt.Fprintf(stderr, "ratelimit-replay: %v\n", err)
		return exitInput
	}
	return exitOK
}
