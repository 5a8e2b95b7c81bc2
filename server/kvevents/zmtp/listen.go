package zmtp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// helloTime bounds how long a peer may take to connect, messageTime how long to send a message that it began,
	// writeTime how long to accept a write.
	helloTime   = 5 * time.Second
	messageTime = 5 * time.Second
	writeTime   = 10 * time.Second
	// writePart is what one write has at most, so that a slow peer is told from one that does not read.
	writePart = 1 << 20
)

// listener accepts peers of a socket. The zero value has none.
type listener struct {
	peers int // at most
	mu    sync.Mutex
	in    net.Listener
	conns map[net.Conn]uint64 // since which turn a peer wants nothing, 0 for one that does
	turns uint64
	all   sync.WaitGroup
	ended bool

	full, broken atomic.Int64
}

// Stats count the connections that a socket ended.
type Stats struct {
	// Full counts those that were one too many, Broken those of peers that did not keep to the protocol or were too
	// slow.
	Full, Broken int64
}

func (l *listener) stats() Stats { return Stats{l.full.Load(), l.broken.Load()} }

// listen accepts peers at an address until close, and serves each in a goroutine of its own.
func (l *listener) listen(address string, serve func(net.Conn) error) error {
	in, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	l.in, l.conns = in, map[net.Conn]uint64{}
	l.all.Go(func() {
		for {
			c, err := in.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // such as too many open files, which pass
				time.Sleep(50 * time.Millisecond)
				continue
			}
			if !l.add(c) { // all want something, or it is over
				l.full.Add(1)
				c.Close()
				continue
			}
			l.all.Go(func() {
				defer l.remove(c)
				// A peer that breaks the protocol loses its connection and tries again.
				if err := serve(c); !left(err) {
					l.broken.Add(1)
				}
			})
		}
	})
	return nil
}

// left reports whether a connection ended since one of both sides wanted it.
func left(err error) bool {
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// add takes a peer. Where there are too many, the one that has wanted nothing for longest makes room: who connects once
// and says nothing keeps nobody out; a stream of connects still does, of peers that have not said yet what they want.
func (l *listener) add(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	if len(l.conns) >= l.peers {
		var oldest net.Conn
		for other, since := range l.conns {
			if since > 0 && (oldest == nil || since < l.conns[oldest]) {
				oldest = other
			}
		}
		if oldest == nil {
			return false
		}
		l.full.Add(1)
		delete(l.conns, oldest)
		oldest.Close() // which ends what serves it
	}
	l.turns++
	l.conns[c] = l.turns
	return true
}

// wants notes whether a peer wants something: messages, or an answer.
func (l *listener) wants(c net.Conn, something bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch since, ok := l.conns[c]; {
	case !ok: // it made room
	case something:
		l.conns[c] = 0
	case since == 0:
		l.turns++
		l.conns[c] = l.turns
	}
}

func (l *listener) remove(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// close ends all connections and waits for what serves them.
func (l *listener) close() error {
	err := l.in.Close()
	l.mu.Lock()
	l.ended = true
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.all.Wait()
	return err
}

// hello greets a peer, which must be of one of the kinds.
func hello(c net.Conn, own string, kinds ...string) (*bufio.Reader, error) {
	if err := c.SetDeadline(time.Now().Add(helloTime)); err != nil {
		return nil, err
	}
	if _, err := c.Write(greeting()); err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(c, 512)
	if err := readGreeting(r); err != nil {
		return nil, err
	}
	if _, err := c.Write(appendCommand(nil, "READY", ready(own))); err != nil {
		return nil, err
	}
	m, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	if m.command != "READY" {
		return nil, fmt.Errorf("zmtp: the peer must say READY first, given %.32q", m.command)
	}
	kind, err := peerType(m.parts[0])
	if err != nil {
		return nil, err
	}
	if !slices.Contains(kinds, kind) {
		return nil, fmt.Errorf("zmtp: socket types of peers are %v, given %.32q", kinds, kind)
	}
	return r, c.SetDeadline(time.Time{})
}

// next waits for a peer's next message, as long as it takes; one that has begun must end soon.
func next(c net.Conn, r *bufio.Reader) (message, error) {
	if _, err := r.Peek(1); err != nil {
		return message{}, err
	}
	if err := c.SetReadDeadline(time.Now().Add(messageTime)); err != nil {
		return message{}, err
	}
	m, err := readMessage(r)
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	return m, err
}

// write sends bytes to a peer that reads.
func write(c net.Conn, b []byte) error {
	for len(b) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return err
		}
		n, err := c.Write(b[:min(len(b), writePart)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// pong is the answer to a PING, with its context; nil if it is none.
func pong(m message) []byte {
	if m.command != "PING" || len(m.parts[0]) < 2 {
		return nil
	}
	return appendCommand(nil, "PONG", m.parts[0][2:min(len(m.parts[0]), 18)])
}

// Router answers requests.
type Router struct{ listener }

// NewRouter listens for at most so many peers. Answer gets a request's parts, without the empty part before them, and
// sends messages by reply, whose error ends the connection.
func NewRouter(address string, peers int, answer func(request [][]byte, reply func(parts ...[]byte) error) error) (
	*Router, error) {
	r := &Router{listener{peers: peers}}
	return r, r.listen(address, func(c net.Conn) error {
		in, err := hello(c, "ROUTER", "REQ", "DEALER", "ROUTER")
		for err == nil {
			var m message
			if m, err = next(c, in); err != nil {
				break
			}
			r.wants(c, true)
			if b := pong(m); b != nil {
				err = write(c, b)
			} else if m.command == "" && len(m.parts) > 1 && len(m.parts[0]) == 0 {
				err = answer(m.parts[1:], func(parts ...[]byte) error {
					return write(c, appendMessage(nil, append([][]byte{nil}, parts...)...))
				})
			} else if m.command == "ERROR" {
				err = io.EOF
			}
			r.wants(c, false)
		}
		return err
	})
}

// Address is where peers connect.
func (r *Router) Address() net.Addr { return r.in.Addr() }

// Stats returns those of now.
func (r *Router) Stats() Stats { return r.stats() }

// Close ends all connections.
func (r *Router) Close() error { return r.close() }
