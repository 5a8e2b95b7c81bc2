package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
)

// routes is an API made of functions.
type routes map[string]func(http.ResponseWriter, *http.Request) error

func (r routes) Routes() []server.Route {
	var all []server.Route
	for path, f := range r {
		all = append(all, server.Route{Method: http.MethodPost, Path: path, Handle: f})
	}
	return all
}

func newServer(r routes, change func(*server.Options)) *server.Server {
	o := server.Options{
		Config: config.Default().Server, APIs: []server.API{r},
		Healthy: func() error { return nil }, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	return server.New(o)
}

func echo(w http.ResponseWriter, r *http.Request) error {
	body, err := server.ReadBody(r)
	if err != nil {
		return err
	}
	server.WriteJSON(w, body)
	return nil
}

func ask(s http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

func TestErrorTable(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		body   string
	}{
		{&generate.Invalid{Msg: "`x` is bad"}, 422, `{"error":"Input validation error: ` + "`x` is bad" +
			`","error_type":"validation"}`},
		{fmt.Errorf("%w: 5 and 4", llm.ErrTooLong), 422,
			`{"error":"Input validation error: request exceeds the model's capacity: 5 and 4","error_type":"validation"}`},
		{&generate.Overloaded{RetryAfter: 3 * time.Second}, 429,
			`{"error":"Model is overloaded","error_type":"overloaded"}`},
		{llm.ErrOverloaded, 429, `{"error":"Model is overloaded","error_type":"overloaded"}`},
		{llm.ErrDraining, 503, `{"error":"Server is shutting down","error_type":"draining"}`},
		{fmt.Errorf("%w: nan", llm.ErrBackend), 424,
			`{"error":"Request failed during generation: forward pass failed: nan","error_type":"generation"}`},
		{fmt.Errorf("%w: dry: tgi_process: trap: unreachable", llm.ErrPlugin), 424,
			`{"error":"Request failed during generation: plugin failed: dry: tgi_process: trap: unreachable","error_type":"plugin"}`},
		{llm.ErrClosed, 424, `{"error":"Request failed during generation: engine closed","error_type":"generation"}`},
		{generate.ErrIncomplete, 500, `{"error":"Incomplete generation","error_type":"incomplete_generation"}`},
		{server.ErrIncompleteStream, 500,
			`{"error":"Incomplete generation stream","error_type":"incomplete_generation_stream"}`},
		{server.ErrUnhealthy, 503, `{"error":"unhealthy","error_type":"healthcheck"}`},
		{server.ErrTooLarge, 413,
			`{"error":"Failed to buffer the request body: length limit exceeded","error_type":"payload_too_large"}`},
		{server.ErrMediaType, 415,
			"{\"error\":\"Expected request with `Content-Type: application/json`\",\"error_type\":\"unsupported_media_type\"}"},
		{fmt.Errorf("%w: \"x\"", server.ErrNoPlugin), 404,
			`{"error":"no such plugin: \"x\"","error_type":"not_found"}`},
		{server.ErrUploadsBusy, 409,
			`{"error":"another server with this folder of uploads has been changing it","error_type":"conflict"}`},
		{server.ErrNotUploaded, 409, `{"error":"the plugin is not an uploaded one","error_type":"conflict"}`},
		{fmt.Errorf("%w: no export", server.ErrRefused), 422, `{"error":"refused: no export","error_type":"plugin"}`},
		{errors.New("secret detail"), 500, `{"error":"Internal server error","error_type":"internal"}`},
	} {
		rec := httptest.NewRecorder()
		server.WriteError(rec, c.err)
		if rec.Code != c.status || rec.Body.String() != c.body {
			t.Errorf("%v\n got %d %s\nwant %d %s", c.err, rec.Code, rec.Body, c.status, c.body)
		}
		wantRetry := ""
		if c.status == 429 && c.err != llm.ErrOverloaded {
			wantRetry = "3"
		}
		if c.err == llm.ErrDraining {
			wantRetry = "1"
		}
		if got := rec.Header().Get("Retry-After"); got != wantRetry {
			t.Errorf("%v: Retry-After is %q, want %q", c.err, got, wantRetry)
		}
	}
}

func TestBodies(t *testing.T) {
	s := newServer(routes{"/echo": echo}, func(o *server.Options) { o.Config.PayloadLimit = 10 })
	for _, c := range []struct {
		kind, body string
		status     int
	}{
		{"application/json", `{"a":1234}`, 200},
		{"application/json; charset=utf-8", `1`, 200},
		{"APPLICATION/problem+JSON", `1`, 200},
		{"application/json; broken=;", `1`, 200},
		{"application/json", `{"a":12345}`, 413},
		{"text/json", `1`, 415},
		{"application/jsonp", `1`, 415},
		{"json", `1`, 415},
		{"", `1`, 415},
	} {
		if rec := ask(s, "POST", "/echo", c.body, "Content-Type", c.kind); rec.Code != c.status {
			t.Errorf("%s %s: got %d, want %d", c.kind, c.body, rec.Code, c.status)
		}
	}
}

func TestKeys(t *testing.T) {
	s := newServer(routes{"/echo": echo}, func(o *server.Options) { o.Config.APIKeys = []string{"one", "Two"} })
	for _, c := range []struct {
		authorization string
		status        int
	}{
		{"", 401}, {"one", 401}, {"Bearer", 401}, {"Bearer ", 401}, {"Basic one", 401}, {"Bearer three", 401},
		{"Bearer on", 401},
		{"Bearer one ", 401}, {"Bearer two", 401}, {"Bearer one", 200}, {"bearer Two", 200},
	} {
		rec := ask(s, "POST", "/echo", "1", "Authorization", c.authorization)
		if rec.Code != c.status {
			t.Errorf("%q: got %d, want %d", c.authorization, rec.Code, c.status)
		}
		if rec.Code == 401 && (rec.Body.Len() > 0 || rec.Header().Get("WWW-Authenticate") != "Bearer") {
			t.Errorf("%q: body %q, header %v", c.authorization, rec.Body, rec.Header())
		}
	}
	if rec := ask(s, "GET", "/health", ""); rec.Code != 200 {
		t.Errorf("health wants a key: %d", rec.Code)
	}
}

// TestKeyErrors: routes whose errors have a shape of their own say what is wrong with a key.
func TestKeyErrors(t *testing.T) {
	s := newServer(nil, func(o *server.Options) {
		o.Config.APIKeys = []string{"one"}
		o.APIs = []server.API{shaped{}}
	})
	for key, want := range map[string]string{"": server.ErrNoKey.Error(), "Bearer two": server.ErrWrongKey.Error()} {
		rec := ask(s, "POST", "/v1/chat/completions", "1", "Authorization", key)
		if rec.Code != 401 || rec.Body.String() != `{"error":{"message":"`+want+`"}}` ||
			rec.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: %d %v %s", key, rec.Code, rec.Header(), rec.Body)
		}
	}
}

