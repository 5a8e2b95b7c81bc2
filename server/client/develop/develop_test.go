package develop

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"tgi/server/client/call"
	"tgi/server/client/operate"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shown is an Out that tests read while it is written.
type shown struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shown) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until n of what is shown.
func (s *shown) await(t *testing.T, what string, n int) {
	t.Helper()
	for range 500 {
		if strings.Count(s.String(), what) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%q is not shown %d times in\n%s", what, n, s)
}

// TestRun: a project is built at once and after each change; what the compiler, the check and the server say is shown,
// and the next change tries again. What the check refuses is not sent.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	change := func(text string) { // at once, as editors do
		t.Helper()
		temp := filepath.Join(dir, ".new")
		err := os.WriteFile(temp, []byte(text), 0o600)
		if err == nil {
			err = os.Rename(temp, source)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("good")
	kind := "logits"
	var uploads, removed, strange atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPut && (r.URL.Query().Get("config") != `{"m":1}` || string(body) == "unsound") {
			strange.Add(1)
		}
		switch {
		case r.Method == http.MethodPut && string(body) == "refused":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"error":"it exports nothing\u001b[2J"}`)
		case r.Method == http.MethodPut && string(body) == "template":
			fmt.Fprintf(w, `{"name":"p","sha256":"%x","version":"2","kinds":["template"]}`, sha256.Sum256(body))
		case r.Method == http.MethodDelete:
			removed.Add(1)
			w.WriteHeader(http.StatusNoContent)
		case r.Method == http.MethodPut:
			if uploads.Add(1) == 1 {
				w.WriteHeader(http.StatusCreated)
			}
			fmt.Fprintf(w, `{"name":"p","sha256":"%x","version":"1","kinds":[%q]}`, sha256.Sum256(body), kind)
		case strings.HasSuffix(r.URL.Path, "/log") && r.URL.Query().Get("after") == "1":
			fmt.Fprint(w, `{"lines":[]}`)
		case strings.HasSuffix(r.URL.Path, "/log"):
			fmt.Fprint(w, `{"lines":[{"seq":1,"time":"2026-01-01T00:00:00Z","level":"info","of":"guest","text":"hello"}]}`)
		default:
			text := "plain"
			if strings.Contains(string(body), `"plugins":[{"name":"p","params":{"n":3}}]`) {
				text = "changed"
			}
			if !strings.Contains(string(body), `"seed":7`) {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprintf(w, `{"choices":[{"message":{"content":%q},"finish_reason":"stop"}],`+
				`"usage":{"completion_tokens":2}}`, text)
		}
	}))
	defer web.Close()
	at, err := operate.New(web.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Transport{}
	defer client.CloseIdleConnections()
	asks, err := call.New(web.URL, "k", client)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	out := &shown{}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	module := filepath.Join(dir, "p.wasm")
	go func() {
		done <- Run(ctx, Options{Dir: dir, Name: "p", Server: at, Caller: asks, Prompt: "?", Out: out,
			Every: time.Millisecond, Settings: []byte(`{"seed":7}`), Params: []byte(`{"n":3}`),
			Config: []byte(`{"m":1}`),
			Check: func(_ context.Context, file string, out io.Writer) error {
				if text, err := os.ReadFile(file); err != nil || string(text) != "unsound" {
					return err
				}
				fmt.Fprintln(out, "export: tgi_init is missing")
				return errors.New("the module is not loaded")
			},
			Try: func(_ context.Context, file string, out io.Writer) error {
				_, err := fmt.Fprintln(out, "tried", filepath.Base(file))
				return err
			},
			Build: func(_ context.Context, log io.Writer) (string, error) {
				text, err := os.ReadFile(source)
				if err != nil {
					return "", err
				}
				if string(text) == "bad" {
					fmt.Fprintln(log, "main.go:1: bad")
					return "", errors.New("make: exit status 2")
				}
				return module, os.WriteFile(module, text, 0o600)
			}})
	}()
	out.await(t, "waiting", 1)
	for _, want := range []string{"s: sound\n", "loaded p 1: logits", " without plain\n", "    with changed\n",
		"guest hello\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	change("bad")
	out.await(t, "waiting", 2)
	if !strings.Contains(out.String(), "main.go:1: bad\n") || !strings.Contains(out.String(), "make: exit status 2\n") {
		t.Errorf("the compiler's words are not in\n%s", out)
	}
	change("unsound")
	out.await(t, "waiting", 3)
	for _, want := range []string{"export: tgi_init is missing\n", " the module is not loaded\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	change("refused")
	out.await(t, "waiting", 4)
	if !strings.Contains(out.String(), `422 it exports nothing\x1b[2J`) {
		t.Errorf("the server's words are not in\n%s", out)
	}
	change("template")
	out.await(t, "waiting", 5)
	if !strings.Contains(out.String(), "tried p.wasm\n") || strings.Count(out.String(), "guest hello\n") != 1 {
		t.Errorf("got\n%s", out)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strange.Load() > 0 {
		t.Errorf("%d uploads are unsound or without the configuration", strange.Load())
	}
	if removed.Load() != 1 || !strings.HasSuffix(out.String(), " removed p from the server\n") {
		t.Errorf("removed %d times:\n%s", removed.Load(), out)
	}
}

// TestTidy: what stays on a server is said, and nothing is removed that was there before.
func TestTidy(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"not now"}`)
	}))
	defer web.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	at, err := operate.New(web.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for left, want := range map[upload]string{nothing: "", unknown: "may have p\n",
		replaced: "p stays on the server: it was there before",
		fresh:    "p stays on the server: " + web.URL + ": 409 not now\n"} {
		for _, ends := range []bool{false, true} {
			out := &shown{}
			l := &loop{Options: Options{Name: "p", Server: at, Out: out, Ends: ends}, left: left}
			l.tidy(ctx)
			if got := out.String(); !strings.Contains(got, want) && !ends || got != "" && (ends || want == "") {
				t.Errorf("%d, %t: %q, want %q", left, ends, got, want)
			}
		}
	}
}

