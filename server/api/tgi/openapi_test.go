package tgi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/api/generateapi"
	"tgi/server/api/messages"
	"tgi/server/api/modelsapi"
	"tgi/server/api/ollama"
	"tgi/server/api/openai"
	"tgi/server/api/openapi"
	"tgi/server/api/responses"
	"tgi/server/api/routing"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/wire"
)

// wholeServer returns a server with both APIs, joined as they are in the command, and
// the API of this package.
func wholeServer(set func(*Options)) (*server.Server, *API) {
	return servedBy(&generatetest.Engine{}, set)
}

func servedBy(e *generatetest.Engine, set func(*Options)) (*server.Server, *API) {
	service := generatetest.UserCode{Chat: &generatetest.Chat{Parse: true}}.On(
		generate.New(e, generatetest.Words{}, generatetest.Limits(), nil))
	models := dispatchtest.One(&dispatch.Model{ID: "demo", Service: service, Limits: sized})
	chat := openai.New(openai.Options{Models: models, Version: "1.2.3"})
	c := config.Default()
	c.Server.AdminKeys = []string{adminKey}
	beside := []server.API{chat, modelsapi.New(oneModel{}), messages.New(models, nil),
		responses.New(responses.Options{Models: models}),
		generateapi.New(generateapi.Options{}), ollama.New(ollama.Options{Models: models}),
		routing.New(routing.Options{Models: models, Load: func() routing.Load { return routing.Load{} },
			Version: "1.2.3"}),
		admin.New(admin.Options{})}
	o := Options{
		Models: models, Ready: e.Healthy, Version: "1.2.3", Limits: sized,
		ChatDraft: openai.ChatDraft, Chat: chat.Chat, Completion: chat.Complete, Beside: beside,
	}
	if set != nil {
		set(&o)
	}
	a := New(o)
	return server.New(server.Options{Config: c.Server, APIs: append([]server.API{a}, beside...), Healthy: e.Healthy,
		Metrics: server.NewMetrics(), Log: slog.New(slog.DiscardHandler)}), a
}

// adminKey opens the routes of administrators.
const adminKey = "admin"

// TestShared: routes about the server need no model.
func TestShared(t *testing.T) {
	a := New(Options{Version: "1.2.3"})
	s := server.New(server.Options{Config: config.Default().Server, APIs: []server.API{a},
		Log: slog.New(slog.DiscardHandler)})
	for _, path := range []string{documentPath, kserveRoot} {
		rec := httptest.NewRecorder()
		if s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil)); rec.Code != 200 ||
			!strings.Contains(rec.Body.String(), `"version":"1.2.3"`) {
			t.Errorf("%s without a model: %d %s", path, rec.Code, rec.Body)
		}
	}
}

// TestDocumentIsValid holds the document against the rules of OpenAPI 3.0.3 that
// its types do not hold already.
func TestDocumentIsValid(t *testing.T) {
	_, a := wholeServer(nil)
	d := document(t, a)
	if d.OpenAPI != "3.0.3" || d.Info.Title == "" || d.Info.Version != "1.2.3" {
		t.Errorf("it begins with %q, %+v", d.OpenAPI, d.Info)
	}
	ids := map[string]bool{}
	schema := func(at string, s *openapi.Schema) { schemaIsValid(t, d, at, s) }
	for path, methods := range d.Paths {
		if path[0] != '/' || strings.Contains(path, ":") {
			t.Errorf("the path %s", path)
		}
		for method, o := range methods {
			at := method + " " + path
			if !slices.Contains([]string{"get", "post", "put", "delete", "head"}, method) {
				t.Errorf("%s: the method", at)
			}
			if ids[o.OperationID] || !regexp.MustCompile(`^[a-z][A-Za-z0-9_]*$`).MatchString(o.OperationID) {
				t.Errorf("%s: the id %q", at, o.OperationID)
			}
			ids[o.OperationID] = true
			for _, tag := range o.Tags {
				if !slices.Contains(d.Tags, openapi.Tag{Name: tag}) {
					t.Errorf("%s: the tag %q is not declared", at, tag)
				}
			}
			variables := regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1)
			for _, p := range o.Parameters {
				schema(at+" "+p.Name, p.Schema)
				if p.In == "path" && (!p.Required || !slices.ContainsFunc(variables, func(v []string) bool {
					return v[1] == p.Name
				})) {
					t.Errorf("%s: the parameter %s", at, p.Name)
				}
			}
			if n := len(variables); slices.IndexFunc(o.Parameters, func(p openapi.Parameter) bool {
				return p.In != "path"
			}) < n && len(o.Parameters) < n {
				t.Errorf("%s: %d variables, parameters %+v", at, n, o.Parameters)
			}
			if o.RequestBody != nil {
				for kind, m := range o.RequestBody.Content {
					schema(at+" "+kind, m.Schema)
				}
			}
			for status, r := range o.Responses {
				if r.Description == "" || !regexp.MustCompile(`^[1-5]\d\d$`).MatchString(status) {
					t.Errorf("%s: the response %s: %+v", at, status, r)
				}
				for kind, m := range r.Content {
					schema(at+" "+status+" "+kind, m.Schema)
				}
				for name, h := range r.Headers {
					schema(at+" "+name, h.Schema)
				}
			}
		}
	}
	for name, s := range d.Components.Schemas {
		if !regexp.MustCompile(`^[A-Za-z0-9._-]+$`).MatchString(name) {
			t.Errorf("the schema %q", name)
		}
		schema(name, s)
	}
}

