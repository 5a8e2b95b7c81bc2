package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tgi/models/library/lifecycle"
	"tgi/runtime/filestamp"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// TestCanaryDecidedLast: what became of a canary, or of the plugin, while a module was being loaded to take its place
// is not passed over.
func TestCanaryDecidedLast(t *testing.T) {
	p := openPlugged(t, nil)
	f, wasm := p.models, when([]byte{unreached}).wasm()
	for what, c := range map[string]struct {
		meanwhile func()
		says      string
	}{
		"ended": {func() { p.call(t, "DELETE", "/admin/plugins/mine/canary", nil) }, `"mine" has no canary`},
		"another": {func() { p.call(t, "PUT", "/admin/plugins/mine?canary=1", wasm) },
			"another canary of mine began meanwhile"},
		"aborted": {func() { p.generate(t, 2, "mine", `{"a":1}`) }, "the canary of mine was aborted"},
		"deleted": {func() { p.call(t, "DELETE", "/admin/plugins/mine", nil) }, `"mine" has no canary`},
	} {
		p.upload(t, "mine", newModule("").wasm())
		if status, text := p.call(t, "PUT", "/admin/plugins/mine?canary=100&canary_faults=1", wasm); status != 201 {
			t.Fatal(status, text)
		}
		began, err := f.canaryOf("mine")
		if err != nil {
			t.Fatal(err)
		}
		c.meanwhile()
		before, _ := f.Get("mine")
		if _, err := f.put(t.Context(), "mine", began.upload, func([]string) error {
			return f.isCanary("mine", began)
		}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if now, _ := f.Get("mine"); now.SHA256 != before.SHA256 {
			t.Errorf("%s: %q took the place of %q", what, now.SHA256, before.SHA256)
		}
	}
	p.upload(t, "mine", newModule("").wasm())
	p.upload(t, "mine", wasm)
	u, err := f.uploaded("mine")
	if err != nil || len(u.past) == 0 {
		t.Fatal(err, len(u.past))
	}
	k := u.past[0].kept
	if err := f.keeps("mine", k); err != nil {
		t.Error(err)
	}
	p.call(t, "DELETE", "/admin/plugins/mine", nil)
	if err := f.keeps("mine", k); !errors.Is(err, server.ErrNoPlugin) {
		t.Error(err)
	}
	p.upload(t, "mine", wasm)
	if err := f.keeps("mine", k); !errors.Is(err, server.ErrRefused) ||
		!strings.Contains(err.Error(), "is not kept any more") {
		t.Error(err)
	}
}

// TestCanaryLosesItsName: settings that take the name of an upload end its canary.
func TestCanaryLosesItsName(t *testing.T) {
	p := openPlugged(t, nil)
	p.upload(t, "mine", newModule("").wasm())
	if status, text := p.call(t, "PUT", "/admin/plugins/mine?canary=100", when([]byte{0x01}).wasm()); status != 201 {
		t.Fatal(status, text)
	}
	source := filepath.Join(t.TempDir(), "mine.wasm")
	if err := os.WriteFile(source, newModule("").wasm(), 0o600); err != nil {
		t.Fatal(err)
	}
	p.models.reload = func(c config.Config, _ *filestamp.Stamp) (config.Config, []string, error) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "mine", Source: source, Reference: "registry.example/mine:1"})
		return c, nil, nil
	}
	if status, text := p.call(t, "POST", "/admin/reload", nil); status != 200 {
		t.Fatal(status, text)
	}
	for _, c := range [][3]string{
		{"GET", "mine/canary", "has no canary"},
		{"POST", "mine/canary/promote", "has no canary"},
	} {
		if status, text := p.call(t, c[0], "/admin/plugins/"+c[1], nil); status != 404 ||
			!strings.Contains(text, c[2]) {
			t.Errorf("%s %s: %d %s", c[0], c[1], status, text)
		}
	}
}

