package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// fakeSet implements Plugins with a map.
type fakeSet struct {
	plugins  map[string]server.Plugin
	settings admin.Settings
	old      *admin.Use // of what an upload replaces; nil for none
	use      admin.Use
	wasm     string
	report   admin.Report
	err      error
	refused  []string // names of uploads that did not come to Put
}

// before is how what an upload replaces is used.
func (s *fakeSet) before() admin.Use {
	if s.old != nil {
		return *s.old
	}
	return admin.DefaultUse()
}

func (s *fakeSet) List() (all []server.Plugin) {
	for _, p := range s.plugins {
		all = append(all, p)
	}
	return all
}

func (s *fakeSet) Get(name string) (server.Plugin, bool) {
	p, ok := s.plugins[name]
	return p, ok
}

func (s *fakeSet) Put(_ context.Context, name string, wasm []byte, set admin.Settings) (server.Plugin, error) {
	if s.err != nil {
		return server.Plugin{}, s.err
	}
	use, err := set.Over(s.before(), []string{"school", "staff"})
	if err != nil {
		return server.Plugin{}, err
	}
	s.use = use
	p := server.Plugin{Name: name, State: server.PluginReady, Apply: use.Apply, OnError: use.OnError}
	s.plugins[name], s.settings, s.wasm = p, set, string(wasm)
	return p, nil
}

func (s *fakeSet) Refused(_ context.Context, name string, err error) {
	s.refused = append(s.refused, name+": "+server.Explain(err).Type)
}

func (s *fakeSet) Delete(_ context.Context, name string) error {
	if s.err != nil {
		return s.err
	}
	if _, ok := s.plugins[name]; !ok {
		return fmt.Errorf("%w: %q", server.ErrNoPlugin, name)
	}
	delete(s.plugins, name)
	return nil
}

func (s *fakeSet) Try(_ context.Context, name string, _ []byte, set admin.Settings) (admin.Trial, error) {
	return admin.Trial{DryRun: set.DryRun, Plugin: server.Plugin{Name: name}}, s.err
}

func (s *fakeSet) Versions(string) ([]admin.Version, error) {
	return []admin.Version{{SHA256: "ab12", Serving: true}}, s.err
}

func (s *fakeSet) Rollback(_ context.Context, name, to string) (server.Plugin, error) {
	return server.Plugin{Name: name, SHA256: to}, s.err
}

func (s *fakeSet) StartCanary(_ context.Context, name string, _ []byte, set admin.Settings) (admin.Canary, error) {
	return admin.Canary{Name: name, Percent: set.Canary, AbortAfter: set.CanaryFaults}, s.err
}

func (s *fakeSet) Canaries() []admin.Canary { return []admin.Canary{{Name: "a"}} }

func (s *fakeSet) Canary(name string) (admin.Canary, error) { return admin.Canary{Name: name}, s.err }

func (s *fakeSet) PromoteCanary(_ context.Context, name string) (server.Plugin, error) {
	return server.Plugin{Name: name}, s.err
}

func (s *fakeSet) EndCanary(context.Context, string) error { return s.err }

func (s *fakeSet) Log(_ string, after uint64) ([]admin.LogLine, error) {
	return []admin.LogLine{{Seq: after + 1, Level: "info", Of: "guest", Text: "hi"}}, s.err
}

func (s *fakeSet) Reload(context.Context) (admin.Report, error) { return s.report, s.err }

// dry is a plugin with every field set.
var dry = server.Plugin{
	Name: "dry", Version: "1.0", Doc: "a < b", SHA256: "ab12", Source: "plugins/dry.wasm", Kinds: []string{"logits"},
	State: server.PluginFailed, Error: "10 faults", Apply: "always", OnError: "skip",
	Params: []byte(`{"type":"object"}`),
	Loaded: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Calls: 1, Seconds: 0.5, Fuel: 2, Paused: 1.5, Slices: 9,
	Faults: map[string]uint64{"trap": 3},
	Skips:  4, Resets: 5, Loads: 6, InstancesOut: 7, InstancesWaiting: 8,
}

