package main

import (
	"bufio"
	"bytes"
	"io"
)

// events reads a stream of server-sent events.
type events struct{ s *bufio.Scanner }

func newEvents(r io.Reader) *events { return &events{bufio.NewScanner(r)} }

// next returns the data of the next event, or io.EOF.
func (e *events) next() ([]byte, error) {
	for e.s.Scan() {
		if data, ok := bytes.CutPrefix(e.s.Bytes(), []byte("data:")); ok {
			return bytes.TrimPrefix(data, []byte(" ")), nil
		}
	}
	if err := e.s.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}