// TestCanary: a canary over HTTP: begun, shown, aborted by its faults, ended, promoted.
func TestCanary(t *testing.T) {
	p := openPlugged(t, nil)
	p.upload(t, "mine", when([]byte{0x01}).wasm())
	want := func(method, path string, body []byte, status int, says string) string {
		t.Helper()
		got, text := p.call(t, method, "/admin/plugins/"+path, body)
		if got != status || !strings.Contains(text, says) {
			t.Fatalf("%s %s: %d %s, want %d %s", method, path, got, text, status, says)
		}
		return text
	}
	show := func() (c admin.Canary) {
		t.Helper()
		if err := json.Unmarshal([]byte(want("GET", "mine/canary", nil, 200, "")), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	generate := func(params string) (int, string) {
		return p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
			`{"inputs":"Once","parameters":{"max_new_tokens":2,"plugins":[{"name":"mine","params":%s}]}}`, params))
	}
	bad := when([]byte{unreached})
	bad.description = strings.Replace(bad.description, `"version":"1"`, `"version":"bad"`, 1)
	want("GET", "mine/canary", nil, 404, "has no canary")
	want("DELETE", "mine/canary", nil, 404, "has no canary")
	want("POST", "mine/canary/promote", nil, 404, "has no canary")
	want("PUT", "other?canary=10", bad.wasm(), 404, "other")
	want("PUT", "mine?canary=0", bad.wasm(), 422, "whole number from 1 to 100")
	want("PUT", "mine?canary=101", bad.wasm(), 422, "whole number from 1 to 100")
	want("PUT", "mine?canary_faults=3", bad.wasm(), 422, "goes with canary")
	want("PUT", "mine?canary=1&dry_run", bad.wasm(), 422, "do not go together")
	want("PUT", "mine?canary=100&canary_faults=2", bad.wasm(), 201, `"percent":100,"abort_after":2`)
	if status, text := generate("{}"); status != 200 {
		t.Fatal(status, text)
	}
	for range 2 {
		if status, text := generate(`{"a":1}`); status != 424 {
			t.Fatal(status, text)
		}
	}
	c := show()
	if c.State != admin.CanaryAborted || c.Faulty != 2 || c.Bound != 3 || c.Canary.Faults["trap"] != 2 ||
		c.Canary.Version != "bad" || c.Serving.Version == "bad" || c.Canary.SHA256 != moduleSum(bad.wasm()) {
		t.Errorf("%+v", c)
	}
	if status, text := generate(`{"a":1}`); status != 200 {
		t.Error("after the abort:", status, text)
	}
	var listed struct{ Plugins []admin.Plugin }
	var live admin.Live
	var one admin.Plugin
	for path, to := range map[string]any{"plugins": &listed, "live": &live, "plugins/mine": &one} {
		if _, text := p.call(t, "GET", "/admin/"+path, nil); json.Unmarshal([]byte(text), to) != nil {
			t.Fatal(path, text)
		}
	}
	i := slices.IndexFunc(listed.Plugins, func(p admin.Plugin) bool { return p.Name == "mine" })
	j := slices.IndexFunc(live.Plugins, func(p admin.LivePlugin) bool { return p.Name == "mine" })
	for where, short := range map[string]*admin.CanaryInShort{"list": listed.Plugins[i].Canary,
		"live": live.Plugins[j].Canary, "get": one.Canary} {
		if short == nil || short.State != admin.CanaryAborted || short.SHA256 != c.Canary.SHA256 ||
			short.Version != "bad" || short.Percent != 100 || short.Bound != 3 || short.Faulty != 2 ||
			short.Calls != c.Canary.Calls || short.Faults != 2 {
			t.Errorf("%s: %+v", where, short)
		}
	}
	if one.Version != "1" || one.Faults["trap"] != 0 || live.Plugins[j].Faults != 0 ||
		live.Plugins[j].Calls != one.Calls {
		t.Errorf("the plugin: %+v, %+v", one, live.Plugins[j])
	}
	want("POST", "mine/canary/promote", nil, 422, "was aborted")
	want("DELETE", "mine/canary", nil, 204, "")
	want("GET", "mine/canary", nil, 404, "has no canary")

	good := when([]byte{0x01, 0x01})
	good.description = strings.Replace(good.description, `"version":"1"`, `"version":"good"`, 1)
	want("PUT", "mine?canary=100", good.wasm(), 201, `"abort_after":3`)
	if status, text := generate(`{"a":1}`); status != 200 {
		t.Error(status, text)
	}
	if c := show(); c.State != admin.CanaryRuns || c.Bound != 1 || c.Canary.Calls == 0 || c.Serving.Calls != 0 {
		t.Errorf("%+v", c)
	}
	want("POST", "mine/canary/promote", nil, 200, `"version":"good"`)
	want("GET", "mine/canary", nil, 404, "has no canary")
	want("GET", "mine/versions", nil, 200, `"version":"good"`)
	want("POST", "mine/rollback", nil, 200, `"version":"1"`)
}

// TestCanaryOutlivesItsModel: what a canary did with a model is counted when the model is unloaded, and not twice when
// it is there again.
func TestCanaryOutlivesItsModel(t *testing.T) {
	p := openPlugged(t, nil)
	f := p.models
	p.upload(t, "mine", when([]byte{0x01}).wasm())
	if status, text := p.call(t, "PUT", "/admin/plugins/mine?canary=100&canary_faults=5",
		when([]byte{unreached}).wasm()); status != 201 {
		t.Fatal(status, text)
	}
	for _, params := range []string{"{}", `{"a":1}`} {
		p.generate(t, 2, "mine", params)
	}
	show := func() (c admin.Canary) {
		t.Helper()
		if _, text := p.call(t, "GET", "/admin/plugins/mine/canary", nil); json.Unmarshal([]byte(text), &c) != nil {
			t.Fatal(text)
		}
		c.Canary.Instances, c.Canary.InstanceBytes = 0, 0
		return c
	}
	before := show().Canary
	if before.Calls == 0 || before.Seconds == 0 || before.Faults["trap"] != 1 {
		t.Fatalf("%+v", before)
	}
	id := f.defaultID()
	wait := func(pending *lifecycle.Pending, err error) {
		t.Helper()
		if err == nil {
			err = pending.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wait(f.roster.Stop(id))
	if now := show().Canary; !reflect.DeepEqual(now, before) {
		t.Errorf("without the model: %+v, before %+v", now, before)
	}
	if m := f.canaryMetrics(); len(m) != 1 || m[0].Calls != before.Calls ||
		m[0].Seconds != before.Seconds {
		t.Errorf("metrics: %+v", m)
	}
	wait(f.roster.Start(id))
	if now := show().Canary; !reflect.DeepEqual(now, before) {
		t.Errorf("with the model again: %+v, before %+v", now, before)
	}
}
