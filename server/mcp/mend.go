package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK reads a tool's result as a whole or not at all: one block of a type that it does not know, or whose data are
// no base64, would lose all others. So what servers send is mended on its way to the SDK.

// mending is a reader of a server's messages, each on a line of its own, also behind "data:" as in an event stream.
type mending struct {
	io.ReadCloser
	in    *bufio.Reader
	whole bool // all is one message, of several lines
	most  int  // longer lines pass as they are: nobody reads them
	long  bool // in such a line
	out   []byte
	err   error
}

// mended returns a reader of r's messages, of which those of up to most bytes are mended.
func mended(r io.ReadCloser, most int, whole bool) io.ReadCloser {
	return &mending{ReadCloser: r, in: bufio.NewReader(r), most: most, whole: whole}
}

// Read implements io.Reader. It returns bytes of one line at a time.
func (m *mending) Read(p []byte) (int, error) {
	for len(m.out) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.out, m.err = m.next()
	}
	n := copy(p, m.out)
	m.out = m.out[n:]
	return n, nil
}

// next returns the next line, or a part of a long one.
func (m *mending) next() ([]byte, error) {
	if m.whole {
		b, err := io.ReadAll(m.in) // of a bounded reader
		if err == nil {
			err = io.EOF
		}
		return mendLine(b), err
	}
	var line []byte
	for {
		part, err := m.in.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if m.long = m.long || len(line) > m.most; m.long {
				return line, nil
			}
			continue
		}
		if m.long {
			m.long = false
			return line, err
		}
		return mendLine(line), err
	}
}

// mendLine mends the message in a line.
func mendLine(line []byte) []byte {
	at := max(bytes.IndexByte(line, '{'), 0)
	end := len(bytes.TrimRight(line, "\r\n"))
	fixed, ok := mend(line[at:max(end, at)])
	if !ok {
		return line
	}
	return append(append(line[:at:at], fixed...), line[end:]...)
}

// mend returns a message in which blocks of a tool's result that the SDK does not read are texts which say so. ok is
// false for one that has none.
func mend(message []byte) (fixed []byte, ok bool) {
	var all, result map[string]json.RawMessage
	var blocks []json.RawMessage
	if !bytes.Contains(message, []byte(`"content"`)) || json.Unmarshal(message, &all) != nil ||
		readable(all["result"]) || json.Unmarshal(all["result"], &result) != nil ||
		json.Unmarshal(result["content"], &blocks) != nil {
		return nil, false
	}
	for i, one := range blocks {
		if readable(fmt.Appendf(nil, `{"content":[%s]}`, one)) {
			continue
		}
		var said struct{ Type string }
		_ = json.Unmarshal(one, &said) // else it has none
		text, err := json.Marshal(fmt.Sprintf("[a block of type %.64q that cannot be read]", said.Type))
		if err != nil {
			return nil, false
		}
		blocks[i] = fmt.Appendf(nil, `{"type":"text","text":%s}`, text)
		ok = true
	}
	if !ok {
		return nil, false
	}
	var err [3]error
	result["content"], err[0] = json.Marshal(blocks)
	all["result"], err[1] = json.Marshal(result)
	fixed, err[2] = json.Marshal(all)
	return fixed, errors.Join(err[:]...) == nil
}

// readable reports whether the SDK reads a result.
func readable(result []byte) bool { return json.Unmarshal(result, new(sdk.CallToolResult)) == nil }
