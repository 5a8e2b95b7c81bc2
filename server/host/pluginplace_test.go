package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/library"
	"tgi/server/config"
)

// TestPluginPlaces: what is wrong with a plugin of the settings is said with the line that it comes from, at the start
// and in the report of a reload.
func TestPluginPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tgi.toml")
	if err := os.WriteFile(filepath.Join(dir, "no.wasm"), []byte("no module"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.jinja"), []byte("{% if %}"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) config.Config {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.Read(nil, func(name string) (string, bool) { return file, name == "TGI_CONFIG" })
		if err != nil {
			t.Fatal(err)
		}
		return l.Config
	}
	const dry = "[[plugin]]\nname = \"a\"\nsource = \"builtin:dry\"\n"
	for text, want := range map[string]string{
		"[[plugin]]\nname = \"a\"\nsource = \"gone.wasm\"\n":            ":3:1: plugin.source: a: open ",
		"[[plugin]]\nname = \"a\"\nsource = \"no.wasm\"\n":              ":3:1: plugin.source: a: module: ",
		"[[plugin]]\nname = \"a\"\n  source = \"builtin:gone\"\n":       `:3:3: plugin.source: a: source "builtin:gone": `,
		dry + "sha256 = \"" + strings.Repeat("0", 64) + "\"\n":          `:4:1: plugin.sha256: a: source "builtin:dry" has `,
		dry + "kind = \"guard\"\n":                                      `:4:1: plugin.kind: a: kind "guard" is wanted, `,
		dry + "on_error = \"stop\"\n":                                   `:4:1: plugin.on_error: a: on_error is "stop", `,
		dry + "on_exhausted = \"release\"\n":                            `:4:1: plugin.on_exhausted: a: on_exhausted is "release", which is for `,
		dry + "on_full = \"release\"\n":                                 `:4:1: plugin.on_full: a: on_full is "release", which is for `,
		dry + "\n[plugin.limits]\nmemory = \"64KiB\"\n":                 ":6:1: plugin.limits.memory: a: module: ",
		dry + "limits = { fuel_load = 1 }\n":                            ":4:1: plugin.limits.fuel_load: a: ",
		dry + "[plugin.limits]\nmemory = \"1MiB\"\nfuel_per_step = 1\n": ":6:1: plugin.limits.fuel_per_step: first steps: ",
		dry + "[plugin.config]\n# n\nbase = 1.5\nbasis = 2\n":           ":7:1: plugin.config.basis: a: unknown parameter: basis",
		"[model]\ntemplate = \"bad.jinja\"\n":                           ":2:1: model.template: chat-template: ",
		"[[plugin_signer]]\nname = \"a\"\npublic_key = \"gone.pub\"\n":  ":3:1: plugin_signer[0].public_key: signer a: ",
	} {
		_, err := TryPlugins(t.Context(), read(text), library.ID(config.DemoModel))
		if err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%s:\n got %v\nwant %s%s", text, err, file, want)
		}
	}
	_, err := TryPlugins(t.Context(), read(dry+"kind = \"guard\"\n"+strings.ReplaceAll(dry, `"a"`, `"b"`)+
		"on_error = \"stop\"\n"), library.ID(config.DemoModel))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 2 ||
		!strings.HasPrefix(lines[0], file+":4:1: plugin.kind: a") ||
		!strings.HasPrefix(lines[1], file+":8:1: plugin.on_error: b") {
		t.Errorf("of two: %v", err)
	}

	h := openServer(t, testConfig())
	next := testConfig()
	next.File, next.Plugin = file, read("[[plugin]]\nname = \"a\"\nsource = \"gone.wasm\"\n").Plugin
	m := h.models.running()[0]
	report, _, err := m.control.reload(t.Context(), SettingsFor(next, m.id))
	if err != nil || len(report.Failed) != 1 ||
		!strings.HasPrefix(report.Failed[0].Error, file+":3:1: plugin.source: open ") {
		t.Errorf("%+v, %v", report, err)
	}
	// The log says where a line stands in what is read, not in what serves.
	const banned = "[[plugin]]\nname = \"a\"\nsource = \"builtin:banned-strings\"\n[plugin.config]\n"
	var log logBuffer
	c := testConfig()
	c.File, c.Plugin = file, read(banned+"strings = [\"x\"]\n").Plugin
	h = openServerLogged(t, c, slog.New(slog.NewTextHandler(&log, nil)))
	m = h.models.running()[0]
	next = testConfig()
	next.File, next.Plugin = file, read(banned+"strings = [\"x\"]\nwhole_wrd = true\n").Plugin
	report, _, err = m.control.reload(t.Context(), SettingsFor(next, m.id))
	const want = ":6:1: plugin.config.whole_wrd"
	if err != nil || len(report.Failed) != 1 || !strings.HasPrefix(report.Failed[0].Error, file+want+": ") ||
		!strings.Contains(log.String(), file+want) {
		t.Errorf("%+v, %v, log: %s", report, err, log.String())
	}
}
