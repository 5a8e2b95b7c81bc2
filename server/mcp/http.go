package mcp

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// errBig: a reply of a server has too many bytes.
var errBig = errors.New("the server's reply has too many bytes")

// httpClient returns what asks a server at a URL. It sends headers of its own, follows no redirects, since the operator
// said where the server is, and takes replies of at most bytes.
func httpClient(headers map[string]string, bytes int64, connect time.Duration) (*http.Client, *http.Transport) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = 0 // a call has a time of its own
	base.TLSHandshakeTimeout = connect
	base.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport: &withHeaders{base, headers, bytes},
		CheckRedirect: func(q *http.Request, _ []*http.Request) error {
			return fmt.Errorf("the server redirects to %.100q: that is not followed", q.URL.Redacted())
		},
	}, base
}

type withHeaders struct {
	http.RoundTripper
	headers map[string]string
	bytes   int64
}

// RoundTrip implements http.RoundTripper.
func (t *withHeaders) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	for name, value := range t.headers {
		q.Header.Set(name, value)
	}
	s, err := t.RoundTripper.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(s.Header.Get("Content-Type"))
	s.Body = mended(&bounded{s.Body, t.bytes}, int(t.bytes), kind == "application/json")
	s.ContentLength = -1
	return s, nil
}

// bounded is a body that fails behind so many bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errBig
	}
	return n, err
}
