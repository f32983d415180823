package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/packedbucket/ratelimit"
)

func TestCommands(t *testing.T) {
	for _, c := range []struct{ name, input, want string }{
		{"full, empty, and full again after a window",
			"3\n10\n8\n" + strings.Repeat("request a 0\n", 4) + strings.Repeat("request a 10\n", 4),
			"allow allow allow deny allow allow allow deny"},
		{"evenly: a token in 10/3 seconds",
			"3\n10\n9\nrequest a 0\nrequest a 0\nrequest a 0\nrequest a 3\nrequest a 4\nrequest a 6\nrequest a 7\nrequest a 9\nrequest a 10\n",
			"allow allow allow deny allow deny allow deny allow"},
		{"a new client starts full, at its first request",
			"2\n10\n6\nrequest a 100\nrequest b 100\nrequest a 100\nrequest a 100\nrequest c 101\nrequest b 101\n",
			"allow allow allow deny allow allow"},
		{"CRLF, and no end of the last line", "1\r\n1\r\n1\r\nrequest a 5", "allow"},
		{"no commands", "1\n1\n0\n", ""},
		{"times as large as they can be", "1\n1\n2\nrequest a 9223372036854775806\nrequest a 9223372036854775807\n", "allow allow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, input := range []string{c.input, zip(t, c.input)} {
				status, stdout, stderr := replaying(t, input, "-format", "commands")
				assert.Equal(t, exitOK, status)
				assert.Equal(t, strings.Fields(c.want), strings.Fields(stdout))
				assert.Empty(t, stderr)
			}
		})
	}
}

func TestCommandErrors(t *testing.T) {
	for _, c := range []struct {
		name, input string
		answers     int // before the error
		says        string
	}{
		{"nothing", "", 0, "standard input:1: the input ends here, but this line must be the capacity in tokens"},
		{"no window", "3\n", 0, "standard input:2: the input ends here, but this line must be the window in seconds"},
		{"no count", "3\n10\n", 0, "standard input:3: the input ends here, but this line must be the number of commands"},
		{"capacity 0", "0\n10\n0\n", 0, `standard input:1: "0": must be the capacity in tokens, an integer from 1 to`},
		{"negative capacity", "-3\n10\n0\n", 0, `standard input:1: "-3": must be the capacity`},
		{"capacity with a fraction", "3.0\n10\n0\n", 0, `standard input:1: "3.0": must be the capacity`},
		{"text after the capacity", "3 \n10\n0\n", 0, `standard input:1: "3 ": must be the capacity`},
		{"capacity that no limiter keeps", "999999999999999\n10\n0\n", 0, "standard input:2: a capacity of 999999999999999 in a window of 10 seconds: ratelimit: capacity 999999999999999: must be between 1 and 281474976710656 tokens"},
		{"window 0", "3\n0\n0\n", 0, `standard input:2: "0": must be the window in seconds, an integer from 1 to 9223372036`},
		{"window of 300 years", "3\n9999999999\n0\n", 0, `standard input:2: "9999999999": must be the window`},
		{"negative count", "3\n10\n-1\n", 0, `standard input:3: "-1": must be the number of commands, an integer from 0`},
		{"fewer commands", "3\n10\n2\nrequest a 0\n", 1, "standard input:5: the input ends here, but this line must be command 2 of 2, of the form request CLIENT TIME"},
		{"more commands", "3\n10\n1\nrequest a 0\nrequest a 0\n", 1, `standard input:5: "request a 0": must be the end of the input, after 1 commands`},
		{"an empty line at the end", "3\n10\n1\nrequest a 0\n\n", 1, `standard input:5: "": must be the end of the input`},
		{"another command", "3\n10\n1\nreset a 0\n", 0, `standard input:4: "reset a 0": must be command 1 of 1, of the form request CLIENT TIME`},
		{"no time", "3\n10\n1\nrequest a\n", 0, `standard input:4: "request a": must be command 1 of 1`},
		{"no client", "3\n10\n1\nrequest  0\n", 0, `standard input:4: "request  0": must be command 1 of 1`},
		{"text after the time", "3\n10\n1\nrequest a 0 x\n", 0, `standard input:4: "request a 0 x": must be command 1 of 1`},
		{"negative time", "3\n10\n1\nrequest a -1\n", 0, `standard input:4: time "-1": must be an integer from 0`},
		{"time with a fraction", "3\n10\n1\nrequest a 0.5\n", 0, `standard input:4: time "0.5": must be an integer from 0`},
		{"decreasing time", "3\n10\n2\nrequest a 5\nrequest b 4\n", 1, "standard input:5: time 4: must not be before that of the command before, 5"},
		{"300 years", "3\n10\n2\nrequest a 5\nrequest b 9999999999\n", 1, "standard input:5: time 9999999999: must be at most 9223372036 seconds after that of the first command, 5"},
		{"gzip cut off", "\x1f\x8b\x08", 0, "standard input: gzip: the file ends before"},
		{"a line too long", "3\n10\n1\n" + strings.Repeat("x", maxLine) + "\n", 0, "standard input:4: longer than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strconv.IntSize == 32 && strings.HasPrefix(c.input, "999999999999999\n") {
				t.Skip("no int where it has 32 bits")
			}
			status, stdout, stderr := replaying(t, c.input, "-format", "commands")
			assert.Equal(t, exitInput, status)
			assert.Len(t, strings.Fields(stdout), c.answers)
			assert.Contains(t, stderr, c.says)
		})
	}
}

func TestExerciseMaySkipYears(t *testing.T) {
	const days = 24 * 3600
	for gap := int64(30 * days); gap < 40*365*days; gap += 30 * days {
		ex := newExercise(ratelimit.Limit{Capacity: 3, RefillPerSec: 0.3})
		for _, at := range []int64{0, gap, 2 * gap} {
			for i := range 4 {
				require.Equal(t, i < 3, ex.request("a", at), "request %d at %d seconds, with gaps of %d days", i, at, gap/days)
			}
		}
	}
}

func TestExerciseOfSlowRefill(t *testing.T) {
	// A bucket of 100 tokens that fills in 100 years: never full for long.
	ex := newExercise(ratelimit.Limit{Capacity: 100, RefillPerSec: 1.0 / (365 * 24 * 3600)})
	for range 100 {
		require.True(t, ex.request("a", 0))
	}
	for year := range int64(100) {
		at := (year + 1) * 365 * 24 * 3600
		require.False(t, ex.request("a", at-1), fmt.Sprint(year))
		require.True(t, ex.request("a", at), fmt.Sprint(year))
	}
}
