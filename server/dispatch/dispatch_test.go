package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/server"
	"tgi/server/config"
)

// testAPI has routes that say which model answers.
type testAPI struct {
	models Models
	// hold, unless it is nil, keeps streams until it is closed.
	hold chan struct{}
}

var errOwn = errors.New("the handler's own")

func (a *testAPI) Routes() []server.Route {
	post := func(path string, handle func(http.ResponseWriter, *http.Request, *Model) error) server.Route {
		return server.Route{Method: http.MethodPost, Path: path, Handle: a.with(handle)}
	}
	routes := []server.Route{
		post("/generate", say), post("/v2/models/{model_name:.+}/versions/{v}/infer", say), post("/stream", a.stream),
		{Method: http.MethodGet, Path: "/info", Scope: server.Models, Handle: a.with(say)},
		{Method: http.MethodGet, Path: "/ws", Handle: a.with(socket)},
		post("/panics", func(_ http.ResponseWriter, _ *http.Request, m *Model) error { panic(m.ID) }),
		post("/breaks-off", func(w http.ResponseWriter, _ *http.Request, _ *Model) error {
			_, _ = w.Write([]byte("a part"))
			panic(http.ErrAbortHandler)
		}),
		post("/fails", func(http.ResponseWriter, *http.Request, *Model) error { return errOwn }), post("/api", say),
	}
	for i := len(routes) - 2; i < len(routes); i++ {
		routes[i].Refuse = refuse
	}
	return routes
}

// with reads the name in a body, and gives handle the model as handlers of APIs do.
func (a *testAPI) with(handle func(http.ResponseWriter, *http.Request, *Model) error) func(http.ResponseWriter,
	*http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body struct{ Model string }
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&body)
		}
		m, release, err := Use(a.models, r, body.Model)
		if err != nil {
			return err
		}
		defer release()
		return handle(w, r, m)
	}
}

// refuse is how one of the routes replies to errors.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	w.WriteHeader(http.StatusTeapot)
	fmt.Fprintf(w, "<%v>", err)
}

func say(w http.ResponseWriter, r *http.Request, m *Model) error {
	_, err := fmt.Fprintf(w, "%s %s", m.ID, r.PathValue("model_name"))
	return err
}

func (a *testAPI) stream(w http.ResponseWriter, r *http.Request, m *Model) error {
	e, err := server.StartEvents(w)
	if err != nil {
		return err
	}
	_ = e.Data([]byte(m.ID))
	select {
	case <-a.hold:
	case <-r.Context().Done():
	}
	return nil
}

func socket(w http.ResponseWriter, r *http.Request, m *Model) error {
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
		_ = conn.Write(r.Context(), kind, append([]byte(m.ID+" "), text...))
	}
}

// models are a list: the first is the default.
type models struct {
	t    *testing.T
	list []*Model
	// lenient says that unknown names mean the default.
	lenient bool
	// refused are errors for names.
	refused map[string]error

	mu    sync.Mutex
	asked []string
	uses  map[string]int
	free  *sync.Cond
}

