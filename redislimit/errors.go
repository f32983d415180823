package redislimit

import (
	"errors"
	"fmt"
)

// The errors of this package, for errors.Is. Those about limits, options and costs are the
// errors of package ratelimit.
var (
	// ErrUnavailable is returned where Redis could not answer in time and nothing else
	// decides. It is not a denial. errors.Is, errors.As and the text give the cause.
	ErrUnavailable = errors.New("redislimit: redis is unavailable")

	// ErrInvalidClient is returned by New for a client that cannot keep what this package
	// promises.
	ErrInvalidClient = errors.New("redislimit: invalid client")
)

// A detailedError is one of these errors, or of package ratelimit, with the particulars
// in its text, and its cause.
type detailedError struct {
	kind  error
	cause error // nil if there is none
	text  string
}

func (e *detailedError) Error() string { return e.text }

func (e *detailedError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

func errorf(kind error, format string, args ...any) error {
	return &detailedError{kind: kind, text: "redislimit: " + fmt.Sprintf(format, args...)}
}

func unavailable(cause error) error {
	return &detailedError{ErrUnavailable, cause, ErrUnavailable.Error() + ": " + cause.Error()}
}
