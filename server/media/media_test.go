package media

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestData: data: URIs in the forms that clients send.
func TestData(t *testing.T) {
	f := newFetcher(Options{Bytes: 100})
	for uri, want := range map[string]string{
		"data:image/png;base64,aGVsbG8=":             "hello",
		"data:image/png;base64,aGVsbG8":              "hello",
		"DATA:;Base64,aGVs bG8=\r\n":                 "hello",
		"data:image/png;charset=x;base64,aGVsbG8%3D": "hello",
		"data:,he%6Clo":                              "hello",
		"data:text/plain,":                           "",
		"data:;base64,*":                             "!base64 encoding is invalid: ",
		"data:;base64":                               "!invalid image: a data: URI has a comma",
		"data:;base64,%zz":                           "!invalid image: the data of a data: URI",
		"data:;base64," + strings.Repeat("AAAA",
			34): "!Image size 102 bytes exceeds maximum allowed size of 100 bytes (images.bytes)",
		"data:," + strings.Repeat("x", 101):    "!Image size 101 bytes exceeds",
		"x.png":                                "!invalid image: want a URL that begins with data:, https:// or http://",
		"file:///etc/passwd":                   "!invalid image: want a URL",
		"":                                     "!invalid image: want a URL",
		"https://example.com/x.png":            "!images are not fetched here (images.hosts names no host): send a data: URI",
		"http://user:secret@example.com/x.png": "!Could not fetch image: its URL must not have a user",
		"http://exa mple.com/" + strings.Repeat("x", 10_000): "!invalid image: want a URL",
	} {
		data, err := f.Fetch(t.Context(), uri, roomy)
		if text, fails := strings.CutPrefix(want, "!"); fails {
			if bad, ok := err.(*Error); !ok || !strings.HasPrefix(bad.Msg, text) || len(bad.Msg) > 200 {
				t.Errorf("%.60s: %v, want %s", uri, err, text)
			}
		} else if err != nil || string(data) != want {
			t.Errorf("%.60s: %q, %v", uri, data, err)
		}
	}
}

// TestHosts: only hosts that are allowed are asked, under their ports.
func TestHosts(t *testing.T) {
	f := newFetcher(Options{Hosts: []string{"a.example", "*.b.example", "c.example:8443"}})
	for address, ok := range map[string]bool{
		"https://a.example/x": true, "http://A.EXAMPLE./x": true, "https://a.example:443/x": true,
		"http://a.example:80/": true, "http://a.example:443/": false, "http://a.example:22/": false,
		"https://x.a.example/": false, "https://a.example.evil/": false, "https://evil.example/a.example": false,
		"https://x.b.example/": true, "https://y.x.b.example/": true, "https://b.example/": false,
		"https://.b.example/": false,
		"https://c.example/":  false, "https://c.example:8443/": true, "https://a.example@evil.example/": false,
		"https://[::1]/": false, "https://127.0.0.1/": false, "ftp://a.example/": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.checkHost(u); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	six := newFetcher(Options{Hosts: []string{"[::1]", "[::2]:8080"}})
	for address, ok := range map[string]bool{"http://[::1]/": true, "http://[::1]:8080/": false, "http://[::2]/": false,
		"http://[::2]:8080/": true} {
		if u, _ := url.Parse(address); (six.checkHost(u) == nil) != ok {
			t.Errorf("%s: %v", address, six.checkHost(u))
		}
	}
	all := newFetcher(Options{Hosts: []string{"*"}})
	if u, _ := url.Parse("https://any.example/"); all.checkHost(u) != nil {
		t.Error("* allows no host")
	}
}

// TestPublic: addresses that lead into the network of the server are not public.
func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "192.0.1.1": true,
		"127.0.0.1": false, "127.9.9.9": false, "10.0.0.1": false, "172.16.3.4": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "0.1.2.3": false,
		"224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false, "192.0.0.8": false,
		"203.0.113.9": false, "::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false,
		"fd12::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false,
		"fec0::1": false, "100::1": false, "::ffff:8.8.8.8": true,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: public %v", address, got)
		}
	}
}

// roomy has room for everything.
func roomy(int64) error { return nil }

