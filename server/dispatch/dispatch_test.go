package dispatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/server"
	"tgi/server/config"
)

// routesOf are the routes of one model, whose handlers say its name; "" is the shape,
// which must never be asked for what a model says.
type routesOf struct {
	model string
	// seen receives what handlers read; nil for nobody.
	seen func(model string, r *http.Request, body []byte, err error)
	// hold, unless it is nil, keeps streams until it is closed.
	hold chan struct{}
}

var errOwn = errors.New("the handler's own")

func (a *routesOf) Shared() []string { return []string{"/document"} }

func (a *routesOf) Routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Path: "/generate", Handle: a.say},
		{Method: http.MethodPost, Path: "/small", BodyLimit: 64, Handle: a.say},
		{Method: http.MethodGet, Path: "/info", Scope: server.Models, Handle: a.say},
		{Method: http.MethodPost, Path: "/v2/models/{model_name:.+}/versions/{v}/infer", Handle: a.say},
		{Method: http.MethodGet, Path: "/docs", Scope: server.Open, Handle: func(w http.ResponseWriter, _ *http.Request) error {
			_, err := fmt.Fprintf(w, "docs of %q", a.model)
			return err
		}},
		{Method: http.MethodGet, Path: "/document", Scope: server.Models, Handle: func(w http.ResponseWriter, _ *http.Request) error {
			_, err := fmt.Fprintf(w, "document of %q", a.model)
			return err
		}},
		{Method: http.MethodPost, Path: "/stream", Handle: a.stream},
		{Method: http.MethodGet, Path: "/ws", Handle: a.socket},
		{Method: http.MethodPost, Path: "/panics", Handle: func(http.ResponseWriter, *http.Request) error { panic(a.model) }},
		{Method: http.MethodPost, Path: "/breaks-off", Handle: func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = w.Write([]byte("a part"))
			panic(http.ErrAbortHandler)
		}},
		{Method: http.MethodPost, Path: "/fails", Handle: func(http.ResponseWriter, *http.Request) error { return errOwn }, Refuse: refuse},
		{Method: http.MethodPost, Path: "/api", Handle: a.say, Refuse: refuse},
	}
}

// refuse is how one of the routes replies to errors.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "<%v>", err)
}

func (a *routesOf) say(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if a.seen != nil {
		a.seen(a.model, r, body, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", server.ErrBody, err)
	}
	_, err = fmt.Fprintf(w, "%s %s %s", a.model, r.PathValue("model_name"), body)
	return err
}

func (a *routesOf) stream(w http.ResponseWriter, r *http.Request) error {
	e, err := server.StartEvents(w)
	if err != nil {
		return err
	}
	_ = e.Data([]byte(a.model))
	select {
	case <-a.hold:
	case <-r.Context().Done():
	}
	return nil
}

func (a *routesOf) socket(w http.ResponseWriter, r *http.Request) error {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil
	}
	defer conn.CloseNow()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			return nil
		}
		_ = conn.Write(r.Context(), kind, append([]byte(a.model+" "), text...))
	}
}

// models are a shelf: the first is the default.
type models struct {
	t    *testing.T
	list []*routesOf
	// refused are errors for names.
	refused map[string]error

	mu    sync.Mutex
	asked []string
	uses  map[string]int
	free  *sync.Cond
}

func (m *models) Use(_ context.Context, name string) ([]server.Route, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, name)
	if err := m.refused[name]; err != nil {
		return nil, nil, err
	}
	if name == "" {
		name = m.list[0].model
	}
	for _, one := range m.list {
		if one.model == name {
			m.uses[name]++
			var once sync.Once
			return one.Routes(), func() {
				first := false
				once.Do(func() { first = true })
				m.mu.Lock()
				defer m.mu.Unlock()
				if m.uses[name]--; !first {
					m.t.Errorf("%s was released twice", name)
				}
				m.free.Broadcast()
			}, nil
		}
	}
	return nil, nil, fmt.Errorf("use: %w", &server.NoModel{ID: name})
}

