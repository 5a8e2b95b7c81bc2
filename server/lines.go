package server

import "net/http"

// Lines writes newline-delimited JSON. It belongs to one goroutine. Such a stream has no comments: nothing can be sent
// while nothing is said.
type Lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buf     []byte
	began   bool
}

// NewLines returns a stream to w. Its header goes out with the first line, together with what w.Header holds then.
func NewLines(w http.ResponseWriter) *Lines {
	return &Lines{w: w, control: http.NewResponseController(w)}
}

// Began reports whether a line is out, and with it the status.
func (l *Lines) Began() bool { return l.began }

// Send sends one line; json must be a single one. It returns an error when the client left or does not read.
func (l *Lines) Send(json []byte) error {
	if !l.began {
		l.began = true
		h := l.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		l.w.WriteHeader(http.StatusOK)
	}
	l.buf = append(append(l.buf[:0], json...), '\n')
	if _, err := l.w.Write(l.buf); err != nil {
		return err
	}
	return l.control.Flush()
}
