package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	"tgi/server/generate"
	"tgi/server/wire"
)

// longBody is the length from which a body is read in a turn: what is shorter takes less than it takes to wait.
const longBody = 16 << 10

// ShareProcessors has long work for requests done in turns, so that the steps keep a core.
func (s *Server) ShareProcessors(t generate.Turns) { s.turns.Store(&t) }

// inTurn calls f, which waits for nothing, when a processor is free for the client of ctx.
func (s *Server) inTurn(ctx context.Context, f func()) error {
	t := s.turns.Load()
	if t == nil {
		f()
		return nil
	}
	return generate.InTurn(ctx, *t, Client(ctx).Name, f)
}

// Parse returns what read makes of the body of a request: of a long one when a processor is free for its client, and
// not while the client owes much, for requests that were refused or that it gave up: nobody knows of a body whether a
// model will compute it, and reading it is what costs. read waits for nothing. Errors are those of read, ctx's cause,
// and *generate.Overloaded.
func Parse[T any](ctx context.Context, body []byte, read func([]byte) (T, error)) (out T, err error) {
	s, ok := ctx.Value(stayKey{}).(*stay)
	if !ok || len(body) < longBody {
		return read(body)
	}
	turn := s.server.inTurn(ctx, func() { // those who come together may owe much when theirs comes
		if err = s.mayParse(); err == nil {
			out, err = read(body)
		}
	})
	if turn != nil {
		return out, turn
	}
	return out, err
}

// Decode is wire.Decode for the body of a request, see Parse.
func Decode(ctx context.Context, body []byte, read func(*wire.Reader) error) error {
	_, err := Parse(ctx, body, func(body []byte) (struct{}, error) { return struct{}{}, wire.Decode(body, read) })
	return err
}

// mayParse returns why a long body of the client is not read now, nil if it is.
func (s *stay) mayParse() error {
	return s.server.owing(s.account, fmt.Sprintf(", which bodies of %d bytes and more wait for", longBody))
}

// untoldBody is a body whose length nobody knows before its end. When it turns out to be long, its client may not owe
// much.
type untoldBody struct {
	io.ReadCloser
	stay *stay
	read int
}

// Read implements io.Reader. Its errors are also those of mayParse.
func (b *untoldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	before := b.read
	if b.read += n; before < longBody && b.read >= longBody {
		if refused := b.stay.mayParse(); refused != nil {
			return 0, refused
		}
	}
	return n, err
}

// serveMetrics serves /metrics. To collect them takes long beside a step, so that it is done in turn: those who come
// together may owe much when theirs comes.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	v := logOf(r.Context())
	kept := &keptReply{header: w.Header(), status: http.StatusOK}
	var refused error
	err := s.inTurn(r.Context(), func() {
		if refused = s.overdrawn(r, &Route{Scope: Open}, v); refused == nil {
			s.options.Metrics.serve(kept, r, s.keys.watches(r))
		}
	})
	if err = cmp.Or(err, refused); err != nil {
		return err
	}
	w.WriteHeader(kept.status)
	_, _ = w.Write(kept.body.Bytes()) // a client that left is nobody's problem
	return nil
}

// keptReply is a reply that is kept until it is whole.
type keptReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptReply) Header() http.Header         { return k.header }
func (k *keptReply) WriteHeader(status int)      { k.status = status }
func (k *keptReply) Write(b []byte) (int, error) { return k.body.Write(b) }
