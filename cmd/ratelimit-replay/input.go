package main

// This file gets lines out of files and standard input: gzip, line ends, and
// lines that are too long.

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxLine is the longest line that is read, in bytes with its end.
const maxLine = 1 << 20

// errLineTooLong is returned once per line that is longer than maxLine.
var errLineTooLong = fmt.Errorf("longer than %d bytes", maxLine)

// A lineReader reads lines up to maxLine, and skips longer ones.
type lineReader struct {
	buf    *bufio.Reader // of maxLine bytes
	number int           // of the line that next returned last, from 1
	err    error         // what ended the input
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{buf: bufio.NewReaderSize(r, maxLine)}
}

// next returns the next line without its end, \n or \r\n, which the last line need
// not have. The line is valid until the following call. The error is errLineTooLong,
// after which reading goes on with the next line, or io.EOF, or what else ended the
// input; a line that was cut off by such an error is not returned, since nobody can
// tell what it would have been.
func (l *lineReader) next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	line, err := l.buf.ReadSlice('\n')
	switch {
	case err == nil, err == io.EOF && len(line) > 0:
		l.number++
		return trimEnd(line), nil
	case err == bufio.ErrBufferFull:
		l.number++
		l.skip()
		return nil, errLineTooLong
	default:
		l.err = err
		return nil, err
	}
}

// skip reads to the end of the line.
func (l *lineReader) skip() {
	err := bufio.ErrBufferFull
	for err == bufio.ErrBufferFull {
		_, err = l.buf.ReadSlice('\n')
	}
	l.err = err
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// A source is one file, or standard input.
type source struct {
	name string // for messages
	*lineReader
	file io.Closer
}

// openSource opens a file, or standard input if the name is "-". What is read,
// before it is decompressed, is also written to meter, unless that is nil.
func openSource(name string, stdin io.Reader, meter io.Writer) (*source, error) {
	s := &source{name: name, file: io.NopCloser(nil)}
	r := stdin
	if name == "-" {
		s.name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		s.file, r = file, file
	}
	if meter != nil {
		r = io.TeeReader(r, meter)
	}
	r, err := gunzip(r)
	if err != nil {
		s.file.Close()
		return nil, s.wrap(err)
	}
	s.lineReader = newLineReader(r)
	return s, nil
}

// wrap says in which source an error came up, and after how many lines.
func (s *source) wrap(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("gzip: the file ends before the compressed data does (%w)", err)
	}
	if s.lineReader == nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return fmt.Errorf("%s: after line %d: %w", s.name, s.number, err)
}

// gunzip returns r, decompressed if it begins like gzip. Several gzip members in
// a row are one stream.
func gunzip(r io.Reader) (io.Reader, error) {
	buf := bufio.NewReaderSize(r, 1<<16)
	magic, err := buf.Peek(2)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return buf, nil
	}
	return gzip.NewReader(buf)
}

// inputSize returns how many bytes there are to read, or false if that is unknown:
// for a pipe, say, or a file that cannot be opened anyway.
func inputSize(names []string, stdin io.Reader) (int64, bool) {
	var sum int64
	for _, name := range names {
		var info os.FileInfo
		err := errors.New("not a file")
		if name != "-" {
			info, err = os.Stat(name)
		} else if file, ok := stdin.(*os.File); ok {
			info, err = file.Stat()
		}
		if err != nil || !info.Mode().IsRegular() {
			return 0, false
		}
		sum += info.Size()
	}
	return sum, true
}
