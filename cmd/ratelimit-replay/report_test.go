package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                         "0",
		1:                         "0.000000001",
		1500 * time.Millisecond:   "1.5",
		100 * time.Second:         "100",
		maxDuration:               "9223372036.854775807", // more than a float64 holds
		10*time.Second + 10*1_000: "10.00001",
	} {
		got, err := json.Marshal(seconds(d))
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}

func TestPrintable(t *testing.T) {
	for key, want := range map[string]string{
		"192.0.2.1":          "192.0.2.1",
		"192.0.2.1\t/a":      "192.0.2.1 /a",
		`a"b\x16`:            `a"b\x16`,
		"Zoë":                "Zoë",
		"":                   `""`,
		"\x1b[31mred":        `"\x1b[31mred"`, // would colour the terminal
		"\xff":               `"\xff"`,
		"a\u202eb":           `"a\u202eb"`, // would turn the line around
		"two\nlines":         `"two\nlines"`,
		"no\u00a0break":      `"no\u00a0break"`,
		"replacement \ufffd": "replacement \ufffd",
	} {
		assert.Equal(t, want, printable(key), "%q", key)
	}
}

func TestWait(t *testing.T) {
	assert.Equal(t, 5*time.Second, wait(seconds(5*time.Second)))
	assert.Equal(t, 6*time.Second, wait(seconds(5999998093)), "never shorter than it is")
	assert.Equal(t, time.Millisecond, wait(1))
}

func TestTopKeys(t *testing.T) {
	tallies := map[string]*tally{
		"b": {key: "b", denied: 2}, "a": {key: "a", denied: 2}, "z": {key: "z", denied: 3},
		"never": {key: "never", granted: 9},
	}
	names := func(n int) (names []string) {
		for _, k := range topKeys(tallies, n) {
			names = append(names, k.Key)
		}
		return names
	}
	assert.Equal(t, []string{"z", "a", "b"}, names(10))
	assert.Equal(t, []string{"z", "a"}, names(2))
	assert.Empty(t, names(0))
}

// TestReadmeNamesEveryField keeps the names of the JSON documented.
func TestReadmeNamesEveryField(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, typ := range []reflect.Type{reflect.TypeFor[summary](), reflect.TypeFor[topKey](), reflect.TypeFor[checkResult]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			assert.Contains(t, string(readme), "`"+name+"`")
		}
	}
}
