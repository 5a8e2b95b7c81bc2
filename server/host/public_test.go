package host

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/config"
)

// TestFailedPluginIsPublic: a request that is refused for a plugin whose files are missing is told the name of the file
// and not its folder, which the admin routes tell.
func TestFailedPluginIsPublic(t *testing.T) {
	keys, folder, uploads := t.TempDir(), t.TempDir(), t.TempDir()
	signer(t, keys, "team")
	wasm := newModule("").wasm()
	keep := func(c *config.Config) {
		c.Plugins.Folder, c.Plugins.Uploads = folder, uploads+string(filepath.Separator)
	}
	openPlugged(t, keep).upload(t, "gg", wasm)
	module := upload{wasm: wasm}.kept("gg").Module
	if err := errors.Join(os.Remove(filepath.Join(uploads, module)),
		os.WriteFile(filepath.Join(folder, "as.wasm"), wasm, 0o600)); err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(c *config.Config) {
		keep(c)
		c.Plugins.RequireSigned = true
		c.PluginSigner = []config.PluginSigner{{Name: "team", PublicKey: filepath.Join(keys, "team.pub")}}
	})
	for name, file := range map[string]string{"gg": filepath.Join(uploads, module),
		"as": filepath.Join(folder, "as.wasm.artifact.json")} {
		status, text := p.generate(t, 2, name, "{}")
		if status != http.StatusFailedDependency || strings.Contains(text, filepath.Dir(file)) ||
			!strings.Contains(text, "plugin "+name+": could not be loaded: ") ||
			!strings.Contains(text, " "+filepath.Base(file)) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if status, text = p.call(t, http.MethodGet, "/admin/plugins/"+name, nil); !strings.Contains(text, file) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

// TestPluginErrorsArePublic: /info says what is wrong with a plugin without the paths of the machine, the admin routes
// with them.
func TestPluginErrorsArePublic(t *testing.T) {
	folder, apart, uploads := t.TempDir(), t.TempDir(), t.TempDir()
	source := filepath.Join(apart, "rule.wasm")
	if err := os.WriteFile(source, newModule("").wasm(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(c *config.Config) {
		c.Plugins.Folder, c.Plugins.Uploads, c.Models.HubToken = folder, uploads, "a-secret"
		c.Plugin = append(c.Plugin, config.Plugin{Name: "rule", Source: source, OnError: "fail", Apply: "request"})
	})
	// A folder cannot be read as a module, and the error names it.
	if err := errors.Join(os.Remove(source), os.Mkdir(source, 0o700)); err != nil {
		t.Fatal(err)
	}
	if status, text := p.call(t, http.MethodPost, "/admin/reload", nil); status != http.StatusUnprocessableEntity {
		t.Fatalf("a module that is gone was reloaded: %d %s", status, text)
	}
	for path, hidden := range map[string]bool{"/info": true, "/admin/plugins": false} {
		status, text := p.call(t, http.MethodGet, path, nil)
		var list struct{ Plugins []server.Plugin }
		if err := json.Unmarshal([]byte(text), &list); err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		i := slices.IndexFunc(list.Plugins, func(one server.Plugin) bool { return one.Name == "rule" })
		if found := list.Plugins[i].Error; strings.Contains(found, apart) == hidden ||
			!strings.Contains(found, "is not a regular file") {
			t.Errorf("%s: %q", path, found)
		}
	}
	for given, want := range map[string]string{
		"open " + filepath.Join(folder, "x.wasm") + ": denied":           "open x.wasm: denied",
		"open " + filepath.Join(uploads, "y.wasm") + ", " + source + "!": "open y.wasm, rule!",
		"401 for a-secret": "401 for ...",
	} {
		if got := p.models.publicText(given); got != want {
			t.Errorf("%q became %q", given, got)
		}
	}
}
