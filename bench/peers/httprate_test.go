package peers

import (
	"net/http"
	"time"

	"github.com/go-chi/httprate"
	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/bench/internal/workload"
)

func init() {
	peers = append(peers, workload.Implementation{Name: "httprate", New: newHTTPRate, NoCopy: true})
}

// httpRate is github.com/go-chi/httprate: a sliding window, here of a day. It decides
// about requests of HTTP; there is none here, and the headers that it could set are off.
type httpRate struct {
	limiter *httprate.RateLimiter
	request *http.Request
}

func newHTTPRate(limit ratelimit.Limit, _ int) workload.Limiter {
	return httpRate{
		httprate.NewRateLimiter(limit.Capacity, 24*time.Hour, httprate.WithResponseHeaders(httprate.ResponseHeaders{})),
		new(http.Request),
	}
}

func (h httpRate) Allow(key string) bool { return !h.limiter.OnLimit(nil, h.request, key) }

func (h httpRate) Len() int { return -1 }
