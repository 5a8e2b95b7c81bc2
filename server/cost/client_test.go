package cost

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
)

// client sends the same request again and again on one connection. It does
// little with what comes back, so that the figures are the server's.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
}

func dial(address, path, body string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	head := "POST %s HTTP/1.1\r\nHost: cost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	return &client{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), request: fmt.Appendf(nil, head, path, len(body),
		body)}, nil
}

// send sends the request and reads the header of the reply.
func (c *client) send() error {
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	status, err := c.in.ReadString('\n')
	if err != nil || !strings.Contains(status, " 200 ") {
		return fmt.Errorf("%q: %w", status, err)
	}
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil || len(line) == 2 {
			return err
		}
	}
}

// event reads up to the end of the next event, and reports whether there was
// one: a stream is over with the chunk of length 0.
func (c *client) event() (bool, error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if bytes.HasPrefix(line, []byte("data:")) {
			return true, nil
		}
		if string(line) == "0\r\n" {
			_, err := c.in.Discard(2)
			return false, err
		}
	}
}

// stream makes the request and returns the events of the reply.
func (c *client) stream() (events int, err error) {
	if err := c.send(); err != nil {
		return 0, err
	}
	for {
		more, err := c.event()
		if err != nil || !more {
			return events, err
		}
		events++
	}
}
