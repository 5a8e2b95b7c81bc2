// Package sse reads server-sent events (WHATWG HTML, section 9.2): what a client
// of this server's streams needs. Writing them is the business of package server.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxEvent bounds one event, in bytes.
const MaxEvent = 4 << 20

// ErrTooLong: an event is longer than MaxEvent.
var ErrTooLong = fmt.Errorf("an event is longer than %d MiB", MaxEvent>>20)

// Reader reads the data of events, the lines of one joined by newlines. Comments,
// which servers send to keep a connection alive, and fields other than data are
// passed over. It is used by one goroutine at a time.
type Reader struct {
	lines *bufio.Scanner
	data  []byte
}

// New returns a Reader of r.
func New(r io.Reader) *Reader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), MaxEvent)
	return &Reader{lines: lines}
}

// Next returns the data of the next event, which lives until the following
// call. At the end of the stream it is io.EOF; an event that the end cuts short
// is dropped, as the standard says. Other errors are ErrTooLong and the reader's.
func (r *Reader) Next() ([]byte, error) {
	r.data = r.data[:0]
	some := false
	for r.lines.Scan() { // which takes off "\n" and "\r\n"
		line := r.lines.Bytes()
		if len(line) == 0 {
			if some {
				return r.data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if some {
			r.data = append(r.data, '\n')
		}
		r.data, some = append(r.data, bytes.TrimPrefix(value, []byte(" "))...), true
		if len(r.data) > MaxEvent {
			return nil, ErrTooLong
		}
	}
	err := r.lines.Err()
	switch {
	case err == nil:
		err = io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		err = ErrTooLong
	}
	return nil, err
}
