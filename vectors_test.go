package ratelimit

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit/internal/vectors"
	"github.com/stretchr/testify/require"
)

// The decisions of testdata/vectors.txt, which the limiter in Redis makes too.
func TestVectors(t *testing.T) {
	file, err := os.Open("testdata/vectors.txt")
	require.NoError(t, err)
	defer file.Close()
	all, err := vectors.Read(file)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	onBothStores(t, func(t *testing.T, store Option) {
		for _, v := range all {
			now := time.Unix(1000, 0)
			start := now
			tb, err := New(Limit{v.Capacity, v.Rate}, store, WithClock(func() time.Time { return now }))
			require.NoError(t, err)
			unit := tb.layout.delay(0, 1) // the time of one, or the nanosecond it begins in
			for _, s := range v.Steps {
				now = start.Add(time.Duration(s.At) * time.Microsecond)
				if !s.Take {
					tb.Refund("k", s.Tokens)
					continue
				}
				d, err := tb.AllowN(context.Background(), "k", s.Tokens)
				require.NoError(t, err)
				require.Equal(t, s.Granted, d.Allowed, "%+v", s)
				require.Equal(t, s.Remaining, d.Remaining, "%+v", s)
				require.LessOrEqual(t, d.RetryAfter, s.RetryAfter, "%+v", s)
				require.Greater(t, d.RetryAfter, s.RetryAfter-time.Microsecond-unit, "%+v", s)
			}
		}
	})
}
