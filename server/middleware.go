package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tgi/server/generate"
	"tgi/server/record"
)

// reply wraps a response: it counts bytes and sets a deadline for every write, so
// that a client that does not read is noticed, however long the reply takes. Waits for
// a slow reader add up: each timeoutPart of the reply may take as long as one write.
type reply struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	waited  time.Duration // in writes
	flushed bool
	status  int
	bytes   int64
	kept    *record.Exchange  // nil where it is not recorded
	begins  func(http.Header) // called before the header is sent; nil is nothing
}

const timeoutPart = 1 << 20

func (w *reply) WriteHeader(status int) {
	if w.status == 0 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *reply) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	began := w.extendWriteDeadline()
	n, err := w.ResponseWriter.Write(b)
	if w.kept != nil {
		w.kept.Sent(b[:n])
	}
	w.waited += time.Since(began)
	w.bytes += int64(n)
	return n, err
}

// begin notes the status and completes the header.
func (w *reply) begin(status int) {
	w.status = status
	if w.begins != nil {
		w.begins(w.Header())
	}
}

// FlushError is what http.ResponseController.Flush calls.
func (w *reply) FlushError() error {
	w.flushed = true
	began := w.extendWriteDeadline()
	err := w.control.Flush()
	w.waited += time.Since(began)
	return err
}

// Unwrap is for http.ResponseController.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// statusOf returns the status that w was given, 0 before.
func statusOf(w http.ResponseWriter) int {
	if w, ok := w.(*reply); ok {
		return w.status
	}
	return 0
}

// extendWriteDeadline sets the deadline of the next write and returns the current time.
// Where deadlines are not supported, no connection can block.
func (w *reply) extendWriteDeadline() time.Time {
	now := time.Now()
	left := w.timeout*time.Duration(1+w.bytes/timeoutPart) - w.waited
	_ = w.control.SetWriteDeadline(now.Add(min(w.timeout, left)))
	return now
}

// requestLog is what the log line of a request adds to status and size.
type requestLog struct {
	id      string
	key     string // name of the key that let it in
	traceID string // its trace's id, if it has one
	trace   requestTrace
	err     error
	// What it counts for: see cost. waited is in nanoseconds, for its body and for its turns.
	open, probe, computed bool
	waited                atomic.Int64
}

// client is the name of the client of r, as Client gives it behind the key.
func (v *requestLog) client(r *http.Request) string {
	if v.key != "" && lineOf(r.Context()) == nil {
		return ClientOfKey(v.key)
	}
	return Client(fromAddress(r).Context()).Name
}

// wait adds to what the request waited.
func (v *requestLog) wait(d time.Duration) { v.waited.Add(int64(d)) }

type requestLogKey struct{}

// logOf returns that of the request of ctx; nil where it has no line.
func logOf(ctx context.Context) *requestLog {
	v, _ := ctx.Value(requestLogKey{}).(*requestLog)
	return v
}

// Note records err for the log line of the request of ctx. Handlers call it for errors
// that they reported themselves.
func Note(ctx context.Context, err error) {
	if v := logOf(ctx); v != nil {
		v.err = err
	}
}

// noteKey keeps the name of the key that the request of ctx carried.
func noteKey(ctx context.Context, key string) {
	if v := logOf(ctx); v != nil {
		v.key = key
	}
}

// log writes a line per request: probes at debug, server errors as errors. Then it may hold the reply back, and reads
// on what a refused client still sends.
func (s *Server) log(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		v := &requestLog{}
		out := &reply{ResponseWriter: w, control: http.NewResponseController(w),
			timeout: time.Duration(s.options.Config.WriteTimeout)}
		inner := r.WithContext(context.WithValue(r.Context(), requestLogKey{}, v))
		body := &begunBody{ReadCloser: r.Body}
		inner.Body = body
		returned := false
		defer func() { // of one that was broken off too
			s.line(r, out, v, began)
			s.hold(v.account(r), v.cost(out, time.Since(began)))
			if returned {
				s.discard(r, body, out, v.account(r))
			}
		}()
		next.ServeHTTP(out, inner)
		returned = true
	})
}

