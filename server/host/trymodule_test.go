package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/std"
	"tgi/server/config"
)

// TestTryModule: what a start refuses of a module with a plugin's settings, without a model and without a trace.
func TestTryModule(t *testing.T) {
	module, err := fs.ReadFile(std.FS(), "redact.wasm")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	try := func(ctx context.Context, text string) error {
		t.Helper()
		c := config.Default()
		text = "[[plugin]]\nname = \"p\"\nsource = \"p.wasm\"\n" + text
		if err := config.Decode("tgi.toml", []byte(text), &c); err != nil {
			t.Fatal(err)
		}
		kinds, err := TryModule(ctx, config.Default(), c.Plugin[0], module)
		if (err == nil) != slices.Equal(kinds, []string{"guard"}) {
			t.Errorf("it is of kind %q, %v", kinds, err)
		}
		return err
	}
	if err := try(t.Context(), `apply = "always"`); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{`kind = "logits"`, `kind = "none"`, "[plugin.limits]\nfuel_load = 1",
		"[plugin.limits]\nmemory = \"64KiB\"", "on_error = \"skip\"\n[plugin.config]\nno-such-key = 1",
		"sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\""} {
		if err := try(t.Context(), wrong); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := try(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTryReplacement: what settings have as a guard stays one when another module is installed in its place.
func TestTryReplacement(t *testing.T) {
	module := func(name string) []byte {
		t.Helper()
		b, err := fs.ReadFile(std.FS(), name+".wasm")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	file := filepath.Join(t.TempDir(), "p.wasm")
	if err := os.WriteFile(file, module("banned-strings"), 0o600); err != nil {
		t.Fatal(err)
	}
	block := func(source, kind string) *config.Plugin {
		c := config.Default()
		text := fmt.Sprintf("[[plugin]]\nname = \"p\"\napply = \"always\"\nsource = %q\nkind = %q\n", source, kind)
		if err := config.Decode("tgi.toml", []byte(text), &c); err != nil {
			t.Fatal(err)
		}
		return &c.Plugin[0]
	}
	damaged := block(file+".gone", "")
	damaged.SHA256 = fmt.Sprintf("%x", sha256.Sum256(module("dry")))
	for _, c := range []struct {
		was    *config.Plugin
		kind   string
		module string
		change bool
		want   string
	}{
		{nil, "", "dry", false, ""},
		{block("builtin:redact", ""), "", "banned-strings", false, ""},
		{block(file, ""), "", "redact", false, ""},
		{block("builtin:redact", ""), "", "dry", false, "is of kind guard, the module is of kind logits"},
		{block(file, ""), "", "dry", false, "is of kind guard, the module is of kind logits"},
		{block("builtin:dry", ""), "", "redact", false, "is of kind logits, the module is of kind guard"},
		{block("builtin:redact", ""), "", "dry", true, ""},
		{block("builtin:redact", ""), "logits", "dry", false, ""},
		{block("builtin:redact", "guard"), "guard", "dry", true, `kind "guard" is wanted`},
		{block(file+".gone", ""), "", "dry", false, "what it replaces could not be loaded"},
		{block(file+".gone", ""), "", "dry", true, ""},
		{damaged, "", "dry", false, ""},
	} {
		check, made := TryReplacement(c.change), *block("p.wasm", c.kind)
		made.SHA256 = fmt.Sprintf("%x", sha256.Sum256(module(c.module)))
		err := check(t.Context(), config.Default(), c.was, made, module(c.module))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in the place of %+v, of kind %q: %v, want %q", c.module, c.was, c.kind, err, c.want)
		}
	}
}