func (m *models) Use(_ context.Context, name string) (*Model, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, name)
	if err := m.refused[name]; err != nil {
		return nil, nil, err
	}
	if name == "" || m.lenient && !m.Has(name) {
		name = m.list[0].ID
	}
	for _, one := range m.list {
		if one.ID == name {
			m.uses[name]++
			var once sync.Once
			return one, func() {
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

// Has implements Models.
func (m *models) Has(name string) bool {
	return m.refused[name] != nil || slices.ContainsFunc(m.list, func(one *Model) bool { return one.ID == name })
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

func list(t *testing.T, names ...string) *models {
	m := &models{t: t, uses: map[string]int{}, refused: map[string]error{}}
	m.free = sync.NewCond(&m.mu)
	for _, name := range names {
		m.list = append(m.list, &Model{ID: name})
	}
	return m
}

func serve(m *models, hold chan struct{}) *server.Server {
	return server.New(server.Options{
		Config: config.Default().Server, APIs: []server.API{&testAPI{m, hold}},
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
	m := list(t, "a", "org/b")
	s := serve(m, nil)
	const infer = "/v2/models/org%2Fb/versions/1/infer"
	for _, c := range []struct{ method, target, body, asked, answer string }{
		{"POST", "/generate", `{"inputs":"x"}`, `[""]`, "a "},
		{"POST", "/generate", `{"model":"org/b"}`, `["org/b"]`, "org/b "},
		{"POST", "/generate", `{"model":null}`, `[""]`, "a "},
		{"POST", "/generate?model=org/b", `{"model":"a"}`, `["org/b"]`, "org/b "},
		{"POST", "/generate?model=", `{"model":"org/b"}`, `["org/b"]`, "org/b "},
		{"GET", "/info", ``, `[""]`, "a "},
		{"GET", "/info?model=org%2Fb", ``, `["org/b"]`, "org/b "},
		{"GET", "/info?x=1", ``, `[""]`, "a "},
		{"HEAD", "/info?model=org%2Fb", ``, `["org/b"]`, "org/b "},
		// The path names a model, or anything.
		{"POST", infer, `{}`, `["org/b"]`, "org/b org/b"},
		{"POST", infer, `{"model":"a"}`, `["org/b"]`, "org/b org/b"},
		{"POST", infer + "?model=a", `{}`, `["a"]`, "a org/b"},
		{"POST", "/v2/models/m/versions/1/infer", `{}`, `[""]`, "a m"},
		{"POST", "/v2/models/m/versions/1/infer", `{"model":"org/b"}`, `["org/b"]`, "org/b m"},
	} {
		rec := ask(s, c.method, c.target, c.body)
		if got := rec.Body.String(); rec.Code != 200 || got != c.answer {
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

// TestNamesOfNobody: where unknown names mean the default, one in the path does not keep the body's from being read.
func TestNamesOfNobody(t *testing.T) {
	m := list(t, "a", "org/b")
	m.lenient = true
	s := serve(m, nil)
	for body, want := range map[string]string{`{}`: "a m", `{"model":"org/b"}`: "org/b m", `{"model":"x"}`: "a m"} {
		if rec := ask(s, "POST", "/v2/models/m/versions/1/infer", body); rec.Body.String() != want {
			t.Errorf("%s: %s, want %s", body, rec.Body, want)
		}
	}
}

func TestPlaceholder(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "tgi": true, "dummy": true, "<MODEL_NAME>": true, "http://127.0.0.1:3000": true,
		"https://x.example/v1": true,
		"tgi-demo":             false, "TGI": false, "http": false, "org/dummy": false, "gpt-4": false,
	} {
		if got := Placeholder(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// TestRefusals: errors have the shape of the route, and the status of the server's
// table.
func TestRefusals(t *testing.T) {
	m := list(t, "a")
	m.refused["b"] = fmt.Errorf("use: %w", server.ErrModelKey)
	m.refused["up"] = &server.NotServing{ID: "up", Loading: true, RetryAfter: 1500 * time.Millisecond}
	m.refused["off"] = &server.NotServing{ID: "off", RetryAfter: time.Minute}
	s := serve(m, nil)
	for _, c := range []struct {
		target, body string
		status       int
		answer       string
	}{
		{"/generate", `{"model":"c"}`, 404,
			"{\"error\":\"use: The model `c` does not exist\",\"error_type\":\"model_not_found\"}"},
		{"/generate?model=c", `{}`, 404,
			"{\"error\":\"use: The model `c` does not exist\",\"error_type\":\"model_not_found\"}"},
		{"/generate", `{"model":"b"}`, 403,
			`{"error":"use: the key given is not for this model","error_type":"forbidden"}`},
		{"/generate", `{"model":"up"}`, 503, "{\"error\":\"Model `up` is loading\",\"error_type\":\"loading\"}"},
		{"/generate", `{"model":"off"}`, 503,
			"{\"error\":\"Model `off` is stopped\",\"error_type\":\"model_stopped\"}"},
		{"/v2/models/b/versions/1/infer", `{}`, 403,
			`{"error":"use: the key given is not for this model","error_type":"forbidden"}`},
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