func schemaIsValid(t *testing.T, d *openapi.Document, at string, s *openapi.Schema) {
	if s == nil {
		t.Errorf("%s: no schema", at)
		return
	}
	if s.Ref != "" {
		if d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")] == nil {
			t.Errorf("%s: %s leads nowhere", at, s.Ref)
		}
		if b, _ := json.Marshal(s); string(b) != fmt.Sprintf(`{"$ref":%q}`, s.Ref) {
			t.Errorf("%s: siblings of a reference are ignored: %s", at, b)
		}
		return
	}
	if !slices.Contains([]string{"", "object", "array", "string", "boolean", "integer", "number"}, s.Type) {
		t.Errorf("%s: the type %q", at, s.Type)
	}
	if (s.Type == "array") != (s.Items != nil) {
		t.Errorf("%s: items belong to arrays", at)
	}
	if (s.OpenMinimum && s.Minimum == nil) || (s.OpenMaximum && s.Maximum == nil) {
		t.Errorf("%s: an open bound without a bound", at)
	}
	if s.Nullable && s.Type == "" && len(s.AllOf)+len(s.OneOf)+len(s.AnyOf) == 0 {
		t.Errorf("%s: nullable without a type", at)
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			t.Errorf("%s: requires %s, which it does not have", at, name)
		}
	}
	for name, p := range s.Properties {
		schemaIsValid(t, d, at+"."+name, p)
	}
	for _, sub := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		schemaIsValid(t, d, at, sub)
	}
	if s.Items != nil {
		schemaIsValid(t, d, at+"[]", s.Items)
	}
	if s.Additional != nil {
		schemaIsValid(t, d, at+".*", s.Additional)
	}
}

