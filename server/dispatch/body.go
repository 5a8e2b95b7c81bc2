package dispatch

import (
	"bytes"
	"io"
	"net/http"
)

// firstRoom is what a body gets before its first byte is there, however long it says
// that it is: a client that announces much and sends nothing costs no more.
const firstRoom = 64 << 10

// named reads the body of r, and returns a request with that body again, and the name
// of the model in it. A body that cannot be read, for its length or for its connection,
// fails again for whoever reads it next, behind the bytes that were there.
func named(r *http.Request) (*http.Request, string) {
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 {
		b.Grow(int(min(n, firstRoom)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r.Body)
	name := ""
	if err == nil {
		name = Name(b.Bytes())
	}
	again := r.WithContext(r.Context())
	again.Body = &restored{text: bytes.NewReader(b.Bytes()), err: err, was: r.Body}
	return again, name
}

// restored is a body that was read once already.
type restored struct {
	text *bytes.Reader
	err  error // why there is no more; nil for its end
	was  io.Closer
}

// Read implements io.Reader. The text is let go at its end: the request, and this with
// it, lives as long as a stream does.
func (b *restored) Read(p []byte) (int, error) {
	n, err := b.text.Read(p)
	if err == io.EOF {
		b.text.Reset(nil)
		if b.err != nil {
			err = b.err
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *restored) Close() error { return b.was.Close() }
