package redislimit

// Stats are counts of one limiter, in one process, since it was made. It is a plain value.
type Stats struct {
	// Calls is how often Redis was asked.
	Calls int64

	// Failures is how many of those Redis did not answer in time, or with an error. Calls that
	// ended because the caller's context was done are not among them.
	Failures int64

	// Skipped is how many calls were not made, since Redis had failed too often in a row.
	Skipped int64

	// Fallbacks is how many decisions were not made by Redis, but by the policy of
	// WithFailure.
	Fallbacks int64
}

func stats(r *remote, f *fallback) Stats {
	return Stats{
		Calls:     r.calls.Load(),
		Failures:  r.failures.Load(),
		Skipped:   r.skipped.Load(),
		Fallbacks: f.decisions.Load(),
	}
}
