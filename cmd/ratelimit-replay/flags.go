package main

// This file turns the command line into a config, or into an error that names the
// flag, its value and what is allowed.

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

const usage = `ratelimit-replay replays an access log against a limit and says what a token
bucket would have granted and denied.

Usage:
  ratelimit-replay -limit 100/1m [flags] [file ...]
  ratelimit-replay -capacity N -rate R [flags] [file ...]
  ratelimit-replay -format commands [file]
  ratelimit-replay -demo [flags]

It reads the files in the order given, oldest first, or standard input if there
is none or one is named "-"; plain or gzip. Flags come before files.

Limit:
  -limit N/PERIOD    N tokens, refilled evenly over the period: 100/1m, 5000/1h30m,
                     10000/7d, or with a bare unit (s sec m min h hour d day): 10/s
  -capacity N        tokens a bucket holds; needs -rate
  -rate R            tokens per second it refills: 5, 0.5, 1/60
  -key FIELDS        what makes a key in an access log (default addr): one or more,
                     separated by commas, of
                     ` + keyFieldNames + `
  -cost COST         tokens of a request (default 1): a number, or bytes, the size
                     of the response in an access log

Input:
  -format FORMAT     auto (default), clf (Apache and nginx, common or combined),
                     lines (key, time stamp and optionally cost), or commands
  -sort              replay in the order of the time stamps, not of the lines; holds
                     the whole log in memory
  -strict            end at the first malformed line, with exit status 1
  -show-malformed N  how many malformed lines to report in detail (default 10)
  -demo              replay a log that the program generates, and check it

Output:
  -top N             how many of the keys denied most to list (default 10)
  -json              print one JSON object instead of text
  -check             check every decision against exact arithmetic
  -h                 print this

Examples:
  100 requests a minute for each client address:
    ratelimit-replay -limit 100/1m access.log
  Rotated logs, oldest first; a burst of 20, and one request in 10 seconds:
    ratelimit-replay -capacity 20 -rate 1/10 access.log.2.gz access.log.1 access.log
  How often would each address have been denied on one path?
    ratelimit-replay -limit 30/1m -key addr,path access.log
  Bandwidth: 50 MB of responses an hour for each network:
    ratelimit-replay -limit 50000000/1h -key net -cost bytes access.log
  Any other source, as lines of key and time stamp:
    awk '{print $3, $1}' app.log | ratelimit-replay -limit 10/s -format lines

Exit status: 0 done, 1 the input was wrong or -check has failed, 2 the command
line was wrong.
`

// The formats of the input.
const (
	formatAuto     = "auto"
	formatCLF      = "clf"
	formatLines    = "lines"
	formatCommands = "commands"
)

var formats = []string{formatAuto, formatCLF, formatLines, formatCommands}

// A config is what the command line asks for.
type config struct {
	format        string
	limit         limit
	key           keySpec
	cost          costRule
	top           int
	showMalformed int
	strict        bool
	sort          bool
	json          bool
	check         bool
	demo          bool
	files         []string // "-" is standard input
}

// A costRule says what a request costs that does not say so itself: a fixed number
// of tokens, or as many as its response has bytes.
type costRule struct {
	fixed int
	bytes bool
}

func (c costRule) String() string {
	if c.bytes {
		return "bytes"
	}
	return strconv.Itoa(c.fixed)
}