// TestCompressedBodies: a body in an encoding is refused by its name and not read as JSON.
func TestCompressedBodies(t *testing.T) {
	s := newServer(routes{"/echo": echo}, func(*server.Options) {})
	for encoding, want := range map[string]int{"gzip": 415, "br": 415, "identity": 200, "Identity": 200, "": 200} {
		rec := ask(s, "POST", "/echo", "1", "Content-Encoding", encoding)
		if rec.Code != want || want == 415 &&
			!strings.Contains(rec.Body.String(), "unsupported content encoding: `Content-Encoding: "+encoding+
				"`; send the body as it is") {
			t.Errorf("%q: %d %s", encoding, rec.Code, rec.Body)
		}
	}
}

// TestCharsets: JSON in another charset than UTF-8 is refused, not misread.
func TestCharsets(t *testing.T) {
	s := newServer(routes{"/echo": echo}, func(*server.Options) {})
	for given, bad := range map[string]string{
		"": "", "; charset=utf-8": "", `; charset="UTF-8"`: "", "; charset=utf8": "", "; q=1": "",
		"; charset=latin1": "latin1", `; Charset="UTF-16LE"`: "UTF-16LE",
	} {
		rec := ask(s, "POST", "/echo", "1", "Content-Type", "application/json"+given)
		text := "{\"error\":\"unsupported charset: `charset=" + bad +
			"` of Content-Type; send JSON in UTF-8\",\"error_type\":\"unsupported_media_type\"}"
		if bad == "" && rec.Code != 200 || bad != "" && (rec.Code != 415 || rec.Body.String() != text) {
			t.Errorf("%q: %d %s", given, rec.Code, rec.Body)
		}
	}
}

