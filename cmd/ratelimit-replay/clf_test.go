package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	sampleTime = "05/Jan/2026:09:00:00 +0000"
	sample     = `192.0.2.1 - alice [` + sampleTime + `] "GET /a/b?q=1 HTTP/1.1" 200 512 "http://example.com/" "curl/8.5"`
)

func TestSplitCLF(t *testing.T) {
	for _, c := range []struct {
		why  string
		line string
		want string // fields, separated by "|"; empty if the line is malformed
	}{
		{"combined", sample, `192.0.2.1|-|alice|` + sampleTime + `|GET /a/b?q=1 HTTP/1.1|200|512|http://example.com/|curl/8.5|`},
		{"common", `h - - [t] "r" 200 5`, `h|-|-|t|r|200|5|||`},
		{"IPv6", `2001:db8::1 - - [t] "r" 200 5`, `2001:db8::1|-|-|t|r|200|5|||`},
		{"no status and no bytes", `h - - [t] "r" - -`, `h|-|-|t|r|-|-|||`},
		{"nginx writes 000 for a client that left", `h - - [t] "" 000 0`, `h|-|-|t||000|0|||`},
		{"a user may be any text", `h - John "J" [x] Doe [t] "r" 200 5`, ``}, // but not this: [x] ends it
		{"a user with a blank", `h - John Doe [t] "r" 200 5`, `h|-|John Doe|t|r|200|5|||`},
		{"escaped quotes", `h - - [t] "GET /\"x\" HTTP/1.1" 200 5 "\"" "a\"b"`, `h|-|-|t|GET /\"x\" HTTP/1.1|200|5|\"|a\"b|`},
		{"an escaped backslash before the closing quote", `h - - [t] "r\\" 200 5`, `h|-|-|t|r\\|200|5|||`},
		{"TLS handshake", "h - - [t] \"\\x16\\x03\\x01\" 400 5", `h|-|-|t|\x16\x03\x01|400|5|||`},
		{"odd bytes", "h - - [t] \"\xff\x00\xfe\" 400 5", "h|-|-|t|\xff\x00\xfe|400|5|||"},
		{"more fields after the agent", `h - - [t] "r" 200 5 "-" "-" "192.0.2.9" rt=0.1`, `h|-|-|t|r|200|5|-|-| "192.0.2.9" rt=0.1`},

		{"empty", ``, ``},
		{"address only", `h`, ``},
		{"no address", ` - - [t] "r" 200 5`, ``},
		{"no user", `h - [t] "r" 200 5`, ``},
		{"no ident and no user", `h [t] "r" 200 5`, ``},
		{"time stamp without brackets", `h - - t "r" 200 5`, ``},
		{"time stamp not closed", `h - - [t "r" 200 5`, ``},
		{"request without quotes", `h - - [t] r 200 5`, ``},
		{"request not closed", `h - - [t] "r\" 200 5`, ``},
		{"no blank after the time stamp", `h - - [t]"r" 200 5`, ``},
		{"no blank after the request", `h - - [t] "r"200 5`, ``},
		{"two blanks", `h - - [t] "r"  200 5`, ``},
		{"no status", `h - - [t] "r"`, ``},
		{"status of four digits", `h - - [t] "r" 2000 5`, ``},
		{"status with a letter", `h - - [t] "r" 20x 5`, ``},
		{"no bytes", `h - - [t] "r" 200`, ``},
		{"no bytes but a blank", `h - - [t] "r" 200 `, ``},
		{"negative bytes", `h - - [t] "r" 200 -5`, ``},
		{"bytes with a fraction", `h - - [t] "r" 200 5.0`, ``},
		{"a blank at the end", `h - - [t] "r" 200 5 `, ``},
		{"referer without quotes", `h - - [t] "r" 200 5 - -`, ``},
		{"referer without agent", `h - - [t] "r" 200 5 "-"`, ``},
		{"agent not closed", `h - - [t] "r" 200 5 "-" "Mozi`, ``}, // a line cut off
		{"agent with a bare quote", `h - - [t] "r" 200 5 "-" "a"b"`, ``},
		{"virtual host first", `www.example.com:80 h - - [t] "r" 200 5`, `www.example.com:80|h|- -|t|r|200|5|||`}, // cannot be told from a user with a blank
	} {
		t.Run(c.why, func(t *testing.T) {
			e, err := splitCLF([]byte(c.line))
			if c.want == "" {
				require.Error(t, err)
				assert.NotContains(t, err.Error(), "\n")
				return
			}
			require.NoError(t, err)
			got := [][]byte{e.addr, e.ident, e.user, e.time, e.request, e.status, e.bytes, e.referer, e.agent, e.rest}
			assert.Equal(t, c.want, string(bytes.Join(got, []byte("|"))))
		})
	}
}

