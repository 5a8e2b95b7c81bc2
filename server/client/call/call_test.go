package call

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestPaths: whatever a path says, only the server of the address is asked.
func TestPaths(t *testing.T) {
	var other, asked []string
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		other = append(other, r.URL.String())
	}))
	defer away.Close()
	home := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Host+r.URL.String()+" "+r.Header.Get("Authorization"))
	}))
	defer home.Close()
	c, err := New(home.URL+"/prefix/v1/", "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(away.URL, "http://")
	for path, want := range map[string]string{
		"@" + host + "/generate": "does not begin with a slash", "": "does not begin with a slash",
		":80@" + host + "/": "does not begin with a slash", "." + host: "does not begin with a slash",
		away.URL: "does not begin with a slash", "//" + host + "/generate": "names a host",
		"//k@" + host: "names a host",
		"///a":        "names a host", "/a/../b": "parts such as", "/%2e%2e/b": "parts such as",
		`/\` + host: "a backslash",
		"/a#b":      "a fragment", "/a\n": "or is none", "/a?%zz": "the query", "/a//b": "parts such as",
	} {
		_, err := c.Do(t.Context(), http.MethodPost, path, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
	if len(asked)+len(other) != 0 {
		t.Fatalf("asked %q and %q", asked, other)
	}
	for path, want := range map[string]string{"/": "/", "/a?b=c d": "/a?b=c+d", "/@" + host: "/@" + host} {
		asked = nil
		want = strings.TrimPrefix(home.URL, "http://") + "/prefix" + want + " Bearer k"
		_, err := c.Do(t.Context(), http.MethodPost, path, nil, nil)
		if err != nil || len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: %v, asked %q, want %s", path, err, asked, want)
		}
	}
	if len(other) != 0 {
		t.Errorf("the other host was asked %q", other)
	}
	for _, address := range []string{"ftp://a", "http://", "http://a?b=c", "http://a#b", "a"} {
		if _, err := New(address, "", nil); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
}

// TestRedirect: the key does not follow a redirect.
func TestRedirect(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was asked %s with %s", r.URL, r.Header.Get("Authorization"))
	}))
	defer away.Close()
	home := httptest.NewServer(http.RedirectHandler(away.URL+"/generate", http.StatusTemporaryRedirect))
	defer home.Close()
	c, err := New(home.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := c.Do(t.Context(), http.MethodPost, "/generate", nil, []byte("{}"))
	if err != nil || reply.Status != http.StatusTemporaryRedirect {
		t.Errorf("%d, %v", reply.Status, err)
	}
}

// TestBounds: a reply without an end is left, and one of many small elements is not decoded.
func TestBounds(t *testing.T) {
	many := `{"choices": [{"explain": [` + strings.Repeat("0,", MaxElements) + `0]}]}`
	for name, x := range map[string]struct {
		reply func(w http.ResponseWriter)
		want  string
	}{
		"endless blanks": {func(w http.ResponseWriter) {
			for piece := bytes.Repeat([]byte(" "), 1<<20); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, "more than 33554432 bytes"},
		"elements": {func(w http.ResponseWriter) { _, _ = w.Write([]byte(many)) }, "more than 524288 elements"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { x.reply(w) }))
		c, err := New(s.URL, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := c.Do(t.Context(), http.MethodPost, "/", nil, nil)
		if err == nil || !strings.Contains(err.Error(), x.want) || reply.Body != nil {
			t.Errorf("%s: %v with %d bytes", name, err, len(reply.Body))
		}
		s.Close()
	}
	for _, text := range []string{`{"a": "` + strings.Repeat(`[,\"`, MaxElements) + `"}`, "]]}}[,", "",
		`{` + strings.Repeat(`"a":1,`, MaxElements) + `"b":[]}`, `"\`} {
		if err := Bounded([]byte(text)); err != nil {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}

// TestNewAll: each server once, and no more than MaxServers.
func TestNewAll(t *testing.T) {
	if list, err := NewAll([]string{"http://a", "https://b/x"}, "k"); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	for want, addresses := range map[string][]string{
		"given twice": {"http://a", "http://a/v1/"},
		"is no URL":   {"http://a", "a:3000"},
		"at most 32":  make([]string, MaxServers+1),
	} {
		if _, err := NewAll(addresses, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestSecretsOfAddresses: the user and the password of an address reach the server, and no error.
func TestSecretsOfAddresses(t *testing.T) {
	for _, key := range []string{"", "k"} {
		got := ""
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Authorization")
		}))
		c, err := New(strings.Replace(s.URL, "://", "://USER:PASS@", 1), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := "Bearer " + key
		if key == "" {
			want = "Basic " + base64.StdEncoding.EncodeToString([]byte("USER:PASS"))
		}
		if _, err := c.Do(t.Context(), http.MethodGet, "/x", nil, nil); err != nil || got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
		s.Close()
		_, err = c.Do(t.Context(), http.MethodGet, "/x", nil, nil)
		hides(t, err)
	}
	for _, address := range []string{"ftp://USER:PASS@h", "http://USER:PASS@ho st", "USER:PASS@h", "http://USER:PASS@",
		"http://USER:PA/SS@h", "http://USER:1/SS@h", "http://USER:1?SS@h", "http://USER:1#SS@h",
		"http://USER:%zzPASS@h", "http://USER:PASS@[::1", "http://USER:PASS@h:bad", "http://h?key=PASS",
		"http://h#PASS"} {
		_, err := New(address, "", nil)
		hides(t, err)
	}
	_, err := NewAll([]string{"http://USER:PASS@a", "http://USER:PASS@a/v1"}, "")
	hides(t, err)
}

// hides wants an error that tells no user and no password.
func hides(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "USER") || strings.Contains(err.Error(), "PASS") ||
		strings.Contains(err.Error(), "SS@") {
		t.Errorf("%v", err)
	}
}
