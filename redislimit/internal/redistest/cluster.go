package redistest

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// StartCluster starts a Redis Cluster of n masters without replicas, and waits until all
// of them agree that it is complete. Close each server to end it.
func StartCluster(ctx context.Context, n int) ([]*Server, error) {
	servers := make([]*Server, 0, n)
	fail := func(err error) ([]*Server, error) {
		for _, s := range servers {
			s.Close()
		}
		return nil, err
	}
	for i := range n {
		s, err := Start("--cluster-enabled", "yes", "--cluster-config-file", fmt.Sprintf("nodes-%d.conf", i), "--cluster-node-timeout", "2000")
		if err != nil {
			return fail(err)
		}
		servers = append(servers, s)
	}
	for i, s := range servers {
		err := s.do(ctx, func(c *redis.Client) error {
			if err := c.ClusterAddSlotsRange(ctx, slots*i/n, slots*(i+1)/n-1).Err(); err != nil {
				return err
			}
			return c.ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(servers[0].Port())).Err()
		})
		if err != nil {
			return fail(err)
		}
	}
	for _, s := range servers {
		err := s.do(ctx, func(c *redis.Client) error {
			return until(func() (bool, error) {
				info, err := c.ClusterInfo(ctx).Result()
				return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n)), err
			})
		})
		if err != nil {
			return fail(err)
		}
	}
	return servers, nil
}

// do calls f with a client of the server.
func (s *Server) do(ctx context.Context, f func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	defer c.Close()
	return f(c)
}