// line writes the line of a request.
func (s *Server) line(r *http.Request, out *reply, v *requestLog, began time.Time) {
	level := slog.LevelInfo
	switch {
	case out.status >= 500 && out.status != http.StatusServiceUnavailable:
		level = slog.LevelError
	case r.Method == http.MethodGet && out.status < 400:
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", out.status),
		slog.Int64("bytes", out.bytes), slog.Float64("seconds", time.Since(began).Seconds()), slog.String("request_id",
			v.id),
	}
	if v.key != "" {
		attrs = append(attrs, slog.String("key", v.key))
	}
	if v.traceID != "" {
		attrs = append(attrs, slog.String("trace_id", v.traceID))
	}
	if err := v.err; err != nil {
		if c := (*generate.Concealed)(nil); errors.As(err, &c) {
			err = c.Cause
		}
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.options.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

// maxRequestID bounds the ids that clients may choose.
const maxRequestID = 128

// identify gives the request an id: the client's own if it is short and printable.
func (s *Server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if id == "" || len(id) > maxRequestID || !printable(id) {
			var b [16]byte
			_, _ = rand.Read(b[:]) // never fails
			id = hex.EncodeToString(b[:])
		}
		w.Header().Set("X-Request-Id", id)
		if v := logOf(r.Context()); v != nil {
			v.id = id
		}
		next.ServeHTTP(w, r)
	})
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// recoverPanics turns a panic into a 500, or aborts the connection if a part of the
// reply was already sent.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.options.Log.Error("BUG: a handler panicked", "panic", p, "path", r.URL.Path, "stack",
				string(debug.Stack()))
			err := fmt.Errorf("%w: %v", ErrPanic, p)
			Note(r.Context(), err)
			if out, ok := w.(*reply); ok && out.status != 0 {
				panic(http.ErrAbortHandler)
			}
			WriteError(w, err)
		}()
		next.ServeHTTP(w, r)
	})
}

// allowedHeaders are what pages may send. The star covers headers that client
// libraries add, but never Authorization, which must be named (Fetch standard,
// section 4.9).
const allowedHeaders = "authorization,content-type,*"

// crossOrigin allows pages of the configured origins, or of all if none is configured.
// Routes below AdminPath are never for pages; other Admin routes are for pages of
// configured origins, see foreign.
func (s *Server) crossOrigin(next http.Handler) http.Handler {
	origins := s.options.Config.CORSAllowOrigin
	methods := "GET,POST"
	if len(origins) > 0 {
		methods = "GET,POST,PUT,DELETE"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, AdminPath) {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		switch origin := r.Header.Get("Origin"); {
		case len(origins) == 0:
			h.Set("Access-Control-Allow-Origin", "*")
		default:
			h.Add("Vary", "Origin")
			if slices.Contains(origins, origin) {
				h.Set("Access-Control-Allow-Origin", origin)
			}
		}
		h.Set("Access-Control-Expose-Headers", "*")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Methods", methods)
			h.Set("Access-Control-Allow-Headers", allowedHeaders)
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusOK)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// maxFields is how many fields a header may have: each takes many times its own
// size in memory.
const maxFields = 100

// checkProtocol refuses requests that no route should see. After a chunked body the
// connection is closed: if such a request also names a length, a proxy in front may
// have seen a different end of it.
func checkProtocol(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			fields += len(values)
		}
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		var err error
		switch {
		case r.Method == "PRI": // the first line of a client that takes HTTP/2 for granted
			err = ErrProtocol
		case fields > maxFields:
			err = fmt.Errorf("%w: %d fields, at most %d", ErrHeader, fields, maxFields)
		}
		if err != nil {
			Note(r.Context(), err)
			w.Header().Set("Connection", "close")
			WriteError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
