package redislimit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/redislimit/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// server is the Redis that tests share which do it no harm.
var server *redistest.Server

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	redis.SetLogger(quiet{}) // of connections that are refused on purpose
	var err error
	server, err = redistest.Start()
	if err != nil {
		if errors.Is(err, redistest.ErrNotInstalled) && os.Getenv("RATELIMIT_NEED_REDIS") == "" {
			fmt.Println(err, "(nothing is tested without it)")
			return 0
		}
		fmt.Println(err)
		return 1
	}
	defer server.Close()
	client := newClient(server.Addr)
	defer client.Close()
	info, err := client.Info(context.Background(), "server").Result()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, line := range strings.Split(info, "\r\n") {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			fmt.Println("redis-server", version)
		}
	}
	return m.Run()
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// newClient returns a client as New wants it. Its other options are the defaults, retries
// included, but that it tries once to connect, which is the same as more often and faster.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
}

// client returns a client of the shared server, which is emptied after the test.
func client(t testing.TB) *redis.Client {
	c := newClient(server.Addr)
	t.Cleanup(func() {
		c.FlushAll(context.Background())
		c.Close()
	})
	return c
}

// start starts a server for one test.
func start(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	s, err := redistest.Start(args...)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// patient is as long as a busy machine may take to answer.
const patient = 30 * time.Second

// newLimiter returns a limiter whose keys no other test has, and which is patient.
func newLimiter(t testing.TB, client redis.UniversalClient, limit ratelimit.Limit, opts ...Option) *Limiter {
	t.Helper()
	l, err := New(client, limit, append([]Option{WithPrefix(t.Name() + ":"), WithTimeout(patient), WithFailure(FailClosed)}, opts...)...)
	require.NoError(t, err)
	return l
}
