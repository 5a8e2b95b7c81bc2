package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Options of New. The zero value is a client with the defaults.
type Options struct {
	// Transport sends requests; nil is one like http.DefaultTransport.
	Transport http.RoundTripper
	// Parallel is the number of files that are fetched at a time; 0 is 4.
	Parallel int
	// Attempts is how often in a row a file is asked for without a new byte
	// arriving; 0 is 6.
	Attempts int
	// Backoff is the longest wait before the second of those attempts; each
	// following wait may be twice as long, up to MaxBackoff, and a random part of up to a half is
	// taken off. 0 is half a second and half a minute.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest wait that a server may ask for; 0 is two
	// minutes. One that asks for more ends the download.
	MaxRetryAfter time.Duration
	// Idle is how long nothing may arrive before a connection is given up; 0 is
	// a minute.
	Idle time.Duration
	// Allow, when set, is asked about every URL before it is requested, those of
	// redirects included. Its error ends the download.
	Allow func(*url.URL) error
	// UserAgent of requests; empty is "tgi".
	UserAgent string
}

// Client fetches models. It may be used for several at a time.
type Client struct {
	opt Options
	// open opens a part for writing; a test's own may run out of space.
	open func(path string) (partFile, error)
}

// New returns a client.
func New(opt Options) *Client {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt(&opt.Parallel, 4)
	orInt(&opt.Attempts, 6)
	orTime(&opt.Backoff, time.Second/2)
	orTime(&opt.MaxBackoff, time.Minute/2)
	orTime(&opt.MaxRetryAfter, 2*time.Minute)
	orTime(&opt.Idle, time.Minute)
	if opt.Transport == nil {
		opt.Transport = http.DefaultTransport
	}
	if opt.UserAgent == "" {
		opt.UserAgent = "tgi"
	}
	return &Client{opt: opt, open: openPart}
}

const maxRedirects = 10

// errRefused marks errors of a request that no further attempt will change.
var errRefused = errors.New("refused")

// session is the requests of one download: they share the token.
type session struct {
	*Client
	http  http.Client
	token string
	// home is the only place that gets the token.
	home *url.URL
}

func (c *Client) session(home *url.URL, token string) *session {
	s := &session{Client: c, token: token, home: home}
	s.http = http.Client{Transport: s, CheckRedirect: s.redirect}
	return s
}

// redirect decides about a redirect: a bounded number, no step from https to
// http, and only to where Allow lets.
func (s *session) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: %w: more than %d redirects", errRefused, ErrSource, maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: %w: redirect from https to %s", errRefused, ErrSource, show(req.URL))
	}
	return nil
}

// RoundTrip adds to each request, redirected ones included, what its own host
// may see. net/http would carry an Authorization header on to subdomains.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("%w: %w: redirect to %s", errRefused, ErrSource, show(req.URL))
	}
	if s.opt.Allow != nil {
		if err := s.opt.Allow(req.URL); err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	out := req.Clone(req.Context())
	out.Header.Del("Authorization")
	out.Header.Del("Referer") // it may hold a signed URL
	if s.token != "" && out.URL.Scheme == s.home.Scheme && strings.EqualFold(out.URL.Host, s.home.Host) {
		out.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.opt.Transport.RoundTrip(out)
}

// get sends one request. Whatever the status, the body is the caller's to close.
func (s *session) get(ctx context.Context, u *url.URL, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %s", errRefused, ErrSource, show(u))
	}
	req.Header.Set("User-Agent", s.opt.UserAgent)
	req.Header.Set("Accept-Encoding", "identity") // sizes and ranges count the file's own bytes
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := s.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // its text holds the whole URL
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", show(u), err)
	}
	return res, nil
}

// statusError is a reply that is not what was asked for.
type statusError struct {
	kind   error // nil where another attempt may help
	status int
	text   string
	wait   time.Duration // Retry-After; 0 when there was none
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d%s", e.status, e.text)
}

func (e *statusError) Unwrap() error { return e.kind }

// failure reads a reply's status and headers as an error.
func failure(res *http.Response) *statusError {
	e := &statusError{status: res.StatusCode, wait: retryAfter(res.Header.Get("Retry-After"))}
	code, message := res.Header.Get("X-Error-Code"), res.Header.Get("X-Error-Message")
	if message != "" {
		e.text = ": " + clean(message)
	}
	switch {
	case code == "RepoNotFound" || code == "RevisionNotFound" || code == "EntryNotFound":
		e.kind = ErrNotFound
		if res.StatusCode == http.StatusUnauthorized {
			e.text += ", or it is private and wants a token"
		}
	case res.StatusCode == http.StatusUnauthorized:
		e.kind = ErrUnauthorized
	case res.StatusCode == http.StatusForbidden:
		e.kind = ErrForbidden
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		e.kind = ErrNotFound
	case res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500:
	default:
		e.kind = ErrSource
	}
	return e
}

// clean makes a server's text fit for a line of a log.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "..."
	}
	return s
}

// retryAfter reads seconds or a date; 0 is no wish.
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// getSmall returns a body of at most limit bytes, in as many attempts as a file has.
func (s *session) getSmall(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	var data []byte
	err := s.retry(ctx, func() (bool, error) {
		actx, alive, done := s.watch(ctx)
		defer done()
		res, err := s.get(actx, u, nil)
		if err != nil {
			return false, stalled(actx, err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return false, failure(res)
		}
		data, err = io.ReadAll(io.LimitReader(&watched{res.Body, alive}, limit+1))
		if err == nil && int64(len(data)) > limit {
			return false, fmt.Errorf("%w: %w: more than %d bytes", errRefused, ErrSource, limit)
		}
		return false, stalled(actx, err)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", show(u), err)
	}
	return data, nil
}
