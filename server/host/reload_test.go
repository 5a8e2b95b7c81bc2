package host

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgi/runtime/filestamp"
	"tgi/server/config"
)

// settingsFile is a tgi.toml whose one plugin bans a word.
func settingsFile(t *testing.T, path, word, more string) {
	t.Helper()
	text := fmt.Sprintf(`
[server]
admin_keys = [%q]
[plugins]
folder = ""
watch = "20ms"
[[plugin]]
name = "house-rules"
source = "builtin:banned-words"
apply = "always"
[plugin.config]
words = [%q]
%s`, adminKey, word, more)
	next := path + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// TestReload changes the settings of a running server in each of the ways there
// are, well and badly.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	settingsFile(t, file, "happy", "")
	args := []string{"--config", file}
	unset := func(string) (string, bool) { return "", false }
	var p *plugged
	l, err := config.Read(settingFlags(t, args...), unset)
	c := l.Config
	if err != nil {
		t.Fatal(err)
	}
	p = openPlugged(t, func(have *config.Config) { *have = c })
	p.models.reload = func(running config.Config, seen *filestamp.Stamp) (config.Config, []string, error) {
		return config.Reload(running, settingFlags(t, args...), unset, seen)
	}

	say := func() string {
		status, text := p.call(t, http.MethodPost, "/generate",
			[]byte(`{"inputs":"Once upon a time","parameters":{"max_new_tokens":30}}`))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	if text := say(); strings.Contains(text, "happy") {
		t.Fatalf("the word of the settings comes: %s", text)
	}

	// By the route.
	settingsFile(t, file, "called", "")
	status, report := p.call(t, http.MethodPost, "/admin/reload", nil)
	if status != http.StatusOK || !strings.Contains(report, `"loaded":["house-rules"]`) {
		t.Fatalf("%d %s", status, report)
	}
	if text := say(); !strings.Contains(text, "happy") || strings.Contains(text, "called") {
		t.Errorf("after the route: %s", text)
	}

	// What is wrong changes nothing, and says so.
	for _, bad := range []struct{ word, more, says string }{
		{"x", "[plugin.limits]\nmemory = \"1KiB\"\n", "plugin[0].limits.memory"},
		{"", "", "[0] has 0 bytes"},
		{"x", "[[plugin]]\nname = \"gone\"\nsource = \"missing.wasm\"\n", "missing.wasm"},
	} {
		settingsFile(t, file, bad.word, bad.more)
		status, report := p.call(t, http.MethodPost, "/admin/reload", nil)
		if status != http.StatusUnprocessableEntity || !strings.Contains(report, bad.says) ||
			strings.Contains(report, "plugin refused") { // "refused" stands in front of all
			t.Errorf("%q: %d %s", bad.says, status, report)
		}
	}
	settingsFile(t, file, "called", "[model]\nweights = \"int8\"\n")
	if status, report := p.call(t, http.MethodPost, "/admin/reload", nil); status != http.StatusOK ||
		!strings.Contains(report, `"restart":["model.weights"]`) {
		t.Errorf("a setting that needs a restart: %d %s", status, report)
	}
	if text := say(); strings.Contains(text, "called") {
		t.Errorf("a setting that was refused took effect: %s", text)
	}

	// By signal and by looking at the file.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching.Go(func() { p.models.watch(ctx, hup) })
	until := func(what, absent string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); strings.Contains(say(), absent); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %q still comes", what, absent)
			}
		}
	}
	settingsFile(t, file, "lived", "")
	until("the watch", " lived")
	cancel()
	watching.Wait()
	p.models.cfg.Plugins.Watch = 0 // from here on by signal alone
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	watching.Go(func() { p.models.watch(ctx, hup) })
	settingsFile(t, file, "school", "")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until("the signal", " school")
}