// TestFetch: a host that answers well, and hosts that do not.
func TestFetch(t *testing.T) {
	var asked []string
	hang := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Accept-Encoding") != "identity" ||
			r.Header.Get("Referer") != "" {
			t.Errorf("headers: %v", r.Header)
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		fmt.Fprint(w, "GIF8 picture")
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "password=1234") })
	mux.HandleFunc("/odd", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(599) })
	mux.HandleFunc("/missing", http.NotFound)
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 2000)) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := fmt.Fprint(w, strings.Repeat("x", 500)); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/trickle", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			fmt.Fprint(w, "x")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "x")
	})
	mux.HandleFunc("/packed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		fmt.Fprint(z, strings.Repeat("x", 1<<20))
		z.Close()
	})
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/good", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/round", http.StatusFound)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 64<<10))
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		mux.ServeHTTP(w, r)
	}))
	defer s.Close()
	defer close(hang)
	at := strings.TrimPrefix(s.URL, "http://")
	o := Options{Hosts: []string{at}, Private: true, Bytes: 1000, Timeout: time.Minute}
	patient := newFetcher(o)
	o.Timeout = 300 * time.Millisecond
	hasty := newFetcher(o)
	for path, want := range map[string]string{
		"/good": "GIF8 picture", "/there": "GIF8 picture",
		"/secret":   "!Could not fetch image: the host sends no PNG, JPEG, WebP or GIF",
		"/odd":      "!Could not fetch image: the host replies 599",
		"/missing":  "!Could not fetch image: the host replies 404 Not Found",
		"/large":    "!Image size 2000 bytes exceeds maximum allowed size of 1000 bytes (images.bytes)",
		"/endless":  "!Image size exceeds maximum allowed size of 1000 bytes (images.bytes)",
		"/trickle":  "!Could not fetch image: it took too long (images.timeout)",
		"/silent":   "!Could not fetch image: it took too long (images.timeout)",
		"/short":    "!Could not fetch image: the reply ends too early",
		"/packed":   "!Could not fetch image: the reply has the encoding \"gzip\"",
		"/round":    "!Could not fetch image: more than 3 redirects",
		"/away":     "!images are not fetched from 169.254.169.254 (images.hosts)",
		"/file":     "!Could not fetch image: a redirect leads to \"file\"",
		"/headers":  "!Could not fetch image: the host cannot be reached",
		"/good#x y": "GIF8 picture",
	} {
		f := patient
		if strings.Contains(want, "too long") {
			f = hasty
		}
		for range 2 { // the second would send a cookie
			data, err := f.Fetch(t.Context(), s.URL+path, roomy)
			if text, fails := strings.CutPrefix(want, "!"); fails {
				if bad, ok := err.(*Error); !ok || !strings.HasPrefix(bad.Msg, text) {
					t.Errorf("%s: %v, want %s", path, err, text)
				}
			} else if err != nil || string(data) != want {
				t.Errorf("%s: %q, %v", path, data, err)
			}
		}
	}
	asked = nil
	public := newFetcher(Options{Hosts: []string{at, "localhost:" + strings.Split(at, ":")[1]}})
	for _, host := range []string{at, "localhost:" + strings.Split(at, ":")[1]} { // a name may lead anywhere
		_, err := public.Fetch(t.Context(), "http://"+host+"/good", roomy)
		if err == nil || !strings.Contains(err.Error(), "not public (images.private_addresses)") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if asked != nil {
		t.Errorf("a private address was asked: %v", asked)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(context.Canceled) })
	if _, err := patient.Fetch(gone, s.URL+"/silent", roomy); err != context.Canceled {
		t.Errorf("a client that went: %v", err)
	}
}

// TestFetchTakesRoom: bytes of a file are asked for before they are read, and a file that finds no room is not read.
func TestFetchTakesRoom(t *testing.T) {
	const size = 600_000
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		fmt.Fprint(w, "GIF8", strings.Repeat("x", size-4))
	}))
	defer s.Close()
	f := newFetcher(Options{Hosts: []string{strings.TrimPrefix(s.URL, "http://")}, Private: true, Bytes: 1 << 20})
	full := errors.New("full")
	for _, path := range []string{"/known", "/unknown"} {
		taken := int64(0)
		data, err := f.Fetch(t.Context(), s.URL+path, func(n int64) error {
			taken += n
			return nil
		})
		if err != nil || len(data) != size || taken < size || taken > 2*size {
			t.Errorf("%s: %d bytes of %d, %v", path, len(data), taken, err)
		}
		taken = 0
		_, err = f.Fetch(t.Context(), s.URL+path, func(n int64) error {
			if taken += n; taken > size/2 {
				return full
			}
			return nil
		})
		if err != full {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestDecodeWaits: one picture is decoded at a time, and a client that goes does not wait.
func TestDecodeWaits(t *testing.T) {
	f := newFetcher(Options{})
	data := readPicture(t, "rgb-8.png")
	<-f.decode
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Decode(ctx, data); err != context.DeadlineExceeded {
		t.Error(err)
	}
	f.decode <- struct{}{}
	uri := "data:image/png;base64," + base64.StdEncoding.EncodeToString(data)
	back, err := f.Fetch(t.Context(), uri, roomy)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Decode(t.Context(), back); err != nil {
		t.Error(err)
	}
}
