package server

import (
	"net/http"
	"unicode/utf8"

	"tgi/server/wire"
)

// longPart is how much of a long reply is collected before it is sent.
const longPart = 32 << 10

// Long is a JSON reply with status 200 that is sent as it is made, so that no more
// than a part of it is ever held. A short one has a length, as WriteJSON's.
type Long struct {
	w   http.ResponseWriter
	buf []byte
	// sent says that a part is out, and with it the status.
	sent bool
	err  error
}

// NewLong returns a reply to w that holds nothing yet.
func NewLong(w http.ResponseWriter) *Long { return &Long{w: w} }

// Append adds what add appends, unless the client left or does not read.
func (l *Long) Append(add func([]byte) []byte) {
	if l.err != nil {
		return
	}
	if l.buf = add(l.buf); len(l.buf) >= longPart {
		l.flush()
	}
}

// Text adds s as it is.
func (l *Long) Text(s string) { l.Append(func(b []byte) []byte { return append(b, s...) }) }

// String adds s as a JSON string.
func (l *Long) String(s string) {
	l.Text(`"`)
	for s != "" {
		n := min(len(s), longPart/8)
		for k := n; k > n-utf8.UTFMax && k < len(s); k-- {
			if utf8.RuneStart(s[k]) {
				n = k
				break
			}
		}
		part := s[:n]
		s = s[n:]
		l.Append(func(b []byte) []byte {
			at := len(b)
			b = wire.AppendString(b, part)
			return append(b[:at], b[at+1:len(b)-1]...) // without its quotes
		})
	}
	l.Text(`"`)
}

// Err returns why what is added is in vain, nil while it is not.
func (l *Long) Err() error { return l.err }

func (l *Long) flush() {
	if !l.sent {
		l.sent = true
		l.w.Header().Set("Content-Type", "application/json")
		l.w.WriteHeader(http.StatusOK)
	}
	_, l.err = l.w.Write(l.buf)
	l.buf = l.buf[:0]
}

// Close sends the rest.
func (l *Long) Close() error {
	switch {
	case l.err != nil:
	case l.sent:
		l.flush()
	default:
		WriteJSON(l.w, l.buf)
	}
	return l.err
}

// Fail ends the reply with err. When nothing is out it returns err, for a reply
// that says so; otherwise it breaks the connection off, so that no client takes the
// part for the whole.
func (l *Long) Fail(r *http.Request, err error) error {
	if !l.sent {
		return err
	}
	Note(r.Context(), err)
	panic(http.ErrAbortHandler)
}
