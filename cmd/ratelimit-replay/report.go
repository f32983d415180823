package main

// This file writes what a replay found, as text and as JSON. Nothing in a report
// depends on when or where it is made.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// A summary is a report. Its JSON names are documented in README.md and stay.
type summary struct {
	Sources  []string `json:"sources"`
	Format   string   `json:"format"`
	Sorted   bool     `json:"sorted"`
	Complete bool     `json:"complete"`

	Capacity int     `json:"capacity"`
	Rate     float64 `json:"rate_per_second"`
	Exact    string  `json:"rate_exact"`
	Key      string  `json:"key"`
	Cost     string  `json:"cost"`

	Lines     int `json:"lines"`
	Empty     int `json:"lines_empty"`
	Malformed int `json:"lines_malformed"`

	Requests    int     `json:"requests"`
	Keys        int     `json:"keys"`
	Granted     int     `json:"granted"`
	Denied      int     `json:"denied"`
	Exceeding   int     `json:"cost_exceeds_capacity"`
	Free        int     `json:"granted_free"`
	GrantShare  float64 `json:"granted_share"`
	DenyShare   float64 `json:"denied_share"`
	LongestWait seconds `json:"longest_retry_after_seconds"`

	First      time.Time `json:"first,omitzero"`
	Last       time.Time `json:"last,omitzero"`
	Earliest   time.Time `json:"earliest,omitzero"`
	Latest     time.Time `json:"latest,omitzero"`
	Span       seconds   `json:"span_seconds"`
	WentBack   int       `json:"went_back"`
	WentBackBy seconds   `json:"went_back_by_seconds"`

	Top   []topKey     `json:"top"`
	Check *checkResult `json:"check,omitempty"`
}

// A topKey is one of the keys denied most.
type topKey struct {
	Key         string  `json:"key"`
	Granted     int     `json:"granted"`
	Denied      int     `json:"denied"`
	Exceeding   int     `json:"cost_exceeds_capacity"`
	LongestWait seconds `json:"longest_retry_after_seconds"`
}

// A checkResult is what -check found.
type checkResult struct {
	Held      bool     `json:"held"`
	Keys      int      `json:"keys"`
	Decisions int      `json:"decisions"`
	Early     int      `json:"granted_early"`
	Failures  int      `json:"failures"`
	Reports   []string `json:"first_failures"`
}

// seconds is a duration that is exact in JSON.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	text := fmt.Sprintf("%d.%09d", s/1e9, s%1e9) // never negative
	return []byte(strings.TrimRight(strings.TrimRight(text, "0"), ".")), nil
}

func (s seconds) String() string { return time.Duration(s).String() }

