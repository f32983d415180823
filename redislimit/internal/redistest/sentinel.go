package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the Sentinels of StartSentinel call the master.
const MasterName = "master"

// Sentinels are a master, a replica of it, and three Sentinels that watch them and make the
// replica the master when it dies.
type Sentinels struct {
	Master, Replica *Server
	Watchers        []*Server
}

// StartSentinel starts all of them and waits until the Sentinels know each other and the
// replica.
func StartSentinel(ctx context.Context) (*Sentinels, error) {
	s := &Sentinels{}
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Sentinels) start(ctx context.Context) (err error) {
	if s.Master, err = Start("--repl-diskless-sync-delay", "0"); err != nil {
		return err
	}
	if s.Replica, err = Start("--replicaof", "127.0.0.1", fmt.Sprint(s.Master.Port())); err != nil {
		return err
	}
	err = s.Replica.do(ctx, func(c *redis.Client) error {
		return until(func() (bool, error) {
			info, err := c.Info(ctx, "replication").Result()
			return strings.Contains(info, "master_link_status:up"), err
		})
	})
	if err != nil {
		return err
	}
	for range 3 {
		w, err := startWatcher(s.Master.Port())
		if err != nil {
			return err
		}
		s.Watchers = append(s.Watchers, w)
	}
	for _, w := range s.Watchers {
		c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr, ContextTimeoutEnabled: true})
		err := until(func() (bool, error) {
			m, err := c.Master(ctx, MasterName).Result()
			return m["num-slaves"] == "1" && m["num-other-sentinels"] == "2", err
		})
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// startWatcher starts a Sentinel, which wants a file that it can write to.
func startWatcher(master int) (*Server, error) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sentinel.conf")
	config := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d 2\nsentinel down-after-milliseconds %[1]s 300\nsentinel failover-timeout %[1]s 2000\n", MasterName, master)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s := &Server{dir: dir, command: []string{file, "--sentinel"}, ready: "Sentinel ID"}
	if s.Addr, err = freeAddr(); err != nil {
		return nil, err
	}
	return s, s.Restart()
}

// until asks again and again until the answer is yes, or there is none.
func until(ask func() (bool, error)) error {
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
	}
}

// Close ends all of them.
func (s *Sentinels) Close() {
	for _, server := range append(s.Watchers, s.Master, s.Replica) {
		if server != nil {
			server.Close()
		}
	}
}
