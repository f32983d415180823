package main

// This file says what a parser of lines gives, and finds out which one is right.

import (
	"fmt"
	"time"
)

// A record is one request of a log.
type record struct {
	key  []byte // valid until the parser is used again
	at   time.Time
	cost int // in tokens; 0 if the request is free
}

// A parser reads one line of a log. An error says what is malformed about the
// line, and what is allowed instead.
type parser interface {
	parse(line []byte) (record, error)
	format() string
}

// newParser returns the parser that the command line asks for.
func newParser(cfg *config) parser {
	clf := &clfParser{key: cfg.key, cost: cfg.cost}
	lines := &linesParser{cost: cfg.cost.fixed}
	switch cfg.format {
	case formatCLF:
		return clf
	case formatLines:
		return lines
	default:
		return &autoParser{clf: clf, lines: lines}
	}
}

// An autoParser becomes the parser of the first line that is well-formed in
// either format. No line is well-formed in both: lines has at most three fields.
type autoParser struct {
	clf, lines parser
	found      parser
}

func (p *autoParser) parse(line []byte) (record, error) {
	if p.found != nil {
		return p.found.parse(line)
	}
	rec, errCLF := p.clf.parse(line)
	if errCLF == nil {
		p.found = p.clf
		return rec, nil
	}
	rec, errLines := p.lines.parse(line)
	if errLines == nil {
		p.found = p.lines
		return rec, nil
	}
	return record{}, fmt.Errorf("neither in format clf: %w; nor in format lines: %w", errCLF, errLines)
}

func (p *autoParser) format() string {
	if p.found == nil {
		return formatAuto
	}
	return p.found.format()
}