// scoped is an API with one route of each scope.
type scoped struct{}

func (scoped) Routes() []server.Route {
	say := func(w http.ResponseWriter, r *http.Request) error {
		server.WriteJSON(w, []byte(r.PathValue("what")))
		return nil
	}
	size := func(w http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return server.ErrTooLarge
		}
		server.WriteJSON(w, []byte(strconv.Itoa(len(body))))
		return nil
	}
	return []server.Route{
		{Method: http.MethodGet, Path: "/open", Scope: server.Open, Handle: say},
		{Method: http.MethodGet, Path: "/keyed", Handle: say},
		{Method: http.MethodGet, Path: "/models", Scope: server.Models, Handle: say},
		{Method: http.MethodGet, Path: "/list", Scope: server.Listing, Handle: say},
		{Method: http.MethodGet, Path: "/admin/{what}", Scope: server.Admin, Handle: say},
		{Method: http.MethodPut, Path: "/admin/size", Scope: server.Admin, BodyLimit: 20, Handle: size},
		{Method: http.MethodPut, Path: "/size", Scope: server.Open, Handle: size},
	}
}

func TestScopes(t *testing.T) {
	const off = `{"error":"routes of administrators are switched off: server.admin_keys is empty","error_type":"forbidden"}`
	const unknown = `{"error":"the key given is not known to this server","error_type":"unauthorized"}`
	needs := func(scope, has string) string {
		return fmt.Sprintf("{\"error\":\"this route needs a key with the scope `%s`, the key given has %s\",\"error_type\":\"forbidden\"}", scope, has)
	}
	user, administrator := needs("admin", "generate, models"), needs("generate", "admin")
	extra := []config.Key{{Name: "m", Key: "m", Scopes: []string{"models"}}, {Name: "ga", Key: "ga",
		Scopes: []string{"generate", "admin"}}, {Name: "g", Key: "g", Scopes: []string{"generate"}}}
	for _, c := range []struct {
		keys, admin []string
		path, token string
		status      int
		body        string
	}{
		{nil, nil, "/admin/x", "", 403, off},
		{nil, nil, "/admin/x", "a", 403, off},
		{[]string{"k"}, nil, "/admin/x", "k", 403, off},
		{nil, nil, "/keyed", "", 200, ""},
		{nil, []string{"a"}, "/keyed", "", 200, ""},
		{nil, []string{"a"}, "/admin/x", "", 401, unknown},
		{nil, []string{"a"}, "/admin/x", "b", 401, unknown},
		{nil, []string{"a", "b"}, "/admin/x", "b", 200, "x"},
		{[]string{"k"}, []string{"a"}, "/admin/x", "", 401, unknown},
		{[]string{"k"}, []string{"a"}, "/admin/x", "k", 403, user},
		{[]string{"k"}, []string{"a"}, "/admin/x", "a", 200, "x"},
		{[]string{"k"}, []string{"a"}, "/keyed", "a", 403, administrator},
		{[]string{"k"}, []string{"a"}, "/models", "k", 200, ""},
		{nil, []string{"a"}, "/models", "", 200, ""},
		{[]string{"extra"}, nil, "/models", "", 401, ""},
		{[]string{"extra"}, nil, "/models", "m", 200, ""},
		{[]string{"extra"}, nil, "/models", "ga", 403, needs("models", "generate, admin")},
		{nil, []string{"a"}, "/list", "", 200, ""},
		{[]string{"k"}, []string{"a"}, "/list", "k", 200, ""},
		{[]string{"k"}, []string{"a"}, "/list", "a", 403, needs("generate` or `models", "admin")},
		{[]string{"extra"}, nil, "/list", "", 401, ""},
		{[]string{"extra"}, nil, "/list", "m", 200, ""},
		{[]string{"extra"}, nil, "/list", "g", 200, ""},
		{[]string{"extra"}, nil, "/models", "g", 403, needs("models", "generate")},
		{[]string{"extra"}, nil, "/keyed", "", 401, ""},
		{[]string{"extra"}, nil, "/keyed", "m", 403, needs("generate", "models")},
		{[]string{"extra"}, nil, "/keyed", "ga", 200, ""},
		{[]string{"extra"}, nil, "/admin/x", "ga", 200, "x"},
		{[]string{"extra"}, nil, "/admin/x", "m", 403, needs("admin", "models")},
		{[]string{"k"}, []string{"a"}, "/keyed", "k", 200, ""},
		{[]string{"k"}, []string{"a"}, "/open", "", 200, ""},
	} {
		s := newServer(nil, func(o *server.Options) {
			o.Config.APIKeys, o.Config.AdminKeys, o.APIs = c.keys, c.admin, []server.API{scoped{}}
			if slices.Contains(c.keys, "extra") {
				o.Config.APIKeys, o.Keys = nil, extra
			}
		})
		rec := ask(s, "GET", c.path, "", "Authorization", "Bearer "+c.token)
		if rec.Code != c.status || rec.Body.String() != c.body ||
			(rec.Code == 401) != (rec.Header().Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("keys %q, admin keys %q, %s with %q\n got %d %s %v\nwant %d %s", c.keys, c.admin, c.path, c.token,
				rec.Code, rec.Body, rec.Header(), c.status, c.body)
		}
	}
}

