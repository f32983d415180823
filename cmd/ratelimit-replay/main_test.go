package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// replaying runs the command on stdin.
func replaying(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// counts are the figures of a report that tests look at most.
type counts struct {
	Requests, Granted, Denied int
	Exceeding                 int `json:"cost_exceeds_capacity"`
	Free                      int `json:"granted_free"`
	Malformed                 int `json:"lines_malformed"`
	Empty                     int `json:"lines_empty"`
	Lines                     int
	Keys                      int
	Complete                  bool
	Format                    string
}

func countsOf(t *testing.T, report string) counts {
	t.Helper()
	var c counts
	require.NoError(t, json.Unmarshal([]byte(report), &c), "report: %s", report)
	return c
}

func TestGolden(t *testing.T) {
	for golden, args := range map[string][]string{
		"small.txt":  {"-check", "-limit", "2/10s"},
		"small.json": {"-check", "-limit", "2/10s", "-json"},
		"bytes.txt":  {"-limit", "1000/10s", "-cost", "bytes", "-key", "addr,path"},
		"demo.txt":   {"-demo", "-top", "3"},
	} {
		t.Run(golden, func(t *testing.T) {
			t.Chdir("testdata")
			if args[0] != "-demo" {
				args = append(args, "small.log")
			}
			status, stdout, stderr := replaying(t, "", args...)
			require.Equal(t, exitOK, status, stderr)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(stdout), 0o666))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			assert.Equal(t, string(want), stdout)
			assert.Regexp(t, `replayed \d+ lines in [\d.]+ s, \d+ lines/s\n$`, stderr)
		})
	}
}

func TestSameInputSameOutput(t *testing.T) {
	var log strings.Builder
	for range 200 {
		for _, key := range []string{"d", "b", "a", "c"} { // all denied equally often
			log.WriteString(key + " 1767603600\n")
		}
	}
	_, first, _ := replaying(t, log.String(), "-limit", "100/m")
	_, second, _ := replaying(t, log.String(), "-limit", "100/m")
	assert.Equal(t, first, second)
	assert.Regexp(t, `(?s)100  +1m0s +a\n.* b\n.* c\n.* d\n`, strings.ReplaceAll(first, "600ms", "1m0s"), "ties are in the order of the keys")
}

