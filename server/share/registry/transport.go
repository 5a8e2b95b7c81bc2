package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	connectTimeout = 15 * time.Second
	defaultStall   = 30 * time.Second
	maxRedirects   = 5
	maxHeader      = 64 << 10
	// maxRefusal bounds the body of a reply that is an error.
	maxRefusal = 64 << 10
)

// errStalled means that a registry sent nothing for too long.
var errStalled = errors.New("the registry sent nothing for too long")

// newClient makes the client of a repository at host. Redirects to other hosts are followed, because many registries
// keep blobs elsewhere: what comes from there is held to its digest, and oras takes the credentials off such a request.
func newClient(host string, o Options) *http.Client {
	stall := o.Stall
	if stall <= 0 {
		stall = defaultStall
	}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  stall,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // a digest is of the bytes that are sent
		ForceAttemptHTTP2:      true,
		// One connection a request: bytes behind a reply, such as the body of one to HEAD, are of no other reply, and
		// net/http would log them, with up to 4 KiB of what the registry chose.
		DisableKeepAlives: true,
	}
	return &http.Client{Transport: &patient{next: t, stall: stall, plain: o.PlainHTTP, host: host},
		CheckRedirect: redirect}
}

// redirect bounds redirects, and refuses those that leave TLS.
func redirect(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirect from https to %s is refused", req.URL.Scheme)
	}
	return nil
}

// patient sends requests, and ends replies that stall. It refuses plain HTTP unless it was asked for: a registry names
// the address of its token server, which gets the credentials.
type patient struct {
	next  http.RoundTripper
	stall time.Duration
	plain bool
	host  string // host:port of the registry, or its name alone
}

// secret reports whether a request carries credentials, or a token that stands for them: in a header, or in the form
// that asks a token server for a token.
func secret(req *http.Request) bool {
	return req.Header.Get("Authorization") != "" ||
		req.Header.Get("Content-Type") == "application/x-www-form-urlencoded"
}

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !p.plain {
		return nil, fmt.Errorf("%s is not encrypted (--plain-http allows it)", req.URL.Redacted())
	}
	if req.URL.Scheme != "https" && !strings.EqualFold(req.URL.Host, p.host) && secret(req) {
		return nil, fmt.Errorf("registry %s wants credentials sent to %.200q: without https they are sent to its own host "+
			"and port alone", p.host, req.URL.Host)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := p.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	b := &body{ReadCloser: resp.Body, cancel: cancel, stall: p.stall}
	if resp.StatusCode >= http.StatusBadRequest {
		b.left, b.bounded = maxRefusal, true
	}
	b.timer = time.AfterFunc(p.stall, func() { cancel(errStalled) })
	b.cause = func() error { return context.Cause(ctx) }
	resp.Body = b
	return resp, nil
}

// body ends when nothing has come for the time of stall.
type body struct {
	io.ReadCloser
	cancel  context.CancelCauseFunc
	cause   func() error
	stall   time.Duration
	timer   *time.Timer
	bounded bool
	left    int
	once    sync.Once
}

// Read implements io.Reader.
func (b *body) Read(into []byte) (int, error) {
	if b.bounded {
		if b.left == 0 {
			return 0, io.EOF
		}
		into = into[:min(len(into), b.left)]
	}
	n, err := b.ReadCloser.Read(into)
	if b.bounded {
		b.left -= n
	}
	if n > 0 {
		b.timer.Reset(b.stall)
	}
	if err != nil && err != io.EOF && errors.Is(b.cause(), errStalled) {
		err = fmt.Errorf("%w (%v)", errStalled, b.stall)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() {
		b.timer.Stop()
		b.cancel(nil)
	})
	return err
}

// Unreachable reports whether an error says that a registry gave no answer, or that it can give none now.
func Unreachable(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, http.ErrSchemeMismatch) {
		return false
	}
	var reply *errcode.ErrorResponse
	if errors.As(err, &reply) {
		return reply.StatusCode >= http.StatusInternalServerError || reply.StatusCode == http.StatusTooManyRequests
	}
	var network net.Error // as all errors of a connection are
	return errors.As(err, &network) || errors.Is(err, errStalled)
}

// explain adds what to do to errors that many people meet.
func explain(err error) error {
	var reply *errcode.ErrorResponse
	refused := errors.As(err, &reply) &&
		(reply.StatusCode == http.StatusUnauthorized || reply.StatusCode == http.StatusForbidden)
	if refused || errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return fmt.Errorf("%w: set %s and %s, or log in with docker or oras, whose file is read", err, EnvUsername,
			EnvPassword)
	}
	var noTLS tls.RecordHeaderError // of an answer that is no HTTP either, as some servers give to TLS
	if errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &noTLS) {
		return fmt.Errorf("%w: for a registry of your own network that has no TLS there is --plain-http", err)
	}
	return err
}
