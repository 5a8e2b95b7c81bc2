package config

import (
	"os"
	"path/filepath"
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