// TestMayUse: what a key may use besides its scopes.
func TestMayUse(t *testing.T) {
	s := newServer(routes{"/which": func(w http.ResponseWriter, r *http.Request) error {
		for _, id := range []string{"a", "b/c"} {
			if server.MayUse(r.Context(), id) {
				_, _ = io.WriteString(w, id+" ")
			}
		}
		return nil
	}}, func(o *server.Options) {
		o.Keys = []config.Key{
			{Name: "all", Key: "all", Scopes: []string{"generate"}},
			{Name: "one", Key: "one", Scopes: []string{"generate"}, Models: []string{"b/c"}},
			{Name: "none", Key: "none", Scopes: []string{"generate"}, Models: []string{}},
		}
	})
	for key, want := range map[string]string{"all": "a b/c ", "one": "b/c ", "none": ""} {
		if got := ask(s, "POST", "/which", "1", "Authorization", "Bearer "+key).Body.String(); got != want {
			t.Errorf("key %s: %q, want %q", key, got, want)
		}
	}
	if !server.MayUse(t.Context(), "a") {
		t.Error("without a key there is a bound")
	}
}

// TestBodyLimits: a route may have a limit of its own, on both sides of the
// server's.
func TestBodyLimits(t *testing.T) {
	s := newServer(nil, func(o *server.Options) {
		o.Config.PayloadLimit, o.Config.AdminKeys, o.APIs = 10, []string{"a"}, []server.API{scoped{}}
	})
	for _, c := range []struct {
		path         string
		size, status int
	}{{"/size", 10, 200}, {"/size", 11, 413}, {"/admin/size", 20, 200}, {"/admin/size", 21, 413}} {
		if rec := ask(s, "PUT", c.path, strings.Repeat("x", c.size), "Authorization",
			"Bearer a"); rec.Code != c.status {
			t.Errorf("%s with %d bytes: got %d, want %d", c.path, c.size, rec.Code, c.status)
		}
	}
}

// TestMisplacedScope: a route below /admin that is not an admin's would be open
// to pages of other origins and to every key.
func TestMisplacedScope(t *testing.T) {
	for _, r := range []server.Route{{Path: "/admin/x", Scope: server.Generate},
		{Path: "/admin/x", Scope: server.Open}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was served with scope %d", r.Path, r.Scope)
				}
			}()
			newServer(nil, func(o *server.Options) { o.APIs = []server.API{list{r}} })
		}()
	}
}

// list is an API made of routes.
type list []server.Route

func (l list) Routes() []server.Route { return l }