func TestUsageErrors(t *testing.T) {
	const limit = "-limit=1/s"
	for _, c := range []struct {
		args []string
		says []string // parts of the message: the flag, the value, what is allowed
	}{
		{[]string{}, []string{"no limit", "-limit 100/1m", "-capacity and -rate"}},
		{[]string{"-limit", "100"}, []string{`"100"`, "-limit", "100/1m"}},
		{[]string{"-limit", "100/"}, []string{`"100/"`, "-limit", "100/1m"}},
		{[]string{"-limit", "0/1m"}, []string{`"0/1m"`, "-limit"}},
		{[]string{"-limit", "-5/1m"}, []string{`"-5/1m"`, "-limit"}},
		{[]string{"-limit", "1.5/1m"}, []string{`"1.5/1m"`, "-limit"}},
		{[]string{"-limit", "5/0s"}, []string{`"5/0s"`, "-limit"}},
		{[]string{"-limit", "5/-1s"}, []string{`"5/-1s"`, "-limit"}},
		{[]string{"-limit", "5/week"}, []string{`"5/week"`, "s, sec, m, min, h, hour, d, day"}},
		{[]string{"-limit", "5/106752d"}, []string{"106752d", "-limit"}}, // more than 292 years
		{[]string{"-limit", "999999999999999/1s"}, []string{"-limit", "capacity 999999999999999", "281474976710656"}},
		{[]string{"-capacity", "1", "-rate", "0.0000000000001"}, []string{"-rate", "refill rate 1e-13", "1e-12"}},
		{[]string{"-capacity", "5"}, []string{"-capacity without -rate"}},
		{[]string{"-rate", "5"}, []string{"-rate without -capacity"}},
		{[]string{limit, "-rate", "5"}, []string{"-limit together with -capacity or -rate"}},
		{[]string{"-capacity", "0", "-rate", "1"}, []string{`"0"`, "-capacity", "1 or more"}},
		{[]string{"-capacity", "1", "-rate", "0"}, []string{`"0"`, "-rate", "more than 0", "1/60"}},
		{[]string{"-capacity", "1", "-rate", "1/0"}, []string{`"1/0"`, "-rate"}},
		{[]string{"-capacity", "1", "-rate", "1/2/3"}, []string{`"1/2/3"`, "-rate"}},
		{[]string{"-capacity", "1", "-rate", "1e9999999999"}, []string{"-rate"}}, // would take for ever to compute
		{[]string{"-capacity", "1", "-rate", "NaN"}, []string{`"NaN"`, "-rate"}},
		{[]string{"-capacity", "1", "-rate", "999999999999"}, []string{"-rate", "refill rate 9.99999999999e+11", "1e+11"}},
		{[]string{"-capacity", "1", "-rate", "0.016666666667", "-check"}, []string{"-check", "16666666667/1000000000000", "2^51"}},
		{[]string{limit, "-key", "adr"}, []string{`"adr"`, "-key", keyFieldNames}},
		{[]string{limit, "-key", "addr,"}, []string{`"addr,"`, "-key"}},
		{[]string{limit, "-cost", "0"}, []string{`"0"`, "-cost", "1 or more, or bytes"}},
		{[]string{limit, "-cost", "2"}, []string{"-cost 2", "between 1 and the capacity, 1"}}, // could never be granted
		{[]string{limit, "-format", "json"}, []string{`"json"`, "auto, clf, lines, commands"}},
		{[]string{limit, "-format", "lines", "-key", "addr"}, []string{"-format lines", "-key"}},
		{[]string{limit, "-format", "lines", "-cost", "bytes"}, []string{"-format lines", "-cost bytes"}},
		{[]string{"-format", "lines", "-demo"}, []string{"-format lines with -demo"}},
		{[]string{limit, "-format", "commands"}, []string{"-format commands", "only flag"}},
		{[]string{"-format", "commands", "a", "b"}, []string{"2 files", "must be one"}},
		{[]string{limit, "-top", "-1"}, []string{`"-1"`, "-top", "0 or more"}},
		{[]string{limit, "-show-malformed", "x"}, []string{`"x"`, "-show-malformed", "0 or more"}},
		{[]string{limit, "access.log", "-json"}, []string{"-json after a file", "./-json"}},
		{[]string{"-demo", "access.log"}, []string{"-demo with file access.log"}},
		{[]string{"-throttle"}, []string{"-throttle"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			if strconv.IntSize == 32 && slices.Contains(c.args, "999999999999999/1s") {
				t.Skip("no int where it has 32 bits")
			}
			status, stdout, stderr := replaying(t, "", c.args...)
			assert.Equal(t, exitUsage, status)
			assert.Empty(t, stdout)
			for _, part := range c.says {
				assert.Contains(t, stderr, part)
			}
			assert.Equal(t, 1, strings.Count(stderr, "\n"), "one line: %s", stderr)
		})
	}
}

func TestHelp(t *testing.T) {
	status, stdout, stderr := replaying(t, "", "-h")
	assert.Equal(t, exitOK, status)
	assert.Equal(t, usage, stdout)
	assert.Empty(t, stderr)
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		args     string
		capacity int
		rate     string
	}{
		{"-limit 100/1m", 100, "5/3"},
		{"-limit 100/m", 100, "5/3"},
		{"-limit 100/min", 100, "5/3"},
		{"-limit 100/60s", 100, "5/3"},
		{"-limit 3/s", 3, "3"},
		{"-limit 1000/h", 1000, "5/18"},
		{"-limit 1/7d", 1, "1/604800"},
		{"-limit 1/day", 1, "1/86400"},
		{"-limit 9/1h30m", 9, "1/600"},
		{"-limit 1/100ms", 1, "10"},
		{"-capacity 5 -rate 1/60", 5, "1/60"},
		{"-capacity 5 -rate 0.1", 5, "1/10"}, // not the float64 next to it
		{"-capacity 5 -rate 2.50", 5, "5/2"},
		{"-capacity 5 -rate 0.5/60", 5, "1/120"},
	} {
		cfg, err := parseFlags(strings.Fields(c.args))
		require.NoError(t, err, c.args)
		assert.Equal(t, c.capacity, cfg.limit.Capacity, c.args)
		assert.Equal(t, c.rate, cfg.limit.rate.RatString(), c.args)
		nearest, _ := cfg.limit.rate.Float64()
		assert.Equal(t, nearest, cfg.limit.RefillPerSec, c.args)
	}
}

