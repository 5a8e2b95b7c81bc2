package server

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"tgi/server/config"
)

// ErrCrowd: there are as many connections as there may be.
var ErrCrowd = errors.New("too many connections")

// crowdQuiet is the time between two lines of the log about a full listener.
const crowdQuiet = time.Minute

// crowd is a listener with a bounded number of connections, in all and of each
// address. When it is full, a new one takes the place of the one that has waited
// longest without a request, at the address that has most; when none waits, the new
// one is refused.
type crowd struct {
	net.Listener
	most, each int
	// talks says that a refusal can be written: TLS does not begin with one.
	talks bool
	log   *slog.Logger

	mu     sync.Mutex
	all    map[*guest]struct{}
	of     map[string]int // guests of each address
	warned time.Time
}

// guest is one connection.
type guest struct {
	net.Conn
	crowd *crowd
	from  string
	// The crowd's lock guards the rest. A guest waits from since on.
	waits bool
	since time.Time
}

// bound returns l with the bounds of c.
func bound(l net.Listener, c config.Server, log *slog.Logger) *crowd {
	return &crowd{
		Listener: l, most: c.MaxConnections, each: c.PerAddress(), talks: c.TLSCert == "", log: log,
		all: map[*guest]struct{}{}, of: map[string]int{},
	}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g := c.enter(conn); g != nil {
			return g, nil
		}
		c.refuse(conn)
	}
}

// enter makes conn a guest, or returns nil.
func (c *crowd) enter(conn net.Conn) *guest {
	from := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	g := &guest{Conn: conn, crowd: c, from: from, waits: true, since: time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	full := ""
	if c.of[from] >= c.each {
		full = from
	}
	if full != "" || len(c.all) >= c.most {
		leaves := c.idlest(full)
		if leaves == nil {
			return nil
		}
		c.forget(leaves)
		_ = leaves.Conn.Close()
	}
	c.all[g] = struct{}{}
	c.of[from]++
	return g
}

// idlest returns the guest to part with: of the address, or for "" of the one that
// has most guests.
func (c *crowd) idlest(from string) *guest {
	var best *guest
	for g := range c.all {
		if !g.waits || from != "" && g.from != from {
			continue
		}
		if best == nil || c.of[g.from] > c.of[best.from] || c.of[g.from] == c.of[best.from] && g.since.Before(best.since) {
			best = g
		}
	}
	return best
}

// forget takes g out of the books.
func (c *crowd) forget(g *guest) {
	if _, there := c.all[g]; !there {
		return
	}
	delete(c.all, g)
	if c.of[g.from]--; c.of[g.from] == 0 {
		delete(c.of, g.from)
	}
}

// refuse says why to a connection and closes it.
func (c *crowd) refuse(conn net.Conn) {
	c.mu.Lock()
	warn := time.Since(c.warned) >= crowdQuiet
	if warn {
		c.warned = time.Now()
	}
	c.mu.Unlock()
	if warn {
		c.log.Warn("a connection was refused: there are too many (server.max_connections, server.max_connections_per_address)",
			"address", c.Addr().String(), "from", conn.RemoteAddr().String())
	}
	if c.talks {
		body := AppendError(nil, ErrCrowd)
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // it fits into the buffer of a new connection
		_, _ = conn.Write(append([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"), body...))
	}
	_ = conn.Close()
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.crowd.mu.Lock()
	g.crowd.forget(g)
	g.crowd.mu.Unlock()
	return g.Conn.Close()
}

// noteState is http.Server.ConnState: it tells the crowd who waits.
func noteState(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	g, ok := conn.(*guest)
	if !ok {
		return
	}
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.waits, g.since = state == http.StateNew || state == http.StateIdle, time.Now()
}
