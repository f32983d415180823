package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// What is committed is what the committed results give: nobody has edited the page, or
// forgotten to write it anew.
func TestReportIsCurrent(t *testing.T) {
	files, err := report("../results", "../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if strings.HasSuffix(name, ".svg") && runtime.GOARCH != "amd64" {
			continue // coordinates may differ in the last digit
		}
		got, err := os.ReadFile(filepath.Join("../../docs", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("docs/%s differs: make bench-report", name)
		}
	}
	charts, err := filepath.Glob("../../docs/benchmarks/*")
	if err != nil {
		t.Fatal(err)
	}
	if want := len(sections) * len(themes); len(charts) != want {
		t.Errorf("%d files in docs/benchmarks, want %d", len(charts), want)
	}
}

// Every series of every section has figures of both limiters of this module, and every
// section but one those of all others.
func TestSectionsHaveFigures(t *testing.T) {
	r, err := readResults("../results")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		for _, of := range s.Series {
			for _, impl := range ours {
				if r.find(of.selector, impl) == nil {
					t.Errorf("%s: %s: no figure of %s", s.Title, of.Name, impl)
				}
			}
		}
		limiters := 0
		for _, of := range s.rows(r) {
			if !isFloor(of.Impl) && of.Impl != "mutex-since" {
				limiters++
			}
		}
		if want := 11; limiters != want && s.File != "churn" {
			t.Errorf("%s: figures of %d limiters, want %d", s.Title, limiters, want)
		}
	}
}

func TestReadResults(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("versions.txt", "example.com/limiter v1.2.3\n")
	write("exactness.txt", "| of all | 10 | packed | 10 |\n| of all | 10 | other | 20 (2 times what is due) |\n")
	write("speed.txt", `go: go1.2.3
cores: 2
BenchmarkHotKey/impl=packed/keys=1/verdict=granted/procs=1-2 100 45.5 ns/op 100 granted-% 0 B/op
BenchmarkHotKey/impl=packed/keys=1/verdict=granted/procs=2-2 100 30 ns/op 100 granted-% 0 B/op
BenchmarkHotKey/impl=packed/keys=1/verdict=granted/procs=1-2 100 43.5 ns/op 100 granted-% 0 B/op
BenchmarkGC/impl=packed/keys=1M-2 1 5000 ns/op 12.5 scan-MB
`)
	r, err := readResults(folder)
	if err != nil {
		t.Fatal(err)
	}
	f := r.find(hot("granted", 1), "packed")
	if len(f) != 2 || f.least() != 43.5 || f.median() != 44.5 || f.most() != 45.5 {
		t.Errorf("figures %v", f)
	}
	if f := r.find(selector{"GC", "keys=1M", "scan-MB"}, "packed"); len(f) != 1 || f[0] != 12.5 {
		t.Errorf("scan-MB %v", f)
	}
	for _, none := range []selector{hot("denied", 1), hot("granted", 22), {"HotKey", "", "ns"}, {"Hot", "", "ns/op"}} {
		if f := r.find(none, "packed"); f != nil {
			t.Errorf("%v: %v", none, f)
		}
	}
	if r.environment["go"] != "go1.2.3" || r.environment["cores"] != "2" {
		t.Errorf("environment %v", r.environment)
	}
	s := r.schedules()
	if len(s) != 1 || len(s[0].Exact) != 1 || len(s[0].Not) != 1 {
		t.Errorf("schedules %+v", s)
	}

	write("speed.txt", "BenchmarkHotKey/impl=packed 100 45.5x ns/op\n")
	if _, err := readResults(folder); err == nil {
		t.Error("no error for a figure that is no number")
	}
	write("speed.txt", "")
	write("exactness.txt", "| of all | 10 |\n")
	if _, err := readResults(folder); err == nil {
		t.Error("no error for a row of two cells")
	}
}

func TestMeets(t *testing.T) {
	for _, of := range []struct {
		granted, due string
		want         bool
	}{
		{"10", "10", true},
		{"11 (1 too many)", "10", false},
		{"3", "at most 12", true},
		{"2000 (167 times what is due)", "at most 12", false},
		{"refused: ratelimit: refill rate NaN: must be between 1 and 2", "0", true},
		{"refused: panic: no", "0", true},
		{"refused: panic: no", "10", false},
		{"0", "0", true},
		{"without end", "0", false},
	} {
		if got := meets(of.granted, of.due); got != of.want {
			t.Errorf("meets(%q, %q) = %v", of.granted, of.due, got)
		}
	}
}

func TestBetter(t *testing.T) {
	tens := figure{10, 10.1, 10.2, 10.3, 10.4, 10.5, 10.6, 10.7}
	nines := figure{9, 9.1, 9.2, 9.3, 9.4, 9.5, 9.6, 9.7}
	wide := figure{1, 2, 10, 10.1, 10.2, 30, 40, 50}
	rows := []row{
		{"packed", []figure{tens}},
		{"maxkeys", []figure{nines}},
		{"other", []figure{nines}},
		{"wide", []figure{wide}},
		{"none", []figure{nil}},
		{"floor-clock", []figure{nines}},
	}
	if got, want := better(rows, rows[0], 0), "other (0.903 of it), wide (0.981 of it, within chance)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	rows = append(rows[:2], row{"slower", []figure{tens}})
	if got := better(rows, rows[1], 0); got != "" {
		t.Errorf("%q, want none", got)
	}
}

func TestGoals(t *testing.T) {
	r := &results{figures: map[id]figure{
		{"HotKey", " verdict=granted procs=1 ", "ns/op", "packed"}: {10},
		{"HotKey", " verdict=granted procs=1 ", "ns/op", "mutex"}:  {20},
	}}
	for _, of := range []struct {
		goal
		want bool
	}{
		{faster("", hot("granted", 1), "packed", "mutex", 2, ""), true},
		{faster("", hot("granted", 1), "packed", "mutex", 2.1, ""), false},
		{within("", hot("granted", 1), "mutex", "packed", 2, ""), true},
		{within("", hot("granted", 1), "mutex", "packed", 1.9, ""), false},
	} {
		ratio, err := of.ratio(r)
		if err != nil || ratio != 2 || of.reached(ratio) != of.want {
			t.Errorf("%s: %v, %v: reached %v", of.Claim, ratio, err, of.reached(ratio))
		}
	}
	if _, err := faster("", hot("denied", 1), "packed", "mutex", 2, "").ratio(r); err == nil {
		t.Error("no error for a goal without figures")
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0371: "0.0371", 1: "1", 1.254: "1.25", 45.55: "45.5", 123.4: "123", 1234: "1,234", 8437759: "8,437,759", 100: "100", 0.5: "0.5",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
