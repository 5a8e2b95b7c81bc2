package ui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestKitFindsProblems: a page that logs an error, throws, breaks its policy or asks another host is found out.
func TestKitFindsProblems(t *testing.T) {
	demand(t)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	const strict = "default-src 'self'; require-trusted-types-for 'script'"
	for _, c := range []struct{ policy, script, want string }{
		{strict, `console.error('oh', 'no')`, `logged (error): "oh" "no"`},
		{strict, `setTimeout(() => { throw new Error('thrown') })`, "threw: Error: thrown"},
		{strict, `document.body.innerHTML = '<b>x</b>'`, "TrustedHTML"},
		{strict, `eval('1')`, "threw: "},
		{strict, `fetch('` + other.URL + `/x').catch(() => {})`, "Content Security Policy"},
		{"", `fetch('` + other.URL + `/x').catch(() => {})`, "asks another host: " + other.URL},
		{"", `new Image().src = 'http://tracker.invalid/a.png'`, "asks another host: http://tracker.invalid"},
		{"", `new WebSocket('ws://127.0.0.1:1/')`, "asks another host: ws://127.0.0.1:1"},
		{strict, `fetch('missing')`, ""},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				w.Header().Set("Content-Security-Policy", c.policy)
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, `<!doctype html><link rel=icon href=icon><main id=main><p>x</p></main><script src=x.js></script>`)
			case "/x.js":
				w.Header().Set("Content-Type", "text/javascript")
				fmt.Fprint(w, c.script)
			default:
				http.NotFound(w, r)
			}
		}))
		p := open(t, s.URL, "/")
		p.eventually("it is loaded", `document.readyState === 'complete'`)
		eval[int](p, `new Promise((done) => setTimeout(() => done(1), 100))`)
		got := strings.Join(p.found(), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.script, got, c.want)
		}
		s.Close()
	}
}
