package tgi

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/openapi"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func send(s http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestVertexRoutes: the operator's paths answer like the known ones, and those
// that are served already are left alone.
func TestVertexRoutes(t *testing.T) {
	ready := error(nil)
	s := newChanged(&generatetest.Engine{}, nil, func(o *Options, _ *dispatch.Model) {
		o.PredictRoute, o.HealthRoute = "/v1/endpoints/7:predict", "/v1/endpoints/7"
		o.Ready = func() error { return ready }
	})
	if rec := send(s, http.MethodPost, "/v1/endpoints/7:predict",
		`{"instances":[{"inputs":"Hi","parameters":{"max_new_tokens":2}}]}`); rec.Body.String() != `{"predictions":[" x x"]}` {
		t.Errorf("predict: %d %s", rec.Code, rec.Body)
	}
	for _, path := range []string{"/v1/endpoints/7", "/v2/health/ready", "/v2/models/a/versions/b/ready"} {
		ready = nil
		if rec := send(s, http.MethodGet, path, ""); rec.Code != 200 {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
		ready = errors.New("loading")
		if rec := send(s, http.MethodGet, path, ""); rec.Code != 503 ||
			rec.Body.String() != `{"error":"unhealthy","error_type":"healthcheck"}` {
			t.Errorf("%s, not ready: %d %s", path, rec.Code, rec.Body)
		}
	}
	if rec := send(s, http.MethodGet, "/v2/health/live", ""); rec.Code != 200 {
		t.Errorf("live, not ready: %d %s", rec.Code, rec.Body)
	}
	// None of these may be a second route, which would panic.
	for _, o := range []Options{{PredictRoute: "/vertex", HealthRoute: "/health"}, {PredictRoute: "/generate",
		HealthRoute: "/info"}, {PredictRoute: "/p", HealthRoute: "/"}, {HealthRoute: "/livez"},
		{HealthRoute: "/metrics"}} {
		newChanged(&generatetest.Engine{}, nil, func(all *Options, _ *dispatch.Model) {
			all.PredictRoute, all.HealthRoute = o.PredictRoute, o.HealthRoute
		})
	}
}

// TestVertexUnused: parameters of an instance that count elsewhere and not here are named, and not refused.
func TestVertexUnused(t *testing.T) {
	var strict *dispatch.Model
	s := newChanged(&generatetest.Engine{}, nil, func(_ *Options, m *dispatch.Model) { strict = m })
	strict.Service.WithStrictFields()
	for _, d := range []string{"tgi-2.2", "tgi-3"} {
		r := httptest.NewRequest(http.MethodPost, "/vertex", strings.NewReader(`{"instances":[{"inputs":"a","parameters":`+
			`{"temperature":0.5,"do_sample":true,"top_p":null,"stop":[],"max_new_tokens":1}},`+
			`{"inputs":"b","parameters":{"do_sample":false,"details":false,"max_new_tokens":1,"temperature":0.5}}]}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-TGI-Dialect", d)
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		got := rec.Header().Get("X-Ignored-Fields")
		if rec.Code != 200 || got != "instances.parameters.temperature, instances.parameters.do_sample" {
			t.Errorf("%s: %d %q %s", d, rec.Code, got, rec.Body)
		}
	}
}

func TestCheckRoute(t *testing.T) {
	for path, want := range map[string]bool{
		"": true, "/predict": true, "/v1/endpoints/7/deployedModels/8:predict": true,
		"predict": false, "/a/": false, "/a//b": false, "/a/../b": false, "/{x}": false, "/a?b": false, "/a#b": false,
		"/admin/reload": false,
	} {
		if err := CheckRoute("AIP_PREDICT_ROUTE", path); (err == nil) != want {
			t.Errorf("%q: %v", path, err)
		}
	}
	const want = "AIP_PREDICT_ROUTE must be a path from the root, without braces and outside of /admin/. Given: \"predict\""
	if err := CheckRoute("AIP_PREDICT_ROUTE", "predict"); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// plain are the options of a server of one model and no other APIs.
func plain() Options {
	e := &generatetest.Engine{}
	return Options{Models: dispatchtest.One(demo(e, generatetest.Limits())), Ready: e.Healthy}
}

// TestCloudRoutesNeedKeys: TGI let everybody use some of these.
func TestCloudRoutesNeedKeys(t *testing.T) {
	c := config.Default()
	c.Server.APIKeys = []string{"secret"}
	o := plain()
	o.PredictRoute, o.HealthRoute = "/p", "/h"
	api := New(o)
	s := server.New(server.Options{Config: c.Server, APIs: []server.API{api}, Healthy: func() error { return nil },
		Log: slog.New(slog.DiscardHandler)})
	tells := map[string]server.Scope{"/info": server.Listing, documentPath: server.Listing, kserveRoot: server.Models,
		kserveVersion: server.Models}
	open := []string{"/docs", "/v2/health/live", "/v2/health/ready", kserveVersion + "/ready", "/h"}
	for _, r := range api.Routes() {
		scope, want := tells[r.Path], 401 // the others generate
		if slices.Contains(open, r.Path) {
			scope, want = server.Open, 200
		}
		if r.Scope != scope {
			t.Errorf("%s %s has the scope %s, want %s", r.Method, r.Path, r.Scope, scope)
		}
		if rec := send(s, r.Method, r.Path, ""); rec.Code != want {
			t.Errorf("%s %s without a key: %d, want %d", r.Method, r.Path, rec.Code, want)
		}
	}
}

// TestManyTexts: as many texts run at once as a call may have prompts, and the
// order of the reply is that of the request.
func TestManyTexts(t *testing.T) {
	e := &generatetest.Engine{Step: make(chan struct{}), Script: func(r engine.Request) []engine.Event {
		return generatetest.Sequence(r, 0, llm.FinishLength, generate.Token{Text: fmt.Sprint(len(r.Prompt))})
	}}
	s := newServer(e)
	var body strings.Builder
	var want []string
	for i := range 9 {
		fmt.Fprintf(&body, `,{"inputs":"a%s"}`, strings.Repeat(" a", 8-i))
		want = append(want, fmt.Sprintf("%q", fmt.Sprint(9-i)))
	}
	var rec *httptest.ResponseRecorder
	var group sync.WaitGroup
	group.Go(func() { rec = send(s, http.MethodPost, "/vertex", `{"instances":[`+body.String()[1:]+`]}`) })
	eventually(t, "four run", func() bool { return e.Running() == 4 })
	close(e.Step)
	group.Wait()
	if got := rec.Body.String(); got != `{"predictions":[`+strings.Join(want, ",")+`]}` {
		t.Errorf("got %s", got)
	}
	if n := len(e.Requests()); n != 9 {
		t.Errorf("%d requests", n)
	}
}

// TestManyTextsLeft: a client that leaves ends all of them, and the first that
// fails the others.
func TestManyTextsLeft(t *testing.T) {
	e := &generatetest.Engine{Step: make(chan struct{})}
	url := live(t, e)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if r, err := post(ctx, url+"/vertex",
			`{"instances":[{"inputs":"a"},{"inputs":"a"},{"inputs":"a"}]}`); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
	}()
	eventually(t, "three run", func() bool { return e.Running() == 3 })
	leave()
	<-gone
	eventually(t, "none runs", func() bool { return e.Running() == 0 })

	ctx, give := context.WithTimeout(t.Context(), 20*time.Second) // for a broken test alone
	defer give()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/vertex",
		strings.NewReader(`{"instances":[{"inputs":"a"},{"inputs":""},{"inputs":"a"}]}`))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	newServer(e).ServeHTTP(rec, r)
	if rec.Code != 500 ||
		rec.Body.String() != `{"error":"Incomplete generation","error_type":"Incomplete generation"}` {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	eventually(t, "none is left behind", func() bool { return e.Running() == 0 })
}

// TestGoneIsNoFailure: who left is told nothing, and counts as such.
func TestGoneIsNoFailure(t *testing.T) {
	a := New(plain())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	for path, body := range map[string]string{
		"/vertex": `{"instances":[{"inputs":"a"}]}`,
		kserveVersion +
			"/infer": `{"id":"1","inputs":[{"name":"","shape":[],"datatype":"","data":[97]}],"outputs":[{"name":""}]}`,
	} {
		i := slices.IndexFunc(a.Routes(), func(r server.Route) bool { return r.Path == path })
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		if err := a.Routes()[i].Handle(rec, r); !errors.Is(err, context.Canceled) || rec.Body.Len() > 0 {
			t.Errorf("%s: %v, %s", path, err, rec.Body)
		}
	}
}

// TestFirstRefusedConversation: of several without a prompt the first counts.
func TestFirstRefusedConversation(t *testing.T) {
	o := plain()
	o.ChatDraft = func(text []byte, _ *dialect.Dialect) (generate.Draft, string, error) {
		return generate.Draft{}, "", &generate.TemplateError{Msg: string(text)}
	}
	a := New(o)
	i := slices.IndexFunc(a.Routes(), func(r server.Route) bool { return r.Path == "/vertex" })
	r := httptest.NewRequest(http.MethodPost, "/vertex",
		strings.NewReader(`{"instances":[{"inputs":"a"},{"a":1},{"a":2}]}`))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	if err := a.Routes()[i].Handle(rec, r); !errors.Is(err, generate.ErrTemplate) || err.Error() != `{"a":1}` ||
		rec.Body.Len() > 0 {
		t.Errorf("got %v, %s", err, rec.Body)
	}
}

// TestFailuresAreLogged: the reply hides why, the log does not.
func TestFailuresAreLogged(t *testing.T) {
	var log bytes.Buffer
	api := New(plain())
	s := server.New(server.Options{Config: config.Default().Server, APIs: []server.API{api}, Healthy: func() error {
		return nil
	}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	send(s, http.MethodPost, "/vertex", `{"instances":[{"inputs":""}]}`)
	if !strings.Contains(log.String(), "`inputs` cannot be empty") {
		t.Errorf("the log is %s", &log)
	}
}

// TestInvalidUTF8 holds the descriptions against Rust's own, which make_utf8.rs
// wrote.
func TestInvalidUTF8(t *testing.T) {
	text, err := os.ReadFile("testdata/utf8/utf8.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, line := range lines {
		digits, want, _ := strings.Cut(line, "\t")
		b, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		if got := invalidUTF8(b); got != want {
			t.Errorf("%x: got %q, want %q", b, got, want)
		}
	}
	if len(lines) < 500 {
		t.Errorf("only %d lines", len(lines))
	}
}

// FuzzCloudBody: whatever the body, the reply is one that the document has.
func FuzzCloudBody(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"inputs":"a","parameters":{"details":true,"max_new_tokens":2},"stream":true}`, `{"messages":"a"}`,
		`{"prompt":"a"}`, `{"messages":5,"prompt":"x"}`,
		`{"instances":[{"inputs":"a"},{"messages":"b","max_tokens":1},{"messages":"no"}]}`, `{"instances":[]}`,
		`{"instances":[{"inputs":"a","parameters":null}]}`,
		`{"instances":[[{"inputs":1}],7,"\ud800"]}`,
		`{"instances":[{"inputs":"a","parameters":{"seed":18446744073709551615}}]}`,
		`{"id":"é","inputs":[{"name":"","shape":[],"datatype":"","data":[226,130,172]}],"outputs":[{"name":"\u0000"}]}`,
		`{"id":"1","parameters":{"return_full_text":true,"best_of":2,"top_k":1},"inputs":[{"name":"","shape":[1],"datatype":"","data":[255]}],"outputs":[]}`,
		`{"id":"1","inputs":[{"name":"","shape":[1],"datatype":"","data":[1e2]}],"outputs":[]}`,
	} {
		f.Add(s, uint8(2))
		f.Add(s, uint8(1))
	}
	s := newServer(&generatetest.Engine{})
	api := New(Options{Limits: sized})
	var doc openapi.Document
	if err := json.Unmarshal(api.document(nil), &doc); err != nil {
		f.Fatal(err)
	}
	c := checker{schemas: doc.Components.Schemas}
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		d := dialect.All[int(pick)%len(dialect.All)]
		for _, path := range []string{"/invocations", "/vertex", "/v2/models/a/versions/b/infer", "/chat_tokenize"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(dialect.Header, d.Name())
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			body := rec.Body.Bytes()
			if !utf8.Valid(body) {
				t.Fatalf("%s %q: the reply is no UTF-8: %q", path, text, body)
			}
			if rec.Code == 500 && !bytes.Contains(body, []byte(`"error":"Incomplete generation"`)) {
				t.Fatalf("%s %q: %s", path, text, body)
			}
			if path == "/invocations" && json.Valid(body) && (bytes.HasPrefix(body, []byte(`{"chat"`)) ||
				bytes.HasPrefix(body, []byte(`{"completion"`))) {
				continue // the stubs of OpenAI's routes
			}
			for _, wrong := range replyFits(c, operation(&doc, http.MethodPost, path), rec.Code,
				rec.Header().Get("Content-Type"), body) {
				t.Fatalf("%s %s %q: %s\n%s", d.Name(), path, text, wrong, body)
			}
		}
	})
}

// TestBodiesOfEveryRoute: every route that reads a body refuses one that is not
// JSON, does not say so or is too long, in TGI's words.
func TestBodiesOfEveryRoute(t *testing.T) {
	o := plain()
	o.ChatDraft, o.Chat, o.Completion, o.PredictRoute = chatDraft, echo("chat", "messages"),
		echo("completion", "prompt"), "/p"
	api := New(o)
	c := config.Default().Server
	c.PayloadLimit = 100
	s := server.New(server.Options{Config: c, APIs: []server.API{api}, Healthy: func() error { return nil },
		Log: slog.New(slog.DiscardHandler)})
	posts := 0
	for _, route := range api.Routes() {
		if route.Method != http.MethodPost {
			continue
		}
		posts++
		for _, bad := range []struct{ kind, body, want string }{
			{"application/json", `{"a": `,
				`400 {"error":"Failed to parse the request body as JSON: a: EOF while parsing a value at line 1 column 6","error_type":"bad_request"}`},
			{"application/json", ``,
				`400 {"error":"Failed to parse the request body as JSON: EOF while parsing a value at line 1 column 0","error_type":"bad_request"}`},
			{"text/plain", `{}`,
				"415 {\"error\":\"Expected request with `Content-Type: application/json`\",\"error_type\":\"unsupported_media_type\"}"},
			{"application/json", `{"a":"` + strings.Repeat("a", 100) + `"}`,
				`413 {"error":"Failed to buffer the request body: length limit exceeded","error_type":"payload_too_large"}`},
		} {
			r := httptest.NewRequest(route.Method, route.Path, strings.NewReader(bad.body))
			r.Header.Set("Content-Type", bad.kind)
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			if got := fmt.Sprint(rec.Code, " ", rec.Body); got != bad.want {
				t.Errorf("%s %.20s\n got %s\nwant %s", route.Path, bad.body, got, bad.want)
			}
		}
	}
	if posts != 11 {
		t.Errorf("%d routes read a body", posts)
	}
}