// parseFlags returns flag.ErrHelp if the command line asks for help.
func parseFlags(args []string) (*config, error) {
	cfg := &config{format: formatAuto, key: defaultKey, cost: costRule{fixed: 1}, top: 10, showMalformed: 10}
	var per limit // of -limit
	var capacity int
	var rate *big.Rat

	flags := flag.NewFlagSet("ratelimit-replay", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error, and usage is longer than what flag would print
	flags.Func("limit", "", func(s string) (err error) { per, err = parsePer(s); return err })
	flags.Func("capacity", "", func(s string) (err error) { capacity, err = parseCapacity(s); return err })
	flags.Func("rate", "", func(s string) (err error) { rate, err = parseRate(s); return err })
	flags.Func("key", "", func(s string) (err error) { cfg.key, err = parseKeySpec(s); return err })
	flags.Func("cost", "", func(s string) (err error) { cfg.cost, err = parseCost(s); return err })
	flags.Func("format", "", func(s string) error {
		if !slices.Contains(formats, s) {
			return fmt.Errorf("must be one of %s", strings.Join(formats, ", "))
		}
		cfg.format = s
		return nil
	})
	flags.Func("top", "", func(s string) (err error) { cfg.top, err = parseCount(s); return err })
	flags.Func("show-malformed", "", func(s string) (err error) { cfg.showMalformed, err = parseCount(s); return err })
	flags.BoolVar(&cfg.strict, "strict", false, "")
	flags.BoolVar(&cfg.sort, "sort", false, "")
	flags.BoolVar(&cfg.json, "json", false, "")
	flags.BoolVar(&cfg.check, "check", false, "")
	flags.BoolVar(&cfg.demo, "demo", false, "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	cfg.files = flags.Args()

	set := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if err := cfg.combine(set); err != nil {
		return nil, err
	}
	if cfg.format == formatCommands {
		return cfg, nil
	}
	switch {
	case set["limit"] && (set["capacity"] || set["rate"]):
		return nil, errors.New("-limit together with -capacity or -rate: give one or the other")
	case set["limit"]:
		cfg.limit = per
	case set["capacity"] && set["rate"]:
		cfg.limit = newLimit(capacity, rate)
	case set["capacity"]:
		return nil, errors.New("-capacity without -rate: give both, or -limit")
	case set["rate"]:
		return nil, errors.New("-rate without -capacity: give both, or -limit")
	case cfg.demo:
		cfg.limit = demoLimit
	default:
		return nil, errors.New("no limit: give -limit, such as -limit 100/1m, or -capacity and -rate")
	}
	return cfg, cfg.validate()
}

// combine checks which flags, those in set, and files go together.
func (cfg *config) combine(set map[string]bool) error {
	for _, name := range cfg.files {
		if name != "-" && strings.HasPrefix(name, "-") {
			return fmt.Errorf("%s after a file: flags must come before files (a file of that name is ./%s)", name, name)
		}
	}
	if len(cfg.files) == 0 {
		cfg.files = []string{"-"}
	} else if cfg.demo {
		return fmt.Errorf("-demo with file %s: -demo generates its input and must have none", cfg.files[0])
	}
	switch cfg.format {
	case formatCommands:
		for name := range set {
			if name != "format" {
				return errors.New("-format commands: must be the only flag; the limit is in the input")
			}
		}
		if len(cfg.files) > 1 {
			return fmt.Errorf("-format commands with %d files: must be one, or standard input", len(cfg.files))
		}
	case formatLines:
		if set["key"] || cfg.cost.bytes {
			return errors.New("-format lines with -key or -cost bytes: these are for access logs; a line has its key in the first column and its cost in the third")
		}
		if cfg.demo {
			return errors.New("-format lines with -demo: the demo is an access log")
		}
	case formatAuto:
		if set["key"] || cfg.cost.bytes || cfg.demo {
			cfg.format = formatCLF
		}
	}
	cfg.check = cfg.check || cfg.demo
	return nil
}

// validate checks the values that depend on each other.
func (cfg *config) validate() error {
	if err := cfg.limit.Validate(); err != nil {
		return fmt.Errorf("-limit, -capacity, -rate: %w", err)
	}
	if cfg.cost.fixed > cfg.limit.Capacity {
		return fmt.Errorf("-cost %d: must be between 1 and the capacity, %d tokens", cfg.cost.fixed, cfg.limit.Capacity)
	}
	if cfg.check && !cfg.limit.isExact() {
		return fmt.Errorf("-check with a rate of %s tokens per second: numerator times denominator must be below 2^51, so that the limiter keeps exactly this rate (0.016666666667 is better written as 1/60)", cfg.limit.rate.RatString())
	}
	return nil
}

// parseCount reads a number that may be 0.
func parseCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("must be an integer, 0 or more")
	}
	return int(n), nil
}

func parseCost(s string) (costRule, error) {
	if s == "bytes" {
		return costRule{bytes: true}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return costRule{}, errors.New("must be an integer, 1 or more, or bytes")
	}
	return costRule{fixed: n}, nil
}
