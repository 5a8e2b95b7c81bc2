package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// TestVersions: an upload that is replaced is kept, within the bound, over a restart, and comes back by a rollback.
func TestVersions(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "uploads"), ""} {
		t.Run(fmt.Sprintf("kept=%t", dir != ""), func(t *testing.T) {
			keep := func(c *config.Config) { c.Plugins.Uploads = dir }
			p := openPlugged(t, keep)
			module := func(n int) []byte {
				m := when([]byte{unreached})
				m.description = strings.Replace(m.description, `"version":"1"`, fmt.Sprintf(`"version":"v%d"`, n), 1)
				return m.wasm()
			}
			const last = maxVersions + 3
			for n := range last + 1 {
				p.upload(t, "mine", module(n))
			}
			want := func(versions ...int) {
				t.Helper()
				var got struct{ Versions []admin.Version }
				_, text := p.call(t, http.MethodGet, "/admin/plugins/mine/versions", nil)
				if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Versions) != len(versions) {
					t.Fatalf("%v: %s, want %d", err, text, versions)
				}
				for i, n := range versions {
					v := got.Versions[i]
					if v.SHA256 != moduleSum(module(n)) || v.Version != fmt.Sprintf("v%d", n) ||
						v.Serving != (i == 0) || v.Uploaded.IsZero() {
						t.Errorf("place %d: %+v, want version %d", i, v, n)
					}
				}
				if dir != "" && len(filesOf(t, dir)) != len(versions)+1 {
					t.Errorf("files %q", filesOf(t, dir))
				}
				_, shown := p.call(t, http.MethodGet, "/admin/plugins/mine", nil)
				if !strings.Contains(shown, moduleSum(module(versions[0]))) {
					t.Errorf("serves %s, want %d", shown, versions[0])
				}
			}
			want(11, 10, 9, 8, 7, 6, 5, 4, 3)
			if dir != "" {
				p = openPlugged(t, keep)
				want(11, 10, 9, 8, 7, 6, 5, 4, 3)
			}
			back := func(query string, status int, says string) {
				t.Helper()
				if got, text := p.call(t, http.MethodPost, "/admin/plugins/mine/rollback"+query, nil); got != status ||
					!strings.Contains(text, says) {
					t.Errorf("%q: %d %s, want %d %s", query, got, text, status, says)
				}
			}
			back("", http.StatusOK, `"version":"v10"`)
			want(10, 11, 9, 8, 7, 6, 5, 4, 3)
			back("", http.StatusOK, `"version":"v11"`) // undoes it
			back("?to="+moduleSum(module(4))[:20], http.StatusOK, `"version":"v4"`)
			want(4, 11, 10, 9, 8, 7, 6, 5, 3)
			back("?to="+strings.ToUpper(moduleSum(module(4))), http.StatusUnprocessableEntity,
				"the version of mine that serves is the one whose sha256 begins with")
			back("?to=zz", http.StatusUnprocessableEntity, `begins with \"zz\"`)
			back("?from=1", http.StatusUnprocessableEntity, "the route takes to")
			status, text := p.call(t, http.MethodPost, "/admin/plugins/none/rollback", nil)
			if status != http.StatusNotFound {
				t.Errorf("%d %s", status, text)
			}
			if status, text := p.call(t, "DELETE", "/admin/plugins/mine", nil); status != http.StatusNoContent {
				t.Fatal(status, text)
			}
			if dir != "" && len(filesOf(t, dir)) != 0 {
				t.Errorf("a plugin that was removed left %q", filesOf(t, dir))
			}
		})
	}
}

