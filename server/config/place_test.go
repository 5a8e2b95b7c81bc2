package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tgi.toml")
	for text, want := range map[string]string{
		"[model]\n  template = \"x\"\n": ":2:3",
		"model.template = \"x\"\n":      ":1:1",
		"[[model]]\nname = \"a\"\n[[model]]\nname = \"m\"\ntools = \"none\"\ntemplate = \"x\"\n": ":6:1",
		"[model]\ntools = \"none\"\n": "",
		"[model]\ntemplate = 5\n":     "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Config{File: path, Model: Model{Name: "m"}}
		if want != "" {
			want = path + want
		}
		if got := c.Place("template"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := new(Config).Place("template"); got != "" {
		t.Errorf("without a file: %q", got)
	}
}

// TestPlaceOf: a key of any section has a place; what a [[plugin]] does not say follows from what is around it.
func TestPlaceOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tgi.toml")
	text := `[record]
folder = "a"
[[plugin]]
name = "a"
source = "a.wasm"
[[plugin]]
name = "b"
 source = "b.wasm"
[plugin.limits]
memory = "1MiB"
[plugin.config]
n = 1
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{File: path}
	for key, want := range map[string]string{"record.folder": ":2:1", "plugin[1].source": ":8:2",
		"batches.folder": ""} {
		if got := strings.TrimPrefix(c.PlaceOf(key), path); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{"a source": ":5:1", "a sha256": ":5:1", "a config.n": ":5:1",
		"b limits.memory": ":10:1", "b limits.fuel_load": ":9:1", "b config.n": ":12:1", "b config.other": ":11:1",
		"b on_error": ":8:2", "c source": ""} {
		name, setting, _ := strings.Cut(key, " ")
		if got := strings.TrimPrefix(c.PluginPlace(name, setting), path); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	for text, want := range map[string]string{"record.folder: no": ":2:1: record.folder: no",
		"record: no":    ":1:1: record: no",
		"record folder": "record folder", "batches.folder is no": "batches.folder is no", "no": "no"} {
		if got := strings.TrimPrefix(c.Located(errors.New(text)).Error(), path); got != want {
			t.Errorf("located: %s, want %s", got, want)
		}
	}
	if got := c.Located(errors.Join(errors.New("plugin[0].source: a"), errors.New("b"))).Error(); got !=
		path+":5:1: plugin[0].source: a\nb" {
		t.Error(got)
	}
	err := c.KeyError("record.folder", os.ErrNotExist)
	if got := err.Error(); got != path+":2:1: record.folder: file does not exist" {
		t.Error(got)
	}
}

// TestPlaceGiven: what a flag or a variable sets is not blamed on the file.
func TestPlaceGiven(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tgi.toml")
	if err := os.WriteFile(path, []byte("[model]\npath = \"a\"\ntemplate = \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Read(parsed(t, "--config", path, "--model-id", "b"), func(name string) (string, bool) {
		return "y", name == "CHAT_TEMPLATE"
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"path": "--model-id", "template": "CHAT_TEMPLATE", "tools": ""} {
		if got := l.Config.Place(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}