const dryJSON = `{"name":"dry","version":"1.0","doc":"a < b","sha256":"ab12","source":"plugins/dry.wasm","kinds":["logits"],"state":"failed","error":"10 faults",` +
	`"apply":"always","on_error":"skip","params":{"type":"object"},"loaded":"2026-01-02T03:04:05Z","calls":1,"seconds":0.5,"fuel":2,"paused":1.5,"slices":9,"faults":{"trap":3},` +
	`"skips":4,"resets":5,"loads":6,"instances_out":7,"instances_waiting":8,"instance_bytes":0}`

// newJSON is a plugin of which nothing happened yet.
const newJSON = `{"name":"new","version":"","doc":"","sha256":"","source":"","kinds":[],"state":"ready","apply":"request","on_error":"fail",` +
	`"calls":0,"seconds":0,"fuel":0,"paused":0,"slices":0,"faults":{},"skips":0,"resets":0,"loads":0,"instances_out":0,"instances_waiting":0,"instance_bytes":0}`

const limit = 100

func serve(s *fakeSet) *server.Server {
	c := config.Default().Server
	c.AdminKeys, c.PayloadLimit, c.ReadTimeout = []string{"key"}, 10, config.Duration(100*time.Millisecond)
	return server.New(server.Options{
		Config: c, APIs: []server.API{admin.New(admin.Options{Plugins: s, UploadLimit: limit})},
		Healthy: func() error { return nil }, Log: slog.New(slog.DiscardHandler),
	})
}

