package host

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgi/server/config"
)

// TestCanaryBesideSettings: a canary stands beside a plugin of the settings, however often these are read, and is used
// as that is; what has its module serve is told instead of a promotion; another version of the plugin ends it.
func TestCanaryBesideSettings(t *testing.T) {
	source := filepath.Join(t.TempDir(), "mine.wasm")
	version := func(n string) []byte {
		m := when([]byte{unreached})
		m.description = strings.Replace(m.description, "{", `{"config":true,`, 1)
		m.description = strings.Replace(m.description, `"version":"1"`, `"version":"`+n+`"`, 1)
		return m.wasm()
	}
	write := func(wasm []byte) {
		t.Helper()
		if err := os.WriteFile(source, wasm, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(newModule(`"deny"`).wasm())
	block := config.Plugin{Name: "mine", Source: source, Kind: config.KindLogits, Apply: config.ApplyAlways,
		OnError: config.OnErrorSkip}
	p := openPlugged(t, func(c *config.Config) {
		c.Plugins.Watch = config.Duration(20 * time.Millisecond)
		c.Plugin = append(c.Plugin, block)
	})
	want := func(method, path string, wasm []byte, status int, says string) {
		t.Helper()
		if got, text := p.call(t, method, "/admin/plugins/"+path, wasm); got != status ||
			!strings.Contains(text, says) {
			t.Fatalf("%s %s: %d %s, want %d %s", method, path, got, text, status, says)
		}
	}
	reload := func() {
		t.Helper()
		if status, text := p.call(t, "POST", "/admin/reload", nil); status != 200 {
			t.Fatal(status, text)
		}
	}
	two := version("2.0.0")
	want("PUT", "mine", two, 409, "configured in the server's settings")
	want("PUT", "mine?canary=5&promote_after=10", two, 409, "promote_after is of uploads")
	want("PUT", "mine?canary=5&apply=request", two, 422, "has the apply of what serves")
	want("PUT", "mine?canary=100&canary_shadow", two, 201, `"shadow":true`)
	want("PUT", "mine?canary=100", two, 201, `"percent":100`)
	if err := os.WriteFile(filepath.Join(p.models.cfg.Plugins.Folder, "other.wasm"), two, 0o600); err != nil {
		t.Fatal(err)
	}
	reload()
	if status, text := p.call(t, http.MethodPost, "/generate",
		[]byte(`{"inputs":"a","parameters":{"max_new_tokens":2}}`)); status != 200 {
		t.Fatal(status, text)
	}
	want("GET", "mine/canary", nil, 200, `"state":"running"`)
	want("GET", "mine/canary", nil, 200, `"bound":1`)

	for says, change := range map[string]func(*config.Plugin){
		"put the module (sha256 " + moduleSum(two) + ") in the place of " + source: func(*config.Plugin) {},
		`and sha256 = \"` + moduleSum(two) + `\" into its [[plugin]]`:              func(p *config.Plugin) { p.SHA256 = "ab" },
		"as source of its [[plugin]]":                                              func(p *config.Plugin) { p.Source = "builtin:dry" },
		"tgi plugin install registry.example/mine:2.0.0 --name mine": func(p *config.Plugin) {
			p.Reference = "registry.example/mine:1@sha256:" + moduleSum(two)
		},
	} {
		now := block
		change(&now)
		p.models.mu.Lock()
		p.models.cfg.Plugin = []config.Plugin{now}
		p.models.mu.Unlock()
		want("POST", "mine/canary/promote", nil, 409, says)
	}
	p.models.mu.Lock()
	p.models.cfg.Plugin, p.models.cfg.File = []config.Plugin{block}, ""
	p.models.mu.Unlock()
	want("GET", "mine/canary", nil, 200, `"state":"running"`)

	write(version("3.0.0"))
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, text := p.call(t, "GET", "/admin/plugins/mine/canary", nil)
		if strings.Contains(text, `"state":"aborted"`) && strings.Contains(text, "another version of the plugin") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it stays: " + text)
		}
	}
	want("POST", "mine/canary/promote", nil, 422, "was aborted")
	want("DELETE", "mine/canary", nil, 204, "")

	// One of the folder, too.
	want("PUT", "other?canary=5", version("4.0.0"), 201, `"percent":5`)
	want("POST", "other/canary/promote", nil, 409, "other.wasm")
	want("PUT", "none?canary=5", two, 404, "none")
}

// TestInstallCommand: what has a version serve that the settings have from a registry.
func TestInstallCommand(t *testing.T) {
	p := config.Plugin{Name: "dog", Reference: "registry.example:5000/plugins/dog:1@sha256:" + strings.Repeat("ab", 32)}
	for version, want := range map[string]string{
		"2.0.0": "tgi plugin install registry.example:5000/plugins/dog:2.0.0 --name dog --config /etc/tgi.toml",
		"a b":   "tgi plugin install registry.example:5000/plugins/dog:TAG --name dog --config /etc/tgi.toml",
		"":      "tgi plugin install registry.example:5000/plugins/dog:TAG --name dog --config /etc/tgi.toml",
	} {
		if got := installCommand(config.Config{File: "/etc/tgi.toml"}, p, version); got != want {
			t.Errorf("%q: %s", version, got)
		}
	}
}
