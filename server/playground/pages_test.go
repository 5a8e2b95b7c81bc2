package playground_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/playground"
)

// What browsers send when a person opens an address.
var browsers = map[string]string{
	"chromium": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8," +
		"application/signed-exchange;v=b3;q=0.7",
	"firefox": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
	"w3m":     "text/html, text/*;q=0.5, image/*",
}

func serve(t *testing.T, pages server.Pages) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(server.New(server.Options{Config: config.Default().Server, Pages: pages,
		APIs: []server.API{}, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply, string(body)
}

// TestFrontKeepsVary: caches tell browsers apart by all that the reply depends on.
func TestFrontKeepsVary(t *testing.T) {
	c := config.Default().Server
	c.CORSAllowOrigin = []string{"https://one.example"}
	s := httptest.NewServer(server.New(server.Options{Config: c, Pages: playground.New(), APIs: []server.API{},
		Log: slog.New(slog.DiscardHandler)}))
	defer s.Close()
	reply, _ := get(t, http.MethodGet, s.URL+"/", "Accept", browsers["firefox"])
	if got := strings.Join(reply.Header.Values("Vary"), ","); got != "Origin,Accept,Accept-Encoding" {
		t.Errorf("Vary is %q, want Origin, Accept and Accept-Encoding", got)
	}
}

// same are the fields of a header that do not differ between two replies by themselves.
func same(h http.Header) http.Header {
	h = h.Clone()
	h.Del("Date")
	h.Del("X-Request-Id")
	return h
}

// TestFrontIsForBrowsers: whoever does not ask for HTML before all else gets the very reply of a server without pages.
func TestFrontIsForBrowsers(t *testing.T) {
	with, without := serve(t, playground.New()), serve(t, nil)
	for name, accept := range browsers {
		reply, body := get(t, http.MethodGet, with.URL+"/", "Accept", accept)
		if !strings.HasPrefix(body, "<!doctype html>") || reply.Header.Get("Vary") == "" {
			t.Errorf("%s got %.40q with Vary %q", name, body, reply.Header.Get("Vary"))
		}
		reply, body = get(t, http.MethodHead, with.URL+"/", "Accept", accept)
		if reply.Header.Get("Content-Type") != "text/html; charset=utf-8" || body != "" {
			t.Errorf("HEAD of %s got %v %q", name, reply.Header, body)
		}
	}
	for _, accept := range []string{"", "*/*", "text/*", "application/json", "application/json, text/html",
		"text/html;q=0.5, application/json", "text/html;q=0", "text/html;q=2", "text/html;q=x", "text/htmlx", "html",
		",,,", strings.Repeat("a/b;q=0.1,", 400) + "text/html"} {
		var header []string
		if accept != "" {
			header = []string{"Accept", accept}
		}
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			a, gotBody := get(t, method, with.URL+"/", header...)
			b, wantBody := get(t, method, without.URL+"/", header...)
			if a.StatusCode != b.StatusCode || gotBody != wantBody || len(same(a.Header)) != len(same(b.Header)) {
				t.Errorf("%s with %.60q: %d %q %v, without pages %d %q %v", method, accept, a.StatusCode, gotBody, a.Header,
					b.StatusCode, wantBody, b.Header)
			}
		}
	}
}

var linked = regexp.MustCompile(`(?:href|src)="(playground/[^"]*)"`)

// TestFiles: the page links files that are there, which browsers keep and which run nothing of others.
func TestFiles(t *testing.T) {
	s := serve(t, playground.New())
	front, page := get(t, http.MethodGet, s.URL+"/", "Accept", browsers["firefox"])
	if got := front.Header.Get("Cache-Control"); got != "no-cache" {
		t.Errorf("the page's Cache-Control is %q: a browser would keep an old version", got)
	}
	links := linked.FindAllStringSubmatch(page, -1)
	if len(links) < 4 {
		t.Fatalf("the page links %v", links)
	}
	for _, link := range links {
		reply, body := get(t, http.MethodGet, s.URL+"/"+link[1])
		if reply.StatusCode != http.StatusOK || body == "" {
			t.Errorf("%s: %d", link[1], reply.StatusCode)
		}
		if !strings.Contains(reply.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: Cache-Control is %q", link[1], reply.Header.Get("Cache-Control"))
		}
		checkHeaders(t, link[1], reply.Header)
		again, _ := get(t, http.MethodGet, s.URL+"/"+link[1], "If-None-Match", reply.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s is sent again: %d", link[1], again.StatusCode)
		}
		stale := regexp.MustCompile(`/[0-9a-f]{16}/`).ReplaceAllString(link[1], "/0123456789abcdef/")
		if reply, _ := get(t, http.MethodGet, s.URL+"/"+stale); reply.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d, not of this version", stale, reply.StatusCode)
		}
	}
	checkHeaders(t, "/", front.Header)
	base := strings.TrimSuffix(links[0][1], "icon.svg")
	for _, name := range []string{"", "index.html", "pages", "pages/", "no.js", "%2e%2e/pages.go", "..%2fpages.go"} {
		if reply, _ := get(t, http.MethodGet, s.URL+"/"+base+name); reply.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %d, want 404", name, reply.StatusCode)
		}
	}
}

func checkHeaders(t *testing.T, name string, h http.Header) {
	t.Helper()
	for key, want := range map[string][]string{
		"Content-Security-Policy": {"default-src 'none'", "script-src 'self'", "connect-src 'self'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'", "base-uri 'none'", "form-action 'none'"},
		"X-Content-Type-Options": {"nosniff"}, "Referrer-Policy": {"no-referrer"}, "ETag": {`"`},
	} {
		for _, part := range want {
			if !strings.Contains(h.Get(key), part) {
				t.Errorf("%s: %s is %q without %q", name, key, h.Get(key), part)
			}
		}
	}
	if p := h.Get("Content-Security-Policy"); strings.Contains(p, "unsafe") || strings.Contains(p, "http") {
		t.Errorf("%s: the policy lets others in: %s", name, p)
	}
}
