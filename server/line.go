package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"tgi/runtime/llm"
)

// OwnerOf returns whose files, batches and responses the client of r has: it stands for the key of the settings that r
// was admitted with, and tells nothing of it. All requests without one share theirs, whatever token they show: bounds
// of an owner would bind nobody who makes up tokens.
func OwnerOf(r *http.Request) string {
	if k, ok := r.Context().Value(keyKey{}).(*key); ok {
		return k.owner
	}
	return ownerOf("")
}

func ownerOf(token string) string {
	sum := sha256.Sum256([]byte("tgi batches\x00" + token))
	return hex.EncodeToString(sum[:])
}

// line is what the context of a request of a batch has.
type line struct {
	owner string
	key   *key // nil without keys
}

type lineKey struct{}

// lineOf returns the line that the request of ctx is, nil for other requests.
func lineOf(ctx context.Context) *line {
	l, _ := ctx.Value(lineKey{}).(*line)
	return l
}

// LineReply is the reply to a line of a batch.
type LineReply struct {
	Status int
	Header http.Header
	Body   []byte
}

// RetryAfter returns when the reply says to ask again, 0 if it does not.
func (r *LineReply) RetryAfter() time.Duration {
	n, _ := strconv.Atoi(r.Header.Get("Retry-After"))
	return time.Duration(n) * time.Second
}

// Line serves a line of a batch of an owner as if its client had sent it, but beneath all other requests: with the
// key's models and tokens, without its bounds of requests. A body of more than most bytes is cut. Errors are
// llm.ErrDraining, ErrWrongKey for an owner without a key, ErrScope, and those of ctx.
func (s *Server) Line(ctx context.Context, owner, path string, body []byte, most int) (*LineReply, error) {
	l := &line{owner: owner}
	for i := range s.keys.all {
		if s.keys.all[i].owner == owner {
			l.key = &s.keys.all[i]
		}
	}
	switch {
	case s.gate.draining():
		return nil, llm.ErrDraining
	case s.keys.users && l.key == nil:
		return nil, ErrWrongKey
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, lineKey{}, l))
	defer cancel(nil)
	go func() { // it can run again, so that nobody waits for it
		select {
		case <-s.gate.closing:
			cancel(llm.ErrDraining)
		case <-ctx.Done():
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-TGI-Dialect", "tgi-3") // OpenAI's shapes
	w := &lineWriter{header: http.Header{}, most: most}
	serveLine(s, w, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &LineReply{w.status, w.header, w.body}, nil
}

// serveLine serves a line. A reply that would be cut off for a client is a 500 without a body.
func serveLine(s *Server, w *lineWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			w.status, w.body = http.StatusInternalServerError, nil
		}
	}()
	s.ServeHTTP(w, r)
}

// lineWriter keeps a reply.
type lineWriter struct {
	header http.Header
	status int
	body   []byte
	most   int
}

// Header implements http.ResponseWriter.
func (w *lineWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *lineWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b[:min(len(b), max(0, w.most-len(w.body)))]...)
	return len(b), nil
}
