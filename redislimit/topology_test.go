package redislimit

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/packedbucket/ratelimit"
	"github.com/packedbucket/ratelimit/redislimit/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// In a Cluster keys are spread over the masters, and each has one bucket, also while its
// slot moves.
func TestCluster(t *testing.T) {
	ctx := t.Context()
	servers, err := redistest.StartCluster(ctx, 3)
	require.NoError(t, err)
	for _, s := range servers {
		defer s.Close()
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].Addr}, ContextTimeoutEnabled: true})
	defer c.Close()
	l := newLimiter(t, c, ratelimit.Per(3, 10_000*time.Hour))
	for i := range 100 {
		key := fmt.Sprintf("key {same} %d", i)
		for n := range 4 {
			d, err := l.Allow(ctx, key)
			require.NoError(t, err)
			require.Equal(t, n < 3, d.Allowed)
		}
	}
	for _, s := range servers {
		node := newClient(s.Addr)
		n, err := node.DBSize(ctx).Result()
		require.NoError(t, err)
		require.Greater(t, n, int64(10), "braces do not choose the slot")
		node.Close()
	}

	// Move the slot of a key to another master: the client is told MOVED, and asks there.
	// It is charged once for each call.
	const key = "moving"
	_, err = l.Allow(ctx, key)
	require.NoError(t, err)
	moveSlot(ctx, t, c, servers, name(t.Name()+":", key))
	for i, want := range []bool{true, true, false} {
		d, err := l.Allow(ctx, key)
		require.NoError(t, err)
		require.Equal(t, want, d.Allowed, "call %d", i)
	}
	require.Zero(t, l.Stats().Failures)
}

// moveSlot moves the slot of a key, with the key, to another master.
func moveSlot(ctx context.Context, t *testing.T, c *redis.ClusterClient, servers []*redistest.Server, key string) {
	slot, err := c.ClusterKeySlot(ctx, key).Result()
	require.NoError(t, err)
	from, err := c.MasterForKey(ctx, key)
	require.NoError(t, err)
	var to *redis.Client
	for _, s := range servers {
		if s.Addr != from.Options().Addr {
			to = newClient(s.Addr)
			defer to.Close()
			break
		}
	}
	fromID, err := from.ClusterMyID(ctx).Result()
	require.NoError(t, err)
	toID, err := to.ClusterMyID(ctx).Result()
	require.NoError(t, err)
	require.NoError(t, to.Do(ctx, "cluster", "setslot", slot, "importing", fromID).Err())
	require.NoError(t, from.Do(ctx, "cluster", "setslot", slot, "migrating", toID).Err())
	require.NoError(t, from.Migrate(ctx, "127.0.0.1", portOf(to), key, 0, patient).Err())
	require.NoError(t, to.Do(ctx, "cluster", "setslot", slot, "node", toID).Err())
	require.NoError(t, from.Do(ctx, "cluster", "setslot", slot, "node", toID).Err())
}

func portOf(c *redis.Client) string {
	_, port, _ := net.SplitHostPort(c.Options().Addr)
	return port
}

// When a master dies, its replica takes over with what it has: requests fail until then,
// and no more is granted than the bound, which is that of the master, and of the
// replica once more for what had not reached it.
func TestSentinel(t *testing.T) {
	ctx := t.Context()
	s, err := redistest.StartSentinel(ctx)
	require.NoError(t, err)
	defer s.Close()
	var watchers []string
	for _, w := range s.Watchers {
		watchers = append(watchers, w.Addr)
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: watchers, ContextTimeoutEnabled: true})
	defer c.Close()
	l := newLimiter(t, c, endless, WithBreaker(1_000_000, time.Millisecond), WithTimeout(time.Second))
	for range 4 {
		d, err := l.Allow(ctx, "k")
		require.NoError(t, err)
		require.True(t, d.Allowed)
	}
	// All four have reached the replica.
	replicas, err := c.Wait(ctx, 1, patient).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), replicas)

	s.Master.Kill()
	granted, failed := 4, 0
	for decided := 0; decided < 10; {
		d, err := l.Allow(ctx, "k")
		if err != nil {
			require.ErrorIs(t, err, ErrUnavailable)
			failed++
			continue
		}
		decided++
		if d.Allowed {
			granted++
		}
	}
	require.LessOrEqual(t, granted, 10, "the replica knew of all that was granted")
	t.Logf("%d calls failed before the replica took over", failed)
}