// TestVersionsOfSettings: versions of one module are told apart by their settings, and each comes back by name.
func TestVersionsOfSettings(t *testing.T) {
	p := openPlugged(t, nil)
	wasm := newModule("").wasm()
	for _, query := range []string{"", "?apply=always&limits.memory=32MiB", "?apply=request"} {
		if status, text := p.call(t, http.MethodPut, "/admin/plugins/mine"+query, wasm); status/100 != 2 {
			t.Fatal(status, text)
		}
	}
	list := func() (list []admin.Version) {
		t.Helper()
		var got struct{ Versions []admin.Version }
		_, text := p.call(t, http.MethodGet, "/admin/plugins/mine/versions", nil)
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Versions) != 3 {
			t.Fatalf("%v: %s", err, text)
		}
		return got.Versions
	}
	before := list()
	for i, want := range []string{"map[apply:request limits.memory:32MiB on_error:fail]",
		"map[apply:always limits.memory:32MiB on_error:fail]", "map[apply:request on_error:fail]"} {
		v := before[i]
		if fmt.Sprint(v.Settings) != want || len(v.SettingsID) != 16 || v.SHA256 != before[0].SHA256 {
			t.Errorf("%d: %+v, want %s", i, v, want)
		}
	}
	first := before[2].SHA256[:4] + "." + before[2].SettingsID
	for _, c := range []struct {
		status int
		says   string
	}{{http.StatusOK, `"apply":"request","on_error":"fail"`}, {http.StatusUnprocessableEntity, "that serves"}} {
		status, text := p.call(t, http.MethodPost, "/admin/plugins/mine/rollback?to="+first, nil)
		if now := list(); status != c.status || !strings.Contains(text, c.says) || !now[0].Serving ||
			now[0].SettingsID != before[2].SettingsID {
			t.Errorf("%d %s, %+v", status, text, now)
		}
	}
	status, text := p.call(t, http.MethodPost, "/admin/plugins/mine/rollback?to="+before[1].SHA256+".", nil)
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, "several versions") {
		t.Errorf("any of the settings: %d %s", status, text)
	}
	status, text = p.call(t, http.MethodPost, "/admin/plugins/mine/rollback?to="+before[1].SHA256+"."+
		before[1].SettingsID[:8], nil)
	if status != http.StatusOK || !strings.Contains(text, `"limits":{"memory":"32MiB"}`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestUploadTampered: an edited NAME.json has nobody else's files removed.
func TestUploadTampered(t *testing.T) {
	dir := uploadFolder(t.TempDir())
	u := upload{wasm: []byte("one"), settings: plugins.Upload{OnError: plugins.OnErrorFail,
		Apply: plugins.ApplyRequest}}
	if err := errors.Join(dir.put("a", u), dir.put("b", u)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), "a.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	foreign := "b-" + moduleSum(u.wasm)[:16] + moduleExt
	tampered := strings.Replace(string(text), `"module": "`, `"past": [{"module": "`+foreign+`"}, {"module": "b.json"}],
		"module": "`, 1)
	for _, do := range []func() error{
		func() error { return dir.put("a", upload{wasm: []byte("two"), settings: u.settings}) },
		func() error { return dir.remove("a") },
	} {
		if err := os.WriteFile(path, []byte(tampered), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Error(err)
		}
		if list, err := dir.load(); string(list["b"].wasm) != "one" {
			t.Errorf("another upload is gone: %v", err)
		}
	}
}

// TestUndo: an upload that cannot be kept leaves a damaged one as it was.
func TestUndo(t *testing.T) {
	p := openPlugged(t, nil)
	f := p.models
	why := errors.New("it was damaged")
	f.uploads["mine"] = upload{damaged: why}
	for _, m := range f.running() {
		if err := m.control.set.Fail(t.Context(), "mine", plugins.Upload{}, why); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
		os.MkdirAll(filepath.Join(dir, "mine.json", "full"), 0o700)); err != nil {
		t.Fatal(err)
	}
	// The folder can't be made, which shows before the models have the module, or the settings can't be written.
	for _, folder := range []string{filepath.Join(dir, "file", "folder"), dir} {
		f.folder = uploadFolder(folder)
		if status, text := p.call(t, http.MethodPut, "/admin/plugins/mine", newModule("").wasm()); status !=
			http.StatusUnprocessableEntity || !strings.Contains(text, "can't be kept") {
			t.Errorf("%s: %d %s", folder, status, text)
		}
		if now, ok := f.Get("mine"); !ok || now.State != server.PluginFailed || now.Error != why.Error() {
			t.Errorf("%s: %t %+v", folder, ok, now)
		}
	}
}

// TestNotUploaded: a plugin of the settings has no versions, and the error says where it comes from.
func TestNotUploaded(t *testing.T) {
	source := filepath.Join(t.TempDir(), "mine.wasm")
	if err := os.WriteFile(source, newModule("").wasm(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "mine", Source: source})
	})
	for _, c := range []struct{ reference, says string }{
		{"", "mine comes from the settings or the folder: its module is replaced there"},
		{"registry.example/mine:1", "mine was installed from registry.example/mine:1: tgi plugin rollback mine, where the settings are,"},
	} {
		p.models.cfg.Plugin[0].Reference = c.reference
		for method, path := range map[string]string{"POST": "mine/rollback", "GET": "mine/versions"} {
			if status, text := p.call(t, method, "/admin/plugins/"+path, newModule("").wasm()); status != 409 ||
				!strings.Contains(text, c.says) {
				t.Errorf("%s %s: %d %s", method, path, status, text)
			}
		}
	}
}

// TestDryRun: all checks of an upload, and nothing changes.
func TestDryRun(t *testing.T) {
	p := openPlugged(t, nil)
	first, second := newModule("").wasm(), when([]byte{unreached}).wasm()
	ask := func(query string, wasm []byte, status int, says string) {
		t.Helper()
		got, text := p.call(t, http.MethodPut, "/admin/plugins/mine?"+query, wasm)
		if got != status || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %d %s", query, got, text, status, says)
		}
	}
	ask("dry_run", first, http.StatusOK, `{"dry_run":true,"plugin":{"name":"mine"`)
	if status, _ := p.call(t, http.MethodGet, "/admin/plugins/mine", nil); status != http.StatusNotFound {
		t.Errorf("a dry run left a plugin: %d", status)
	}
	p.upload(t, "mine", first)
	ask("dry_run=true", second, http.StatusOK, `"replaces":{"sha256":"`+moduleSum(first))
	ask("dry_run", []byte("\x00asm"), http.StatusUnprocessableEntity, "mine")
	ask("dry_run=maybe", second, http.StatusUnprocessableEntity, "neither true nor false")
	if _, text := p.call(t, http.MethodGet, "/admin/plugins/mine", nil); !strings.Contains(text, moduleSum(first)) {
		t.Errorf("a dry run changed what serves: %s", text)
	}
	status, text := p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil)
	if status != http.StatusOK || strings.Count(text, `"loaded, sha256 `) != 1 {
		t.Errorf("log: %d %s", status, text)
	}
	if status, text := p.call(t, http.MethodDelete, "/admin/plugins/mine", nil); status != http.StatusNoContent {
		t.Errorf("removal: %d %s", status, text)
	}
	if status, text := p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil); status != http.StatusNotFound {
		t.Errorf("the log of a plugin that was removed: %d %s", status, text)
	}
	p.upload(t, "mine", first)
	_, text = p.call(t, http.MethodGet, "/admin/plugins/mine/log", nil)
	if strings.Count(text, `"loaded, sha256 `) != 1 {
		t.Errorf("the log of another one with its name: %s", text)
	}
}
