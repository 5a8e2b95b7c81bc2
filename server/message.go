package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
)

// Connection is one that outlives requests, such as a WebSocket. Each message that comes on it is a request of its own:
// it is let in, bounded, charged to its client, counted and logged like any other. The request that opened it computes
// nothing: what a model is asked for in its context, and not in a message's, is refused as a bug.
type Connection struct {
	opened  *http.Request
	handler http.Handler
	abort   func()
	jobs    sync.WaitGroup
}

// NewConnection returns the connection that r opened, whose messages route is for, as requests with the method POST.
// What its handler writes, each time in one piece, are messages of the server. abort breaks the connection off when the
// handler panicked.
func NewConnection(r *http.Request, route Route, abort func()) *Connection {
	s := r.Context().Value(stayKey{}).(*stay).server
	c := &Connection{opened: r, abort: abort}
	before := logOf(r.Context())
	c.handler = s.log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := logOf(r.Context())
		if v.noteRoute(&route); before != nil {
			v.id, v.key = before.id, before.key
		}
		m := messageOf(r.Context())
		defer m.skip(v) // what is left of one that was refused, before its client is held back
		defer c.recover(s, r)
		s.visit(w, s.options.Tracer.begin(r, route.Path), &route)
	}))
	return c
}

// recover ends the connection when the handler of one of its messages panicked.
func (c *Connection) recover(s *Server, r *http.Request) {
	if p := recover(); p != nil {
		s.options.Log.Error("BUG: a handler panicked", "panic", p, "path", r.URL.Path, "stack", string(debug.Stack()))
		Note(r.Context(), fmt.Errorf("%w: %v", ErrPanic, p))
		c.abort()
	}
}

// Take begins to serve the message that body reads, and returns when the next one may come: when its handler has called
// Next, or when it has returned and the client was held back for it. The message is read to its end then, whatever the
// handler read of it. w sends the server's messages. The error is body's.
func (c *Connection) Take(ctx context.Context, w http.ResponseWriter, body io.Reader) error {
	m := &message{body: body, taken: make(chan struct{})}
	ctx = context.WithValue(ctx, requestLogKey{}, nil) // it has a line of its own
	r := c.opened.WithContext(context.WithValue(ctx, messageKey{}, m))
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(body), -1
	c.jobs.Go(func() {
		defer m.take()
		c.handler.ServeHTTP(w, r)
	})
	<-m.taken
	return m.err
}

// Wait waits until all messages have been served.
func (c *Connection) Wait() { c.jobs.Wait() }

// Next is called by the handler of the message of ctx that has read all of it: it goes on beside the next messages.
func Next(ctx context.Context) {
	m := messageOf(ctx)
	m.skip(logOf(ctx))
	m.take()
}

// message is one of a Connection.
type message struct {
	body          io.Reader
	read, counted sync.Once
	err           error         // of body
	taken         chan struct{} // closed when the next one may come
}

type messageKey struct{}

func messageOf(ctx context.Context) *message { return ctx.Value(messageKey{}).(*message) }

// skip reads what is left of the message.
func (m *message) skip(v *requestLog) {
	m.read.Do(func() { _, m.err = io.Copy(io.Discard, waitedBody{io.NopCloser(m.body), v}) })
}

// take lets the next message come.
func (m *message) take() { m.counted.Do(func() { close(m.taken) }) }
