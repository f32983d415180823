package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/packedbucket/ratelimit/redislimit/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// show runs the fleet with both kinds of limiter.
func show(nodes int, seconds float64) error {
	fmt.Printf("One user, %d processes of a service, one Redis: a burst of %d and %v requests a second, all together.\n",
		nodes, limit.Capacity, limit.RefillPerSec)
	for _, leased := range []bool{false, true} {
		server, err := redistest.Start()
		if err != nil {
			return err
		}
		err = showOne(server, nodes, seconds, leased)
		server.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// A node is a process of the service, and what it answered.
type node struct {
	addr            string
	cmd             *exec.Cmd
	stdin           io.Closer
	granted, denied atomic.Int64
	failed          atomic.Int64
}

func start(redisAddr string, leased bool) (*node, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := &node{cmd: exec.Command(program, "-redis", redisAddr, fmt.Sprintf("-leased=%v", leased))}
	n.cmd.Stderr = os.Stderr
	if n.stdin, err = n.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	n.addr, err = bufio.NewReader(output).ReadString('\n')
	n.addr = strings.TrimSpace(n.addr)
	return n, err
}

func showOne(server *redistest.Server, nodes int, seconds float64, leased bool) error {
	how := "redislimit.New: every request asks Redis"
	if leased {
		how = "redislimit.NewLeased: tokens are booked ahead, and spent in memory"
	}
	fmt.Printf("\n%s\n\n", how)
	var fleet []*node
	defer func() {
		for _, n := range fleet {
			n.stdin.Close()
			_ = n.cmd.Wait()
		}
	}()
	for range nodes {
		n, err := start(server.Addr, leased)
		if err != nil {
			return err
		}
		fleet = append(fleet, n)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()

	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds*1e9))
	defer cancel()
	var users sync.WaitGroup
	for _, n := range fleet {
		for range 3 {
			users.Go(func() { n.ask(ctx) })
		}
	}
	users.Wait()
	span := time.Since(began)

	var granted, denied, failed int64
	for i, n := range fleet {
		fmt.Printf("  process %d  granted %6d  denied %6d\n", i+1, n.granted.Load(), n.denied.Load())
		granted += n.granted.Load()
		denied += n.denied.Load()
		failed += n.failed.Load()
	}
	most := float64(limit.Capacity) + limit.RefillPerSec*span.Seconds()
	calls, err := scripts(client)
	if err != nil {
		return err
	}
	fmt.Printf("  together   granted %6d  denied %6d  in %.2f s\n", granted, denied, span.Seconds())
	fmt.Printf("  the limit  at most %6.0f  (%d + %v a second x %.2f s): %.1f %% of it were granted\n",
		most, limit.Capacity, limit.RefillPerSec, span.Seconds(), 100*float64(granted)/most)
	fmt.Printf("  redis      scripts %6d  for %d requests\n", calls, granted+denied)
	if failed > 0 {
		return fmt.Errorf("%d requests failed", failed)
	}
	if float64(granted) > most {
		return errors.New("more was granted than the limit allows")
	}
	return nil
}

// ask sends requests, one after the other, until ctx is done.
func (n *node) ask(ctx context.Context) {
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, "http://"+n.addr, nil)
		if err != nil {
			n.failed.Add(1)
			return
		}
		r.Header.Set("X-User", "ada")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			n.failed.Add(1)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusOK:
			n.granted.Add(1)
		case http.StatusTooManyRequests:
			n.denied.Add(1)
		default:
			n.failed.Add(1)
		}
	}
}

// scripts returns how many scripts the server has run.
func scripts(client *redis.Client) (calls int64, err error) {
	stats, err := client.Info(context.Background(), "commandstats").Result()
	for _, line := range strings.Split(stats, "\r\n") {
		for _, command := range []string{"cmdstat_evalsha:calls=%d", "cmdstat_eval:calls=%d"} {
			var n int64
			if _, no := fmt.Sscanf(line, command, &n); no == nil {
				calls += n
			}
		}
	}
	return calls, err
}