// TestStamp: changes of sources count, what builds write does not.
func TestStamp(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("src/main.rs", "a")
	before, err := stamp(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"target/x/y.d", "p.wasm", "build/o.js", "node_modules/a/b.js", ".git/index", ".x.swp",
		"a~"} {
		write(name, "new")
		if now, err := stamp(os.DirFS(dir)); err != nil || now != before {
			t.Errorf("%s counts: %v", name, err)
		}
	}
	write("src/main.rs", "ab")
	if now, err := stamp(os.DirFS(dir)); err != nil || now == before {
		t.Errorf("a change does not count: %v", err)
	}
	if _, err := stamp(os.DirFS(filepath.Join(dir, "none"))); err == nil {
		t.Error("a folder that is not there is taken")
	}
}

// vanishing is a folder of which one has been removed when it is looked into.
type vanishing struct{ fstest.MapFS }

func (v vanishing) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "gone" {
		return nil, fs.ErrNotExist
	}
	return v.MapFS.ReadDir(name)
}

// TestStampOfWhatVanishes: editors and builds make folders that are gone at once; they end nothing.
func TestStampOfWhatVanishes(t *testing.T) {
	if _, err := stamp(vanishing{fstest.MapFS{"gone/a": {}, "main.go": {}}}); err != nil {
		t.Error(err)
	}
}

// TestAskWithoutScope: where the key may not generate, the error names the flag for one that may.
func TestAskWithoutScope(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"error":"this route needs a key with the scope generate"}`)
	}))
	defer web.Close()
	client := &http.Transport{}
	defer client.CloseIdleConnections()
	asks, err := call.New(web.URL, "k", client)
	if err != nil {
		t.Fatal(err)
	}
	l := &loop{Options: Options{Caller: asks}}
	_, err = l.ask(t.Context(), false)
	if err == nil || !strings.Contains(err.Error(), "the scope generate") ||
		!strings.Contains(err.Error(), "--ask-key") {
		t.Error(err)
	}
}