func ask(s *server.Server, method, path, kind, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestUploadsShareMemory: an upload that finds the memory of all bodies taken is told to come again, and the largest
// that is allowed fits when it comes alone.
func TestUploadsShareMemory(t *testing.T) {
	const size = 1 << 20
	c := config.Default().Server
	c.AdminKeys, c.PayloadLimit, c.PayloadMemory = []string{"key"}, 1000, 1000
	fakeSet := &fakeSet{plugins: map[string]server.Plugin{}}
	s := server.New(server.Options{
		Config: c, APIs: []server.API{admin.New(admin.Options{Plugins: fakeSet, UploadLimit: size})},
		Healthy: func() error { return nil }, Log: slog.New(slog.DiscardHandler),
	})
	body := strings.Repeat("x", size)
	if rec := ask(s, "PUT", "/admin/plugins/new", "", body); rec.Code != 201 || len(fakeSet.wasm) != size {
		t.Errorf("alone: %d %s", rec.Code, rec.Body)
	}
	first, done := newSlowBody(body[:size/2+100_000]), make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequest("PUT", "/admin/plugins/slow", first)
		r.Header.Set("Authorization", "Bearer key")
		s.ServeHTTP(httptest.NewRecorder(), r)
	}()
	<-first.read
	rec := ask(s, "PUT", "/admin/plugins/new", "", body)
	if rec.Code != 429 || rec.Header().Get("Retry-After") == "" || !strings.Contains(rec.Body.String(), "overloaded") {
		t.Errorf("beside another: %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	close(first.end)
	<-done
	if rec := ask(s, "PUT", "/admin/plugins/new", "", body); rec.Code != 200 {
		t.Errorf("behind it: %d %s", rec.Code, rec.Body)
	}
}

// slowBody closes read when all of its text has been read, and ends when end is closed.
type slowBody struct {
	text      *strings.Reader
	read, end chan struct{}
}

func newSlowBody(text string) *slowBody {
	return &slowBody{strings.NewReader(text), make(chan struct{}), make(chan struct{})}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.text.Len() > 0 {
		return b.text.Read(p)
	}
	close(b.read)
	<-b.end
	return 0, io.EOF
}

func TestRoutes(t *testing.T) {
	refused := fmt.Errorf("%w: new: the module exports no tgi_abi_v1", server.ErrRefused)
	for _, c := range []struct {
		name         string
		method, path string
		kind, body   string
		fakeSet      fakeSet
		status       int
		want         string
	}{
		{"list", "GET", "/admin/plugins", "", "", fakeSet{plugins: map[string]server.Plugin{"dry": dry}}, 200,
			`{"plugins":[` + dryJSON + `]}`},
		{"list of none", "GET", "/admin/plugins", "", "", fakeSet{}, 200, `{"plugins":[]}`},
		{"get", "GET", "/admin/plugins/dry", "", "", fakeSet{plugins: map[string]server.Plugin{"dry": dry}}, 200,
			dryJSON},
		{"get what is not there", "GET", "/admin/plugins/dri", "", "", fakeSet{}, 404,
			`{"error":"no such plugin: \"dri\"","error_type":"not_found"}`},
		{"put", "PUT", "/admin/plugins/new", "application/wasm", "\x00asm", fakeSet{}, 201, newJSON},
		{"put in place of another", "PUT", "/admin/plugins/new", "application/octet-stream", "\x00asm",
			fakeSet{plugins: map[string]server.Plugin{"new": {}}}, 200, newJSON},
		{"put as curl -T does", "PUT", "/admin/plugins/new", "", "\x00asm", fakeSet{}, 201, newJSON},
		{"put up to the limit", "PUT", "/admin/plugins/new", "", strings.Repeat("x", limit), fakeSet{}, 201, newJSON},
		{"put past the limit", "PUT", "/admin/plugins/new", "", strings.Repeat("x", limit+1), fakeSet{}, 413,
			`{"error":"the module is too large: the body must have at most 100 bytes (plugins.upload_limit), given 101","error_type":"payload_too_large"}`},
		{"put another type", "PUT", "/admin/plugins/new", "application/json", "{}", fakeSet{}, 415,
			"{\"error\":\"the body must be a module: expected `Content-Type: application/wasm`\",\"error_type\":\"unsupported_media_type\"}"},
		{"put that is refused", "PUT", "/admin/plugins/new", "", "x", fakeSet{err: refused}, 422,
			`{"error":"refused: new: the module exports no tgi_abi_v1","error_type":"plugin"}`},
		{"put over a declared one", "PUT", "/admin/plugins/new", "", "x",
			fakeSet{err: fmt.Errorf("%w: new", server.ErrNotUploaded)}, 409,
			`{"error":"the plugin is not an uploaded one: new","error_type":"conflict"}`},
		{"put a bad name", "PUT", "/admin/plugins/a%20b", "", "x", fakeSet{}, 422,
			`{"error":"Input validation error: name must be 1 to 64 lower-case letters, digits and single hyphens between them, a letter first, given \"a b\"","error_type":"validation"}`},
		{"delete", "DELETE", "/admin/plugins/dry", "", "", fakeSet{plugins: map[string]server.Plugin{"dry": dry}}, 204,
			``},
		{"delete what is not there", "DELETE", "/admin/plugins/dry", "", "", fakeSet{}, 404,
			`{"error":"no such plugin: \"dry\"","error_type":"not_found"}`},
		{"delete a declared one", "DELETE", "/admin/plugins/dry", "", "", fakeSet{err: server.ErrNotUploaded}, 409,
			`{"error":"the plugin is not an uploaded one","error_type":"conflict"}`},
		{"reload", "POST", "/admin/reload", "", "", fakeSet{}, 200,
			`{"loaded":[],"removed":[],"failed":[],"restart":[]}`},
		{"reload that changes", "POST", "/admin/reload", "", "",
			fakeSet{report: admin.Report{Loaded: []string{"a", "b"},
				Removed: []string{"c"}, Restart: []string{"server.port"}}}, 200,
			`{"loaded":["a","b"],"removed":["c"],"failed":[],"restart":["server.port"]}`},
		{"reload with failures", "POST", "/admin/reload", "", "", fakeSet{report: admin.Report{Loaded: []string{"a"},
			Failed: []admin.Failure{{"b", "no such file"}, {"c", "trap"}}}}, 422,
			`{"error":"refused: b: no such file; c: trap","error_type":"plugin","loaded":["a"],"removed":[],"failed":[{"name":"b","error":"no such file"},{"name":"c","error":"trap"}],"restart":[]}`},
		{"reload of bad settings", "POST", "/admin/reload", "", "",
			fakeSet{err: fmt.Errorf("%w: tgi.toml:3: unknown key",
				server.ErrRefused)}, 422, `{"error":"refused: tgi.toml:3: unknown key","error_type":"plugin"}`},
		{"trouble of the server's own", "POST", "/admin/reload", "", "", fakeSet{err: errors.New("secret")}, 500,
			`{"error":"Internal server error","error_type":"internal"}`},
		{"another method", "POST", "/admin/plugins/dry", "", "", fakeSet{}, 405,
			`{"error":"method not allowed: POST /admin/plugins/dry; use GET or PUT or DELETE","error_type":"method_not_allowed"}`},
	} {
		if c.fakeSet.plugins == nil {
			c.fakeSet.plugins = map[string]server.Plugin{}
		}
		rec := ask(serve(&c.fakeSet), c.method, c.path, c.kind, c.body)
		if got := rec.Body.String(); rec.Code != c.status || got != c.want {
			t.Errorf("%s\n got %d %s\nwant %d %s", c.name, rec.Code, got, c.status, c.want)
		}
		if kind := rec.Header().Get("Content-Type"); c.want != "" && kind != "application/json" {
			t.Errorf("%s: Content-Type is %q", c.name, kind)
		}
		if created := rec.Code == 200 && c.method == "PUT" || rec.Code == 201; created && c.fakeSet.wasm != c.body {
			t.Errorf("%s: %d bytes arrived, want %d", c.name, len(c.fakeSet.wasm), len(c.body))
		}
	}
}

// TestUnknownLength: the limit holds for a body that does not say its length.
func TestUnknownLength(t *testing.T) {
	s := serve(&fakeSet{plugins: map[string]server.Plugin{}})
	for n, want := range map[int]int{limit: 201, limit + 1: 413} {
		r := httptest.NewRequest("PUT", "/admin/plugins/x", struct {
			*strings.Reader
		}{strings.NewReader(strings.Repeat("x", n))})
		r.ContentLength = -1
		r.Header.Set("Authorization", "Bearer key")
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != want {
			t.Errorf("%d bytes: got %d %s, want %d", n, rec.Code, rec.Body, want)
		}
	}
}

// TestRefusedUnread: the key, the settings and the length that the client names
// are looked at before the body is taken.
func TestRefusedUnread(t *testing.T) {
	for _, c := range []struct {
		query, key   string
		size, status int
	}{{"?on_eror=skip", "key", 6, 422}, {"", "other", 6, 401}, {"", "key", limit + 1, 413}} {
		body := strings.NewReader(strings.Repeat("x", c.size))
		r := httptest.NewRequest("PUT", "/admin/plugins/x"+c.query, body)
		r.Header.Set("Authorization", "Bearer "+c.key)
		rec := httptest.NewRecorder()
		serve(&fakeSet{plugins: map[string]server.Plugin{}}).ServeHTTP(rec, r)
		if rec.Code != c.status || body.Len() != c.size {
			t.Errorf("%s with %s and %d bytes: %d, %d bytes unread", c.query, c.key, c.size, rec.Code, body.Len())
		}
	}
}

// TestRefusedIsTold: an upload or a canary that is refused for its query or its body is told of, a dry run is not.
func TestRefusedIsTold(t *testing.T) {
	for _, c := range []struct{ query, kind, body, want string }{
		{"", "", "x", ""},
		{"", "", strings.Repeat("x", limit+1), "a: payload_too_large"},
		{"?canary=5", "", strings.Repeat("x", limit+1), "a: payload_too_large"},
		{"?dry_run", "", strings.Repeat("x", limit+1), ""},
		{"", "application/json", "{}", "a: unsupported_media_type"},
		{"?on_eror=skip", "", "x", "a: validation"},
	} {
		set := &fakeSet{plugins: map[string]server.Plugin{}}
		rec := ask(serve(set), "PUT", "/admin/plugins/a"+c.query, c.kind, c.body)
		if got := strings.Join(set.refused, ", "); got != c.want {
			t.Errorf("%s %s, %d bytes: %d, told %q, want %q", c.query, c.kind, len(c.body), rec.Code, got, c.want)
		}
	}
}

// TestSlowUpload: a client that stops in the middle of a module is told so when
// server.read_timeout is over.
func TestSlowUpload(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- serve(&fakeSet{plugins: map[string]server.Plugin{}}).Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn,
		"PUT /admin/plugins/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\nContent-Length: 50\r\n\r\nhalf")
	reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, _ := io.ReadAll(reply.Body)
	if reply.StatusCode != 400 ||
		string(body) != `{"error":"Failed to buffer the request body","error_type":"bad_request"}` {
		t.Errorf("got %d %s", reply.StatusCode, body)
	}
}

func TestSettings(t *testing.T) {
	const takes = "; an upload takes apply, canary, canary_differences, canary_faults, canary_shadow, canary_texts, " +
		"change_kinds, config, dry_run, keys, limits.fuel_load, limits.fuel_per_request, limits.fuel_per_step, " +
		"limits.memory, limits.share, limits.time_load, limits.time_per_request, limits.time_per_step, " +
		"on_error, on_exhausted, on_full, promote_after, promote_time"
	none := admin.Use{}
	for _, c := range []struct {
		query string
		want  admin.Use
		err   string
	}{
		{"", admin.DefaultUse(), ""},
		{"on_error=skip&apply=always&limits.memory=32MiB&limits.fuel_per_step=1&limits.fuel_per_request=2&limits.fuel_load=3&limits.time_per_step=4ms&limits.time_per_request=5s&limits.time_load=6s&limits.share=0.5&keys=school,staff&on_full=release&on_exhausted=release&config=" + url.QueryEscape(`{"n": 3.0}`),
			admin.Use{OnError: "skip", Apply: "always", OnFull: "release", OnExhausted: "release",
				Keys: []string{"school", "staff"}, Limits: config.PluginLimits{Memory: 32 << 20,
					FuelPerStep: 1, FuelPerRequest: 2, FuelLoad: 3,
					TimePerStep:    config.Duration(4 * time.Millisecond),
					TimePerRequest: config.Duration(5 * time.Second),
					TimeLoad:       config.Duration(6 * time.Second), Share: 0.5}, Config: []byte(`{"n": 3.0}`)}, ""},
		{"on_eror=skip", none, `unknown setting "on_eror" (did you mean on_error?)` + takes},
		{"memory=1MiB", none, `unknown setting "memory" (did you mean limits.memory?)` + takes},
		{"kind=logits&apply=always&sha256=ab&on_eror=skip", none,
			`unknown settings "kind", "on_eror" (did you mean on_error?), "sha256"` + takes},
		{"q0&q1&q2&q3&q4&q5&q6&q7&q8&q9", none,
			`unknown settings "q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", 2 more` + takes},
		{"apply=always&apply=always", none, "apply is given 2 times"},
		{"apply=never&on_error=", none,
			"on_error must be one of fail, skip, stop, given \"\"\napply must be one of request, always, given \"never\""},
		{"limits.memory=big", none, `limits.memory: "big" is no size such as 512MiB or 2GiB, and not auto`},
		{"limits.memory=1B", none, "limits.memory must be >= 64KiB and <= 4GiB, given 1B"},
		{"limits.fuel_load=2M", none, `limits.fuel_load: "2M" is no whole number`},
		{"limits.fuel_load=-1", none, "limits.fuel_load must be >= 0 and <= 1000000000000, given -1"},
		{"limits.share=half", none, `limits.share: "half" is no number`},
		{"limits.share=NaN&limits.time_load=2h", none,
			"limits.time_load must be 0s or >= 1ms and <= 1h0m0s, given 2h0m0s\nlimits.share must be >= 0.01 and <= 1024, given NaN"},
		{"config=[]", none, "config: want a JSON object, given an array"},
		{"config=[", none, "config: invalid type: sequence, expected a map at line 1 column 0"},
		{"canary=5&promote_after=9&promote_time=31d", none, `promote_time: "31d" is no duration with its unit, such as 90s ` +
			"or 50ms: units are s, m and h, and smaller ones"},
		{"canary=5&promote_after=9&promote_time=721h", none, "promote_time is 721h0m0s, the most is 30 days (720h)"},
		{"config=%7B", none, "config: EOF while parsing an object at line 1 column 1"},
		{"config=%7B%7Dx", none, "config: trailing characters at line 1 column 3"},
		{"keys=school", none, "keys goes with apply = \"always\", given \"request\""},
		{"keys=school,&apply=always", none,
			`keys: want names of keys with commas between them, each once, given "school,"`},
		{"keys=boss&apply=always", none, `keys: "boss" is not the name of a key`},
		{"on_full=go", none, `on_full must be one of stop, release, given "go"`},
		{"%zz", none, `query: invalid URL escape "%zz"`},
	} {
		s := &fakeSet{plugins: map[string]server.Plugin{}}
		r := httptest.NewRequest("PUT", "/admin/plugins/x", strings.NewReader("m"))
		r.URL.RawQuery = c.query
		r.Header.Set("Authorization", "Bearer key")
		rec := httptest.NewRecorder()
		serve(s).ServeHTTP(rec, r)
		want := ""
		if c.err != "" {
			want = fmt.Sprintf(`{"error":"Input validation error: %s","error_type":"validation"}`,
				strings.NewReplacer(`"`, `\"`, "\n", `\n`).Replace(c.err))
		}
		if want == "" && rec.Code != 201 || want != "" && (rec.Code != 422 || rec.Body.String() != want) {
			t.Errorf("%s\n got %d %s\nwant %s", c.query, rec.Code, rec.Body, want)
		}
		if !reflect.DeepEqual(s.use, c.want) {
			t.Errorf("%s\n got %+v\nwant %+v", c.query, s.use, c.want)
		}
	}
}

// TestOver: what a query leaves out stays as it was, each setting by itself.
func TestOver(t *testing.T) {
	before := admin.Use{OnError: "skip", Apply: "always", OnFull: "release", OnExhausted: "stop",
		Keys: []string{"school", "gone"}, Limits: config.PluginLimits{Memory: 1 << 20, FuelLoad: 7},
		Config: []byte(`{"n":3}`)}
	change := func(f func(*admin.Use)) admin.Use {
		u := before
		f(&u)
		return u
	}
	for query, want := range map[string]admin.Use{
		"":                     before,
		"apply=always":         before,
		"apply=request":        change(func(u *admin.Use) { u.Apply, u.Keys = "request", nil }),
		"keys=":                change(func(u *admin.Use) { u.Keys = nil }),
		"keys=staff":           change(func(u *admin.Use) { u.Keys = []string{"staff"} }),
		"on_error=stop":        change(func(u *admin.Use) { u.OnError = "stop" }),
		"on_full=stop":         change(func(u *admin.Use) { u.OnFull = "stop" }),
		"on_exhausted=release": change(func(u *admin.Use) { u.OnExhausted = "release" }),
		"config=%7B%7D":        change(func(u *admin.Use) { u.Config = []byte("{}") }),
		"limits.memory=auto":   change(func(u *admin.Use) { u.Limits.Memory = 0 }),
		"limits.share=2":       change(func(u *admin.Use) { u.Limits.Share = 2 }),
	} {
		s := &fakeSet{plugins: map[string]server.Plugin{}, old: &before}
		if rec := ask(serve(s), "PUT", "/admin/plugins/x?"+query, "", "m"); rec.Code != 201 ||
			!reflect.DeepEqual(s.use, want) {
			t.Errorf("%s: %d %s\n got %+v\nwant %+v", query, rec.Code, rec.Body, s.use, want)
		}
	}
	after := change(func(u *admin.Use) { u.Apply, u.Keys, u.Limits.Memory = "request", nil, 0 })
	list, err := json.Marshal(admin.Compare(&before, after))
	if want := `[{"name":"apply","before":"always","after":"request"},` +
		`{"name":"on_error","before":"skip","after":"skip"},{"name":"keys","before":"school,gone","after":""},` +
		`{"name":"on_full","before":"release","after":"release"},` +
		`{"name":"config","before":"{\"n\":3}","after":"{\"n\":3}"},` +
		`{"name":"limits.memory","before":"1MiB","after":""},{"name":"limits.fuel_load","before":"7","after":"7"}]`; err !=
		nil || string(list) != want {
		t.Errorf("%s\nwant %s", list, want)
	}
	if list := admin.Compare(nil, admin.DefaultUse()); len(list) != 2 || list[0].Before != nil {
		t.Errorf("%+v", list)
	}
}

// TestForm: a module may come in a form, with what stands beside its file; other forms are refused, within the bounds.
func TestForm(t *testing.T) {
	const head = "--x\r\nContent-Disposition: form-data; name="
	part := func(name, content string) string { return head + name + "\r\n\r\n" + content + "\r\n" }
	for _, c := range []struct {
		body   string
		status int
		says   string
	}{
		{part("module", "m") + part("artifact", "{}") + "--x--\r\n", 201, `"name":"new"`},
		{part("artifact", "{}") + part("module", "m") + "--x--\r\n", 201, `"name":"new"`},
		{part("artifact", "{}") + "--x--\r\n", 422, "the form has no part module"},
		{part("module", "m") + part("module", "n") + "--x--\r\n", 422, "the form has two parts module"},
		{part("other", "m") + "--x--\r\n", 422, `unknown part \"other\" of the form; it takes module and artifact`},
		{part("module", "m"), 400, "bad_request"},
		{part("artifact", strings.Repeat("x", 2<<20+1)) + "--x--\r\n", 422, "artifact must have at most 2097152 bytes"},
		{part("module", strings.Repeat("x", 3<<20)) + "--x--\r\n", 413, "plugins.upload_limit"},
		{"x", 422, "the form has no part module"},
	} {
		conf := config.Default().Server
		conf.AdminKeys = []string{"key"}
		set := &fakeSet{plugins: map[string]server.Plugin{}}
		s := server.New(server.Options{Config: conf, Healthy: func() error { return nil },
			APIs: []server.API{admin.New(admin.Options{Plugins: set, UploadLimit: 3 << 20})},
			Log:  slog.New(slog.DiscardHandler)})
		rec := ask(s, "PUT", "/admin/plugins/new", "multipart/form-data; boundary=x", c.body)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.says) {
			t.Errorf("%.100q: %d %s, want %d %s", c.body, rec.Code, rec.Body, c.status, c.says)
		}
		if c.status == 201 && (set.wasm != "m" || string(set.settings.Signed) != "{}") {
			t.Errorf("%q, %q arrived", set.wasm, set.settings.Signed)
		}
	}
}

