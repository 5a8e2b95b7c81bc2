package host

import (
	"context"
	"errors"
	"io/fs"
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
		return TryModule(ctx, config.Default(), c.Plugin[0], module)
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
