package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed page.md.tmpl
var pageText string

// page returns docs/benchmarks.md.
func page(r *results) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{"join": strings.Join}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	view := struct {
		Environment map[string]string
		Versions    []string
		Sections    []sectionView
		Goals       []goalView
		Exactness   []scheduleView
	}{Environment: r.environment, Versions: r.versions, Exactness: r.schedules()}
	for _, s := range sections {
		view.Sections = append(view.Sections, s.view(r))
	}
	for _, g := range goals {
		ratio, err := g.ratio(r)
		if err != nil {
			return nil, err
		}
		v := goalView{g.Work, g.Claim, g.wanted(), number(ratio), "reached"}
		if !g.reached(ratio) {
			v.Verdict = "**missed**. " + g.Why
		}
		view.Goals = append(view.Goals, v)
	}
	var b bytes.Buffer
	err = t.Execute(&b, view)
	return b.Bytes(), err
}

type sectionView struct {
	section
	Light, Dark string
	Rows        [][]string
	Losses      []string
}

func (s section) view(r *results) sectionView {
	v := sectionView{section: s, Light: s.chart(themes[0]), Dark: s.chart(themes[1])}
	rows := s.rows(r)
	for _, of := range rows {
		cells := []string{of.Impl}
		if slices.Contains(ours, of.Impl) {
			cells[0] = "**" + of.Impl + "**"
		}
		for _, f := range of.Figures {
			cells = append(cells, cell(f))
		}
		v.Rows = append(v.Rows, cells)
	}
	for _, of := range rows {
		if !slices.Contains(ours, of.Impl) {
			continue
		}
		var by []string
		for i := range s.Series {
			if names := better(rows, of, i); names != "" {
				by = append(by, s.Series[i].Name+": "+names)
			}
		}
		if by == nil {
			v.Losses = append(v.Losses, of.Impl+" is beaten by none")
		} else {
			v.Losses = append(v.Losses, of.Impl+" is beaten by "+strings.Join(by, "; "))
		}
	}
	return v
}

// better names the other modules' limiters, and the baselines, whose figure i is better
// than that of a row, with what they take of it, and whether that may be chance.
func better(rows []row, than row, i int) string {
	var names []string
	for _, of := range rows {
		f, our := of.Figures[i], than.Figures[i]
		if f == nil || our == nil || isFloor(of.Impl) || slices.Contains(ours, of.Impl) {
			continue
		}
		if f.median() < our.median() {
			chance := ""
			if !significant(f, our) {
				chance = ", within chance"
			}
			names = append(names, fmt.Sprintf("%s (%s of it%s)", of.Impl, number(f.median()/our.median()), chance))
		}
	}
	return strings.Join(names, ", ")
}

type goalView struct{ Work, Claim, Wanted, Ratio, Verdict string }

// A scheduleView says who grants what is due, who does not, and for whom there is no such
// thing.
type scheduleView struct {
	Schedule, Due     string
	Exact, Not, Alien []string
}

func (r *results) schedules() (all []scheduleView) {
	for _, cells := range r.exactness {
		schedule, due, limiter, granted := cells[0], cells[1], cells[2], cells[3]
		if len(all) == 0 || all[len(all)-1].Schedule != schedule {
			all = append(all, scheduleView{Schedule: schedule, Due: due})
		}
		v := &all[len(all)-1]
		if alien, ok := strings.CutPrefix(granted, "n/a: "); ok {
			v.Alien = append(v.Alien, limiter+" "+alien)
		} else if meets(granted, due) {
			v.Exact = append(v.Exact, limiter)
		} else {
			v.Not = append(v.Not, limiter+": "+granted)
		}
	}
	return all
}

// meets says whether a limiter granted what was due. A limit that cannot be due anything
// is to be refused, by an error or a panic.
func meets(granted, due string) bool {
	n, err := strconv.Atoi(granted)
	if most, ok := strings.CutPrefix(due, "at most "); ok {
		m, _ := strconv.Atoi(most)
		return err == nil && n <= m
	}
	return granted == due || due == "0" && strings.HasPrefix(granted, "refused")
}

// cell is a figure in a table: the median, and in brackets the least and the most, unless
// they look alike.
func cell(f figure) string {
	if f == nil {
		return ""
	}
	if number(f.least()) == number(f.most()) {
		return number(f.median())
	}
	return fmt.Sprintf("%s [%s..%s]", number(f.median()), number(f.least()), number(f.most()))
}

// number writes three digits, or all of a whole number, in groups of three.
func number(v float64) string {
	digits := 0
	if v > 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(v))))
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	for i := len(text) - 3; i > 0 && !strings.Contains(text, "."); i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