func TestStrict(t *testing.T) {
	status, stdout, stderr := replaying(t, "a 0\na 1\nb\na 2\n", "-limit", "5/m", "-strict")
	assert.Equal(t, exitInput, status)
	assert.Empty(t, stdout, "no report of a log that is not accepted")
	assert.Equal(t, "ratelimit-replay: standard input:3: malformed line: less than two fields: must be a key, a time stamp and optionally a cost\n", stderr)
}

func TestMalformedLinesAreCountedAndShown(t *testing.T) {
	log := strings.Repeat("a 0\nwrong\n", 13)
	status, stdout, stderr := replaying(t, log, "-limit", "5/m", "-json")
	assert.Equal(t, exitOK, status)
	got := countsOf(t, stdout)
	assert.Equal(t, 13, got.Malformed)
	assert.Equal(t, 13, got.Requests)
	assert.Equal(t, 10, strings.Count(stderr, "malformed line: "))
	assert.Contains(t, stderr, "standard input:20: malformed line: ")
	assert.NotContains(t, stderr, "standard input:22:")
	assert.Contains(t, stderr, "and 3 more malformed lines (-show-malformed N shows more)\n")

	_, _, stderr = replaying(t, log, "-limit", "5/m", "-show-malformed", "12")
	assert.Contains(t, stderr, "standard input:24:")
	assert.Contains(t, stderr, "and 1 more")

	_, _, stderr = replaying(t, log, "-limit", "5/m", "-show-malformed", "0")
	assert.NotContains(t, stderr, "malformed")
}

func TestNoWellFormedLine(t *testing.T) {
	status, stdout, stderr := replaying(t, "wrong\n\nwrong\n", "-limit", "5/m")
	assert.Equal(t, exitInput, status)
	assert.Contains(t, stdout, "malformed")
	assert.Contains(t, stderr, "no well-formed line in the input\n")
	assert.Contains(t, stderr, "neither in format clf: client address: must be followed by a blank; nor in format lines: less than two fields")

	status, stdout, _ = replaying(t, "\n", "-limit", "5/m", "-json")
	assert.Equal(t, exitOK, status, "an empty log is a log")
	assert.NotContains(t, stdout, `"first"`)
}

func TestReadsFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	older, newer := filepath.Join(dir, "older.gz"), filepath.Join(dir, "newer")
	require.NoError(t, os.WriteFile(older, []byte(zip(t, "a 0\n")), 0o666))
	require.NoError(t, os.WriteFile(newer, []byte("a 200000\nb\n"), 0o666))

	status, stdout, stderr := replaying(t, "", "-limit", "1/m", "-json", older, newer)
	assert.Equal(t, exitOK, status)
	assert.Equal(t, 2, countsOf(t, stdout).Granted)
	assert.Contains(t, stderr, newer+":2: malformed line", "lines are counted per file")
	assert.NotContains(t, stderr, "go back")

	_, stdout, stderr = replaying(t, "", "-limit", "1/m", "-json", newer, older)
	assert.Equal(t, 1, countsOf(t, stdout).Granted)
	assert.Contains(t, stderr, "note: time stamps go back by up to 55h33m20s: give the files oldest first, or -sort\n")

	_, stdout, stderr = replaying(t, "", "-limit", "1/m", "-json", "-sort", newer, older)
	assert.Equal(t, 2, countsOf(t, stdout).Granted)
	assert.NotContains(t, stderr, "go back")

	status, stdout, _ = replaying(t, "a 200000\n", "-limit", "1/m", "-json", older, "-")
	assert.Equal(t, exitOK, status)
	assert.Equal(t, 2, countsOf(t, stdout).Granted)
}

