package playground_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tgi/server/playground"
)

// raw gets a file as it is sent.
func raw(t *testing.T, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	if !slices.Contains(header, "Accept-Encoding") {
		header = append(header, "Accept-Encoding", "identity") // or Go's client adds its own, and unpacks
	}
	return get(t, method, url, header...)
}

// fileOf returns the address of a file of the playground.
func fileOf(t *testing.T, s *httptest.Server, name string) string {
	t.Helper()
	_, page := get(t, http.MethodGet, s.URL+"/", "Accept", browsers["firefox"])
	link := linked.FindStringSubmatch(page)
	if link == nil {
		t.Fatalf("no link in %s", page)
	}
	return s.URL + "/" + link[1][:strings.LastIndex(link[1], "/")+1] + name
}

// TestGzip: who takes gzip gets it, the same file in fewer bytes, with a tag of its own.
func TestGzip(t *testing.T) {
	s := serve(t, playground.New())
	for url, accept := range map[string]string{fileOf(t, s, "vendor/marked.js"): "*/*",
		fileOf(t, s, "app.js"): "*/*", s.URL + "/": browsers["firefox"]} {
		plain, want := raw(t, http.MethodGet, url, "Accept", accept)
		packed, body := raw(t, http.MethodGet, url, "Accept", accept, "Accept-Encoding", "gzip, deflate, br, zstd")
		if got := packed.Header.Get("Content-Encoding"); got != "gzip" || packed.ContentLength != int64(len(body)) {
			t.Fatalf("%s: Content-Encoding %q, Content-Length %d of %d", url, got, packed.ContentLength, len(body))
		}
		r, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != want || len(body) >= len(want) {
			t.Errorf("%s: %d bytes packed are %d, want %d: %v", url, len(body), len(got), len(want), err)
		}
		checkHeaders(t, url, packed.Header)
		a, b := plain.Header.Get("ETag"), packed.Header.Get("ETag")
		if a == b || packed.Header.Get("Content-Type") != plain.Header.Get("Content-Type") {
			t.Errorf("%s: both have the tag %s, or are of two types", url, a)
		}
		for _, header := range []http.Header{plain.Header, packed.Header} {
			if !strings.Contains(strings.Join(header.Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("%s: Vary is %v", url, header.Values("Vary"))
			}
		}
		for _, c := range []struct {
			tag, encoding string
			status        int
		}{{a, "identity", 304}, {b, "gzip", 304}, {a, "gzip", 200}, {b, "identity", 200}} {
			reply, _ := raw(t, http.MethodGet, url, "Accept", accept, "Accept-Encoding", c.encoding,
				"If-None-Match", c.tag)
			if reply.StatusCode != c.status {
				t.Errorf("%s: %+v got %d", url, c, reply.StatusCode)
			}
		}
		part, body := raw(t, http.MethodGet, url, "Accept", accept, "Accept-Encoding", "gzip", "Range", "bytes=0-9")
		if part.StatusCode != http.StatusPartialContent || len(body) != 10 || part.ContentLength != 10 {
			t.Errorf("%s: a part is %d, %d bytes", url, part.StatusCode, len(body))
		}
		head, body := raw(t, http.MethodHead, url, "Accept", accept, "Accept-Encoding", "gzip")
		if head.ContentLength != packed.ContentLength || body != "" {
			t.Errorf("%s: HEAD has %d bytes, GET %d", url, head.ContentLength, packed.ContentLength)
		}
	}
}

// TestAcceptEncoding: what the header says counts, down to its weights.
func TestAcceptEncoding(t *testing.T) {
	s := serve(t, playground.New())
	url := fileOf(t, s, "style.css")
	for accept, want := range map[string]bool{"gzip": true, "GZIP": true, "br, gzip;q=0.1": true, "*": true,
		"gzip;q=0.5, identity;q=0.5": true, "identity": false, "br": false, "gzip;q=0": false, "*;q=0": false,
		"*, gzip;q=0": false, "gzip;q=0.5, identity": false, "gzip;q=2": false, "gzip;q=NaN": false, "xgzip": false,
		"gzip;q": false, ",,": false, strings.Repeat("br,", 400) + "gzip": false} {
		reply, _ := raw(t, http.MethodGet, url, "Accept-Encoding", accept)
		if got := reply.Header.Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("%.60q: gzip %v, want %v", accept, got, want)
		}
	}
}
