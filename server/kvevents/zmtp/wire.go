// Package zmtp serves two sockets of ZeroMQ over TCP, as much of ZMTP 3.0 as they need: a publisher (PUB) whose
// subscribers each have a bounded queue, and a socket that answers requests with any number of messages (ROUTER). The
// mechanism is NULL: peers are not asked who they are.
//
// Peers are not trusted: how long they may take to say hello or to end a message, how much they may send and how many
// there may be is bounded; where there are too many, one that wants nothing makes room. Nobody waits for a subscriber.
package zmtp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	flagMore, flagLong, flagCommand = 1, 2, 4

	greetingLen = 64
	// What a peer may send: the parts of a message, and the bytes of all. Topics and sequence numbers are short.
	maxParts, maxMessage = 8, 4 << 10
)

// greeting is what both sides send first: signature, version 3.0, mechanism.
func greeting() []byte {
	g := make([]byte, greetingLen)
	g[0], g[9], g[10] = 0xff, 0x7f, 3
	copy(g[12:], "NULL")
	return g
}

// readGreeting reads and checks that of a peer.
func readGreeting(r io.Reader) error {
	g := make([]byte, greetingLen)
	if _, err := io.ReadFull(r, g); err != nil {
		return fmt.Errorf("zmtp: greeting: %w", err)
	}
	switch mechanism := string(bytes.TrimRight(g[12:32], "\x00")); {
	case g[0] != 0xff || g[9] != 0x7f:
		return fmt.Errorf("zmtp: the peer does not speak ZMTP: it begins with %x", g[:10])
	case g[10] < 3:
		return fmt.Errorf("zmtp: version must be at least 3, given %d", g[10])
	case mechanism != "NULL":
		return fmt.Errorf("zmtp: mechanism must be NULL, given %q", mechanism)
	}
	return nil
}

// appendFrame appends one frame.
func appendFrame(to []byte, flags byte, body []byte) []byte {
	if len(body) < 256 {
		to = append(to, flags, byte(len(body)))
	} else {
		to = binary.BigEndian.AppendUint64(append(to, flags|flagLong), uint64(len(body)))
	}
	return append(to, body...)
}

// appendMessage appends a message of these parts.
func appendMessage(to []byte, parts ...[]byte) []byte {
	for i, p := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		to = appendFrame(to, flags, p)
	}
	return to
}

// appendCommand appends a command.
func appendCommand(to []byte, name string, data []byte) []byte {
	return appendFrame(to, flagCommand, append(append([]byte{byte(len(name))}, name...), data...))
}

// message is what a peer sent: the parts of a message, or a command with its data as the only part.
type message struct {
	command string // "" is a message
	parts   [][]byte
}

// readMessage reads what a peer sends next. A frame that is too long is refused before there is memory for it.
func readMessage(r *bufio.Reader) (m message, err error) {
	left := maxMessage
	for {
		flags, err := r.ReadByte()
		if err != nil {
			return m, err
		}
		if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
			return m, fmt.Errorf("zmtp: the flags of a frame are %#x", flags)
		}
		body, err := readBody(r, flags&flagLong != 0, left)
		if err != nil {
			return m, err
		}
		if left -= len(body); flags&flagCommand != 0 {
			if len(m.parts) > 0 {
				return m, fmt.Errorf("zmtp: a command is between the parts of a message")
			}
			m.command, body, err = splitName(body)
			m.parts = [][]byte{body}
			return m, err
		}
		if m.parts = append(m.parts, body); flags&flagMore == 0 {
			return m, nil
		}
		if len(m.parts) == maxParts {
			return m, fmt.Errorf("zmtp: a message must have at most %d parts, given more", maxParts)
		}
	}
}

func readBody(r *bufio.Reader, long bool, left int) ([]byte, error) {
	head := make([]byte, 8)
	var err error
	if long {
		_, err = io.ReadFull(r, head)
	} else {
		head[7], err = r.ReadByte()
	}
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint64(head)
	if n > uint64(left) {
		return nil, fmt.Errorf("zmtp: a message must have at most %d bytes, given %d and more", maxMessage, n)
	}
	body := make([]byte, n)
	_, err = io.ReadFull(r, body)
	return body, err
}

// splitName takes a name, after its length, from the beginning of b. It must not be empty.
func splitName(b []byte) (name string, rest []byte, err error) {
	if len(b) == 0 || b[0] == 0 || int(b[0]) >= len(b) {
		return "", nil, fmt.Errorf("zmtp: a name is missing in %.32q", b)
	}
	return string(b[1 : 1+b[0]]), b[1+int(b[0]):], nil
}

// ready is the data of a READY command of a socket.
func ready(socketType string) []byte {
	b := append([]byte{11}, "Socket-Type"...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(socketType))), socketType...)
}

// peerType reads the socket type out of the data of a peer's READY.
func peerType(b []byte) (kind string, err error) {
	for len(b) > 0 {
		var name string
		if name, b, err = splitName(b); err != nil {
			return "", err
		}
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return "", fmt.Errorf("zmtp: property %.32q of the peer has no value", name)
		}
		n := int(binary.BigEndian.Uint32(b))
		if bytes.EqualFold([]byte(name), []byte("Socket-Type")) {
			kind = string(b[4 : 4+n])
		}
		b = b[4+n:]
	}
	return kind, nil
}
