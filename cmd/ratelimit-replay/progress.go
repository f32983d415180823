package main

// This file shows the progress bar.

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// minProgress is the size of an input that takes long enough for a progress bar,
// in bytes as they are in the files.
const minProgress = 16 << 20

// A progress is a progress bar, or none if it is nil.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress returns nil unless stderr is a terminal and the input is large and
// of a known size.
func newProgress(files []string, stdin io.Reader, stderr io.Writer) *progress {
	terminal, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(terminal.Fd())) {
		return nil
	}
	size, ok := inputSize(files, stdin)
	if !ok || size < minProgress {
		return nil
	}
	return &progress{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(stderr),
		progressbar.OptionSetDescription("replaying"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionFullWidth(),
		progressbar.OptionClearOnFinish(),
	)}
}

// meter returns what takes the bytes that were read, or nil.
func (p *progress) meter() io.Writer {
	if p == nil {
		return nil
	}
	return p.bar
}

// clear makes room for a message; the bar comes back by itself.
func (p *progress) clear() {
	if p != nil {
		p.bar.Clear()
	}
}

// done removes the bar. Whatever is wrong with it is no reason to fail.
func (p *progress) done() {
	if p != nil {
		p.bar.Exit()
		p.bar.Clear()
	}
}
