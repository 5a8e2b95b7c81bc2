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

// ErrTooManyConnections: there are as many connections as there may be.
var ErrTooManyConnections = errors.New("too many connections")

// refusalLogInterval is the time between two lines of the log about a full listener.
const refusalLogInterval = time.Minute

// limitedListener bounds the number of connections, in total and per address. When it
// is full, a new connection replaces the one that has been idle longest at the address
// with the most connections; if none is idle, the new one is refused.
type limitedListener struct {
	net.Listener
	most, each int
	// plain says that a refusal can be written: TLS does not begin with one.
	plain bool
	log   *slog.Logger

	mu     sync.Mutex
	all    map[*limitedConn]struct{}
	of     map[string]int // connections of each address
	warned time.Time
}

// limitedConn is one connection.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	from     string
	// The listener's lock guards the rest. The connection is idle from since on.
	idle  bool
	since time.Time
}

// limit returns l with the bounds of c.
func limit(l net.Listener, c config.Server, log *slog.Logger) *limitedListener {
	return &limitedListener{
		Listener: l, most: c.MaxConnections, each: c.PerAddress(), plain: c.TLSCert == "", log: log,
		all: map[*limitedConn]struct{}{}, of: map[string]int{},
	}
}

// Accept implements net.Listener.
func (c *limitedListener) Accept() (net.Conn, error) {
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

// enter admits conn, or returns nil.
func (c *limitedListener) enter(conn net.Conn) *limitedConn {
	from := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	g := &limitedConn{Conn: conn, listener: c, from: from, idle: true, since: time.Now()}
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

// idlest returns the connection to close: of the address, or for "" of the one that
// has most.
func (c *limitedListener) idlest(from string) *limitedConn {
	var best *limitedConn
	for g := range c.all {
		if !g.idle || from != "" && g.from != from {
			continue
		}
		if best == nil || c.of[g.from] > c.of[best.from] || c.of[g.from] == c.of[best.from] &&
			g.since.Before(best.since) {
			best = g
		}
	}
	return best
}

// forget counts g no more.
func (c *limitedListener) forget(g *limitedConn) {
	if _, there := c.all[g]; !there {
		return
	}
	delete(c.all, g)
	if c.of[g.from]--; c.of[g.from] == 0 {
		delete(c.of, g.from)
	}
}

// refuse says why to a connection and closes it.
func (c *limitedListener) refuse(conn net.Conn) {
	c.mu.Lock()
	warn := time.Since(c.warned) >= refusalLogInterval
	if warn {
		c.warned = time.Now()
	}
	c.mu.Unlock()
	if warn {
		c.log.Warn("connection refused: limit reached (server.max_connections, server.max_connections_per_address)",
			"address", c.Addr().String(), "from", conn.RemoteAddr().String())
	}
	if c.plain {
		body := AppendError(nil, ErrTooManyConnections)
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // it fits into the buffer of a new connection
		_, _ = conn.Write(append([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"), body...))
	}
	_ = conn.Close()
}

// Close implements net.Conn.
func (g *limitedConn) Close() error {
	g.listener.mu.Lock()
	g.listener.forget(g)
	g.listener.mu.Unlock()
	return g.Conn.Close()
}

// noteState is http.Server.ConnState: it tells the listener which connections are idle.
func noteState(conn net.Conn, state http.ConnState) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	g, ok := conn.(*limitedConn)
	if !ok {
		return
	}
	g.listener.mu.Lock()
	defer g.listener.mu.Unlock()
	g.idle, g.since = state == http.StateNew || state == http.StateIdle, time.Now()
}