func TestCLFTime(t *testing.T) {
	for _, c := range []struct{ stamp, want string }{
		{"17/May/2015:10:05:03 +0000", "2015-05-17T10:05:03Z"},
		{"10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"},
		{"01/Jan/2026:00:15:00 +0545", "2025-12-31T18:30:00Z"},
		{"29/Feb/2024:23:59:59 +1400", "2024-02-29T09:59:59Z"},
		{"05/Jan/2026:09:00:00 -0000", "2026-01-05T09:00:00Z"},
	} {
		var days dayCache
		for range 2 { // the second time from the cache
			got, err := days.parse([]byte(c.stamp))
			require.NoError(t, err, c.stamp)
			assert.Equal(t, c.want, got.UTC().Format(time.RFC3339Nano), c.stamp)
		}
	}
	for _, stamp := range []string{
		"", "t", "17/May/2015:10:05:03", "17/May/2015 10:05:03 +0000", "2015-05-17T10:05:03+0000",
		"31/Feb/2015:10:05:03 +0000", "29/Feb/2023:10:05:03 +0000", "00/May/2015:10:05:03 +0000",
		"17/may/2015:10:05:03 +0000", "17/Mai/2015:10:05:03 +0000", "17/05/2015:10:05:03 +0000 ",
		"17/May/2015:24:00:00 +0000", "17/May/2015:10:60:00 +0000", "17/May/2015:10:05:60 +0000",
		"17/May/2015:1a:05:03 +0000", "17/May/2015:10.05.03 +0000", "17/May/2015:10:05:-3 +0000",
		"17/May/2015:10:05:03 +2400", "17/May/2015:10:05:03 +0060", "17/May/2015:10:05:03  0000",
		"17/May/2015:10:05:03 +00:0", "17/May/2015:10:05:03+00000", "\xff7/May/2015:10:05:03 +0000",
	} {
		days := dayCache{}
		_, err := days.parse([]byte(sampleTime)) // so that a part of it is in the cache
		require.NoError(t, err)
		_, err = days.parse([]byte(stamp))
		assert.ErrorContains(t, err, "dd/Mon/yyyy:hh:mm:ss +hhmm", stamp)
	}
}

func TestDayCacheTellsDaysAndZonesApart(t *testing.T) {
	var days dayCache
	for _, stamp := range []string{
		"05/Jan/2026:09:00:00 +0000", "05/Jan/2026:09:00:00 +0100", "06/Jan/2026:09:00:00 +0100",
		"06/Jan/2026:09:00:00 +0000", "05/Jan/2026:09:00:00 +0000",
	} {
		want, err := time.Parse(clfTime, stamp)
		require.NoError(t, err)
		got, err := days.parse([]byte(stamp))
		require.NoError(t, err)
		assert.True(t, want.Equal(got), "%s: %v", stamp, got)
	}
}

