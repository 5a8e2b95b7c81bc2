package modelsapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/wire"
)

// TestCheckID has ids on both sides of each rule.
func TestCheckID(t *testing.T) {
	part := strings.Repeat("a", maxPart)
	for _, id := range []string{"a", "7", "zephyr-7b", "org/name", "_a.b_c-d-", "a/b/c/d", "start", "stop", "import",
		"pull/a", "a/pull", "download", "a/download/b", part, part + "/" + part + "/123456"} {
		if err := CheckID("id", id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{
		"", part + "a", part + "/" + part + "/1234567", "a/b/c/d/e", "a.", "a./b", "a:b", "a@b", "a+b", "/a", "a/",
		"a//b", ".", "..", "a/..", "../a", "a/./b", ".a", "-a", "a/.b", "~a", "a b", "a\x00", "a\n", `a\b`, "a%2fb",
		"a?b", "a#b",
		"é", "aé", "a\xff", "a,b", "pull", "download/a", "download/a/b",
	} {
		err := CheckID("id", id)
		var rule *generate.Invalid
		if !errors.As(err, &rule) || rule.Field != "id" {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// ids asks every route for the model id and returns what the routes did.
func ids(f *fake, id string) []string {
	s := serve(f)
	escaped := []string{(&url.URL{Path: "/v1/models/" + id}).EscapedPath(), "/v1/models/" + url.PathEscape(id)}
	quoted := `{"model":` + string(wire.AppendString(nil, id)) + `}`
	for _, at := range escaped {
		ask(s, "GET", at, "")
		ask(s, "PUT", at+"/start", "")
		ask(s, "POST", at+"/stop", "")
		ask(s, "DELETE", at, "")
	}
	ask(s, "GET", "/v1/models/download/"+url.PathEscape(id), "")
	for _, route := range []string{"start", "stop", "pull"} {
		ask(s, "POST", "/v1/models/"+route, quoted)
	}
	ask(s, "DELETE", "/v1/models/pull", quoted)
	ask(s, "POST", "/v1/models/import", strings.TrimSuffix(quoted, "}")+`,"modelPath":"x"}`)
	return f.asked
}

// FuzzID: whatever CheckID lets pass, every route reaches, however the address
// is written; what it refuses, no route makes a model of.
func FuzzID(f *testing.F) {
	for _, id := range []string{"a", "org/name", "start", "a/start", "stop/stop", "pull", "pull/x", "import",
		"download", "download/x", "..", "a//b", "a%2Fb", "a:b@c+d", "\xff"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		got := ids(&fake{models: []Model{{ID: "other"}}}, id)
		if CheckID("id", id) != nil {
			for _, call := range got {
				name, pulls := strings.CutPrefix(call, "pull ")
				if pulls && CheckSource("model", name) != nil || strings.HasPrefix(call, "import ") {
					t.Errorf("%q: %s", id, call)
				}
			}
			return
		}
		one := []string{"get " + id, "start " + id, "stop " + id, "delete " + id}
		want := slices.Concat(one, one, []string{"pull " + id, "start " + id, "stop " + id, "pull " + id,
			"cancel " + id, "import " + id})
		if !slices.Equal(got, want) {
			t.Errorf("%q\n got %q\nwant %q", id, got, want)
		}
	})
}

// FuzzBody: a body is a request within its bounds, or what is wrong with it is
// said with the member that is to blame.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"model":"a","id":"b","taskId":"c","modelPath":"d","name":"e","option":"copy","more":[{}]}`,
		`{"model":"https://example.com/a?b#c","id":null}`, `{"model":"a","option":"move"}`,
		`{"model":"../a","modelPath":"\u0000"}`,
		`{"name":1}`, `{"model":"a","model":"b"}`, `[`, `null`, `{"model":"http://"}`, `{"model":"\ud800"}`,
		"{\"\xff\":1}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := readRequest(body)
		var shape *wire.Error
		if err != nil {
			if !errors.As(err, &shape) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if n := len(q.ignored); n > maxIgnored || len(q.warning()) > 80+n*(4*maxMember+2) {
			t.Errorf("%q: the warning %s", body, q.warning())
		}
		blamed := func(err error) bool {
			var rule *generate.Invalid
			return errors.As(err, &rule) && slices.Contains([]string{"model", "id", "modelPath", "name", "option"},
				rule.Field)
		}
		clean := func(s string, least, most int) bool {
			return len(s) >= least && len(s) <= most && !strings.ContainsFunc(s, unicode.IsControl)
		}
		if p, err := q.pull(); err != nil {
			if !blamed(err) {
				t.Errorf("%q: %v", body, err)
			}
		} else if !clean(p.Source, 1, maxSource) || !clean(p.Name, 0, maxName) || p.ID != "" &&
			CheckID("id", p.ID) != nil || !strings.Contains(p.Source, "://") && path.Clean("/"+p.Source) != "/"+
			p.Source {
			t.Errorf("%q became %+v", body, p)
		}
		if i, err := q.importing(); err != nil {
			if !blamed(err) {
				t.Errorf("%q: %v", body, err)
			}
		} else if CheckID("model", i.ID) != nil || !clean(i.Path, 1, maxPath) || !clean(i.Name, 0, maxName) {
			t.Errorf("%q became %+v", body, i)
		}
		if _, err := q.subject("x"); err != nil && !blamed(err) {
			t.Errorf("%q: %v", body, err)
		}
	})
}

// TestRequests: what a body says arrives.
func TestRequests(t *testing.T) {
	f := shelf()
	s := serve(f)
	ask(s, "POST", "/v1/models/pull", `{"model":"https://example.com/a","id":"mine","name":"Mine"}`)
	if want := (Pull{Source: "https://example.com/a", ID: "mine", Name: "Mine"}); f.pull != want {
		t.Errorf("got %+v, want %+v", f.pull, want)
	}
	ask(s, "GET", "/v1/models/download/org%2Fx", "")
	if want := (Pull{Source: "org/x"}); f.pull != want {
		t.Errorf("got %+v, want %+v", f.pull, want)
	}
	ask(s, "POST", "/v1/models/import", `{"model":"org/x","modelPath":"/srv/x","name":"X","option":"copy"}`)
	if want := (Import{ID: "org/x", Path: "/srv/x", Name: "X"}); f.imports != want {
		t.Errorf("got %+v, want %+v", f.imports, want)
	}
	// Of members that are ignored, a reply names so many and so much.
	long := `{"model":"up"`
	for i := range maxIgnored + 5 {
		long += `,"` + strings.Repeat(string(rune('a'+i)), maxMember+5) + `":0`
	}
	if body := ask(s, "POST", "/v1/models/start", long+`}`).Body.String(); strings.Count(body, ", ") != maxIgnored-1 ||
		strings.Contains(body, strings.Repeat("a", maxMember+1)) {
		t.Errorf("the reply is %s", body)
	}
	if rec := ask(s, "POST", "/v1/models/start", `{"model":"`+strings.Repeat("a", bodyLimit)+`"}`); rec.Code != 413 ||
		!strings.Contains(rec.Body.String(), `"code":"payload_too_large"`) {
		t.Errorf("a large body: %d %s", rec.Code, rec.Body)
	}
	// A body of unknown length may be nothing where it may be left out.
	r := httptest.NewRequest("PUT", "/v1/models/up/start", struct{ *strings.Reader }{strings.NewReader("")})
	r.ContentLength = -1
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+adminKey)
	rec := httptest.NewRecorder()
	if s.ServeHTTP(rec, r); rec.Code != 200 {
		t.Errorf("no bytes: %d %s", rec.Code, rec.Body)
	}
}

// keyed says whose request the context is.
type keyed struct{ *fake }

func (k keyed) List(ctx context.Context) ([]Model, error) {
	if ctx.Value(keyed{}) == nil {
		return nil, errors.New("not the request's context")
	}
	return []Model{}, nil
}

// TestList: the request's context, which has its key, arrives; no model is an
// empty list; trouble of the server's own is told to the log alone.
func TestList(t *testing.T) {
	get := func(m Models, ctx context.Context) string {
		rec := httptest.NewRecorder()
		serve(m).ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", "/v1/models", nil))
		return rec.Body.String()
	}
	if got := get(keyed{}, context.WithValue(t.Context(), keyed{}, 1)); got != `{"object":"list","data":[]}` {
		t.Error(got)
	}
	const internal = `{"error":{"message":"Internal server error","type":"server_error","param":null,"code":"internal"},"error_type":"internal","message":"Internal server error"}`
	if got := get(&fake{}, t.Context()); got != internal {
		t.Error(got)
	}
}

// TestTable: errors of the server's table keep their rows.
func TestTable(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{llm.ErrDraining, 503, "draining", "1"},
		{errors.Join(ErrConflict, ErrBusy), 409, "model_busy", ""},
		{context.Canceled, 499, "dropped", ""},
	} {
		f, header := explain(c.err), http.Header{}
		f.SetHeader(header)
		if f.Status != c.status || f.Type != c.code || header.Get("Retry-After") != c.retry {
			t.Errorf("%v: %+v, %v", c.err, f, header)
		}
	}
}

// TestSizeOf: numbers of parameters as names of models have them.
func TestSizeOf(t *testing.T) {
	for n, want := range map[int64]string{0: "", 12: "12", 1500: "1.5K", 494_032_768: "494M", 1_543_714_304: "1.5B",
		7_000_000_000: "7B", 70_553_706_496: "70.6B"} {
		if got := sizeOf(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
