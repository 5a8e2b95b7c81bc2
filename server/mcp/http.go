package mcp

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"tgi/server/config"
)

// errBig: a reply of a server has too many bytes.
var errBig = errors.New("the server's reply has too many bytes")

// httpClient returns what asks a server at a URL. It sends headers of its own, follows no redirects, since the operator
// said where the server is, and takes replies of at most bytes.
//
// The client is asked for an address without user and query, which may be secret: its errors have the address.
func httpClient(endpoint string, headers map[string]string, bytes int64, connect time.Duration) (to string,
	client *http.Client, base *http.Transport, err error) {
	whole, err := url.Parse(endpoint)
	if err != nil {
		return "", nil, nil, errors.New("its endpoint is no URL") // the error has its text
	}
	plain := *whole
	plain.User, plain.RawQuery, plain.ForceQuery, plain.Fragment, plain.RawFragment = nil, "", false, "", ""
	base = http.DefaultTransport.(*http.Transport).Clone()
	base.ResponseHeaderTimeout = 0 // a call has a time of its own
	base.TLSHandshakeTimeout = connect
	base.MaxResponseHeaderBytes = 64 << 10
	return plain.String(), &http.Client{Transport: &withHeaders{base, whole, headers, bytes}}, base, nil
}

type withHeaders struct {
	http.RoundTripper
	whole   *url.URL
	headers map[string]string
	bytes   int64
}

// RoundTrip implements http.RoundTripper.
func (t *withHeaders) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL.RawQuery = t.whole.RawQuery
	if user := t.whole.User; user != nil {
		password, _ := user.Password()
		q.SetBasicAuth(user.Username(), password)
	}
	for name, value := range t.headers {
		q.Header.Set(name, value)
	}
	s, err := t.RoundTripper.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	// The client's own error would have all of the address.
	if to := s.Header.Get("Location"); s.StatusCode/100 == 3 && to != "" {
		_ = s.Body.Close()
		return nil, fmt.Errorf("the server redirects to %.100q: that is not followed", config.Shown(to))
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
