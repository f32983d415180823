package main

// This file parses the format lines: a key, a time stamp and optionally a cost,
// separated by blanks or tabs.
//
//	alice 2026-01-05T09:00:00.25Z
//	bob   1767603600.25 3

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A linesParser parses such lines.
type linesParser struct {
	cost int // of a line that says nothing
}

func (p *linesParser) format() string { return formatLines }

func (p *linesParser) parse(line []byte) (record, error) {
	var fields [3][]byte
	n := 0
	for field := range bytes.FieldsFuncSeq(line, func(r rune) bool { return r == ' ' || r == '\t' }) {
		if n == len(fields) {
			return record{}, errors.New("more than three fields: must be a key, a time stamp and optionally a cost")
		}
		fields[n] = field
		n++
	}
	if n < 2 {
		return record{}, errors.New("less than two fields: must be a key, a time stamp and optionally a cost")
	}
	rec := record{key: fields[0], cost: p.cost}
	var ok bool
	if rec.at, ok = parseStamp(fields[1]); !ok {
		return record{}, fmt.Errorf("time stamp %.40q: must be RFC 3339, or Unix seconds with at most nine decimals, up to the year 9999", fields[1])
	}
	if n == 3 {
		cost, err := strconv.Atoi(string(fields[2]))
		if err != nil || cost < 1 {
			return record{}, fmt.Errorf("cost %.30q: must be an integer, 1 or more", fields[2])
		}
		rec.cost = cost
	}
	return rec, nil
}

// parseStamp reads a time stamp exactly, to the nanosecond.
func parseStamp(s []byte) (time.Time, bool) {
	whole, decimals, fraction := bytes.Cut(s, []byte("."))
	if !isDigits(whole) {
		return parseRFC3339(s)
	}
	// 9999-12-31T23:59:59Z is the last second that RFC 3339 can write.
	const lastSecond = 253402300799
	seconds, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || seconds > lastSecond {
		return time.Time{}, false
	}
	nanos := int64(0)
	if fraction {
		if !isDigits(decimals) || len(decimals) > 9 {
			return time.Time{}, false
		}
		for i := range 9 {
			nanos *= 10
			if i < len(decimals) {
				nanos += int64(decimals[i] - '0')
			}
		}
	}
	return time.Unix(seconds, nanos), true
}

// parseRFC3339 is stricter than package time, which takes hours of one digit and a
// comma before the decimals, and drops what is finer than a nanosecond.
func parseRFC3339(s []byte) (time.Time, bool) {
	const toSeconds = "2006-01-02T15:04:05"
	t, err := time.Parse(time.RFC3339, string(s))
	if err != nil || t.Format(toSeconds) != string(s[:len(toSeconds)]) {
		return time.Time{}, false
	}
	rest := s[len(toSeconds):] // decimals, if any, and zone
	return t, rest[0] != ',' && bytes.IndexAny(rest, "Z+-") <= len(".123456789")
}
