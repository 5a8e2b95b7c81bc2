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
	// Attempts is how many requests in a row may bring no new byte of a file; 0 is 6.
	Attempts int
	// Backoff is the longest wait before the second attempt. It doubles with each attempt
	// up to MaxBackoff, and a random part of up to half is subtracted (jitter). 0 is half
	// a second for Backoff and half a minute for MaxBackoff.
	Backoff, MaxBackoff time.Duration
	// MaxRetryAfter is the longest accepted Retry-After; 0 is two minutes. A longer one ends
	// the download.
	MaxRetryAfter time.Duration
	// Idle is how long a connection may be silent before it is closed; 0 is a minute.
	Idle time.Duration
	// Allow, if set, is called with every URL before it is requested, redirects included.
	// Its error ends the download.
	Allow func(*url.URL) error
	// UserAgent of requests; empty is "tgi".
	UserAgent string
}

// Client fetches models. It is safe for concurrent use.
type Client struct {
	opt Options
	// open opens a part for writing; tests replace it.
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

// errRefused marks permanent errors of a request.
var errRefused = errors.New("refused")

// session sends the requests of one download.
type session struct {
	*Client
	http  http.Client
	token string
	// tokenHost is the only scheme and host that gets the token.
	tokenHost *url.URL
}

func (c *Client) session(home *url.URL, token string) *session {
	s := &session{Client: c, token: token, tokenHost: home}
	s.http = http.Client{Transport: s, CheckRedirect: s.redirect}
	return s
}

// redirect limits the number of redirects and refuses those from https to http. RoundTrip
// checks their URLs by Allow.
func (s *session) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: %w: more than %d redirects", errRefused, ErrSource, maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("%w: %w: redirect from https to %s", errRefused, ErrSource, redactURL(req.URL))
	}
	return nil
}

// RoundTrip adds the token to requests to tokenHost only, redirects included. net/http would
// also send an Authorization header to subdomains.
func (s *session) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return nil, fmt.Errorf("%w: %w: redirect to %s", errRefused, ErrSource, redactURL(req.URL))
	}
	if s.opt.Allow != nil {
		if err := s.opt.Allow(req.URL); err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
	}
	out := req.Clone(req.Context())
	out.Header.Del("Authorization")
	out.Header.Del("Referer") // it may hold a signed URL
	if s.token != "" && out.URL.Scheme == s.tokenHost.Scheme && strings.EqualFold(out.URL.Host, s.tokenHost.Host) {
		out.Header.Set("Authorization", "Bearer "+s.token)
	}
	return s.opt.Transport.RoundTrip(out)
}

// get sends one request. The caller closes the body, whatever the status.
func (s *session) get(ctx context.Context, u *url.URL, header map[string]string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %s", errRefused, ErrSource, redactURL(u))
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
		return nil, fmt.Errorf("%s: %w", redactURL(u), err)
	}
	return res, nil
}

// statusError is a reply with an error status.
type statusError struct {
	kind   error // nil if another attempt may help
	status int
	text   string
	wait   time.Duration // Retry-After; 0 when there was none
}

func (e *statusError) Error() string {
	return fmt.Sprintf("status %d%s", e.status, e.text)
}

func (e *statusError) Unwrap() error { return e.kind }

// failure returns the error of a reply's status and headers.
func failure(res *http.Response) *statusError {
	e := &statusError{status: res.StatusCode, wait: retryAfter(res.Header.Get("Retry-After"))}
	code, message := res.Header.Get("X-Error-Code"), res.Header.Get("X-Error-Message")
	if message != "" {
		e.text = ": " + sanitize(message)
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
	case res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusTooManyRequests ||
		res.StatusCode >= 500:
	default:
		e.kind = ErrSource
	}
	return e
}

// sanitize makes a server's text safe for a log line.
func sanitize(s string) string {
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

// retryAfter parses Retry-After, in seconds or as a date; 0 if there is none.
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// getSmall returns a body of at most limit bytes, with the same retries as a file.
func (s *session) getSmall(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	var data []byte
	err := s.retry(ctx, func() (bool, error) {
		actx, alive, done := s.watch(ctx)
		defer done()
		res, err := s.get(actx, u, nil)
		if err != nil {
			return false, stallCause(actx, err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return false, failure(res)
		}
		data, err = io.ReadAll(io.LimitReader(&watchedReader{res.Body, alive}, limit+1))
		if err == nil && int64(len(data)) > limit {
			return false, fmt.Errorf("%w: %w: more than %d bytes", errRefused, ErrSource, limit)
		}
		return false, stallCause(actx, err)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redactURL(u), err)
	}
	return data, nil
}
