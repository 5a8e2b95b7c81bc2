package operate

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/server/api/admin"
)

// TestServer: the routes that are asked, and what is printed of the answers.
func TestServer(t *testing.T) {
	var asked []string
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		if r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"no key\u001b[1m"}`))
			return
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/versions"):
			_, _ = w.Write([]byte(`{"versions":[{"sha256":"ab","version":"1\u001b[2J","serving":true},{"sha256":"ef",
				"error":"no\u001b"}]}`))
		case strings.HasSuffix(r.URL.Path, "/rollback"):
			_, _ = w.Write([]byte(`{"name":"dog","sha256":"c d1","version":"2"}`))
		case r.URL.Query().Get("after") == "7":
			stop() // the follower has seen the first lines and asks for more
		default:
			_ = json.NewEncoder(w).Encode(map[string][]admin.LogLine{"lines": {{Seq: 7, Time: time.Now(), Level: "warn",
				Of: "guest", Text: "hi"}}})
		}
	}))
	defer web.Close()
	s, err := New(web.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	list, text, err := s.Versions(t.Context(), "dog")
	if err != nil || len(list) != 2 || !strings.HasPrefix(text, "* ab") ||
		!strings.HasSuffix(text, "\n  it does not serve: no\\x1b\n") || strings.Contains(text, "\x1b") {
		t.Errorf("%q, %v", text, err)
	}
	if got, text, err := s.Rollback(t.Context(), "dog", "c d"); err != nil || got.SHA256 != "c d1" ||
		text != "dog: version \"2\", sha256 c d1, serves again at "+web.URL+"\n" {
		t.Errorf("%+v, %q, %v", got, text, err)
	}
	if err := s.Log(ctx, "dog", 0, true, func(l admin.LogLine) error { return WriteLine(&out, l) }); err != nil ||
		!strings.HasSuffix(out.String(), "warn  guest hi\n") {
		t.Errorf("%q, %v", out.String(), err)
	}
	tried := lineText(admin.LogLine{Level: "info", Of: "guest", Trial: "canary", Text: "hi"})
	if !strings.HasSuffix(tried, " info  guest/canary hi\n") {
		t.Error(tried)
	}
	other, err := New(web.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Versions(t.Context(), "dog"); err == nil ||
		!strings.HasSuffix(err.Error(), `401 no key\x1b[1m; --key wants one of server.admin_keys`) {
		t.Error(err)
	}
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer empty.Close()
	if other, err = New(empty.URL, ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.Versions(t.Context(), "dog"); err == nil ||
		!strings.HasSuffix(err.Error(), "401 Unauthorized; --key wants one of server.admin_keys") {
		t.Error(err)
	}
	want := "GET /admin/plugins/dog/versions, POST /admin/plugins/dog/rollback?to=c+d, " +
		"GET /admin/plugins/dog/log?after=0, GET /admin/plugins/dog/log?after=7, GET /admin/plugins/dog/versions"
	if got := strings.Join(asked, ", "); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

func TestAdminKey(t *testing.T) {
	for all, want := range map[string]string{"": "", "one": "one", " one , two": "one"} {
		lookup := func(name string) (string, bool) { return all, name == "ADMIN_KEY" }
		if got := AdminKey("", lookup); got != want {
			t.Errorf("of %q it takes %q", all, got)
		}
		if got := AdminKey("given", lookup); got != "given" {
			t.Errorf("%q goes before what is given", got)
		}
	}
}
