package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"tgi/server/share"
)

func TestPushPull(t *testing.T) {
	f, a := pushed(t)
	for _, rest := range []string{":1.0.0", "@" + a.Digest()} {
		got, err := f.pull(t, rest)
		if err != nil || got.Digest() != a.Digest() || !bytes.Equal(got.Module, a.Module) || len(got.Signatures) != 1 ||
			!bytes.Equal(got.Signatures[0].Signature, a.Signatures[0].Signature) {
			t.Errorf("%s: %+v, %v", rest, got, err)
		}
	}
	r := f.open(t)
	other := share.Signature{Payload: []byte("{}"), Signature: []byte("other")}
	for range 2 { // the same one once
		if err := r.Attach(t.Context(), a.Digest(), []share.Signature{other}); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := r.Signatures(t.Context(), a.Digest()); err != nil || len(list) != 2 {
		t.Errorf("%d signatures, %v", len(list), err)
	}
	b := plugin(t, "more")
	if err := r.Push(t.Context(), b, "1.0.0", false); !errors.Is(err, ErrTaken) {
		t.Errorf("the tag was moved: %v", err)
	}
	if err := r.Push(t.Context(), b, "1.0.0", true); err != nil {
		t.Error(err)
	}
	if got, err := f.pull(t, ":1.0.0"); err != nil || got.Digest() != b.Digest() {
		t.Errorf("%s, %v", got.Digest(), err)
	}
	if got, err := f.pull(t, "@"+a.Digest()); err != nil || got.Digest() != a.Digest() {
		t.Errorf("%s, %v", got.Digest(), err)
	}
	if _, err := f.pull(t, ":none"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Error(err)
	}
	if _, err := f.pull(t, ""); err == nil || !strings.Contains(err.Error(), "names no tag") {
		t.Error(err)
	}
}

// TestHostile: whatever a registry answers, a pull ends soon with an error that says what was wrong.
func TestHostile(t *testing.T) {
	forever := func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	a := plugin(t, "")
	module := digest.FromBytes(a.Module)
	manifest := "/v2/plugins/ban/manifests/"
	for _, c := range []struct {
		name, rest, want string
		twist            func(w http.ResponseWriter, r *http.Request) bool
	}{
		{"another digest for a digest", "@" + a.Digest(), "digest", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodHead {
				return false
			}
			w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			w.Header().Set("Content-Length", "10")
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			return true
		}},
		{"another manifest than its digest", ":1.0.0", "digest", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, manifest) {
				return false
			}
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			text := bytes.Replace(a.Manifest, []byte(`"1.0.0"`), []byte(`"1.0.1"`), 1)
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			_, _ = w.Write(text)
			return true
		}},
		{"another module", ":1.0.0", "mismatch", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != blobPath(module) {
				return false
			}
			_, _ = w.Write([]byte("\x00asm\x02\x00\x00\x00"))
			return true
		}},
		{"a module without an end", ":1.0.0", "", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != blobPath(module) {
				return false
			}
			forever(w)
			return true
		}},
		{"a manifest without an end", ":1.0.0", "", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || !strings.HasPrefix(r.URL.Path, manifest) {
				return false
			}
			forever(w)
			return true
		}},
		{"a large manifest", ":1.0.0", "65536", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodHead {
				return false
			}
			w.Header().Set("Docker-Content-Digest", a.Digest())
			w.Header().Set("Content-Length", "70000")
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			return true
		}},
		{"a module that stalls", ":1.0.0", "sent nothing", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != blobPath(module) {
				return false
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(a.Module)))
			_, _ = w.Write(a.Module[:4])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}},
		{"no answer", ":1.0.0", "timeout", func(w http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}},
		{"an error without an end", ":1.0.0", "500", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet { // the bodies of others are dropped
				return false
			}
			w.WriteHeader(http.StatusInternalServerError)
			forever(w)
			return true
		}},
		{"redirects without an end", ":1.0.0", "redirects", func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}},
		{"no credentials", ":1.0.0", EnvUsername, func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}},
		{"a digest that is none", ":1.0.0", "digest", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodHead {
				return false
			}
			w.Header().Set("Docker-Content-Digest", "sha512:"+strings.Repeat("0", 128))
			w.Header().Set("Content-Length", "10")
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			return true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _ := pushed(t)
			f.twist = c.twist
			_, err := f.pull(t, c.rest)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("%v: wanted %q", err, c.want)
			}
			if t.Context().Err() != nil {
				t.Error("it took the whole time")
			}
		})
	}
}