func TestRequestIDs(t *testing.T) {
	s := newServer(nil, nil)
	if id := ask(s, "GET", "/ping", "", "X-Request-Id", "abc-1").Header().Get("X-Request-Id"); id != "abc-1" {
		t.Errorf("the client's id became %q", id)
	}
	for _, bad := range []string{"", "a b", "a\tb", "é", strings.Repeat("x", 129)} {
		if id := ask(s, "GET", "/ping", "", "X-Request-Id", bad).Header().Get("X-Request-Id"); len(id) != 32 ||
			id == bad {
			t.Errorf("%q became %q", bad, id)
		}
	}
}

func TestCrossOrigin(t *testing.T) {
	open := newServer(routes{"/echo": echo}, nil)
	if got := ask(open, "POST", "/echo", "1", "Origin",
		"https://a").Header().Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("open: got %q", got)
	}
	some := newServer(routes{"/echo": echo}, func(o *server.Options) {
		o.Config.CORSAllowOrigin = []string{"https://a", "https://b"}
		o.Config.APIKeys = []string{"k"}
	})
	for origin, want := range map[string]string{"https://b": "https://b", "https://c": ""} {
		rec := ask(some, "OPTIONS", "/echo", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		h := rec.Header()
		if rec.Code != 200 || h.Get("Access-Control-Allow-Origin") != want || h.Get("Vary") != "Origin" ||
			h.Get("Access-Control-Allow-Headers") != "authorization,content-type,*" ||
			h.Get("Access-Control-Expose-Headers") != "*" {
			t.Errorf("%s: %d %v", origin, rec.Code, h)
		}
	}
	admin := newServer(nil, func(o *server.Options) {
		o.APIs, o.Config.AdminKeys = []server.API{scoped{}},
			[]string{"a"}
	})
	for _, method := range []string{"GET", "OPTIONS"} {
		rec := ask(admin, method, "/admin/x", "", "Origin", "https://a", "Access-Control-Request-Method", "GET",
			"Authorization", "Bearer a")
		for name := range rec.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s of an admin route has %s", method, name)
			}
		}
		if method == "OPTIONS" && rec.Code != 405 {
			t.Errorf("the preflight of an admin route: %d", rec.Code)
		}
	}
	if rec := ask(some, "OPTIONS", "/echo", ""); rec.Code != 405 {
		t.Errorf("OPTIONS that asks nothing: %d", rec.Code)
	}
}

// TestAdminPages: pages call routes of administrators from configured origins alone.
func TestAdminPages(t *testing.T) {
	route := server.Route{Method: "PUT", Path: "/v1/x", Scope: server.Admin, Handle: echo}
	for _, c := range []struct {
		allow  []string
		origin string
		want   int
	}{
		{nil, "", 200}, {nil, "http://example.com", 200}, {nil, "https://a", 403}, {nil, "null", 403},
		{[]string{"https://a"}, "https://a", 200}, {[]string{"https://a"}, "https://b", 403},
	} {
		s := newServer(nil, func(o *server.Options) {
			o.APIs, o.Config.AdminKeys, o.Config.CORSAllowOrigin = []server.API{list{route}}, []string{"a"}, c.allow
		})
		header := []string{"Authorization", "Bearer a"}
		if c.origin != "" {
			header = append(header, "Origin", c.origin)
		}
		if rec := ask(s, "PUT", "/v1/x", "1", header...); rec.Code != c.want {
			t.Errorf("allowed %q, from %q: %d, want %d: %s", c.allow, c.origin, rec.Code, c.want, rec.Body)
		}
		want := "GET,POST"
		if c.allow != nil {
			want += ",PUT,DELETE"
		}
		if rec := ask(s, "OPTIONS", "/v1/x", "", "Access-Control-Request-Method",
			"PUT"); rec.Header().Get("Access-Control-Allow-Methods") != want {
			t.Errorf("allowed %q: methods %q, want %q", c.allow, rec.Header().Get("Access-Control-Allow-Methods"), want)
		}
	}
}

