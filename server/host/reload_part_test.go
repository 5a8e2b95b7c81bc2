package host

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/filestamp"
	"tgi/server/config"
)

// TestReloadOfPart: a file of settings that is emptied, cut or half written while a server watches it takes no guard
// away, and is taken over once it is whole.
func TestReloadOfPart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	args := []string{"--config", file}
	unset := func(string) (string, bool) { return "", false }
	settings := func(words string) string {
		return fmt.Sprintf("[server]\nadmin_keys = [%q]\n[plugins]\nfolder = \"\"\nwatch = \"20ms\"\n[[plugin]]\n"+
			"name = \"other\"\nsource = \"builtin:banned-words\"\napply = \"always\"\n[plugin.config]\nwords = [\"nothing\"]\n"+
			"[[plugin]]\nname = \"house-rules\"\nsource = \"builtin:banned-words\"\napply = \"always\"\n[plugin.config]\n"+
			"words = [%q]\n", adminKey, words)
	}
	write(t, file, settings("happy"))
	l, err := config.Read(settingFlags(t, args...), unset)
	if err != nil {
		t.Fatal(err)
	}
	log := &logLines{}
	p := plug(t, openServerLogged(t, l.Config, slog.New(slog.NewTextHandler(log, nil))))
	p.models.reload = func(running config.Config, seen *filestamp.Stamp) (config.Config, []string, error) {
		return config.Reload(running, settingFlags(t, args...), unset, seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { p.models.watch(ctx, nil) })
	defer watching.Wait()
	defer cancel()
	guarded := func() bool {
		status, text := p.call(t, http.MethodPost, "/generate",
			[]byte(`{"inputs":"Once upon a time","parameters":{"max_new_tokens":30}}`))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return !strings.Contains(text, "happy")
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it never comes", what)
			}
		}
	}
	whole := settings("happy")
	for _, c := range []struct{ name, text, says string }{
		{"emptied", "", "it holds no setting"},
		{"cut", whole[:strings.LastIndex(whole, "[[plugin]]")], "cut after line 11"},
		{"another, cut", "# new\n" + whole[:strings.LastIndex(whole, "[[plugin]]")], `plugin \"house-rules\"`},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil { // in place
			t.Fatal(err)
		}
		log.has(t, "level=ERROR", "keeping the previous ones", c.says)
		if !guarded() {
			t.Errorf("%s: the guard is gone", c.name)
		}
		if c.text == "" {
			status, text := p.call(t, http.MethodPost, "/admin/reload", nil)
			if status != http.StatusUnprocessableEntity || !strings.Contains(text, c.says) || !guarded() {
				t.Errorf("%s, by the route: %d %s", c.name, status, text)
			}
		}
	}

	// Whole again, it is taken over, as is what somebody asks for.
	write(t, file, settings("nobody"))
	until("the whole file", func() bool { return !guarded() })
	write(t, file, settings("happy"))
	until("the one before", guarded)
	write(t, file, whole[:strings.LastIndex(whole, "[[plugin]]")])
	if status, text := p.call(t, http.MethodPost, "/admin/reload", nil); status != http.StatusOK ||
		!strings.Contains(text, `"removed":["house-rules"]`) || guarded() {
		t.Errorf("a guard that somebody takes away: %d %s", status, text)
	}
}

// TestWatchedFile: a file counts as changed when it has not changed for a while, by its bytes too.
func TestWatchedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tgi.toml")
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	put := func(text string) {
		write(t, path, text)
		if err := os.Chtimes(path, begin, begin); err != nil { // as on a file system whose times are coarse
			t.Fatal(err)
		}
	}
	put("a = 1")
	file := watchedFile{path: path, steady: time.Second}
	for _, s := range []struct {
		at   time.Duration
		text string // written before the look
		want bool
	}{
		{at: 0}, {at: 500}, {at: 1000, want: true}, {at: 1500}, {at: 5000},
		{at: 5500, text: "a = 22"}, {at: 6000, text: "a = 33"}, {at: 6500}, {at: 6900}, {at: 7000, want: true},
		{at: 7500}, {at: 8000, text: "a"}, {at: 8500, text: "a = 33"}, {at: 9999},
	} {
		if s.text != "" {
			put(s.text)
		}
		if got := file.changed(begin.Add(s.at * time.Millisecond)); got != s.want {
			t.Errorf("after %d ms: got %v, want %v", s.at, got, s.want)
		}
	}
}