// TestUnreachable: a registry that gives no answer is told from one whose answer is no.
func TestUnreachable(t *testing.T) {
	gone, _ := pushed(t)
	gone.Close()
	f, a := pushed(t)
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	for _, c := range []struct {
		name  string
		of    *fake
		twist func(w http.ResponseWriter, r *http.Request) bool
		want  bool
	}{
		{"nobody listens", gone, nil, true},
		{"503", f, status(http.StatusServiceUnavailable), true},
		{"429", f, status(http.StatusTooManyRequests), true},
		{"401", f, status(http.StatusUnauthorized), false},
		{"404", f, status(http.StatusNotFound), false},
		{"no answer", f, func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, true},
		{"a module that stalls", f, func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != blobPath(digest.FromBytes(a.Module)) {
				return false
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(a.Module)))
			_, _ = w.Write(a.Module[:4])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return true
		}, true},
	} {
		c.of.twist = c.twist
		if _, err := c.of.pull(t, ":1.0.0"); err == nil || Unreachable(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	r, err := Open(f.reference(t, ""), Options{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Pull(t.Context(), f.reference(t, ":1.0.0")); err == nil || Unreachable(err) {
		t.Errorf("a registry without TLS: %v", err)
	}
}

// TestModuleLimit: a module above the limit is refused before it is fetched.
func TestModuleLimit(t *testing.T) {
	f, a := pushed(t)
	r, err := Open(f.reference(t, ""), Options{PlainHTTP: true, Limit: int64(len(a.Module)) - 1})
	if err != nil {
		t.Fatal(err)
	}
	fetched := false
	f.twist = func(_ http.ResponseWriter, r *http.Request) bool {
		fetched = fetched || r.URL.Path == blobPath(digest.FromBytes(a.Module))
		return false
	}
	if _, err := r.Pull(t.Context(), f.reference(t, ":1.0.0")); err == nil || fetched ||
		!strings.Contains(err.Error(), "module: size must be 0 to 7 bytes, given 8") {
		t.Errorf("%v, fetched: %v", err, fetched)
	}
}

// TestCredentials: the registry gets them, nobody else: neither the host of a redirect nor another registry.
func TestCredentials(t *testing.T) {
	elsewhere := newFake(t)
	f, a := pushed(t)
	elsewhere.blobs = f.blobs
	f.twist = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if r.URL.Path == blobPath(digest.FromBytes(a.Module)) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	}
	check := func(name, want string) {
		t.Helper()
		f.authorized = nil
		if got, err := f.pull(t, ":1.0.0"); err != nil || got.Digest() != a.Digest() {
			t.Errorf("%s: %v", name, err)
		}
		if len(f.authorized) == 0 || f.authorized[0] != want {
			t.Errorf("%s: the registry got %q", name, f.authorized)
		}
		if len(elsewhere.authorized) > 0 {
			t.Errorf("%s: another host got %q", name, elsewhere.authorized)
		}
	}
	t.Setenv(EnvUsername, "me")
	t.Setenv(EnvPassword, "pass")
	check("environment", "Basic bWU6cGFzcw==")
	t.Setenv(EnvUsername, "")
	if _, err := Open(f.reference(t, ""), Options{}); err == nil || !strings.Contains(err.Error(), EnvUsername) {
		t.Error(err)
	}
	t.Setenv(EnvPassword, "")
	docker := t.TempDir()
	t.Setenv("DOCKER_CONFIG", docker)
	write := func(host string) {
		t.Helper()
		text := fmt.Sprintf(`{"auths": {%q: {"auth": "eW91OmZpbGU="}}}`, host)
		if err := os.WriteFile(filepath.Join(docker, "config.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.TrimPrefix(f.URL, "http://"))
	check("docker's file", "Basic eW91OmZpbGU=")
	write("registry.example")
	f.authorized = nil
	if _, err := f.pull(t, ":1.0.0"); err == nil || len(f.authorized) > 0 {
		t.Errorf("another registry's credentials: %v, %q", err, f.authorized)
	}
}

// TestTLS: HTTP is spoken only where it was asked for, and no redirect leaves TLS.
func TestTLS(t *testing.T) {
	f, _ := pushed(t)
	r, err := Open(f.reference(t, ""), Options{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	_, pulled := r.Pull(t.Context(), f.reference(t, ":1.0.0"))
	for _, err := range []error{pulled, r.Push(t.Context(), plugin(t, ""), "1", false)} {
		if err == nil || !strings.Contains(err.Error(), "--plain-http") {
			t.Errorf("without TLS: %v", err)
		}
	}
	odd, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { // answers TLS with a page and no status line
		defer close(served)
		for {
			c, err := odd.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "<!DOCTYPE HTML>")
			_ = c.Close()
		}
	}()
	defer func() { odd.Close(); <-served }()
	at, err := Parse(odd.Addr().String() + "/plugins/p")
	if err != nil {
		t.Fatal(err)
	}
	if r, err = Open(at, Options{Limit: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if err := r.Push(t.Context(), plugin(t, ""), "1", false); err == nil ||
		!strings.Contains(err.Error(), "first record") || !strings.Contains(err.Error(), "--plain-http") {
		t.Errorf("without TLS or a status line: %v", err)
	}
	request := httptest.NewRequest(http.MethodGet, f.URL, nil)
	if _, err := newClient("registry.example", Options{}).Transport.RoundTrip(request); err == nil ||
		!strings.Contains(err.Error(), "--plain-http") {
		t.Error(err)
	}
	secure := httptest.NewRequest(http.MethodGet, "https://registry.example", nil)
	if err := redirect(request, []*http.Request{secure}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	sum := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string]Reference{
		"127.0.0.1:5000/a/b:1.0":          {"127.0.0.1:5000/a/b", "1.0", ""},
		"registry.example/a@" + sum:       {"registry.example/a", "", sum},
		"registry.example/a:1.0@" + sum:   {"registry.example/a", "", sum},
		"registry.example/a":              {"registry.example/a", "", ""},
		"registry.example/A:1":            {},
		"registry.example/a@sha512:00":    {},
		"registry.example/../a:1":         {},
		"https://registry.example/a:1":    {},
		"a":                               {},
		"registry.example/a:" + sum + "x": {},
	} {
		got, err := Parse(text)
		if got != want || (err == nil) != (want != Reference{}) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if err == nil && !strings.Contains(text, ":1.0@") && got.String() != text {
			t.Errorf("%s is written %s", text, got)
		}
	}
}

// TestRealm: a token server gets credentials over plain HTTP only where it is the registry's own host and port.
func TestRealm(t *testing.T) {
	f, a := pushed(t)
	tokens := newFake(t)
	tokens.twist = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write([]byte(`{"token": "t"}`))
		return true
	}
	realm := ""
	f.twist = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			_, _ = w.Write([]byte(`{"token": "t"}`))
		case r.Header.Get("Authorization") != "Bearer t":
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			return false
		}
		return true
	}
	t.Setenv(EnvUsername, "me")
	t.Setenv(EnvPassword, "pass")
	realm = f.URL
	if got, err := f.pull(t, ":1.0.0"); err != nil || got.Digest() != a.Digest() {
		t.Error(err)
	}
	if len(f.authorized) == 0 || f.authorized[0] != "Basic bWU6cGFzcw==" {
		t.Errorf("the registry's own token server got %q", f.authorized)
	}
	realm = tokens.URL
	if _, err := f.pull(t, ":1.0.0"); err == nil || !strings.Contains(err.Error(), "its own host and port") {
		t.Error(err)
	}
	if len(tokens.authorized) > 0 {
		t.Errorf("another port got %q", tokens.authorized)
	}
	t.Setenv(EnvUsername, "")
	t.Setenv(EnvPassword, "")
	if got, err := f.pull(t, ":1.0.0"); err != nil || got.Digest() != a.Digest() { // a token without credentials
		t.Error(err)
	}
}

// TestUnwantedBody: what a registry sends behind a reply to HEAD is not printed.
func TestUnwantedBody(t *testing.T) {
	f, a := pushed(t)
	var printed bytes.Buffer
	before := log.Writer()
	log.SetOutput(&printed)
	defer log.SetOutput(before)
	f.twist = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodHead {
			return false
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nDocker-Content-Digest: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s", ocispec.MediaTypeImageManifest, a.Digest(), len(a.Manifest), a.Manifest)
		_, _ = io.Copy(io.Discard, conn) // until the client closes it, which has read or printed all by then
		_ = conn.Close()
		return true
	}
	r := f.open(t)
	if _, err := r.Resolve(t.Context(), f.reference(t, ":1.0.0")); err != nil {
		t.Error(err)
	}
	f.Close()
	if printed.Len() > 0 {
		t.Errorf("printed: %.200s", printed.Bytes())
	}
}

func TestTagged(t *testing.T) {
	sum := "sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct{ reference, version, want, err string }{
		{"r.example/a:2", "1.0.0", "r.example/a:2", ""},
		{"r.example/a", "1.0.0", "r.example/a:1.0.0", ""},
		{"r.example/a", "", "", "says no version"},
		{"r.example/a", "1.0+dirty", "", `version, "1.0+dirty", can't be one`},
		{"r.example/a", sum, "", "can't be one"},
		{"r.example/a@" + sum, "1.0.0", "", "instead of a digest"},
	} {
		at, err := Parse(c.reference)
		if err != nil {
			t.Fatal(err)
		}
		got, err := at.Tagged(c.version)
		if c.err == "" && (err != nil || got.String() != c.want) ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s, %q: %s, %v", c.reference, c.version, got, err)
		}
	}
}