// TestDocumentListsEveryRoute: what is served is described, with the key that it
// needs, and nothing else is.
func TestDocumentListsEveryRoute(t *testing.T) {
	set := func(o *Options) { o.PredictRoute, o.HealthRoute = "/v1/endpoints/7:predict", "/v1/endpoints/7" }
	_, a := wholeServer(set)
	d := document(t, a)
	routes := slices.Concat(openapi.Probes(), a.Routes())
	for _, api := range a.options.Beside {
		routes = append(routes, api.Routes()...)
	}
	routes = slices.DeleteFunc(routes, func(r server.Route) bool { return strings.HasPrefix(r.Path, server.AdminPath) })
	listed := 0
	for _, methods := range d.Paths {
		listed += len(methods)
	}
	if listed != len(routes) {
		t.Errorf("%d operations for %d routes", listed, len(routes))
	}
	for _, r := range routes {
		o := d.Paths[regexp.MustCompile(`:[^}/]*\}`).ReplaceAllString(r.Path, "}")][strings.ToLower(r.Method)]
		if o == nil || o.Summary == "Not described here" {
			t.Errorf("%s %s has no description: %+v", r.Method, r.Path, o)
			continue
		}
		if known := []string{"GenerateRequest", "GenerateOne", "ModelName", "VertexRequest", "InferenceRequest",
			"ChatRequest", "CompletionRequest"}; o.RequestBody != nil {
			named := strings.TrimPrefix(o.RequestBody.Content["application/json"].Schema.Ref, "#/components/schemas/")
			if slices.Contains(known, named) && d.Components.Schemas[named].Properties["model"] == nil {
				t.Errorf("%s %s: the body names no model", r.Method, r.Path)
			}
		}
		if open := o.Security != nil && len(*o.Security) == 0; open != (r.Scope == server.Open) {
			t.Errorf("%s %s: open is %v", r.Method, r.Path, open)
		} else if _, ok := o.Responses["401"]; ok == open {
			t.Errorf("%s %s: open is %v, has a 401: %v", r.Method, r.Path, open, ok)
		}
	}
	if got := d.Paths["/v1/endpoints/7:predict"]["post"].RequestBody; got == nil ||
		got.Content["application/json"].Schema.Ref != "#/components/schemas/VertexRequest" {
		t.Errorf("the predict route reads %+v", got)
	}
	var other openapi.Document
	b := openapi.New(openapi.Served{Routes: []server.Route{
		{Method: http.MethodPost, Path: "/admin/reload", Scope: server.Admin}, {Method: http.MethodPost,
			Path: "/mine/{a}/{b:.+}", Scope: server.Open},
	}}).JSON()
	if err := json.Unmarshal(b, &other); err != nil || len(other.Paths) != 1 ||
		len(other.Paths["/mine/{a}/{b}"]["post"].Parameters) != 2 {
		t.Errorf("routes without a description: %s, %v", b[:min(len(b), 500)], err)
	}
	plain := document(t, New(Options{Version: "x"}))
	for _, name := range []string{"truncate", "best_of", "top_n_tokens"} {
		if p, q := plain.Components.Schemas["GenerateParameters"].Properties[name],
			d.Components.Schemas["GenerateParameters"].Properties[name]; p.Maximum != nil || q.Maximum == nil {
			t.Errorf("%s: at most %v of a model that is none, and %v of one", name, p.Maximum, q.Maximum)
		}
	}
	if plain.Paths["/v1/models"] != nil || plain.Paths["/generate"] == nil {
		t.Error("a server without OpenAI's routes lists them, or lacks its own")
	}
}

// TestTranscriptsFitDocument: whatever the transcripts show, in whichever
// dialect, the document says.
func TestTranscriptsFitDocument(t *testing.T) {
	_, a := wholeServer(nil)
	d := document(t, a)
	c := checker{schemas: d.Components.Schemas}
	head := regexp.MustCompile(`(?m)^(GET|POST) (\S+)$`)
	for _, one := range transcripts(t) {
		ask, reply, _ := strings.Cut(one.text, "---\n")
		m := head.FindStringSubmatch(ask)
		if m == nil || operation(d, m[1], m[2]) == nil {
			continue // a 404 or a 405
		}
		o := operation(d, m[1], m[2])
		var status int
		fmt.Sscan(reply, &status)
		_, body, _ := strings.Cut(reply, "\n\n")
		kind := "application/json"
		if strings.HasPrefix(body, "data:") {
			kind = "text/event-stream"
		}
		if strings.HasPrefix(body, `{"chat"`) || strings.HasPrefix(body, `{"completion"`) {
			continue // the stubs of OpenAI's routes
		}
		for _, wrong := range replyFits(c, o, status, kind, []byte(body)) {
			t.Errorf("%s: %s", one.name, wrong)
		}
		_, said, _ := strings.Cut(ask[strings.Index(ask, m[0]):], "\n\n")
		if status != 200 || o.RequestBody == nil || strings.Contains(body, "error_type") ||
			strings.Contains(said, `"messages":"`) || strings.Contains(one.name, "vertex") {
			continue // the stub of chat takes another body; Vertex's knows no bounds
		}
		var v any
		if err := json.Unmarshal([]byte(said), &v); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range c.check("request", o.RequestBody.Content["application/json"].Schema, v) {
			t.Errorf("%s: %s", one.name, wrong)
		}
	}
}