// FuzzSettings: whatever the query, the answer is a plugin or says what is wrong.
func FuzzSettings(f *testing.F) {
	f.Add("on_error=skip&limits.memory=1MiB&config={}")
	f.Add("config=%7B%22a%22%3A1%7D&limits.fuel_load=-1&x;y")
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("PUT", "/admin/plugins/x", strings.NewReader("m"))
		r.URL.RawQuery = query
		r.Header.Set("Authorization", "Bearer key")
		rec := httptest.NewRecorder()
		serve(&fakeSet{plugins: map[string]server.Plugin{}}).ServeHTTP(rec, r)
		if rec.Code != 201 && rec.Code != 422 {
			t.Fatalf("%q: %d %s", query, rec.Code, rec.Body)
		}
	})
}

// TestVersionRoutes: what the routes of versions and logs take.
func TestVersionRoutes(t *testing.T) {
	s := serve(&fakeSet{plugins: map[string]server.Plugin{}})
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"PUT", "mine?dry_run", 200, `{"dry_run":true,"plugin":{"name":"mine"`},
		{"PUT", "mine?dry_run=no", 422, `dry_run: \"no\" is neither true nor false`},
		{"GET", "mine/versions", 200, `{"versions":[{"sha256":"ab12","version":"","serving":true`},
		{"POST", "mine/rollback?to=ab", 200, `"sha256":"ab"`},
		{"POST", "mine/rollback?to=" + strings.Repeat("a", 65), 422, "to has 65 characters, a sha256 has 64"},
		{"POST", "mine/rollback?to=" + strings.Repeat("a", 64) + ".0123456789abcdef", 200, `"sha256":"aaaa`},
		{"POST", "mine/rollback?to=ab." + strings.Repeat("0", 79), 422, "settings behind a point 16"},
		{"POST", "mine/rollback?to=a&to=b", 422, "to is given 2 times"},
		{"GET", "mine/log?after=7", 200, `{"lines":[{"seq":8,`},
		{"GET", "mine/log?after=x", 422, `after: \"x\" is no whole number`},
		{"GET", "mine/log?since=7", 422, "the route takes after"},
	} {
		rec := ask(s, c.method, "/admin/plugins/"+c.path, "application/wasm", "")
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.says) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, rec.Code, rec.Body, c.status, c.says)
		}
	}
}
