package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		name, input string
		want        []string // "!" for errLineTooLong
	}{
		{"nothing", "", nil},
		{"no end of the last line", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"CRLF", "a\r\nb\r\n", []string{"a", "b"}},
		{"CRLF in the last line", "a\r", []string{"a"}},
		{"CR inside", "a\rb\r\r\n", []string{"a\rb\r"}},
		{"as long as possible", long[1:] + "\na\n", []string{long[1:], "a"}},
		{"a byte too long", long + "\na\n", []string{"!", "a"}},
		{"much too long", long + long + long + "\na\n", []string{"!", "a"}},
		{"two too long", long + "\n" + long + "\na\n", []string{"!", "!", "a"}},
		{"too long at the end", "a\n" + long + "x", []string{"a", "!"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.input), iotest.HalfReader(strings.NewReader(c.input))} {
				lines := newLineReader(r)
				var got []string
				for {
					line, err := lines.next()
					if err == io.EOF {
						break
					}
					if err != nil {
						require.ErrorIs(t, err, errLineTooLong)
						line = []byte("!")
					}
					got = append(got, string(line))
					assert.Equal(t, len(got), lines.number)
				}
				assert.True(t, equal(c.want, got), "%d lines, want %d", len(got), len(c.want)) // not printed: they are long
			}
		})
	}
}

func equal(a, b []string) bool {
	return strings.Join(a, "\n") == strings.Join(b, "\n") && len(a) == len(b)
}

func TestLineReaderKeepsItsError(t *testing.T) {
	lines := newLineReader(io.MultiReader(strings.NewReader("a\nhalf a li"), iotest.ErrReader(errors.New("broken"))))
	line, err := lines.next()
	require.NoError(t, err)
	assert.Equal(t, "a", string(line))
	for range 2 {
		line, err = lines.next()
		assert.EqualError(t, err, "broken")
		assert.Nil(t, line, "half a line may look like a whole one")
	}
}

func TestGzip(t *testing.T) {
	a, b := zip(t, "a 0\na 0\n"), zip(t, "a 0\n")
	for _, c := range []struct {
		name, input string
		granted     int
		status      int
		says        string
	}{
		{"one member", a, 2, exitOK, ""},
		{"members in a row", a + b, 3, exitOK, ""}, // what cat of two files gives
		{"empty member", zip(t, "") + a, 2, exitOK, ""},
		{"no input at all", "", 0, exitOK, ""},
		{"first byte of gzip only", "\x1f", 0, exitInput, "no well-formed line"}, // so it is text, of a sort
		{"header cut off", a[:5], 0, exitInput, "standard input: gzip: the file ends before"},
		{"trailer cut off", a[:len(a)-3], 2, exitInput, "standard input: after line 2: gzip: the file ends before"},
		{"second member cut off", a + b[:len(b)-3], 3, exitInput, "standard input: after line 3: gzip: the file ends before"},
		{"checksum wrong", a[:len(a)-8] + "xxxx" + a[len(a)-4:], 2, exitInput, "gzip: invalid checksum"},
		{"text after it", a + "alice 0\nalice 0\n", 2, exitInput, "gzip: invalid header"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, stdout, stderr := replaying(t, c.input, "-limit", "9/m", "-json")
			assert.Equal(t, c.status, status, stderr)
			assert.Contains(t, stderr, c.says)
			if c.name == "header cut off" {
				assert.Empty(t, stdout)
				return
			}
			got := countsOf(t, stdout)
			assert.Equal(t, c.granted, got.Granted, "what was read is reported")
			assert.Equal(t, c.status == exitOK || c.says == "no well-formed line", got.Complete)
		})
	}
}

func TestLongLineInALog(t *testing.T) {
	log := "a 0\n" + strings.Repeat("x", 3*maxLine) + "\r\na 0\n"
	status, stdout, stderr := replaying(t, log, "-limit", "9/m", "-json")
	assert.Equal(t, exitOK, status)
	assert.Equal(t, counts{Requests: 2, Granted: 2, Malformed: 1, Lines: 3, Keys: 1, Complete: true, Format: "lines"}, countsOf(t, stdout))
	assert.Contains(t, stderr, "standard input:2: malformed line: longer than 1048576 bytes\n")
}

func TestEmptyLinesAreNotMalformed(t *testing.T) {
	_, stdout, _ := replaying(t, "\r\na 0\r\n\n\r\n", "-limit", "9/m", "-json", "-strict")
	assert.Equal(t, counts{Requests: 1, Granted: 1, Empty: 3, Lines: 4, Keys: 1, Complete: true, Format: "lines"}, countsOf(t, stdout))
}
