package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"tgi/server/client/call"
)

// session is a reached server and what it reports about itself.
type session struct {
	target Target
	client *http.Client
	form   form
	// info is the reply to GET /info in the newest dialect.
	info value
	docs []*Document
}

// limit returns a limit from /info, or otherwise if /info lacks it.
func (s *session) limit(name string, otherwise int) int {
	if v := s.info.at(name); v.isNumber() {
		return int(v.number())
	}
	return otherwise
}

// room returns n, or half of the context where that is less.
func (s *session) room(n int) int { return min(n, s.limit("max_total_tokens", 2*n)/2) }

// probe is one running case.
type probe struct {
	*session
	// ctx is the context of the case. A probe lives as long as its case, and nearly all of its methods need it.
	ctx    context.Context
	result Result
	last   *reply
}

// request is what a case sends.
type request struct {
	method, path string
	// body is sent as application/json unless header says otherwise.
	body   string
	header map[string]string
	// bare sends no key.
	bare bool
}

// reply is what came back.
type reply struct {
	request request
	status  int
	header  http.Header
	trailer http.Header
	body    []byte
}

// open finds out whether the server is TGI or this project's.
func open(ctx context.Context, t Target) (*session, error) {
	if t.Dialect == "" {
		t.Dialect = TGI3
	}
	if t.Timeout == 0 {
		t.Timeout = time.Minute
	}
	if _, err := call.Address(t.URL); err != nil {
		return nil, err
	}
	t.URL = strings.TrimRight(t.URL, "/")
	s := &session{target: t, client: t.Client}
	if s.client == nil {
		s.client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	// This server refuses a dialect that does not exist; TGI does not look.
	r, err := s.send(ctx, request{method: http.MethodGet, path: "/info",
		header: map[string]string{dialectHeader: "none"}})
	if err != nil {
		return nil, fmt.Errorf("the server was not reached: %w", err)
	}
	this := r.status == http.StatusUnprocessableEntity
	var ok bool
	if s.form, ok = formOf(t.Dialect, this); !ok {
		return nil, fmt.Errorf("there is no dialect %q, only %s, %s and %s", t.Dialect, TGI06, TGI22, TGI3)
	}
	if r, err = s.send(ctx, request{method: http.MethodGet, path: "/info",
		header: map[string]string{dialectHeader: TGI3}}); err != nil {
		return nil, err
	}
	if s.info, err = parse(r.body); err != nil || r.status != http.StatusOK {
		return nil, fmt.Errorf("GET /info: status %d, %.100q: is it a server of this API?", r.status, r.body)
	}
	s.docs = slices.Clone(t.Documents)
	if this {
		r, err = s.send(ctx, request{method: http.MethodGet, path: documentPath})
		if err != nil {
			return nil, err
		}
		if r.status == http.StatusOK { // the case openapi reports what is wrong with it
			if d, err := NewDocument("the server's own document", r.body); err == nil {
				s.docs = append(s.docs, d)
			}
		}
	}
	return s, nil
}

const dialectHeader = "X-TGI-Dialect"

// send makes one exchange and reads the whole body.
func (s *session) send(ctx context.Context, q request) (*reply, error) {
	res, err := s.begin(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	r := &reply{request: q, status: res.StatusCode, header: res.Header}
	if r.body, err = io.ReadAll(res.Body); err != nil {
		return nil, fmt.Errorf("%s %s: status %d, and the body breaks off: %w", q.method, q.path, r.status, err)
	}
	r.trailer = res.Trailer
	return r, nil
}

// begin sends the request and reads the header of the response.
func (s *session) begin(ctx context.Context, q request) (*http.Response, error) {
	var body io.Reader
	if q.body != "" {
		body = bytes.NewReader([]byte(q.body))
	}
	req, err := http.NewRequestWithContext(ctx, q.method, s.target.URL+q.path, body)
	if err != nil {
		return nil, err
	}
	if q.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set(dialectHeader, s.form.name)
	if s.target.Key != "" && !q.bare {
		req.Header.Set("Authorization", "Bearer "+s.target.Key)
	}
	for name, v := range q.header {
		req.Header.Set(name, v)
	}
	res, err := s.client.Do(req)
	return res, call.Hide(err)
}

// do makes an exchange and holds it against the documents. It ends the case when
// there is no answer.
func (p *probe) do(q request) *reply {
	r, err := p.try(q)
	if err != nil {
		p.fatal("%s %s: no answer: %v", q.method, q.path, err)
	}
	p.accept(r)
	return r
}

// try is do without its consequences. It may be called from several goroutines.
func (p *probe) try(q request) (*reply, error) { return p.send(p.ctx, q) }

// bound returns a limit from /info, and skips the case if /info lacks it.
func (p *probe) bound(name string) int {
	n := p.limit(name, 0)
	if n == 0 {
		p.skip("/info does not tell %s", name)
	}
	return n
}

// accept makes r the exchange that reports show, and holds it against the documents.
func (p *probe) accept(r *reply) {
	p.last = r
	if p.result.Case.Extra && !p.form.this && r.status == http.StatusNotFound {
		p.skip("the server has no %s", r.request.path)
	}
	if r.request.header[dialectHeader] != "" {
		return // not what this run is about
	}
	for _, d := range p.docs {
		for _, wrong := range d.hold(p.form, r) {
			p.fail("%s: %s", d.name, wrong)
		}
	}
}

func (p *probe) get(path string) *reply {
	return p.do(request{method: http.MethodGet, path: path})
}

func (p *probe) post(path, body string) *reply {
	return p.do(request{method: http.MethodPost, path: path, body: body})
}

// ask posts a body that must be taken, and returns the reply's JSON of that type.
func (p *probe) ask(path, body, kind string) value {
	v, _ := p.answer(p.post(path, body), kind)
	return v
}

// answer expects 200 and JSON of a type, and ends the case otherwise.
func (p *probe) answer(r *reply, kind string) (value, *reply) {
	p.status(r, http.StatusOK)
	v := p.json(r)
	p.fits(kind, v)
	return v, r
}

// fail notes a violation and goes on.
func (p *probe) fail(format string, args ...any) {
	v := Violation{Case: p.result.Case, Detail: fmt.Sprintf(format, args...)}
	if p.last != nil {
		v.Transcript = p.last.transcript()
	}
	for _, old := range p.result.Violations {
		if old.Detail == v.Detail {
			return
		}
	}
	p.result.Violations = append(p.result.Violations, v)
}

// fatal notes a violation and ends the case.
func (p *probe) fatal(format string, args ...any) {
	p.fail(format, args...)
	p.stop()
}

// skip skips the rest of the case.
func (p *probe) skip(format string, args ...any) {
	p.result.Skipped = fmt.Sprintf(format, args...)
	p.stop()
}

// status ends the case unless r has that status.
func (p *probe) status(r *reply, want int) {
	if r.status != want {
		p.fatal("status %d, want %d", r.status, want)
	}
}

// header notes a header without the value wanted.
func (p *probe) header(r *reply, name, want string) {
	if got := r.header.Get(name); got != want {
		p.fail("%s is %q, want %q", strings.ToLower(name), got, want)
	}
}

// media notes a body of another type.
func (p *probe) media(r *reply, want string) {
	if kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";"); kind != want {
		p.fail("content-type is %q, want %q", r.header.Get("Content-Type"), want)
	}
}

// json returns the body as JSON and ends the case when it is none.
func (p *probe) json(r *reply) value {
	p.media(r, "application/json")
	v, err := parse(r.body)
	if err != nil {
		p.fatal("the body is no JSON: %v", err)
	}
	return v
}

// empty notes a body where none belongs.
func (p *probe) empty(r *reply) {
	if len(r.body) > 0 {
		p.fail("the body is %.60q, want none", r.body)
	}
}

// equal notes a difference of a value that must be known.
func (p *probe) equal(what string, got, want any) {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		p.fail("%s is %s, want %s", what, quote(g), quote(w))
	}
}

func quote(s string) string {
	const longest = 300
	if len(s) > longest {
		s = s[:longest] + "…"
	}
	if strings.ContainsAny(s, " \n\t\"") || s == "" {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// transcript shows the exchange without what may be secret or endless.
func (r *reply) transcript() string {
	var b strings.Builder
	fmt.Fprintf(&b, "> %s %s\n", r.request.method, r.request.path)
	for _, name := range sorted(r.request.header) {
		if name != "Authorization" {
			fmt.Fprintf(&b, "> %s: %s\n", name, r.request.header[name])
		}
	}
	if r.request.body != "" {
		fmt.Fprintf(&b, "> %s\n", shorten(r.request.body, 600))
	}
	fmt.Fprintf(&b, "< %d\n", r.status)
	for _, name := range sorted(r.header) {
		for _, v := range r.header[name] {
			fmt.Fprintf(&b, "< %s: %s\n", strings.ToLower(name), v)
		}
	}
	return b.String() + shorten(string(r.body), 2000)
}

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

func sorted[T any](m map[string]T) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// errGone is the cause of exchanges that the kit itself breaks off.
var errGone = errors.New("the client left")
