// Package redistest starts real Redis servers on free ports of the loopback interface, for
// tests and demonstrations.
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrNotInstalled is returned where there is no program redis-server.
var ErrNotInstalled = errors.New("redistest: no redis-server on this machine; on Debian: apt-get install redis-server")

// A Server is a process with an empty Redis, which keeps nothing on disk.
type Server struct {
	Addr    string // host:port
	command []string
	ready   string // what it writes when it accepts connections
	dir     string
	cmd     *exec.Cmd
}

// Start starts a server with further arguments, such as "--maxmemory", "10mb", and waits
// until it accepts connections. Close ends it.
func Start(args ...string) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, ErrNotInstalled
	}
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	s := &Server{
		dir:     dir,
		command: append([]string{"--save", "", "--appendonly", "no"}, args...),
		ready:   "Ready to accept connections",
	}
	for range 5 { // somebody else may take the port before the server does
		if s.Addr, err = freeAddr(); err != nil {
			break
		}
		if err = s.Restart(); err == nil {
			return s, nil
		}
	}
	os.RemoveAll(dir)
	return nil, err
}

// freeAddr returns an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Port is the port of Addr.
func (s *Server) Port() int {
	_, port, _ := net.SplitHostPort(s.Addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Restart starts the server again after Kill, empty, at the same address.
func (s *Server) Restart() error {
	args := append(slices.Clone(s.command), "--port", strconv.Itoa(s.Port()), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no")
	s.cmd = exec.Command("redis-server", args...)
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	var log strings.Builder
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), s.ready) {
			go io.Copy(io.Discard, output) // until it ends
			return nil
		}
		log.WriteString(lines.Text() + "\n")
	}
	return fmt.Errorf("redistest: redis-server %s: %w\n%s", strings.Join(args, " "), s.cmd.Wait(), log.String())
}

// Kill ends the server at once, as a crash does.
func (s *Server) Kill() {
	if s.cmd.Process.Kill() == nil {
		_ = s.cmd.Wait()
	}
}

// Hang stops the process; its connections stay open and nobody answers.
func (s *Server) Hang() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends Hang.
func (s *Server) Continue() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Close ends the server and removes its folder.
func (s *Server) Close() {
	s.Kill()
	os.RemoveAll(s.dir)
}
