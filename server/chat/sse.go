package chat

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one event of a stream, in bytes.
const maxEvent = 4 << 20

// events reads the data of server-sent events (WHATWG HTML, 9.2). Comments and
// fields other than data are passed over.
type events struct {
	lines *bufio.Scanner
	data  []byte
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxEvent)
	return &events{lines: lines}
}

// next returns the data of the next event, which lives until the following
// call. At the end of the stream it is io.EOF; an event that the end cuts short
// is dropped, as the standard says.
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
			return nil, errLongEvent
		}
	}
	switch err := e.lines.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, errLongEvent
	default:
		return nil, err
	}
}

var errLongEvent = fmt.Errorf("%w: an event is longer than %d MiB", ErrMalformed, maxEvent>>20)
