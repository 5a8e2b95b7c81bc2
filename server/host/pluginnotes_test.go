package host

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/plugins"
	"tgi/server/config"
)

// TestPluginNotes: what is done to an uploaded plugin, and what is refused, stands in its log.
func TestPluginNotes(t *testing.T) {
	p := openPlugged(t, nil)
	log := func() string {
		t.Helper()
		status, text := p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	put := func(name string, wasm []byte) {
		t.Helper()
		if status, text := p.call(t, http.MethodPut, "/admin/plugins/"+name, wasm); status !=
			http.StatusUnprocessableEntity {
			t.Fatalf("%d %s", status, text)
		}
	}
	first, second := newModule("").wasm(), newModule(`"allow"`).wasm()
	put("mine", []byte("\x00asm"))
	if status, text := p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil); status != http.StatusNotFound {
		t.Errorf("a refused upload made a log: %d %s", status, text)
	}
	p.upload(t, "mine", first)
	p.upload(t, "mine", second)
	if status, text := p.call(t, http.MethodPost, "/admin/plugins/mine/rollback", nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	for range 100 {
		put("mine", []byte("\x00asm"))
	}
	text := log()
	for _, want := range []string{"upload of sha256 " + moduleSum(first), "upload of sha256 " + moduleSum(second),
		"rollback to sha256 " + moduleSum(first)} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not there once: %s", want, text)
		}
	}
	if n := strings.Count(text, `"not done: upload of sha256 `+moduleSum([]byte("\x00asm"))); n != 1 {
		t.Errorf("%d lines of a hundred refusals: %s", n, text)
	}
}

// TestRefusedNotes: a refusal stands in the log of the plugin that it was about, whatever the plugin is and the reason,
// with the key; what was removed leaves no name behind.
func TestRefusedNotes(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugins.UploadLimit = 64 << 10
		c.Plugin = []config.Plugin{{Name: "declared", Source: "builtin:dry", OnError: "fail", Apply: "request",
			OnFull: "stop", OnExhausted: "stop"}}
	})
	module := newModule("").wasm()
	p.upload(t, "mine", module)
	p.upload(t, "other", module)
	large := make([]byte, 64<<10+1)
	for _, c := range []struct {
		name, method, path string
		body               []byte
		status             int
		want               string
	}{
		{"declared", http.MethodPut, "", module, 409,
			"not done: upload of sha256 " + moduleSum(module) + " by key admin_keys[0]: the plugin is not an uploaded one: "},
		{"mine", http.MethodPut, "", large, 413,
			"not done: upload by key admin_keys[0]: the module is too large: the body must have at most 65536 bytes " +
				"(plugins.upload_limit), given 65537"},
		{"other", http.MethodPost, "/canary/promote", nil, 404,
			"not done: promotion of the canary by key admin_keys[0]: plugin \"other\" has no canary"},
		{"nobody", http.MethodPut, "", large, 413, ""},
		{"nobody", http.MethodPost, "/rollback", nil, 404, ""},
	} {
		path := "/admin/plugins/" + c.name
		if status, text := p.call(t, c.method, path+c.path, c.body); status != c.status {
			t.Errorf("%s %s: %d %s", c.method, path+c.path, status, text)
		}
		lines := p.models.pluginLogs.Lines(c.name, 0)
		there := slices.ContainsFunc(lines, func(l plugins.LogLine) bool {
			return strings.HasPrefix(l.Text, c.want) && l.Level == "warn"
		})
		if there != (c.want != "") || c.want == "" && len(lines) > 0 {
			t.Errorf("%s: %q is not among %+v", c.name, c.want, lines)
		}
	}
}

// TestRefusalsNames: the names of those that were refused are bounded, also where some refusals were not noted, and go
// with their plugins.
func TestRefusalsNames(t *testing.T) {
	var r refusals
	now := time.Now()
	noted := 0
	for i := range 3 * maxRefusals {
		for range 2 {
			if _, ok := r.allow(fmt.Sprint(i), now); ok {
				noted++
			}
		}
	}
	if len(r.last) != maxRefusals || noted != maxRefusals {
		t.Errorf("%d names, %d lines", len(r.last), noted)
	}
	now = now.Add(refusalEvery)
	if since, ok := r.allow("1", now); since != 1 || !ok {
		t.Errorf("%d, %v", since, ok)
	}
	if _, ok := r.allow("new", now); !ok || len(r.last) != maxRefusals {
		t.Errorf("%v, %d names", ok, len(r.last))
	}
	r.forget("new")
	if _, ok := r.last["new"]; ok {
		t.Error("a plugin that was removed is remembered")
	}
}

// TestRefusalsBounded: of many refusals one is noted in a time, with the number of those before it.
func TestRefusalsBounded(t *testing.T) {
	var r refusals
	now := time.Now()
	for i := range 5 {
		if since, ok := r.allow("a", now); since != 0 || ok != (i == 0) {
			t.Errorf("%d: %d, %v", i, since, ok)
		}
	}
	if _, ok := r.allow("b", now); !ok {
		t.Error("another plugin is held back")
	}
	now = now.Add(refusalEvery)
	if since, ok := r.allow("a", now); since != 4 || !ok {
		t.Errorf("%d, %v", since, ok)
	}
	for i := range 1000 {
		now = now.Add(refusalEvery)
		if _, ok := r.allow(fmt.Sprint(i), now); !ok || len(r.last) > 2 {
			t.Fatalf("%d: %v, %d kept", i, ok, len(r.last))
		}
	}
}

// TestCanaryNotes: what is done with canaries stands in the log of their plugin, and a removal that is refused.
func TestCanaryNotes(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugin = []config.Plugin{{Name: "declared", Source: "builtin:dry", OnError: "fail", Apply: "request",
			OnFull: "stop", OnExhausted: "stop"}}
	})
	first, second := newModule("").wasm(), newModule(`"allow"`).wasm()
	p.upload(t, "mine", first)
	for _, c := range []struct {
		method, path string
		body         []byte
		status       int
		want         string
	}{
		{http.MethodPut, "mine?canary=10", second, 201, "canary of sha256 " + moduleSum(second)},
		{http.MethodPost, "mine/canary/promote", nil, 200,
			"promotion of the canary, sha256 " + moduleSum(second) + ","},
		{http.MethodPut, "mine?canary=10&canary_shadow=true", first, 201, "shadow of sha256 " + moduleSum(first)},
		{http.MethodDelete, "mine/canary", nil, 204, "end of the canary"},
		{http.MethodDelete, "declared", nil, 409, "not done: removal"},
	} {
		name, _, _ := strings.Cut(c.path, "?")
		name, _, _ = strings.Cut(name, "/")
		after := uint64(0)
		for _, l := range p.models.pluginLogs.Lines(name, 0) {
			after = l.Seq
		}
		if status, text := p.call(t, c.method, "/admin/plugins/"+c.path, c.body); status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
		lines := p.models.pluginLogs.Lines(name, after)
		if !slices.ContainsFunc(lines, func(l plugins.LogLine) bool {
			return strings.HasPrefix(l.Text, c.want+" by key admin_keys[0]")
		}) {
			t.Errorf("%s %s: %q is not among %+v", c.method, c.path, c.want, lines)
		}
	}
}