// summarize returns the report of a session. complete says whether the input was
// read to its end.
func summarize(s *session, complete bool) *summary {
	r := s.replay
	sum := &summary{
		Sources:  s.cfg.files,
		Format:   s.parser.format(),
		Sorted:   s.cfg.sort,
		Complete: complete,

		Capacity: r.limit.Capacity,
		Rate:     r.limit.RefillPerSec,
		Exact:    r.limit.rate.RatString(),
		Key:      s.cfg.key.String(),
		Cost:     s.cfg.cost.String(),

		Lines:     s.lines,
		Empty:     s.empty,
		Malformed: s.malformed,

		Requests:    r.requests(),
		Keys:        len(r.tallies),
		Granted:     r.granted,
		Denied:      r.denied,
		Exceeding:   r.exceeding,
		Free:        r.free,
		GrantShare:  share(r.granted, r.requests()),
		DenyShare:   share(r.denied, r.requests()),
		LongestWait: seconds(r.longest),

		First:      r.first,
		Last:       r.last,
		Earliest:   r.earliest,
		Latest:     r.latest,
		Span:       seconds(r.latest.Sub(r.earliest)),
		WentBack:   r.wentBack,
		WentBackBy: seconds(r.wentBackBy),

		Top: topKeys(r.tallies, s.cfg.top),
	}
	if s.cfg.demo {
		sum.Sources = []string{demoName}
	}
	if sum.Format == formatLines {
		sum.Key = "first column"
	}
	if c := r.check; c != nil {
		sum.Check = &checkResult{
			Held:      c.failures == 0,
			Keys:      c.keys,
			Decisions: c.decisions,
			Early:     c.early,
			Failures:  c.failures,
			Reports:   append([]string{}, c.reports...),
		}
	}
	return sum
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// topKeys returns the n keys denied most; among equals, by key.
func topKeys(tallies map[string]*tally, n int) []topKey {
	denied := make([]*tally, 0, len(tallies))
	for _, t := range tallies {
		if t.denied > 0 {
			denied = append(denied, t)
		}
	}
	slices.SortFunc(denied, func(a, b *tally) int {
		if a.denied != b.denied {
			return b.denied - a.denied
		}
		return strings.Compare(a.key, b.key)
	})
	top := []topKey{} // an empty list in JSON, not null
	for _, t := range denied[:min(n, len(denied))] {
		top = append(top, topKey{printable(t.key), t.granted, t.denied, t.exceeding, seconds(t.longest)})
	}
	return top
}

// printable returns a key as it is in the log, with its fields separated by
// blanks, or quoted like a Go string if a terminal should not see it.
func printable(key string) string {
	text := strings.ReplaceAll(key, string(keySeparator), " ")
	if text == "" || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// verdict returns what makes the run a failure although it has a report.
func (s *summary) verdict() error {
	var err error
	if s.Complete && s.Malformed > 0 && s.Requests == 0 {
		err = errors.New("no well-formed line in the input")
	}
	if s.Check != nil && !s.Check.Held {
		err = errors.Join(err, errors.New("the check has failed"))
	}
	return err
}

// writeJSON writes the report as one object.
func (s *summary) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(s)
}

// writeText writes the report for people.
func (s *summary) writeText(w io.Writer) error {
	t := &textWriter{w: w}
	if len(s.Sources) == 1 && s.Sources[0] == demoName {
		t.printf("This log was generated by ratelimit-replay itself; it is a sample, not a real log.\n\n")
	}
	number := func(n int) string { return fmt.Sprintf("%*d", len(strconv.Itoa(s.Lines)), n) }
	t.table(0, func(row rowFunc) {
		row("limit", fmt.Sprintf("capacity %d, rate %s tokens/s", s.Capacity, s.Exact))
		row("key", s.Key)
		row("cost", s.Cost)
		row("format", s.Format)
		if s.Sorted {
			row("order", "sorted by time stamp")
		}
	})
	t.printf("\n")
	t.table(0, func(row rowFunc) {
		row("lines", number(s.Lines))
		row("  empty", number(s.Empty))
		row("  malformed", number(s.Malformed))
		row("  requests", number(s.Requests))
		row("    granted", number(s.Granted), percent(s.Granted, s.Requests))
		if s.Free > 0 {
			row("      for free", number(s.Free), percent(s.Free, s.Requests))
		}
		row("    denied", number(s.Denied), percent(s.Denied, s.Requests))
		row("    cost exceeds capacity", number(s.Exceeding), percent(s.Exceeding, s.Requests))
		row("keys", number(s.Keys))
	})
	if s.Requests > 0 {
		t.printf("\n")
		t.table(0, func(row rowFunc) {
			row("first to last", stamp(s.First), stamp(s.Last))
			row("earliest to latest", stamp(s.Earliest), stamp(s.Latest), s.Span)
			row("went back", fmt.Sprintf("%d times, by up to %v", s.WentBack, s.WentBackBy))
		})
	}
	if len(s.Top) > 0 {
		t.printf("\nDenied most:\n")
		t.table(tabwriter.AlignRight, func(row rowFunc) {
			row("denied", "granted", "longest wait", "  key")
			for _, k := range s.Top {
				row(k.Denied, k.Granted, wait(k.LongestWait), "  "+k.Key)
			}
		})
	}
	if c := s.Check; c != nil {
		t.printf("\n%s\n", c)
	}
	if !s.Complete {
		t.printf("\nIncomplete: the input was not read to its end.\n")
	}
	return t.err
}

// String returns the result as lines of the report.
func (c *checkResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "promise: %d keys, %d decisions checked against exact arithmetic: ", c.Keys, c.Decisions)
	if c.Held {
		b.WriteString("held")
	} else {
		fmt.Fprintf(&b, "FAILED %d times", c.Failures)
	}
	if c.Early > 0 {
		fmt.Fprintf(&b, "\npromise: %d grants came early, by less than a unit, as grants may", c.Early)
	}
	for _, text := range c.Reports {
		b.WriteString("\npromise: FAILED: " + text)
	}
	return b.String()
}

func percent(n, of int) string { return fmt.Sprintf("%6.2f%%", 100*share(n, of)) }

// wait rounds a wait up to a millisecond, after which it is over.
func wait(s seconds) time.Duration {
	d := time.Duration(s)
	if rounded := d.Truncate(time.Millisecond); rounded < d {
		return rounded + time.Millisecond
	}
	return d
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// A textWriter writes until the first error, which it keeps.
type textWriter struct {
	w   io.Writer
	err error
}

func (t *textWriter) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

// A rowFunc adds a row to a table.
type rowFunc func(cells ...any)

// table writes aligned rows. The last cell of a row is not padded.
func (t *textWriter) table(flags uint, rows func(rowFunc)) {
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', flags)
	rows(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, cell)
		}
		fmt.Fprintln(tw)
	})
	if err := tw.Flush(); t.err == nil {
		t.err = err
	}
}