func TestKeys(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(sample, old, new, 1) }
	for _, c := range []struct{ fields, line, want string }{
		{"addr", sample, "192.0.2.1"},
		{"ident", sample, "-"},
		{"user", sample, "alice"},
		{"request", sample, "GET /a/b?q=1 HTTP/1.1"},
		{"method", sample, "GET"},
		{"path", sample, "/a/b"},
		{"target", sample, "/a/b?q=1"},
		{"status", sample, "200"},
		{"referer", sample, "http://example.com/"},
		{"agent", sample, "curl/8.5"},
		{"all", sample, "all"},
		{"addr,path", sample, "192.0.2.1\t/a/b"},
		{"path,addr", sample, "/a/b\t192.0.2.1"},

		{"net", sample, "192.0.2.0/24"},
		{"net", with("192.0.2.1", "2001:db8:1:2:3::4"), "2001:db8:1:2::/64"},
		{"net", with("192.0.2.1", "fe80::1%eth0"), "fe80::/64"},
		{"net", with("192.0.2.1", "::ffff:192.0.2.1"), "192.0.2.0/24"}, // an IPv4 client of an IPv6 socket
		{"net", with("192.0.2.1", "client.example.com"), "client.example.com"},
		{"net", with("192.0.2.1", "unix:"), "unix:"},

		{"method", with("GET /a/b?q=1 HTTP/1.1", `\x16\x03\x01`), "-"},
		{"path", with("GET /a/b?q=1 HTTP/1.1", `\x16\x03\x01`), "-"},
		{"target", with("GET /a/b?q=1 HTTP/1.1", ""), "-"},
		{"path", with("GET /a/b?q=1 HTTP/1.1", "-"), "-"},
		{"path", with("HTTP/1.1", "HTTQ/1.1"), "-"},
		{"path", with("GET", "get"), "-"},
		{"path", with("/a/b?q=1", "/a b?q=1"), "/a b"}, // some clients do not escape blanks
		{"method", with("GET", "M-SEARCH"), "M-SEARCH"},
	} {
		spec, err := parseKeySpec(c.fields)
		require.NoError(t, err)
		p := clfParser{key: spec, cost: costRule{fixed: 1}}
		rec, err := p.parse([]byte(c.line))
		require.NoError(t, err, c.line)
		assert.Equal(t, c.want, string(rec.key), "%s of %s", c.fields, c.line)
	}

	for _, field := range []string{"referer", "agent", "addr,agent"} {
		spec, err := parseKeySpec(field)
		require.NoError(t, err)
		_, err = (&clfParser{key: spec}).parse([]byte(`h - - [` + sampleTime + `] "r" 200 5`))
		assert.ErrorContains(t, err, "combined format", "the common format has no such field")
	}
}

func TestKeyFieldNames(t *testing.T) {
	var names []string
	for _, f := range keyFields {
		names = append(names, f.name)
	}
	assert.Equal(t, keyFieldNames, strings.Join(names, " "))
}

func TestCostOfBytes(t *testing.T) {
	for _, c := range []struct {
		bytes string
		cost  int
		fails string
	}{
		{"512", 512, ""},
		{"0", 0, ""},
		{"-", 0, ""},
		{strconv.Itoa(math.MaxInt), math.MaxInt, ""},
		{strconv.FormatUint(math.MaxInt+1, 10), 0, fmt.Sprintf("below 2^%d", strconv.IntSize-1)},
	} {
		line := strings.Replace(sample, "512", c.bytes, 1)
		rec, err := (&clfParser{key: defaultKey, cost: costRule{bytes: true}}).parse([]byte(line))
		if c.fails != "" {
			assert.ErrorContains(t, err, c.fails, c.bytes)
			continue
		}
		require.NoError(t, err, c.bytes)
		assert.Equal(t, c.cost, rec.cost, c.bytes)
	}
}

// FuzzCLF checks that no line makes the parser panic, that the fields of a
// well-formed line make the line again, and that package time agrees about the
// time stamp.
func FuzzCLF(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`2001:db8::1 - John Doe [10/Oct/2000:13:55:36 -0700] "\"\\" - - "\\\"" "" x`))
	f.Add([]byte(`h - - [31/Dec/1999:23:59:59 +0545] "" 000 0`))
	every, err := parseKeySpec(strings.ReplaceAll(keyFieldNames, " ", ","))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		rec, parseErr := (&clfParser{key: every, cost: costRule{bytes: true}}).parse(line)
		e, err := splitCLF(line)
		if !bytes.Equal(before, line) {
			t.Fatalf("the line was changed to %q", line)
		}
		if err != nil {
			if parseErr == nil {
				t.Fatal("parse takes what splitCLF does not")
			}
			return
		}
		again := fmt.Appendf(nil, `%s %s %s [%s] "%s" %s %s`, e.addr, e.ident, e.user, e.time, e.request, e.status, e.bytes)
		if e.combined {
			again = fmt.Appendf(again, ` "%s" "%s"%s`, e.referer, e.agent, e.rest)
		}
		if !bytes.Equal(again, line) {
			t.Fatalf("%q\nis not\n%q", again, line)
		}
		if parseErr == nil {
			want, err := time.Parse(clfTime, string(e.time))
			if err != nil || !want.Equal(rec.at) {
				t.Fatalf("time stamp %q is %v, and by package time %v, %v", e.time, rec.at, want, err)
			}
		}
	})
}