func TestSort(t *testing.T) {
	const log = "b 60\na 60\na 0\nwrong\na 60\nb 99999999\nb 0\n" // a and b have a token at 0 and another at 60
	_, stdout, stderr := replaying(t, log, "-limit", "1/m", "-json", "-check")
	got := countsOf(t, stdout)
	assert.Equal(t, 2, got.Granted)
	assert.Equal(t, 3, got.Denied)
	assert.Contains(t, stderr, "note: 2 of 5 time stamps go back")

	status, stdout, stderr := replaying(t, log, "-limit", "1/m", "-json", "-check", "-sort")
	assert.Equal(t, exitOK, status)
	got = countsOf(t, stdout)
	assert.Equal(t, 4, got.Granted)
	assert.Equal(t, 1, got.Denied)
	assert.Equal(t, 2, got.Malformed)
	assert.Contains(t, stdout, `"went_back": 0,`)
	assert.Contains(t, stderr, "standard input:6: malformed line: time stamp 1973-03-03T09:46:39Z", "a place is that in the log")

	_, stdout, _ = replaying(t, sample+"\n"+strings.Replace(sample, "192.0.2.1", "192.0.2.2", 1), "-limit", "1/m", "-sort", "-json")
	assert.Equal(t, 2, countsOf(t, stdout).Granted, "of two keys, the first of which was kept while the second was parsed")

	status, stdout, stderr = replaying(t, "a 0\na 99999999\n", "-limit", "1/m", "-sort", "-strict")
	assert.Equal(t, exitInput, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "standard input:2: malformed line: time stamp", "found malformed only when replayed")

	status, stdout, stderr = replaying(t, log, "-limit", "1/m", "-sort", "-strict", "-format", "lines")
	assert.Equal(t, exitInput, status)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "standard input:4: malformed line")
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	file, missing := filepath.Join(dir, "log"), filepath.Join(dir, "missing")
	require.NoError(t, os.WriteFile(file, []byte("a 0\n"), 0o666))

	status, stdout, stderr := replaying(t, "", "-limit", "1/m", missing, file)
	assert.Equal(t, exitInput, status)
	assert.Contains(t, stderr, missing)
	assert.Empty(t, stdout, "nothing was replayed")

	status, stdout, stderr = replaying(t, "", "-limit", "1/m", "-json", file, missing)
	assert.Equal(t, exitInput, status)
	assert.Contains(t, stderr, missing)
	got := countsOf(t, stdout)
	assert.Equal(t, 1, got.Granted)
	assert.False(t, got.Complete)
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lines := 0
	stdin := readerFunc(func(p []byte) (int, error) {
		if lines++; lines == 5 {
			cancel()
		}
		return copy(p, "a 0\n"), nil // without end
	})
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"-limit", "3/m", "-json"}, stdin, &stdout, &stderr)
	assert.Equal(t, exitInput, status)
	assert.False(t, countsOf(t, stdout.String()).Complete)
	assert.Contains(t, stderr.String(), "interrupted")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, args := range [][]string{{"-limit", "3/m"}, {"-limit", "3/m", "-json"}, {"-format", "commands"}} {
		var stderr bytes.Buffer
		stdin := strings.NewReader("3\n10\n1\nrequest a 0\n") // a log with malformed lines, too
		if args[0] == "-limit" {
			stdin = strings.NewReader("a 0\n")
		}
		status := run(t.Context(), args, stdin, fullDisk{}, &stderr)
		assert.Equal(t, exitInput, status, args)
		assert.Contains(t, stderr.String(), "standard output: disk full", args)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestRealLog replays a log of the machine it runs on.
func TestRealLog(t *testing.T) {
	name := os.Getenv("RATELIMIT_REPLAY_LOG")
	if name == "" {
		t.Skip("RATELIMIT_REPLAY_LOG does not name an access log")
	}
	for _, limit := range []string{"1/m", "20/1m", "100/1h", "3/7s", "1/s", "1000/d"} {
		for _, extra := range []string{"-key=addr", "-key=net,path", "-cost=bytes"} {
			status, stdout, stderr := replaying(t, "", "-check", "-limit", limit, extra, "-json", name)
			require.Equal(t, exitOK, status, stderr)
			got := countsOf(t, stdout)
			assert.Positive(t, got.Requests)
			assert.Equal(t, got.Requests, got.Granted+got.Denied+got.Exceeding)
			assert.Equal(t, got.Lines, got.Requests+got.Malformed+got.Empty)
		}
	}
}
