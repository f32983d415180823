package main

// This file brings the parts together: it takes lines from the input through the
// parser to the replay, and says what happens to lines that are malformed.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// A place is where a line is.
type place struct {
	source string
	line   int
}

func (p place) String() string { return fmt.Sprintf("%s:%d", p.source, p.line) }

// A session is one run of the command on logs.
type session struct {
	cfg      *config
	parser   parser
	replay   *replay
	progress *progress
	stderr   io.Writer

	pending []pendingRecord // under -sort, until all input is read

	lines     int // all of them
	empty     int
	malformed int
}

// A pendingRecord is a record that is replayed later.
type pendingRecord struct {
	record
	place
}

// maxDisorder is how far time stamps go back before there is a note about it: no
// server is that late with a line.
const maxDisorder = 24 * time.Hour

// A malformedError ends a session under -strict.
type malformedError struct{ error }

var errInterrupted = errors.New("interrupted: the report is about what was read until then")

// replayLog replays all input and prints the report, also if the input could not
// be read to its end.
func replayLog(ctx context.Context, cfg *config, stdin io.Reader, stdout, stderr io.Writer) error {
	s := &session{
		cfg:    cfg,
		parser: newParser(cfg),
		replay: newReplay(cfg.limit, cfg.check),
		stderr: stderr,
	}
	begin := time.Now()
	err := s.readAll(ctx, stdin)
	s.progress.done()
	if sortErr := s.replaySorted(); err == nil {
		err = sortErr
	}
	if errors.As(err, new(malformedError)) || s.lines == 0 && err != nil {
		return err
	}
	if hidden := s.malformed - cfg.showMalformed; hidden > 0 && cfg.showMalformed > 0 {
		fmt.Fprintf(stderr, "and %d more malformed lines (-show-malformed N shows more)\n", hidden)
	}
	s.noteDisorder()

	sum := summarize(s, err == nil)
	write := sum.writeText
	if cfg.json {
		write = sum.writeJSON
	}
	if err := write(stdout); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	seconds := time.Since(begin).Seconds()
	fmt.Fprintf(stderr, "replayed %d lines in %.3f s, %.0f lines/s\n", s.lines, seconds, float64(s.lines)/seconds)

	return errors.Join(err, sum.verdict())
}

// readAll reads the files, or the generated log.
func (s *session) readAll(ctx context.Context, stdin io.Reader) error {
	if s.cfg.demo {
		return s.readSource(ctx, &source{name: demoName, lineReader: newLineReader(bytes.NewReader(demoLog()))})
	}
	s.progress = newProgress(s.cfg.files, stdin, s.stderr)
	for _, name := range s.cfg.files {
		src, err := openSource(name, stdin, s.progress.meter())
		if err != nil {
			return err
		}
		err = s.readSource(ctx, src)
		src.file.Close() // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) readSource(ctx context.Context, src *source) error {
	for ctx.Err() == nil {
		line, err := src.next()
		if err == io.EOF {
			return nil
		}
		if err != nil && err != errLineTooLong {
			return src.wrap(err)
		}
		s.lines++
		if err == nil && len(line) == 0 {
			s.empty++
			continue
		}
		place := place{src.name, src.number}
		if err == nil {
			err = s.replayLine(line, place)
		}
		if err != nil {
			if err := s.skipMalformed(place, err); err != nil {
				return err
			}
		}
	}
	return errInterrupted
}

// replayLine replays a line, or under -sort keeps it for later.
func (s *session) replayLine(line []byte, place place) error {
	rec, err := s.parser.parse(line)
	if err != nil {
		return err
	}
	if s.cfg.sort {
		rec.key = bytes.Clone(rec.key)
		s.pending = append(s.pending, pendingRecord{rec, place})
		return nil
	}
	return s.replay.add(rec, place)
}

// replaySorted replays what was kept, in the order of the time stamps; equal ones
// stay in the order of the log.
func (s *session) replaySorted() error {
	slices.SortStableFunc(s.pending, func(a, b pendingRecord) int { return a.at.Compare(b.at) })
	for _, p := range s.pending {
		if err := s.replay.add(p.record, p.place); err != nil {
			if err := s.skipMalformed(p.place, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// skipMalformed counts a malformed line and reports the first ones. Under -strict
// it returns a malformedError.
func (s *session) skipMalformed(place place, reason error) error {
	s.malformed++
	err := fmt.Errorf("%v: malformed line: %w", place, reason)
	if s.cfg.strict {
		return malformedError{err}
	}
	if s.malformed <= s.cfg.showMalformed {
		s.progress.clear()
		fmt.Fprintln(s.stderr, err)
	}
	return nil
}

// noteDisorder says so if the order of the log may have made the answer wrong.
func (s *session) noteDisorder() {
	r := s.replay
	switch {
	case r.wentBackBy > maxDisorder:
		fmt.Fprintf(s.stderr, "note: time stamps go back by up to %v: give the files oldest first, or -sort\n", r.wentBackBy)
	case 10*r.wentBack > r.requests():
		fmt.Fprintf(s.stderr, "note: %d of %d time stamps go back; such requests may count late and be denied for it; -sort replays them in order\n", r.wentBack, r.requests())
	}
}
