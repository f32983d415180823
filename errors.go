package ratelimit

import (
	"errors"
	"fmt"
)

// The errors of this package, for errors.Is. What a function returns says in
// addition which value was wrong and what is allowed.
var (
	// ErrInvalidLimit is returned for a capacity or rate out of bounds, NaN and
	// infinities included.
	ErrInvalidLimit = errors.New("ratelimit: invalid limit")

	// ErrInvalidOption is returned by New for an option with an argument out of
	// bounds, and for options that exclude each other.
	ErrInvalidOption = errors.New("ratelimit: invalid option")

	// ErrInvalidCost is returned for a cost below 1.
	ErrInvalidCost = errors.New("ratelimit: invalid cost")

	// ErrCostExceedsCapacity is returned for a cost above the capacity. The
	// bucket can never hold that many tokens, so the call will never succeed: it
	// is not a denial, and must not be retried.
	ErrCostExceedsCapacity = errors.New("ratelimit: cost exceeds capacity")
)

// A detailedError is one of the errors above with the particulars in its text.
type detailedError struct {
	kind error
	text string
}

func (e *detailedError) Error() string { return e.text }
func (e *detailedError) Unwrap() error { return e.kind }

func errorf(kind error, format string, args ...any) error {
	return &detailedError{kind, "ratelimit: " + fmt.Sprintf(format, args...)}
}
