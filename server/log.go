package server

import (
	"context"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"tgi/server/config"
)

// NewLog returns a log that writes to w: text for a terminal, a JSON object a
// line for anything else, unless c asks for one of them.
func NewLog(w io.Writer, c config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.Level}
	file, ok := w.(*os.File)
	terminal := ok && term.IsTerminal(int(file.Fd()))
	if c.Format == config.LogJSON || c.Format == config.LogAuto && !terminal {
		return slog.New(RequestLog(slog.NewJSONHandler(w, o)))
	}
	return slog.New(RequestLog(slog.NewTextHandler(w, o)))
}

// RequestLog adds to a line that is logged with a request's context, far from HTTP, the id of that request.
func RequestLog(next slog.Handler) slog.Handler { return requestIDHandler{next} }

// RequestID returns the id of the request of ctx, "" where it has none.
func RequestID(ctx context.Context) string {
	if v := logOf(ctx); v != nil {
		return v.id
	}
	return ""
}

type requestIDHandler struct{ slog.Handler }

// Handle implements slog.Handler. The line of the request itself comes from outside of its context.
func (l requestIDHandler) Handle(ctx context.Context, r slog.Record) error {
	if v := logOf(ctx); v != nil && v.id != "" {
		r.AddAttrs(slog.String("request_id", v.id))
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l requestIDHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestIDHandler{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l requestIDHandler) WithGroup(name string) slog.Handler {
	return requestIDHandler{l.Handler.WithGroup(name)}
}
