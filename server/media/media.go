// Package media fetches the pictures of requests and decodes them: data: URIs, and addresses of hosts that the operator
// allows; PNG, JPEG, WebP and GIF. Whatever a client sends costs at most Options.Bytes, Options.Timeout and, while it
// is decoded, 40 bytes for each of Options.Pixels: a progressive JPEG in CMYK takes that much, others 10 to 25.
//
// Callers: server/host. Goroutines: none.
package media

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options configure a Fetcher.
type Options struct {
	// Hosts are those from which pictures are fetched: example.com, *.example.com for all below it, example.com:8443
	// for a port that is not the scheme's, and * for all.
	Hosts []string
	// Private allows addresses that are not public.
	Private bool
	// Bytes bounds the file of a picture.
	Bytes int64
	// Pixels bounds a picture's width times its height.
	Pixels int64
	// Timeout bounds a fetch, and decoding what it brought.
	Timeout time.Duration
}

// Picture is a decoded picture.
type Picture struct {
	Width, Height int
	// Pix is RGB, 8 bits each, row by row without padding: 3*Width*Height bytes.
	Pix []byte
}

// Error says why a picture cannot be had, for the client.
type Error struct{ Msg string }

// Error implements error.
func (e *Error) Error() string { return e.Msg }

func refuse(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Fetcher fetches and decodes pictures. It is safe for concurrent use.
type Fetcher struct {
	o      Options
	client *http.Client
	decode chan struct{} // holds a token while no picture is decoded
}

// New returns a Fetcher.
func New(o Options) *Fetcher {
	f := &Fetcher{o: o, decode: make(chan struct{}, 1)}
	f.decode <- struct{}{}
	f.client = f.newClient()
	return f
}

// Fetch returns the file that a URL leads to. take asks for room for bytes of it before they are read; what it does not
// give is an error. Errors are *Error, those of take, or ctx's cause.
func (f *Fetcher) Fetch(ctx context.Context, address string, take func(bytes int64) error) ([]byte, error) {
	if scheme, rest, ok := strings.Cut(address, ":"); ok && strings.EqualFold(scheme, "data") {
		data, err := f.inline(rest)
		if err == nil {
			err = take(int64(len(data)))
		}
		return data, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, refuse("invalid image: want a URL that begins with data:, https:// or http://. Given: %.40q",
			address)
	}
	return f.get(ctx, u, take)
}

// inline returns what a data: URI holds behind its scheme.
func (f *Fetcher) inline(rest string) ([]byte, error) {
	kind, body, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, refuse("invalid image: a data: URI has a comma before its data")
	}
	encoded := false
	for _, parameter := range strings.Split(kind, ";")[1:] {
		encoded = encoded || strings.EqualFold(strings.TrimSpace(parameter), "base64")
	}
	if strings.Contains(body, "%") {
		plain, err := url.PathUnescape(body)
		if err != nil {
			return nil, refuse("invalid image: the data of a data: URI are not percent-encoded: %v", err)
		}
		body = plain
	}
	if !encoded {
		if err := f.tooLarge(int64(len(body))); err != nil {
			return nil, err
		}
		return []byte(body), nil
	}
	body = strings.Map(func(r rune) rune {
		if r == ' ' || r == '\t' || r == '\r' || r == '\n' || r == '\f' {
			return -1
		}
		return r
	}, body)
	body = strings.TrimRight(body, "=")
	if err := f.tooLarge(int64(base64.RawStdEncoding.DecodedLen(len(body)))); err != nil {
		return nil, err
	}
	data, err := base64.RawStdEncoding.DecodeString(body)
	if err != nil {
		return nil, refuse("base64 encoding is invalid: %v", err)
	}
	return data, nil
}

// tooLarge returns an error for a file of more than Options.Bytes.
func (f *Fetcher) tooLarge(n int64) error {
	if n <= f.o.Bytes {
		return nil
	}
	return refuse("Image size %d bytes exceeds maximum allowed size of %d bytes (images.bytes)", n, f.o.Bytes)
}
