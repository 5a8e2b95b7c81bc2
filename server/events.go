package server

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// keepAlive is the silence after which a stream sends a comment, so that
// proxies do not take it for dead.
const keepAlive = 15 * time.Second

// Events writes server-sent events. It belongs to one goroutine.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte

	last time.Time // of the latest write
	// wait is the request's context with the deadline of the next comment. It lives until that deadline or the
	// request's end. It is a field and no parameter because Await uses one for many events: see timeout.
	wait context.Context
	stop context.CancelFunc
}

// StartEvents sends the header of an event stream, with what w.Header holds
// already.
func StartEvents(w http.ResponseWriter) (*Events, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	e := &Events{w: w, control: http.NewResponseController(w), last: time.Now()}
	w.WriteHeader(http.StatusOK)
	return e, e.control.Flush()
}

// Data sends one event and flushes it; json must be a single line. It returns
// an error when the client left or does not read.
func (e *Events) Data(json []byte) error {
	e.buf = append(append(append(e.buf[:0], "data: "...), json...), "\n\n"...)
	return e.send(e.buf)
}

// Named is Data for an event with a name.
func (e *Events) Named(name string, json []byte) error {
	e.buf = append(append(append(append(e.buf[:0], "event: "...), name...), "\ndata: "...), json...)
	e.buf = append(e.buf, "\n\n"...)
	return e.send(e.buf)
}

func (e *Events) send(b []byte) error {
	e.last = time.Now()
	if _, err := e.w.Write(b); err != nil {
		return err
	}
	return e.control.Flush()
}

// Await returns what next returns, and sends a comment each time that it takes
// too long. next must return its context's error when that ends, and lose
// nothing by it. The ctx of all calls is the same.
func Await[T any](ctx context.Context, e *Events, next func(context.Context) (T, error)) (T, error) {
	for {
		v, err := next(e.timeout(ctx))
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return v, err
		}
		if time.Since(e.last) < keepAlive {
			continue // there were events since the wait began
		}
		if err := e.send([]byte(":\n\n")); err != nil {
			return v, err
		}
	}
}

// timeout returns a context that ends no later than keepAlive after the latest
// write. It serves many waits, because making one costs as much as a tenth of
// an event; the last of them ends with ctx.
func (e *Events) timeout(ctx context.Context) context.Context {
	if e.wait == nil || e.wait.Err() != nil {
		if e.stop != nil {
			e.stop()
		}
		e.wait, e.stop = context.WithTimeout(ctx, keepAlive-time.Since(e.last))
	}
	return e.wait
}
