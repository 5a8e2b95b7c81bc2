// Package call sends single requests to a server, over HTTP or in this process.
package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	pathpkg "path"
	"slices"
	"strings"

	"tgi/server/config"
	"tgi/server/wire"
)

// Bounds of a reply: its bytes, and the elements of all arrays of its JSON, of which one of two bytes takes hundreds of
// bytes once it is decoded. The longest explanations that a server gives have about 10 MB and 400,000 elements.
const (
	MaxReply    = 32 << 20
	MaxElements = 1 << 19
)

// Caller sends requests to one server. It is safe for concurrent use.
type Caller struct {
	http *http.Client
	base *url.URL
	key  string
}

// New returns a Caller of the server at address, a URL with or without /v1 at its end. The key is its bearer token,
// empty for none. A nil transport is one of HTTP.
func New(address, key string, transport http.RoundTripper) (*Caller, error) {
	u, err := Address(address)
	if err != nil {
		return nil, err
	}
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	base := &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host,
		Path: strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1")}
	return &Caller{
		http: &http.Client{Transport: transport,
			// A redirected POST would arrive as a GET, and the key at another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		base: base, key: key,
	}, nil
}

// Address parses the URL of a server, without a query. Its error does not tell the secrets of one that is none.
func Address(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		!strings.ContainsAny(address, "?#") &&
		(u.User != nil || u.Port() == "" || !strings.Contains(u.Path, "@")) { // bob:1/2@host: a password
		return u, nil
	}
	hint := ""
	if strings.Contains(address, "@") {
		hint = "; a password has %25, %2F, %3F and %23 for %, /, ? and #"
	}
	return nil, fmt.Errorf("%q is no URL of a server, such as http://127.0.0.1:3000%s", config.Shown(address), hint)
}

// MaxServers bounds the servers of one command.
const MaxServers = 32

// NewAll is New for several servers, which all have the key. No address may come twice.
func NewAll(addresses []string, key string) ([]*Caller, error) {
	if len(addresses) > MaxServers {
		return nil, fmt.Errorf("at most %d servers are asked at once, given %d", MaxServers, len(addresses))
	}
	list, seen := make([]*Caller, len(addresses)), map[string]bool{}
	for i, address := range addresses {
		c, err := New(address, key, nil)
		if err != nil {
			return nil, err
		}
		if seen[c.base.String()] {
			return nil, fmt.Errorf("the server %q is given twice", config.Shown(address))
		}
		list[i], seen[c.base.String()] = c, true
	}
	return list, nil
}

// With returns a Caller of the same server with another key.
func (c *Caller) With(key string) *Caller { return &Caller{http: c.http, base: c.base, key: key} }

// Reply is what a server answered.
type Reply struct {
	Status int
	// Type is the media type.
	Type string
	Body []byte
}

// ErrRequest is matched by the error of a request that cannot be sent to any server.
var ErrRequest = errors.New("it cannot be sent")

// sendable returns an error if HTTP has no such header. It does not tell the values, which may be secret.
func sendable(name string, values []string) error {
	const marks = "!#$%&'*+-.^_`|~"
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	}
	if name == "" || strings.ContainsFunc(name, odd) {
		return fmt.Errorf("%.64q is no name of a header", name)
	}
	control := func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
	if slices.ContainsFunc(values, func(v string) bool { return strings.ContainsFunc(v, control) }) {
		return fmt.Errorf("the value of the header %.64s has a control character", name)
	}
	return nil
}

// ErrForeign is matched by the error of a reply that is not one of this server's.
var ErrForeign = errors.New("it does not answer as tgi does")

// Decode decodes the body, an object that has the members, into to.
func (r Reply) Decode(to any, members ...string) error {
	var has map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &has); err != nil {
		return fmt.Errorf("%w: its reply is no JSON object", ErrForeign)
	}
	for _, name := range members {
		if _, ok := has[name]; !ok {
			return fmt.Errorf("%w: its reply has no %s", ErrForeign, name)
		}
	}
	if err := json.Unmarshal(r.Body, to); err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, wire.Told(err))
	}
	return nil
}

