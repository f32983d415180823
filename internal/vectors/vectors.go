// Package vectors reads testdata/vectors.txt: decisions that more than one implementation
// of a token bucket has to make alike.
package vectors

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// A Vector is a limit and what is done to a bucket of it, which is full at first.
type Vector struct {
	Capacity int
	Rate     float64 // tokens per second
	Steps    []Step
}

// A Step is one operation: a take, or else a refund.
type Step struct {
	At     int64 // microseconds
	Take   bool
	Tokens int

	// What a take comes to.
	Granted    bool
	Remaining  int
	RetryAfter time.Duration // rounded up to a microsecond
}

// Read reads a file of vectors.
func Read(file io.Reader) (all []Vector, err error) {
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "limit "):
			var v Vector
			var p, q float64
			if _, err := fmt.Sscanf(line, "limit %d %g/%g", &v.Capacity, &p, &q); err != nil {
				return nil, fmt.Errorf("line %d: %q: %w", number, line, err)
			}
			v.Rate = p / q
			all = append(all, v)
		case len(all) == 0:
			return nil, fmt.Errorf("line %d: %q: before the first limit", number, line)
		default:
			s, err := readStep(line)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q: %w", number, line, err)
			}
			v := &all[len(all)-1]
			v.Steps = append(v.Steps, s)
		}
	}
	return all, lines.Err()
}

func readStep(line string) (s Step, err error) {
	operation, result, _ := strings.Cut(line, " = ")
	var kind, verdict string
	if _, err := fmt.Sscanf(operation, "%d %s %d", &s.At, &kind, &s.Tokens); err != nil {
		return s, err
	}
	if kind == "refund" {
		return s, nil
	}
	s.Take = true
	var micros int64
	n, err := fmt.Sscanf(result, "%s %d %d", &verdict, &s.Remaining, &micros)
	s.Granted = verdict == "granted"
	s.RetryAfter = time.Duration(micros) * time.Microsecond
	if s.Granted && n == 2 || verdict == "denied" && n == 3 && kind == "take" {
		return s, nil
	}
	return s, fmt.Errorf("not a step: %w", err)
}