// used returns how many requests use the model.
func (m *models) used(model string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uses[model]
}

// idle waits until nobody uses the model.
func (m *models) idle(model string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.uses[model] != 0 {
		m.free.Wait()
	}
}

// names returns the names that were asked for since the last call.
func (m *models) names() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := fmt.Sprintf("%q", m.asked)
	m.asked = nil
	return s
}

func shelf(t *testing.T, names ...string) *models {
	m := &models{t: t, uses: map[string]int{}, refused: map[string]error{}}
	m.free = sync.NewCond(&m.mu)
	for _, name := range names {
		m.list = append(m.list, &routesOf{model: name})
	}
	return m
}

func serve(m *models) *server.Server {
	return server.New(server.Options{
		Config: config.Default().Server, APIs: []server.API{New([]server.API{&routesOf{}}, m)},
		Healthy: func() error { return nil }, Log: slog.New(slog.DiscardHandler),
	})
}

func ask(s http.Handler, method, target, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, httptest.NewRequest(method, target, strings.NewReader(body)))
	return rec
}

// TestNames: where the name of a model comes from, and what is asked of Models.
func TestNames(t *testing.T) {
	m := shelf(t, "a", "org/b")
	s := serve(m)
	const infer = "/v2/models/org%2Fb/versions/1/infer"
	for _, c := range []struct{ method, target, body, asked, answer string }{
		{"POST", "/generate", `{"inputs":"x"}`, `[""]`, "a  {"},
		{"POST", "/generate", `{"model":"org/b"}`, `["org/b"]`, "org/b  {"},
		{"POST", "/generate", `{"model":null}`, `[""]`, "a  {"},
		{"POST", "/generate", `{"model":7}`, `[""]`, "a  {"},
		{"POST", "/generate", `not JSON`, `[""]`, "a  not JSON"},
		{"POST", "/generate", ``, `[""]`, "a  "},
		{"POST", "/generate?model=org/b", `{"model":"a"}`, `["org/b"]`, "org/b  {"},
		{"POST", "/generate?model=", `{"model":"org/b"}`, `["org/b"]`, "org/b  {"},
		{"GET", "/info", ``, `[""]`, "a  "},
		{"GET", "/info?model=org%2Fb", ``, `["org/b"]`, "org/b  "},
		{"GET", "/info?x=1", `{"model":"org/b"}`, `[""]`, "a  {"},
		{"HEAD", "/info?model=org%2Fb", ``, `["org/b"]`, "org/b  "},
		{"GET", "/docs?model=org/b", ``, `[]`, `docs of ""`},
		{"GET", "/document?model=org/b", ``, `[]`, `document of ""`},
		// The path names a model, or anything.
		{"POST", infer, `{}`, `["org/b"]`, "org/b org/b {"},
		{"POST", infer, `{"model":"a"}`, `["org/b"]`, "org/b org/b {"},
		{"POST", infer + "?model=a", `{}`, `["a"]`, "a org/b {"},
		{"POST", "/v2/models/m/versions/1/infer", `{}`, `["m" ""]`, "a m {"},
		{"POST", "/v2/models/m/versions/1/infer", `{"model":"org/b"}`, `["m" "org/b"]`, "org/b m {"},
	} {
		rec := ask(s, c.method, c.target, c.body)
		if got := rec.Body.String(); rec.Code != 200 || !strings.HasPrefix(got, c.answer) || !strings.HasSuffix(got, c.body) {
			t.Errorf("%s %s %s: %d %s, want %s", c.method, c.target, c.body, rec.Code, got, c.answer)
		}
		if got := m.names(); got != c.asked {
			t.Errorf("%s %s %s: Models was asked for %s, want %s", c.method, c.target, c.body, got, c.asked)
		}
	}
	for model, n := range m.uses {
		if n != 0 {
			t.Errorf("%s is used %d times at the end", model, n)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "tgi": true, "dummy": true, "<MODEL_NAME>": true, "http://127.0.0.1:3000": true, "https://x.example/v1": true,
		"tgi-demo": false, "TGI": false, "http": false, "org/dummy": false, "gpt-4": false,
	} {
		if got := Placeholder(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestRefusals: errors have the shape of the route, and the status of the server's
// table.
func TestRefusals(t *testing.T) {
	m := shelf(t, "a")
	m.refused["b"] = fmt.Errorf("use: %w", server.ErrModelKey)
	m.refused["up"] = &server.NotServing{ID: "up", Loading: true, RetryAfter: 1500 * time.Millisecond}
	m.refused["off"] = &server.NotServing{ID: "off", RetryAfter: time.Minute}
	s := serve(m)
	for _, c := range []struct {
		target, body string
		status       int
		answer       string
	}{
		{"/generate", `{"model":"c"}`, 404, "{\"error\":\"use: The model `c` does not exist\",\"error_type\":\"model_not_found\"}"},
		{"/generate?model=c", `{}`, 404, "{\"error\":\"use: The model `c` does not exist\",\"error_type\":\"model_not_found\"}"},
		{"/generate", `{"model":"b"}`, 403, `{"error":"use: the key given is not for this model","error_type":"forbidden"}`},
		{"/generate", `{"model":"up"}`, 503, "{\"error\":\"Model `up` is loading\",\"error_type\":\"loading\"}"},
		{"/generate", `{"model":"off"}`, 503, "{\"error\":\"Model `off` is stopped\",\"error_type\":\"model_stopped\"}"},
		{"/v2/models/b/versions/1/infer", `{}`, 403, `{"error":"use: the key given is not for this model","error_type":"forbidden"}`},
		{"/api", `{"model":"c"}`, 418, "<use: The model `c` does not exist>"},
		{"/fails", `{"model":"a"}`, 418, "<the handler's own>"},
	} {
		rec := ask(s, "POST", c.target, c.body)
		if rec.Code != c.status || rec.Body.String() != c.answer {
			t.Errorf("%s %s: %d %s, want %d %s", c.target, c.body, rec.Code, rec.Body, c.status, c.answer)
		}
	}
	if got := ask(s, "POST", "/generate", `{"model":"up"}`).Header().Get("Retry-After"); got != "2" {
		t.Errorf("retry after %q, want 2", got)
	}
	if n := m.used("a"); n != 0 {
		t.Errorf("a is used %d times at the end", n)
	}
}

// TestRoutesOfAnotherShape: a model with other routes is a mistake that is told and not
// another route's answer.
func TestRoutesOfAnotherShape(t *testing.T) {
	for name, routes := range map[string][]server.Route{
		"fewer": (&routesOf{model: "a"}).Routes()[:3],
		"other": append([]server.Route{{Method: http.MethodPost, Path: "/other"}}, (&routesOf{model: "a"}).Routes()[1:]...),
	} {
		released := 0
		d := New([]server.API{&routesOf{}}, fixed{routes, func() { released++ }})
		err := d.Routes()[0].Handle(httptest.NewRecorder(), httptest.NewRequest("POST", "/generate", strings.NewReader("{}")))
		if err == nil || !strings.HasPrefix(err.Error(), "BUG: a model has no POST /generate at place 0 of") || released != 1 {
			t.Errorf("%s: %v, released %d times", name, err, released)
		}
	}
}

type fixed struct {
	routes  []server.Route
	release func()
}

func (f fixed) Use(context.Context, string) ([]server.Route, func(), error) {
	return f.routes, f.release, nil
}

// TestShape: what the server reads of a route is the shape's.
func TestShape(t *testing.T) {
	shape := (&routesOf{}).Routes()
	got := New([]server.API{&routesOf{}}, shelf(t, "a")).Routes()
	if len(got) != len(shape) {
		t.Fatalf("%d routes, want %d", len(got), len(shape))
	}
	for i, r := range got {
		w := shape[i]
		if r.Method != w.Method || r.Path != w.Path || r.Scope != w.Scope || r.BodyLimit != w.BodyLimit || (r.Refuse == nil) != (w.Refuse == nil) {
			t.Errorf("route %d is %+v, want %+v", i, r, w)
		}
	}
}

// TestHandedOverAsSent: a handler reads of a request what the client sent, byte for
// byte, however it was sent, and the same error at the same place when it breaks off.
func TestHandedOverAsSent(t *testing.T) {
	type got struct {
		model string
		r     *http.Request
		body  []byte
		err   error
	}
	var last got
	seen := func(model string, r *http.Request, body []byte, err error) { last = got{model, r, body, err} }
	m := shelf(t, "a", "b")
	for _, one := range m.list {
		one.seen = seen
	}
	s := serve(m)
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 400 {
		body := randomBody(rng)
		want := "a"
		if Name(body) == "b" {
			want = "b"
		}
		target := "/generate"
		var sent io.Reader = bytes.NewReader(body)
		limit := -1
		cut := errors.New("the connection broke")
		switch i % 4 {
		case 1:
			sent = io.MultiReader(bytes.NewReader(body)) // of unknown length
		case 2:
			sent = io.MultiReader(bytes.NewReader(body), broken{cut})
			want = "a"
		case 3:
			target = "/small"
			if limit = 64; len(body) > limit {
				want = "a"
			}
		}
		q := httptest.NewRequest("POST", target+"?x=%20y", sent)
		q.Header.Set("X-Mine", fmt.Sprint(i))
		length := q.ContentLength
		s.ServeHTTP(httptest.NewRecorder(), q)
		switch {
		case i%4 == 2:
			if !bytes.Equal(last.body, body) || !errors.Is(last.err, cut) {
				t.Errorf("%q breaks off: the handler read %q, %v", body, last.body, last.err)
			}
		case limit >= 0 && len(body) > limit:
			var large *http.MaxBytesError
			if !bytes.Equal(last.body, body[:limit]) || !errors.As(last.err, &large) {
				t.Errorf("%q past the limit: the handler read %q, %v", body, last.body, last.err)
			}
		case !bytes.Equal(last.body, body) || last.err != nil:
			t.Errorf("sent %q, the handler read %q, %v", body, last.body, last.err)
		}
		if r := last.r; last.model != want || r.Header.Get("X-Mine") != fmt.Sprint(i) || r.URL.RawQuery != "x=%20y" || r.ContentLength != length || r.Method != "POST" {
			t.Errorf("%q: %s got %+v, want %s", body, last.model, r, want)
		}
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// randomBody is JSON, or almost, with or without a model.
func randomBody(rng *rand.Rand) []byte {
	words := []string{`{`, `}`, `"model"`, `:`, `"b"`, `,`, `"inputs"`, `"x \" y"`, `null`, `[1,2]`, "\n", "é", `{"model":"b"}`, `"model":"b"`}
	var b []byte
	switch rng.IntN(3) {
	case 0:
		b = fmt.Appendf(b, `{"inputs":%q,"model":"b"}`, strings.Repeat("z", rng.IntN(2000)))
	case 1:
		b = fmt.Appendf(b, `{"inputs":%q}`, strings.Repeat("\\\"", rng.IntN(50)))
	default:
		for range rng.IntN(12) {
			b = append(b, words[rng.IntN(len(words))]...)
		}
	}
	return b
}

// TestBodyIsLetGo: a body that was read to its end is not kept as long as its request.
func TestBodyIsLetGo(t *testing.T) {
	closed := false
	b := &restored{text: bytes.NewReader([]byte("abc")), was: closer(func() { closed = true })}
	for range 2 {
		if text, err := io.ReadAll(b); err != nil || b.text.Size() != 0 || len(text)%3 != 0 {
			t.Errorf("read %q, %v, %d bytes are kept", text, err, b.text.Size())
		}
	}
	if err := b.Close(); err != nil || !closed {
		t.Errorf("closing says %v, closed: %v", err, closed)
	}
}

type closer func()

func (c closer) Close() error { c(); return nil }
