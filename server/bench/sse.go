package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent bounds one line and one event of a stream, in bytes.
const maxEvent = 1 << 20

var errEventTooLong = errors.New("event longer than 1 MiB")

// events reads server-sent events (WHATWG HTML, 9.2): the data of each, its
// lines joined by newlines. Comments, which servers send to keep a connection
// alive, and fields other than data are passed over.
type events struct {
	lines *bufio.Scanner
	data  []byte
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	return &events{lines: lines}
}

// next returns the data of the next event. It is io.EOF at the end of the stream;
// an event that the end cuts short is dropped, as the standard says. The data
// ends with the following call.
func (e *events) next() ([]byte, error) {
	e.data = e.data[:0]
	some := false
	for e.lines.Scan() { // which takes off "\n" and "\r\n"
		line := e.lines.Bytes()
		if len(line) == 0 {
			if some {
				return e.data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if some {
			e.data = append(e.data, '\n')
		}
		e.data, some = append(e.data, bytes.TrimPrefix(value, []byte(" "))...), true
		if len(e.data) > maxEvent {
			return nil, errEventTooLong
		}
	}
	if err := e.lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = errEventTooLong
		}
		return nil, err
	}
	return nil, io.EOF
}
