package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	for _, c := range []struct {
		line string
		key  string
		at   string
		cost int
	}{
		{"alice 0", "alice", "1970-01-01T00:00:00Z", 7},
		{"alice 1767603600", "alice", "2026-01-05T09:00:00Z", 7},
		{"alice 1767603600.25", "alice", "2026-01-05T09:00:00.25Z", 7},
		{"alice 1767603600.123456789", "alice", "2026-01-05T09:00:00.123456789Z", 7}, // more than a float64 holds
		{"alice 1767603600.000000001 3", "alice", "2026-01-05T09:00:00.000000001Z", 3},
		{"alice 2026-01-05T09:00:00Z", "alice", "2026-01-05T09:00:00Z", 7},
		{"alice 2026-01-05T09:00:00.123456789+01:00 12", "alice", "2026-01-05T08:00:00.123456789Z", 12},
		{"alice 253402300799.999999999", "alice", "9999-12-31T23:59:59.999999999Z", 7},
		{"\t alice \t 0\t2 ", "alice", "1970-01-01T00:00:00Z", 2},
		{"2001:db8::1 0", "2001:db8::1", "1970-01-01T00:00:00Z", 7},
		{"\xff\"\x00 0", "\xff\"\x00", "1970-01-01T00:00:00Z", 7}, // any bytes but blanks
	} {
		rec, err := (&linesParser{cost: 7}).parse([]byte(c.line))
		require.NoError(t, err, c.line)
		assert.Equal(t, c.key, string(rec.key), c.line)
		assert.Equal(t, c.at, rec.at.UTC().Format(time.RFC3339Nano), c.line)
		assert.Equal(t, c.cost, rec.cost, c.line)
	}
	for _, c := range []struct{ line, says string }{
		{" ", "less than two fields"},
		{"alice", "less than two fields"},
		{"alice 0 1 x", "more than three fields"},
		{"alice -1", "time stamp"},
		{"alice +1", "time stamp"},
		{"alice 1.", "time stamp"},
		{"alice .5", "time stamp"},
		{"alice 1.5.5", "time stamp"},
		{"alice 1e9", "time stamp"},
		{"alice 1.0000000001", "at most nine decimals"},
		{"alice 253402300800", "up to the year 9999"},
		{"alice 99999999999999999999", "up to the year 9999"},
		{"alice 2026-01-05", "RFC 3339"},
		{"alice 2026-01-05T09:00:00", "RFC 3339"}, // in which zone?
		{"alice 2026-01-05T9:00:00Z", "RFC 3339"},
		{"alice 2026-01-05T09:00:00,5Z", "RFC 3339"},
		{"alice 2026-02-30T09:00:00Z", "RFC 3339"},
		{"alice 2026-01-05T09:00:00.0000000001Z", "at most nine decimals"},
		{"alice 2026-01-05T09:00:00.0000000001-01:00", "at most nine decimals"},
		{"alice 0 0", "cost"}, // a limiter has no free requests
		{"alice 0 -1", "cost"},
		{"alice 0 1.5", "cost"},
		{"alice 0 99999999999999999999", "cost"},
	} {
		_, err := (&linesParser{cost: 7}).parse([]byte(c.line))
		assert.ErrorContains(t, err, c.says, c.line)
	}
}

func TestAutoFormat(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      counts
	}{
		{"clf", "wrong\n" + sample + "\na 0\n", counts{Format: "clf", Requests: 1, Malformed: 2}},
		{"lines", "wrong\na 0\n" + sample + "\n", counts{Format: "lines", Requests: 1, Malformed: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, stdout, _ := replaying(t, c.log, "-limit", "9/m", "-json")
			got := countsOf(t, stdout)
			assert.Equal(t, c.want, counts{Format: got.Format, Requests: got.Requests, Malformed: got.Malformed})
		})
	}
	for _, args := range [][]string{{"-key", "addr"}, {"-cost", "bytes"}} {
		_, stdout, _ := replaying(t, "a 0\n"+sample+"\n", append(args, "-limit", "999/m", "-json")...)
		got := countsOf(t, stdout)
		assert.Equal(t, "clf", got.Format, "%v is about access logs only", args)
		assert.Equal(t, 1, got.Malformed)
	}
}

// FuzzLines checks that no line makes the parser panic, and that what it found in
// a line, written in either form of the time stamp, is found again.
func FuzzLines(f *testing.F) {
	f.Add([]byte("alice 1767603600.000000001 3"))
	f.Add([]byte("2001:db8::1\t2026-01-05T09:00:00.25+05:45"))
	f.Add([]byte("\xff\xa0 253402300799"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p := &linesParser{cost: 1}
		rec, err := p.parse(line)
		if err != nil {
			return
		}
		if year := rec.at.UTC().Year(); year < 0 || year > 9999 {
			return // its zone has taken it out of the years that can be written in UTC
		}
		stamps := []string{rec.at.UTC().Format(time.RFC3339Nano)}
		if rec.at.Unix() >= 0 {
			stamps = append(stamps, fmt.Sprintf("%d.%09d", rec.at.Unix(), rec.at.Nanosecond()))
		}
		for _, stamp := range stamps {
			again := fmt.Sprintf("%s %s %d", rec.key, stamp, rec.cost)
			got, err := p.parse([]byte(again))
			if err != nil || string(got.key) != string(rec.key) || !got.at.Equal(rec.at) || got.cost != rec.cost {
				t.Fatalf("%q is %v, and %q is %v, %v", line, rec, again, got, err)
			}
		}
	})
}
