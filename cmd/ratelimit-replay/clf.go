package main

// This file parses the common and the combined log format:
//
//	addr ident user [17/May/2015:10:05:03 +0000] "request" status bytes
//	addr ident user [17/May/2015:10:05:03 +0000] "request" status bytes "referer" "agent"
//
// Anything may follow the agent after a blank, since many servers are configured
// to add fields there. Fields are taken as they stand in the log, escapes
// included.

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A clfEntry is a line taken apart. Its fields are parts of the line.
type clfEntry struct {
	addr, ident, user []byte
	time              []byte // without the brackets
	request           []byte // without the quotes, as the next ones
	status, bytes     []byte
	combined          bool // whether there are a referer and an agent
	referer, agent    []byte
	rest              []byte // what follows the agent, from the blank on
}

// splitCLF takes a line apart and checks the form of each field but the time.
func splitCLF(line []byte) (e clfEntry, err error) {
	var ok bool
	if e.addr, line, ok = word(line); !ok {
		return e, errors.New("client address: must be followed by a blank")
	}
	if e.ident, line, ok = word(line); !ok {
		return e, errors.New("ident, the second field: must be followed by a blank, and is - if unknown")
	}
	// The user is whatever a client claims to be and may contain blanks.
	end := bytes.Index(line, []byte(" ["))
	if end < 1 {
		return e, errors.New("user, the third field: must be followed by a blank and a time stamp in brackets, and is - if unknown")
	}
	e.user, line = line[:end], line[end+len(" ["):]
	if end = bytes.IndexByte(line, ']'); end < 0 {
		return e, errors.New("time stamp: the closing bracket is missing")
	}
	e.time, line = line[:end], line[end+len("]"):]
	if e.request, line, ok = quoted(line); !ok {
		return e, errors.New(`request: must follow the time stamp in quotes, with quotes inside written as \"`)
	}
	if e.status, line, ok = spaced(line); !ok || !isStatus(e.status) {
		return e, fmt.Errorf("status %.20q: must be three digits, or -", e.status)
	}
	if e.bytes, line, ok = spaced(line); !ok || !isSize(e.bytes) {
		return e, fmt.Errorf("response bytes %.30q: must be digits, or -", e.bytes)
	}
	if len(line) == 0 {
		return e, nil
	}
	e.combined = true
	if e.referer, line, ok = quoted(line); !ok {
		return e, errors.New("after the response bytes: must be the end of the line, or a blank and a referer in quotes")
	}
	if e.agent, line, ok = quoted(line); !ok {
		return e, errors.New("agent: must follow the referer in quotes, the closing quote included")
	}
	if len(line) > 0 && line[0] != ' ' {
		return e, errors.New(`after the agent: must be the end of the line or a blank; quotes inside the agent must be written as \"`)
	}
	e.rest = line
	return e, nil
}

// word cuts a field that ends with a blank off the line.
func word(line []byte) (field, rest []byte, ok bool) {
	end := bytes.IndexByte(line, ' ')
	if end < 1 {
		return nil, line, false
	}
	return line[:end], line[end+1:], true
}

// spaced cuts a blank and the field after it off the line.
func spaced(line []byte) (field, rest []byte, ok bool) {
	if len(line) == 0 || line[0] != ' ' {
		return nil, line, false
	}
	line = line[1:]
	end := bytes.IndexByte(line, ' ')
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:], end > 0
}

// quoted cuts a blank and a field in quotes off the line. A quote inside is marked
// by a backslash; so is a backslash.
func quoted(line []byte) (field, rest []byte, ok bool) {
	if len(line) < 2 || line[0] != ' ' || line[1] != '"' {
		return nil, line, false
	}
	line = line[2:]
	for end := 0; ; end++ {
		i := bytes.IndexByte(line[end:], '"')
		if i < 0 {
			return nil, line, false
		}
		end += i
		backslashes := 0
		for backslashes < end && line[end-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return line[:end], line[end+1:], true
		}
	}
}

func isStatus(s []byte) bool {
	return string(s) == "-" || len(s) == 3 && isDigits(s)
}

func isSize(s []byte) bool {
	return string(s) == "-" || isDigits(s)
}

func isDigits(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) > 0
}

