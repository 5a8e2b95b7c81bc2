package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tgi.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--config", file, "--port", "1"}
	nothing := func(string) (string, bool) { return "", false }

	write("[server]\nport = 7\n[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n")
	running, err := load(parsed(t, args...), nothing)
	if err != nil {
		t.Fatal(err)
	}
	next, restart, err := Reload(running, parsed(t, args...), nothing, nil)
	if err != nil || restart != nil || !reflect.DeepEqual(next, running) {
		t.Errorf("nothing changed: got %+v, %v, %v", next, restart, err)
	}

	// The flag beats the port before and after, so its change in the file is none.
	write("[model]\ntemplate = \"t.jinja\"\ntools = \"hermes\"\n[server]\nport = 8\napi_keys = [\"k\"]\n[[key]]\nname = \"n\"\nkey = \"l\"\nscopes = [\"models\"]\n[plugins]\nwatch = \"5s\"\n[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n[plugin.config]\nn = 1\n[[plugin]]\nname = \"b\"\nsource = \"/b.wasm\"\n")
	next, restart, err = Reload(running, parsed(t, args...), nothing, nil)
	if err != nil || !reflect.DeepEqual(restart, []string{"server.api_keys", "plugins.watch", "key"}) {
		t.Errorf("got %v, %v", restart, err)
	}
	want := running
	want.text = next.text
	want.Model.Template, want.Model.Tools = filepath.Join(dir, "t.jinja"), "hermes"
	want.Plugin = []Plugin{
		{Name: "a", Source: filepath.Join(dir, "a.wasm"), OnError: OnErrorFail, Apply: ApplyRequest,
			OnFull: GuardStop, OnExhausted: GuardStop, Config: Table{"n": int64(1)}},
		{Name: "b", Source: "/b.wasm", OnError: OnErrorFail, Apply: ApplyRequest,
			OnFull: GuardStop, OnExhausted: GuardStop},
	}
	if !reflect.DeepEqual(next, want) {
		t.Errorf("got\n%+v\nwant\n%+v", next, want)
	}

	write("[server]\nport = 7\n[[plugin]]\nname = \"a\"\n")
	if _, _, err = Reload(running, parsed(t, args...), nothing, nil); err == nil ||
		!strings.HasSuffix(err.Error(), `:4: plugin[0].source must name a file or builtin:NAME, given ""`) {
		t.Errorf("a bad file: %v", err)
	}
}

// TestReloadWithoutTheFile: a default file that is gone does not count as one
// that declares no plugins.
func TestReloadWithoutTheFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(DefaultFile, []byte("[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := func(string) (string, bool) { return "", false }
	running, err := load(nil, nothing)
	if err != nil || running.File != DefaultFile || running.Plugin[0].Source != "a.wasm" ||
		running.Plugins.Folder != "plugins" {
		t.Fatalf("got %+v, %v", running, err)
	}
	if err := os.Remove(DefaultFile); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Reload(running, nil, nothing, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if c, err := load(nil, nothing); err != nil || c.File != "" {
		t.Errorf("without a file: %q, %v", c.File, err)
	}
}
