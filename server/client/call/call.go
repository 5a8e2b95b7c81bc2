// Package call sends single requests to a server, over HTTP or in this process.
package call

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// MaxReply bounds a reply, in bytes.
const MaxReply = 256 << 20

// Caller sends requests to one server. It is safe for concurrent use.
type Caller struct {
	http *http.Client
	base string
	key  string
}

// New returns a Caller of the server at address, a URL with or without /v1 at its end. The key is its bearer token,
// empty for none. A nil transport is one of HTTP.
func New(address, key string, transport http.RoundTripper) (*Caller, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of a server, such as http://127.0.0.1:3000", address)
	}
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	return &Caller{
		http: &http.Client{Transport: transport,
			// A redirected POST would arrive as a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		base: strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1"), key: key,
	}, nil
}

// Reply is what a server answered.
type Reply struct {
	Status int
	// Type is the media type.
	Type string
	Body []byte
}

// Do sends a request; path begins with a slash and may have a query. It reads the whole reply, whatever its status.
func (c *Caller) Do(ctx context.Context, method, path string, header http.Header, body []byte) (Reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return Reply{}, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Reply{}, ended(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	if err == nil && len(data) > MaxReply {
		err = fmt.Errorf("the reply has more than %d bytes", MaxReply)
	}
	return Reply{resp.StatusCode, resp.Header.Get("Content-Type"), data}, ended(ctx, err)
}

// ended returns the cause of ctx's end where that is what err is about.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