// requestLine returns the method and the target of a request such as
// "GET /index.html HTTP/1.1", or false if it is none: a client may send anything.
func (e *clfEntry) requestLine() (method, target []byte, ok bool) {
	method, rest, ok := word(e.request)
	if !ok {
		return nil, nil, false
	}
	for _, c := range method {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return nil, nil, false
		}
	}
	end := bytes.LastIndexByte(rest, ' ')
	if end < 1 || !bytes.HasPrefix(rest[end+1:], []byte("HTTP/")) {
		return nil, nil, false
	}
	return method, rest[:end], true
}

// size returns the bytes of the response, 0 if it had none.
func (e *clfEntry) size() (int, error) {
	if string(e.bytes) == "-" {
		return 0, nil
	}
	n, err := strconv.Atoi(string(e.bytes))
	if err != nil {
		return 0, fmt.Errorf("response bytes %.30q: must be below 2^%d", e.bytes, strconv.IntSize-1)
	}
	return n, nil
}

// A clfParser parses lines of either format.
type clfParser struct {
	key  keySpec
	cost costRule

	days   dayCache
	buffer []byte // of the key
}

func (p *clfParser) format() string { return formatCLF }

func (p *clfParser) parse(line []byte) (record, error) {
	e, err := splitCLF(line)
	if err != nil {
		return record{}, err
	}
	rec := record{cost: p.cost.fixed}
	if rec.at, err = p.days.parse(e.time); err != nil {
		return record{}, err
	}
	if p.cost.bytes {
		if rec.cost, err = e.size(); err != nil {
			return record{}, err
		}
	}
	if p.buffer, err = p.key.append(p.buffer[:0], &e); err != nil {
		return record{}, err
	}
	rec.key = p.buffer
	return rec, nil
}

// A dayCache parses time stamps. It remembers the day and the zone of the latest
// one, since lines in a row mostly share them.
type dayCache struct {
	date, zone string
	midnight   int64 // the day's beginning in the zone, in Unix seconds
}

// clfTime is the form of a time stamp, for package time.
const clfTime = "02/Jan/2006:15:04:05 -0700"

func (c *dayCache) parse(stamp []byte) (time.Time, error) {
	const date, clock, zone = len("02/Jan/2006"), len("02/Jan/2006:15:04:05"), len("-0700")
	if len(stamp) != len(clfTime) || stamp[clock] != ' ' {
		return time.Time{}, stampError(stamp)
	}
	if string(stamp[:date]) != c.date || string(stamp[clock+1:]) != c.zone {
		midnight := make([]byte, 0, len(clfTime))
		midnight = append(midnight, stamp[:date]...)
		midnight = append(midnight, ":00:00:00"...)
		midnight = append(midnight, stamp[clock:]...)
		t, err := time.Parse(clfTime, string(midnight))
		// Package time takes "may" for May, hours of a zone up to 24 and minutes up
		// to 60.
		if err != nil || t.Format(clfTime[:date]) != string(stamp[:date]) || !isZone(stamp[clock+1:]) {
			return time.Time{}, stampError(stamp)
		}
		*c = dayCache{string(stamp[:date]), string(stamp[clock+1:]), t.Unix()}
	}
	seconds, ok := timeOfDay(stamp[date:clock])
	if !ok {
		return time.Time{}, stampError(stamp)
	}
	return time.Unix(c.midnight+seconds, 0), nil
}

// timeOfDay reads ":hh:mm:ss" as seconds.
func timeOfDay(s []byte) (seconds int64, ok bool) {
	for i, below := range []int64{24, 60, 60} {
		part := s[3*i : 3*i+3]
		if part[0] != ':' || !isDigits(part[1:]) {
			return 0, false
		}
		n := int64(part[1]-'0')*10 + int64(part[2]-'0')
		if n >= below {
			return 0, false
		}
		seconds = seconds*60 + n
	}
	return seconds, true
}

// isZone reports whether s is a sign and hhmm.
func isZone(s []byte) bool {
	return (s[0] == '+' || s[0] == '-') && isDigits(s[1:]) && string(s[1:3]) < "24" && string(s[3:]) < "60"
}

func stampError(stamp []byte) error {
	return fmt.Errorf("time stamp %.40q: must be a day that exists and a time, of the form dd/Mon/yyyy:hh:mm:ss +hhmm", stamp)
}
