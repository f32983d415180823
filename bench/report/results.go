package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
)

// results is what was measured.
type results struct {
	environment map[string]string // at the head of speed.txt
	figures     map[id]figure
	impls       []string   // in the order in which they were measured
	exactness   [][]string // schedule, due, limiter, granted
	versions    []string
}

// An id is whose figure it is. keys are those of the benchmark's name, but for impl, each
// between spaces.
type id struct{ bench, keys, unit, impl string }

// A figure is the values of one benchmark and unit, one of each round, from the least to
// the most.
type figure []float64

func (f figure) median() float64 {
	n := len(f)
	return (f[(n-1)/2] + f[n/2]) / 2
}

func (f figure) least() float64 { return f[0] }
func (f figure) most() float64  { return f[len(f)-1] }

// significant says whether two figures differ by more than chance: by the Mann-Whitney U
// test, at 5 %.
func significant(a, b figure) bool {
	at := benchmath.DefaultThresholds
	sa, sb := benchmath.NewSample(slices.Clone(a), &at), benchmath.NewSample(slices.Clone(b), &at)
	return benchmath.AssumeNothing.Compare(sa, sb).P < at.CompareAlpha
}

// A selector names a figure of each implementation: the benchmark, the keys of its name
// that count, and the unit.
type selector struct {
	Bench, Keys, Unit string
}

// find returns a figure, or nil if the implementation has none.
func (r *results) find(s selector, impl string) figure {
	for of, f := range r.figures {
		matches := of.bench == s.Bench && of.unit == s.Unit && of.impl == impl
		for _, key := range strings.Fields(s.Keys) {
			matches = matches && strings.Contains(of.keys, " "+key+" ")
		}
		if matches {
			return f
		}
	}
	return nil
}

// readResults reads the files of a folder.
func readResults(folder string) (*results, error) {
	r := &results{environment: map[string]string{}, figures: map[id]figure{}}
	if err := r.readSpeed(filepath.Join(folder, "speed.txt")); err != nil {
		return nil, err
	}
	err := eachLine(filepath.Join(folder, "exactness.txt"), func(line string) error {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 4 {
			return fmt.Errorf("%d cells in %q, want 4", len(cells), line)
		}
		r.exactness = append(r.exactness, cells)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachLine(filepath.Join(folder, "versions.txt"), func(line string) error {
		r.versions = append(r.versions, line)
		return nil
	})
	return r, err
}

// readSpeed reads the output of go test -bench.
func (r *results) readSpeed(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader := benchfmt.NewReader(file, path)
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			return record
		case *benchfmt.Result:
			for _, c := range record.Config {
				r.environment[c.Key] = string(c.Value)
			}
			r.add(record)
		}
	}
	for _, f := range r.figures {
		slices.Sort(f)
	}
	return reader.Err()
}

// add adds the values of one line.
func (r *results) add(line *benchfmt.Result) {
	base, parts := line.Name.Parts()
	of := id{bench: string(base), keys: " "}
	for _, part := range parts {
		key := strings.TrimPrefix(string(part), "/")
		if value, ok := strings.CutPrefix(key, "impl="); ok {
			of.impl = value
		} else if !strings.HasPrefix(key, "-") { // GOMAXPROCS
			of.keys += key + " "
		}
	}
	if !slices.Contains(r.impls, of.impl) {
		r.impls = append(r.impls, of.impl)
	}
	for _, v := range line.Values {
		value := v.Value
		of.unit = v.Unit
		if v.OrigUnit != "" { // as it was printed
			value, of.unit = v.OrigValue, v.OrigUnit
		}
		r.figures[of] = append(r.figures[of], value)
	}
}

func eachLine(path string, do func(string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if err := do(lines.Text()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return lines.Err()
}