// Reason is what a refusal says of itself, "" where it is not one of this server's.
func (r Reply) Reason() string {
	var said struct{ Error string }
	if json.Unmarshal(r.Body, &said) != nil {
		return ""
	}
	return said.Error
}

// at returns the URL of a path on the server: whatever the path is, the host is that of the address.
func (c *Caller) at(path string) (*url.URL, error) {
	route, query, _ := strings.Cut(path, "?")
	u, err := url.Parse(route)
	switch {
	case err != nil || !strings.HasPrefix(route, "/"):
		return nil, fmt.Errorf("the path %.200q does not begin with a slash, or is none", path)
	case strings.HasPrefix(route, "//") || u.Scheme != "" || u.Host != "" || u.User != nil:
		return nil, fmt.Errorf("the path %.200q names a host", path)
	case strings.Contains(path, "#") || strings.Contains(u.Path, `\`) || pathpkg.Clean(u.Path) != u.Path:
		return nil, fmt.Errorf(`the path %.200q has a fragment, a backslash, or parts such as ".."`, path)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("the query of the path %.200q is none: %w", path, err)
	}
	return &url.URL{Scheme: c.base.Scheme, User: c.base.User, Host: c.base.Host, Path: c.base.Path + u.Path,
		RawPath: c.base.EscapedPath() + u.EscapedPath(), RawQuery: values.Encode()}, nil // a slash of a name stays one
}

// Do sends a request to a path of the server, which begins with one slash and may have a query; one that names a host
// is refused. Redirects are not followed. It reads the whole reply, whatever its status, within the bounds.
func (c *Caller) Do(ctx context.Context, method, path string, header http.Header, body []byte) (Reply, error) {
	to, err := c.at(path)
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	for name, values := range header {
		if err := sendable(name, values); err != nil {
			return Reply{}, fmt.Errorf("%w: %w", ErrRequest, err)
		}
		req.Header[name] = values
	}
	if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := Send(c.http, req, c.key)
	if err != nil {
		return Reply{}, ended(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxReply+1))
	switch {
	case err != nil:
		return Reply{}, ended(ctx, err)
	case len(data) > MaxReply:
		return Reply{}, fmt.Errorf("the reply has more than %d bytes, which is the most that is read", MaxReply)
	}
	if err := Bounded(data); err != nil {
		return Reply{}, err
	}
	return Reply{resp.StatusCode, resp.Header.Get("Content-Type"), data}, nil
}

// Send has a request show the key or, without one, the user and the password of its URL, and sends it.
func Send(client *http.Client, req *http.Request, key string) (*http.Response, error) {
	user := req.URL.User
	req.URL.User = nil
	switch {
	case key != "":
		req.Header.Set("Authorization", "Bearer "+key)
	case user != nil && req.Header.Get("Authorization") == "":
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	resp, err := client.Do(req)
	return resp, Hide(err)
}

// Hide takes the secrets out of the URL that an error of a request tells.
func Hide(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		at.URL = config.Shown(at.URL)
	}
	return err
}

// Bounded returns an error where the arrays of a JSON text have more than MaxElements, before anything decodes them.
func Bounded(data []byte) error {
	var open []byte // the brackets around a place
	var inString, escaped bool
	count := 0
	for _, b := range data {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = b == '\\', b != '"'
		case b == '"':
			inString = true
		case b == '[', b == '{':
			open = append(open, b)
		case (b == ']' || b == '}') && len(open) > 0:
			open = open[:len(open)-1]
		}
		if !inString && (b == '[' || b == ',' && len(open) > 0 && open[len(open)-1] == '[') {
			count++
		}
	}
	if count > MaxElements {
		return fmt.Errorf("the reply has more than %d elements, which is the most that is read", MaxElements)
	}
	return nil
}

// ended returns the cause of ctx's end where that is what err is about.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