// calling is a chat request, to be closed, that a model with its seed answers with a
// call.
const (
	callingSeed = 77
	calling     = `{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"reasoning":"r","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","content":"5","tool_call_id":"c"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}],"seed":77,"max_tokens":5,` +
		`"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"reasoning_effort":"low","documents":[{"text":"x"}],"chat_template_kwargs":{"a":1},"tool_prompt":"p","add_generation_prompt":true,"continue_final_message":false,"chat_template":"default"`
)

// TestOpenAIFitsDocument does the same with OpenAI's routes.
func TestOpenAIFitsDocument(t *testing.T) {
	caller := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		if r.Params.Seed != callingSeed {
			return generatetest.Echo(r)
		}
		return generatetest.Sequence(r, 0, llm.FinishEOS, generate.Token{Text: `<think>a</think>b<call>f - {"x"`},
			generate.Token{Text: `:1}</call>`})
	}}
	s, a := servedBy(caller, nil)
	d := document(t, a)
	c := checker{schemas: d.Components.Schemas}
	const chat, complete = "/v1/chat/completions", "/v1/completions"
	for _, ask := range []struct{ method, path, body string }{
		{"POST", chat,
			`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"logprobs":true,"top_logprobs":2,"n":2,"stop":"q","logit_bias":{"3":1},"model":"tgi"}`},
		{"POST", chat,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"max_completion_tokens":2,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"response_format":{"type":"text"}}`},
		{"POST", chat, `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"temperature":-1}`},
		{"POST", chat, `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"temperature":-1,"stream":true}`},
		{"POST", chat, `{"messages":5}`},
		{"POST", chat, calling + `}`},
		{"POST", chat, calling + `,"stream":true}`},
		{"POST", chat, calling + `,"stream":true,"tool_choice":"none","include_reasoning":false}`},
		{"POST", chat,
			`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`},
		{"POST", chat,
			`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"f","stream":true}`},
		{"POST", complete, `{"prompt":["a","b"],"max_tokens":2,"logprobs":1,"echo":true,"stop":["q"],"suffix":""}`},
		{"POST", complete,
			`{"prompt":[[1,2]],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true},"logprobs":2}`},
		{"POST", complete, `{"prompt":"a","max_tokens":2,"stream":true}`},
		{"POST", complete, `{"prompt":"a","suffix":"x"}`},
		{"POST", "/invocations", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2}`},
		{"POST", "/invocations", `{"prompt":"Hi","max_tokens":2,"stream":true}`},
		{"POST", "/vertex", `{"instances":[{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2}]}`},
		{"POST", "/chat_tokenize", `{"messages":[{"role":"user","content":"Hi"}]}`},
	} {
		for _, name := range dialect.Names() {
			r := httptest.NewRequest(ask.method, ask.path, strings.NewReader(ask.body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(dialect.Header, name)
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			o := operation(d, ask.method, ask.path)
			for _, wrong := range replyFits(c, o, rec.Code, rec.Header().Get("Content-Type"), rec.Body.Bytes()) {
				t.Errorf("%s %s %s: %s\n%s", name, ask.path, ask.body, wrong, rec.Body)
			}
			if rec.Code != 200 || ask.body == "" || strings.Contains(rec.Body.String(), "error") {
				continue
			}
			var v any
			if err := json.Unmarshal([]byte(ask.body), &v); err != nil {
				t.Fatal(err)
			}
			for _, wrong := range c.check("request", o.RequestBody.Content["application/json"].Schema, v) {
				t.Errorf("%s: %s", ask.body, wrong)
			}
		}
	}
}

// TestParametersFitDocument: the decoder and the document know the same
// parameters and the same types for them.
func TestParametersFitDocument(t *testing.T) {
	_, a := wholeServer(nil)
	d := document(t, a)
	c := checker{schemas: d.Components.Schemas, loose: true}
	schema := d.Components.Schemas["GenerateParameters"]
	b := newBody(dialect.Default())
	if n := len(b.parameterFields()); n != len(schema.Properties) {
		t.Errorf("%d fields, %d properties", n, len(schema.Properties))
	}
	for _, f := range b.parameterFields() {
		p := schema.Properties[f.Name]
		if p == nil || f.Required {
			t.Errorf("%s: property %v, required %v", f.Name, p, f.Required)
			continue
		}
		for _, text := range []string{`null`, `true`, `1`, `0.5`, `"x"`, `[]`, `["x"]`, `[1]`, `{}`, `{"7":1}`,
			`{"7":"x"}`, `[{"name":"x"}]`} {
			if f.Name == "grammar" && text != "null" {
				continue // any value is noted, and refused
			}
			var v any
			_ = json.Unmarshal([]byte(text), &v)
			reads := wire.Decode([]byte(text), f.Read) == nil
			if says := len(c.check("", p, v)) == 0; reads != says {
				t.Errorf("%s: %s is read: %v, documented: %v", f.Name, text, reads, says)
			}
		}
	}
}

// TestDocumentHasReference: every path, parameter, status and property of the
// documents that TGI published is here.
func TestDocumentHasReference(t *testing.T) {
	files, _ := filepath.Glob("testdata/reference/tgi-*.openapi.json")
	if len(files) == 0 {
		t.Fatal("the documents of TGI are not in testdata/reference")
	}
	_, a := wholeServer(nil)
	ours := document(t, a)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var theirs struct {
			Paths map[string]map[string]struct {
				Parameters  []openapi.Parameter
				RequestBody struct {
					Content map[string]any
				}
				Responses map[string]struct{ Content map[string]any }
			}
			Components struct {
				Schemas map[string]struct {
					Type       string
					Properties map[string]any
				}
			}
		}
		if err := json.Unmarshal(text, &theirs); err != nil {
			t.Fatal(file, err)
		}
		for path, methods := range theirs.Paths {
			for method, want := range methods {
				got := ours.Paths[path][method]
				at := filepath.Base(file) + ": " + method + " " + path
				switch {
				case path == "/tokenize":
					delete(want.Responses, "404") // there always is a tokenizer
				case got == nil:
					t.Errorf("%s is missing", at)
					continue
				}
				for _, p := range want.Parameters {
					if !slices.ContainsFunc(got.Parameters, func(q openapi.Parameter) bool {
						return q.Name == p.Name &&
							q.In == p.In
					}) {
						t.Errorf("%s: the parameter %s is missing", at, p.Name)
					}
				}
				for kind := range want.RequestBody.Content {
					if got.RequestBody == nil || got.RequestBody.Content[kind].Schema == nil {
						t.Errorf("%s: the body %s is missing", at, kind)
					}
				}
				for status, r := range want.Responses {
					for kind := range r.Content {
						if got.Responses[status].Content[kind].Schema == nil {
							t.Errorf("%s: %s %s is missing", at, status, kind)
						}
					}
					if _, ok := got.Responses[status]; !ok {
						t.Errorf("%s: %s is missing", at, status)
					}
				}
			}
		}
		for name, s := range theirs.Components.Schemas {
			got := ours.Components.Schemas[name]
			if got == nil || len(s.Properties) > 0 && got.Type != s.Type {
				t.Errorf("%s: the schema %s is missing or of another type: %+v", filepath.Base(file), name, got)
				continue
			}
			for p := range s.Properties {
				if got.Properties[p] == nil {
					t.Errorf("%s: %s.%s is missing", filepath.Base(file), name, p)
				}
			}
		}
	}
}

// TestPage: the page loads nothing from elsewhere, may run its own script, and
// needs no key, which the document does.
func TestPage(t *testing.T) {
	c := config.Default()
	c.Server.APIKeys = []string{"secret"}
	_, a := wholeServer(nil)
	s := server.New(server.Options{Config: c.Server, APIs: []server.API{a}, Log: slog.New(slog.DiscardHandler)})
	get := func(path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		return rec
	}
	rec := get("/docs")
	if rec.Code != 200 || rec.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("got %d, %v", rec.Code, rec.Header())
	}
	if m := regexp.MustCompile(`https?://|//[a-z]|src=|@import`).FindString(rec.Body.String()); m != "" {
		t.Errorf("the page names something elsewhere: %q", m)
	}
	if p := rec.Header().Get("Content-Security-Policy"); strings.Count(p, "'sha256-") != 2 ||
		!strings.HasPrefix(p, "default-src 'none'; connect-src 'self'; ") {
		t.Errorf("the policy is %q", p)
	}
	if rec := get("/api-doc/openapi.json"); rec.Code != 401 {
		t.Errorf("the document without a key: %d", rec.Code)
	}
}