// TestRefuse: a route replies to its errors in its own shape.
func TestRefuse(t *testing.T) {
	s := newServer(nil, func(o *server.Options) {
		o.APIs = []server.API{list{{
			Method: "GET", Path: "/x",
			Handle: func(http.ResponseWriter, *http.Request) error { return &server.NoModel{ID: "m"} },
			Refuse: func(w http.ResponseWriter, _ *http.Request, err error) {
				w.WriteHeader(418)
				_, _ = io.WriteString(w, err.Error())
			},
		}}}
	})
	if rec := ask(s, "GET", "/x", ""); rec.Code != 418 || rec.Body.String() != "The model `m` does not exist" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestModelErrors(t *testing.T) {
	for _, c := range []struct {
		err         error
		status      int
		retry, body string
	}{
		{&server.NoModel{ID: "m"}, 404, "", `{"error":"The model ` + "`m`" +
			` does not exist","error_type":"model_not_found"}`},
		{&server.NotServing{ID: "m", Loading: true, RetryAfter: 1500 * time.Millisecond}, 503, "2", `{"error":"Model ` +
			"`m`" + ` is loading","error_type":"loading"}`},
		{&server.NotServing{ID: "m"}, 503, "1", `{"error":"Model ` + "`m`" +
			` is stopped","error_type":"model_stopped"}`},
		{server.ErrModelKey, 403, "", `{"error":"the key given is not for this model","error_type":"forbidden"}`},
	} {
		rec := httptest.NewRecorder()
		server.WriteError(rec, c.err)
		if rec.Code != c.status || rec.Header().Get("Retry-After") != c.retry || rec.Body.String() != c.body ||
			rec.Header().Get("Connection") != "" {
			t.Errorf("%v: %d %v %s", c.err, rec.Code, rec.Header(), rec.Body)
		}
	}
}

func TestPanics(t *testing.T) {
	var logged bytes.Buffer
	s := httptest.NewServer(newServer(routes{
		"/early": func(http.ResponseWriter, *http.Request) error { panic("secret") },
		"/late": func(w http.ResponseWriter, _ *http.Request) error {
			e, _ := server.StartEvents(w)
			_ = e.Data([]byte("1"))
			panic("secret")
		},
		"/abort": func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
	}, func(o *server.Options) { o.Log = slog.New(slog.NewJSONHandler(&logged, nil)) }))
	r, err := http.Post(s.URL+"/early", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != 500 || string(body) != `{"error":"Internal server error","error_type":"internal"}` {
		t.Errorf("early: %d %s", r.StatusCode, body)
	}
	if r, err = http.Post(s.URL+"/late", "application/json", nil); err != nil {
		t.Fatal(err)
	}
	if body, err = io.ReadAll(r.Body); err == nil || string(body) != "data: 1\n\n" {
		t.Errorf("late: read %q, %v; want the connection broken off", body, err)
	}
	if _, err = http.Post(s.URL+"/abort", "application/json", nil); err == nil {
		t.Error("abort: the connection lives")
	}
	s.Close()
	if n := strings.Count(logged.String(), "a handler panicked"); n != 2 ||
		!strings.Contains(logged.String(), "server_test.go") {
		t.Errorf("%d panics in the log, want 2 with their stack:\n%s", n, &logged)
	}
}

func TestLogLines(t *testing.T) {
	var logged bytes.Buffer
	s := newServer(routes{"/echo": echo}, func(o *server.Options) {
		o.Log = slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	ask(s, "POST", "/echo", "123", "X-Request-Id", "id7")
	ask(s, "POST", "/echo", "1", "Content-Type", "x")
	ask(s, "GET", "/ping", "")
	var lines []map[string]any
	for d := json.NewDecoder(&logged); d.More(); {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	want := []map[string]any{
		{"level": "INFO", "status": 200.0, "path": "/echo", "bytes": 3.0, "request_id": "id7", "method": "POST"},
		{"level": "INFO", "status": 415.0, "error": "unsupported media type"},
		{"level": "DEBUG", "status": 200.0, "path": "/ping"},
	}
	for i, w := range want {
		for k, v := range w {
			if lines[i][k] != v {
				t.Errorf("line %d: %s is %v, want %v", i, k, lines[i][k], v)
			}
		}
	}
}

// TestKeepAlive waits 40 seconds of fake time for an event.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(routes{"/slow": func(w http.ResponseWriter, r *http.Request) error {
			e, err := server.StartEvents(w)
			if err != nil {
				return err
			}
			event := make(chan string)
			go func() { time.Sleep(40 * time.Second); event <- "late" }()
			v, err := server.Await(r.Context(), e, func(ctx context.Context) (string, error) {
				select {
				case v := <-event:
					return v, nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			if err != nil {
				return err
			}
			return e.Data([]byte(v))
		}}, nil)
		if got, want := ask(s, "POST", "/slow", "").Body.String(), ":\n\n:\n\ndata: late\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// live serves s on a port of its own until stop is called; done is what Serve
// returned.
func live(t *testing.T, s *server.Server) (url string, stop func(), done <-chan error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- s.Serve(ctx, l) }()
	t.Cleanup(cancel)
	return "http://" + l.Addr().String(), cancel, result
}

func TestDrain(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	s := newServer(routes{"/wait": func(w http.ResponseWriter, _ *http.Request) error {
		close(entered)
		<-finish
		server.WriteJSON(w, []byte("1"))
		return nil
	}, "/echo": echo}, nil)
	url, stop, done := live(t, s)
	type reply struct {
		status int
		body   string
	}
	running := make(chan reply)
	go func() {
		r, err := http.Post(url+"/wait", "application/json", nil)
		if err != nil {
			running <- reply{0, err.Error()}
			return
		}
		body, _ := io.ReadAll(r.Body)
		running <- reply{r.StatusCode, string(body)}
	}()
	<-entered
	stop()
	for { // until the gate is closed
		r, err := http.Get(url + "/health")
		if err != nil {
			t.Fatal("refused a probe while draining:", err)
		}
		r.Body.Close()
		if r.StatusCode == 503 {
			break
		}
	}
	r, err := http.Post(url+"/echo", "application/json", strings.NewReader("1"))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(r.Body)
	if r.StatusCode != 503 || !r.Close ||
		string(body) != `{"error":"Server is shutting down","error_type":"draining"}` {
		t.Errorf("a new request while draining: %d, close %v, %s", r.StatusCode, r.Close, body)
	}
	close(finish)
	if got := <-running; got != (reply{200, "1"}) {
		t.Errorf("the running request got %v", got)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := http.Get(url + "/health"); err == nil {
		t.Error("still listening")
	}
}

// TestDrainCutsOff: a request that outlives the grace time is told why it ends.
func TestDrainCutsOff(t *testing.T) {
	entered := make(chan struct{})
	s := newServer(routes{"/wait": func(_ http.ResponseWriter, r *http.Request) error {
		close(entered)
		<-r.Context().Done()
		return context.Cause(r.Context())
	}}, func(o *server.Options) { o.Config.GracefulTerminationTimeout = config.Duration(20 * time.Millisecond) })
	url, stop, done := live(t, s)
	got := make(chan string, 1)
	go func() {
		r, err := http.Post(url+"/wait", "application/json", nil)
		if err != nil {
			got <- err.Error()
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	}()
	<-entered
	stop()
	if err := <-done; !errors.Is(err, server.ErrGrace) || !strings.Contains(err.Error(), "1 requests were cut off") {
		t.Errorf("Serve returned %v", err)
	}
	if body := <-got; body != `{"error":"Server is shutting down","error_type":"draining"}` {
		t.Errorf("the request got %s", body)
	}
}

// TestDrainOfASlowBody: a request whose body does not come is cut off with the others.
func TestDrainOfASlowBody(t *testing.T) {
	s := newServer(routes{"/echo": echo}, func(o *server.Options) {
		o.Config.GracefulTerminationTimeout = config.Duration(20 * time.Millisecond)
		o.Config.ReadTimeout = config.Duration(time.Hour)
	})
	url, stop, done := live(t, s)
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 25)); err != nil { // the handler reads: HTTP/1.1 100 Continue
		t.Fatal(err)
	}
	began := time.Now()
	stop()
	if err := <-done; !errors.Is(err, server.ErrGrace) || time.Since(began) > 4*time.Second {
		t.Errorf("Serve returned %v after %s", err, time.Since(began))
	}
}

func TestServeFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := newServer(nil, nil).Serve(t.Context(), l); err == nil ||
		!strings.Contains(err.Error(), "serve 127.0.0.1") {
		t.Errorf("got %v", err)
	}
}
