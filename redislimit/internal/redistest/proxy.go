package redistest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A Proxy stands between a client and a server, and does what a bad network does.
type Proxy struct {
	Addr     string
	target   string
	listener net.Listener

	cuts    atomic.Int64 // answers that are still to be cut
	mu      sync.Mutex
	clients []net.Conn
}

// StartProxy starts a proxy to the server at target. Close ends it.
func StartProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listener: l}
	go p.accept()
	return p, nil
}

// Cut makes the proxy close a connection where the server's answer would come, so many
// times, so that the client cannot know whether its command was carried out.
func (p *Proxy) Cut(answers int) { p.cuts.Store(int64(answers)) }

// Close ends the proxy and all connections through it.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.clients = append(p.clients, client, server)
		p.mu.Unlock()
		go func() {
			_, _ = io.Copy(server, client)
			server.Close()
		}()
		go p.answer(client, server)
	}
}

// answer passes on what the server says.
func (p *Proxy) answer(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || p.cuts.Load() > 0 && p.cuts.Add(-1) >= 0 {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
