package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/plugins"
	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// withLock makes a change of a folder of uploads with its lock, as the manager does.
func withLock(t testing.TB, dir uploadFolder, change func() error) error {
	unlock, err := dir.lock(t.Context())
	if err != nil {
		return err
	}
	defer unlock()
	return change()
}

// filesOf lists the files of a folder, without that of a lock.
func filesOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != lockFile {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestUploadFolder: what is kept comes back as it was; what a crash left goes; what is damaged is named and stays.
func TestUploadFolder(t *testing.T) {
	dir := uploadFolder(filepath.Join(t.TempDir(), "not", "there"))
	if list, err := dir.load(); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	first := upload{wasm: []byte("one"), settings: plugins.Upload{OnError: plugins.OnErrorSkip,
		Apply: plugins.ApplyAlways, Limits: plugins.Limits{Memory: 1 << 20, FuelLoad: 7}, Config: []byte(`{"n":3}`)}}
	second := upload{wasm: []byte("two"), settings: plugins.Upload{OnError: plugins.OnErrorFail,
		Apply: plugins.ApplyRequest}}
	if err := errors.Join(dir.put("a", second), dir.put("a", first), dir.put("b", second)); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * leftAge)
	for _, left := range []string{"a.json.tmp", "b-0123456789abcdef.wasm"} {
		file := filepath.Join(string(dir), left)
		if err := errors.Join(os.WriteFile(file, []byte("half"), 0o600), os.Chtimes(file, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := dir.load()
	if err != nil || !reflect.DeepEqual(list["b"], second) || string(list["a"].wasm) != "one" || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if past := list["a"].past; len(past) != 1 || past[0].kept.SHA256 != moduleSum(second.wasm) {
		t.Errorf("before a: %+v", past)
	}
	got := list["a"].settings
	if compact := strings.Join(strings.Fields(string(got.Config)), ""); compact != `{"n":3}` {
		t.Errorf("config %s", got.Config)
	}
	got.Config = first.settings.Config
	if !reflect.DeepEqual(got, first.settings) {
		t.Errorf("settings %+v", got)
	}
	if files := filesOf(t, string(dir)); len(files) != 5 {
		t.Errorf("files %q", files)
	}
	if err := os.WriteFile(filepath.Join(string(dir), "b-"+moduleSum(second.wasm)[:16]+".wasm"), []byte("tw"),
		0o600); err != nil {
		t.Fatal(err)
	}
	list, err = dir.load()
	if err == nil || !strings.Contains(err.Error(), "uploaded plugin b: ") || len(list) != 2 ||
		list["b"].damaged == nil || !reflect.DeepEqual(list["b"].settings, second.settings) ||
		len(filesOf(t, string(dir))) != 5 {
		t.Errorf("with a damaged module: %v, %v", list, err)
	}
	if err := errors.Join(dir.remove("a"), dir.remove("b"), dir.remove("c")); err != nil ||
		len(filesOf(t, string(dir))) != 0 {
		t.Errorf("%v, files %q", err, filesOf(t, string(dir)))
	}
}

// TestUploadFolderDamaged: an upload whose settings can't be read counts as one that applies always, and so does a
// module without them, whatever else is beside it. An upload of the name, and its removal, mend it.
func TestUploadFolderDamaged(t *testing.T) {
	u := upload{wasm: []byte("one"), settings: unread.settings()}
	settings, module := "a.json", u.kept("a").Module
	for what, damage := range map[string]func(path string) error{
		"half":    func(path string) error { return os.Truncate(path, 60) },
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"missing": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".1"+tempExt) },
		"braces":  func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
		"null":    func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"apply": func(path string) error {
			return os.WriteFile(path, []byte(`{"module":"x","apply":"alwa\u0000s"}`), 0o600)
		},
		"folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		dir := uploadFolder(t.TempDir())
		err := errors.Join(dir.put("a", u), dir.put("b", u), damage(filepath.Join(string(dir), settings)))
		if err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * leftAge)
		_ = os.Chtimes(filepath.Join(string(dir), module), old, old)
		for range 2 {
			list, err := dir.load()
			if a := list["a"]; err == nil || !strings.Contains(err.Error(), "uploaded plugin a: ") ||
				a.damaged == nil || !strings.Contains(a.damaged.Error(), settings) ||
				a.settings.Apply != plugins.ApplyAlways || a.settings.OnError != plugins.OnErrorFail ||
				list["b"].damaged != nil || len(list) != 2 {
				t.Errorf("%s: %+v, %v", what, list, err)
			}
		}
		err = dir.put("a", upload{wasm: []byte("two"), settings: u.settings})
		list, wrong := dir.load()
		if err != nil || wrong != nil || string(list["a"].wasm) != "two" {
			t.Errorf("%s: mended: %v, %v, %+v", what, err, wrong, list)
		}
		if err := damage(filepath.Join(string(dir), settings)); err != nil {
			t.Fatal(err)
		}
		err = dir.remove("a")
		list, wrong = dir.load()
		files := filesOf(t, string(dir))
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, tempExt) })
		if err != nil || wrong != nil || len(list) != 1 || len(files) != 2 {
			t.Errorf("%s: removed: %v, %v, %v, files %q", what, err, wrong, list, files)
		}
	}
}

// TestUploadFolderCrash: what a crash leaves of an upload or a removal is damaged where its module may have guarded, no
// file beside it excuses that, however old, and an upload or a removal mends it; the rest is no upload, and goes.
func TestUploadFolderCrash(t *testing.T) {
	u := upload{wasm: []byte("one"), settings: unread.settings()}
	module, text := u.kept("a").Module, string(sure(json.Marshal(u.kept("a"))))
	for _, c := range []struct {
		left    map[string]string // of the files those that were written by then, or not yet deleted
		damaged bool
	}{
		{map[string]string{"a.json.123.tmp": "ha"}, false},
		{map[string]string{"a.json.123.tmp": text, module + ".45.tmp": "o"}, false},
		{map[string]string{"a.json.gone.tmp": text}, false},
		{map[string]string{"a.json.123.tmp": text, module: "one"}, true},
		{map[string]string{"a.json.123.tmp": "{}", module: "one"}, true},
		{map[string]string{"a.json.gone.tmp": text, module: "one", "a-0123456789abcdef.wasm": "past"}, true},
		{map[string]string{"a.json": text}, true},
	} {
		for _, mend := range []func(dir uploadFolder) error{
			func(dir uploadFolder) error { return dir.put("a", u) },
			func(dir uploadFolder) error { return dir.remove("a") },
		} {
			dir := uploadFolder(t.TempDir())
			age := func() {
				old := time.Now().Add(-2 * leftAge)
				for _, name := range filesOf(t, string(dir)) {
					if err := os.Chtimes(filepath.Join(string(dir), name), old, old); err != nil {
						t.Fatal(err)
					}
				}
			}
			for name, text := range c.left {
				write(t, filepath.Join(string(dir), name), text)
			}
			if list, err := dir.load(); (err != nil) != c.damaged || (list["a"].damaged != nil) != c.damaged ||
				len(filesOf(t, string(dir))) != len(c.left) {
				t.Errorf("%v: %v, %v", c.left, list, err)
			}
			age()
			kept := len(c.left)
			if !c.damaged {
				kept = 0
			}
			if list, err := dir.load(); (err != nil) != c.damaged || (list["a"].damaged != nil) != c.damaged ||
				len(filesOf(t, string(dir))) != kept {
				t.Errorf("%v, old: %v, %v, files %q", c.left, list, err, filesOf(t, string(dir)))
			}
			if err := mend(dir); err != nil {
				t.Error(err)
			}
			age()
			list, err := dir.load()
			if files := filesOf(t, string(dir)); err != nil || list["a"].damaged != nil || len(files) != 2*len(list) {
				t.Errorf("%v, mended: %v, %v, files %q", c.left, list, err, files)
			}
		}
	}
}

// TestUploadFolderMembers: NAME.json is damaged where a member's name is, where one is there twice or null, or is
// missing and always written. Files that earlier versions wrote are whole.
func TestUploadFolderMembers(t *testing.T) {
	sum := moduleSum([]byte("one"))
	const limits = `"limits":{"memory":1048576,"time_load":5}`
	head := `"module":"a-` + sum[:16] + `.wasm","sha256":"` + sum + `","on_error":"fail"`
	whole := head + `,"apply":"always",` + limits
	past := `,"past":[{` + whole + `,"version":"1"}]`
	for text, says := range map[string]string{
		whole: "",
		whole + `,"config":{"n":3,"n":4,"m":null}`:                                                               "",
		whole + `,"version":"1","uploaded":"2026-11-26T10:00:00Z","bytes":3` + past:                              "",
		whole + `,"config":{},"keys":["a"],"on_full":"release","on_exhausted":"release","signed":{"a":1}` + past: "",
		head + `,"aqply":"always",` + limits:                                                                     "\"aqply\" is not the name of a member",
		head + `,"Apply":"always",` + limits:                                                                     "\"Apply\" is not the name of a member",
		head + `,` + limits:                                                                                      "apply is missing",
		head + `,"apply":null,` + limits:                                                                         "apply is null",
		head + `,"apply":"",` + limits:                                                                           "apply \"\" is neither",
		head + `,"apply":"always"`:                                                                               "limits is missing",
		whole + `,"apply":"request"`:                                                                             "apply is there twice",
		whole + `,"cqnfig":{"n":3}`:                                                                              "\"cqnfig\" is not",
		whole + `,"config":null`:                                                                                 "config is null",
		head + `,"apply":"always","limits":{"mamory":1}`:                                                         "limits.\"mamory\" is not",
		head + `,"apply":"always","limits":[]`:                                                                   "limits: want an object",
		whole + `,"past":[{` + head + `,` + limits + `}]`:                                                        "past[0].apply is missing",
		whole + `,"past":[null]`:                                                                                 "past[0].want an object",
		whole + strings.Replace(past, "always", "never", 1):                                                      "apply \"never\" is neither",
	} {
		dir := uploadFolder(t.TempDir())
		if err := dir.put("a", upload{wasm: []byte("one"), settings: unread.settings()}); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(string(dir), "a.json"), "{"+text+"}")
		list, err := dir.load()
		a := list["a"]
		switch {
		case says == "" && (err != nil || a.damaged != nil || a.settings.Limits.Memory != 1<<20):
			t.Errorf("%s: %v, %+v", text, err, a)
		case says != "" && (a.damaged == nil || !strings.Contains(a.damaged.Error(), says) ||
			!strings.Contains(a.damaged.Error(), "a.json: ") || a.settings.Apply != plugins.ApplyAlways):
			t.Errorf("%s: %v, want %s", text, a.damaged, says)
		}
	}
}

// TestUploadFolderShared: replicas with one folder may take the same upload at the same time, while others start.
func TestUploadFolderShared(t *testing.T) {
	dir := uploadFolder(t.TempDir())
	versions := []upload{{wasm: bytes.Repeat([]byte("one"), 20_000)}, {wasm: bytes.Repeat([]byte("two"), 30_000)}}
	errs := make([]error, 6)
	var replicas sync.WaitGroup
	var loaded atomic.Bool
	replicas.Go(func() {
		for range 20 {
			_, err := dir.load()
			errs[4] = errors.Join(errs[4], err)
		}
		loaded.Store(true)
	})
	replicas.Go(func() { // one that comes and goes is never damaged
		for !loaded.Load() {
			errs[5] = errors.Join(errs[5], withLock(t, dir, func() error { return dir.put("b", versions[0]) }),
				withLock(t, dir, func() error { return dir.remove("b") }))
			time.Sleep(20 * time.Millisecond) // who waits for the lock looks now and then
		}
	})
	for i := range errs[:4] {
		replicas.Go(func() {
			for n := range 20 {
				errs[i] = errors.Join(errs[i], withLock(t, dir, func() error { return dir.put("a", versions[n%2]) }))
			}
		})
	}
	replicas.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	list, err := dir.load()
	if err != nil || len(list) != 1 || len(list["a"].past) != 1 || len(filesOf(t, string(dir))) != 3 {
		t.Fatalf("%d uploads, %v, files %v", len(list), err, filesOf(t, string(dir)))
	}
	if _, err := dir.readModule(list["a"].past[0].kept); err != nil {
		t.Error(err)
	}
}

// TestUploadsAreKept restarts a server: what was uploaded is there with its settings, what was deleted is not, and
// where nothing can be kept an upload is refused.
func TestUploadsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "uploads")
	keep := func(c *config.Config) { c.Plugins.Uploads = dir }
	m := when([]byte{unreached})
	m.description = strings.Replace(m.description, "{", `{"config":true,`, 1)
	wasm := m.wasm()
	p := openPlugged(t, keep)
	if status, text := p.call(t, "PUT", `/admin/plugins/mine?on_error=skip&limits.fuel_per_step=12345&config={"n":3}`,
		wasm); status != http.StatusCreated {
		t.Fatal(status, text)
	}
	p.upload(t, "other", wasm)
	if status, text := p.call(t, "DELETE", "/admin/plugins/other", nil); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	p = openPlugged(t, keep)
	status, text := p.call(t, "GET", "/admin/plugins/mine", nil)
	if status != http.StatusOK || !strings.Contains(text, `"state":"ready"`) ||
		!strings.Contains(text, `"on_error":"skip"`) || !strings.Contains(text, moduleSum(wasm)) {
		t.Errorf("%d %s", status, text)
	}
	if u := p.models.uploads["mine"].settings; u.Limits.FuelPerStep != 12345 {
		t.Errorf("settings %+v", u)
	}
	if status, _ := p.call(t, "GET", "/admin/plugins/other", nil); status != http.StatusNotFound {
		t.Errorf("what was deleted is back: %d", status)
	}
	// One that applies to all and is damaged is not passed by.
	if status, text := p.call(t, "PUT", "/admin/plugins/rule?apply=always&on_error=fail",
		newModule("").wasm()); status != http.StatusCreated {
		t.Fatal(status, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "rule-"+moduleSum(newModule("").wasm())[:16]+".wasm"), []byte("damaged"),
		0o600); err != nil {
		t.Fatal(err)
	}
	p = openPlugged(t, keep)
	if status, text := p.call(t, "GET", "/admin/plugins/rule", nil); status != http.StatusOK ||
		!strings.Contains(text, `"state":"failed"`) || !strings.Contains(text, "sha256") {
		t.Errorf("%d %s", status, text)
	}
	const plain = `{"inputs":"a","parameters":{"max_new_tokens":2}}`
	if status, text := p.call(t, "POST", "/generate", []byte(plain)); status != http.StatusFailedDependency ||
		!strings.Contains(text, "plugin rule: could not be loaded") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := p.call(t, "DELETE", "/admin/plugins/rule", nil); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
	if status, text := p.call(t, "POST", "/generate", []byte(plain)); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if status, text := p.call(t, "PUT", "/admin/plugins/third", wasm); status != http.StatusUnprocessableEntity ||
		!strings.Contains(text, "plugins.uploads") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := p.call(t, "GET", "/admin/plugins/third", nil); status != http.StatusNotFound {
		t.Errorf("an upload that was refused is there: %d", status)
	}
}

// TestUploadUnreadable: a server whose upload has no settings that can be read lets no request through until the upload
// is mended by the routes. A folder that can't be read is an error of the start.
func TestUploadUnreadable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "uploads")
	keep := func(c *config.Config) { c.Plugins.Uploads = dir }
	wasm := newModule("").wasm()
	generate := func(p *plugged) (int, string) {
		return p.call(t, "POST", "/generate", []byte(`{"inputs":"a","parameters":{"max_new_tokens":2}}`))
	}
	for _, c := range []struct {
		damage func(path string) error
		mend   string // the method
		apply  string // what it says of the query and the reply
	}{
		{func(path string) error { return os.Truncate(path, 80) }, "PUT", ""},
		{func(path string) error { return os.Truncate(path, 0) }, "PUT", "?apply=request"},
		{os.Remove, "PUT", "?apply=always"},
		{func(path string) error { return os.Rename(path, path+".1"+tempExt) }, "DELETE", ""},
		{os.Remove, "DELETE", ""},
		{func(path string) error { return os.Truncate(path, 80) }, "DELETE", ""},
	} {
		p := openPlugged(t, keep)
		if status, text := p.call(t, "PUT", "/admin/plugins/rule?apply=always", wasm); status/100 != 2 {
			t.Fatal(status, text)
		}
		if err := c.damage(filepath.Join(dir, "rule.json")); err != nil {
			t.Fatal(err)
		}
		p = openPlugged(t, keep)
		if status, text := generate(p); status != http.StatusFailedDependency ||
			!strings.Contains(text, "plugin rule: could not be loaded") {
			t.Errorf("damaged: %d %s", status, text)
		}
		if status, text := p.call(t, "GET", "/admin/plugins/rule", nil); status != http.StatusOK ||
			!strings.Contains(text, `"state":"failed"`) || !strings.Contains(text, "rule.json") ||
			!strings.Contains(text, `"apply":"always"`) {
			t.Errorf("damaged: %d %s", status, text)
		}
		if status, text := p.call(t, "POST", "/admin/plugins/rule/rollback", nil); status !=
			http.StatusUnprocessableEntity || !strings.Contains(text, "no earlier version") {
			t.Errorf("%d %s", status, text)
		}
		var with []byte
		if c.mend == "PUT" {
			with = wasm
		}
		if status, text := p.call(t, c.mend, "/admin/plugins/rule"+c.apply, with); status/100 != 2 {
			t.Errorf("%s: %d %s", c.mend, status, text)
		}
		for range 2 {
			if status, text := generate(p); status != http.StatusOK {
				t.Errorf("mended by %s: %d %s", c.mend, status, text)
			}
			now, ok := p.models.Get("rule")
			if want := c.mend == "PUT"; ok != want || ok && (now.State != server.PluginReady ||
				(now.Apply == "request") != strings.HasSuffix(c.apply, "request")) {
				t.Errorf("mended by %s%s: %+v", c.mend, c.apply, now)
			}
			p = openPlugged(t, keep)
		}
	}

	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	c := testConfig()
	c.Plugins.Uploads = dir
	h, err := Open(t.Context(), Options{Config: c, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		h.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "plugins.uploads: ") || !errors.Is(err, config.ErrWrong) {
		t.Errorf("the folder is a file: %v", err)
	}
}

// TestUploadInherits: a new version is used as the one before it where its query says nothing, by an upload, by a
// canary that is promoted and after a restart; a dry run says what would change, and an error what was taken over.
func TestUploadInherits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "uploads")
	keep := func(c *config.Config) {
		c.Plugins.Uploads = dir
		c.Key = []config.Key{{Name: "school", Key: "of-school", Scopes: []string{config.ScopeGenerate}}}
	}
	version := func(n string) []byte {
		m := when([]byte{unreached})
		m.description = strings.Replace(m.description, "{", `{"config":true,`, 1)
		m.description = strings.Replace(m.description, `"version":"1"`, `"version":"`+n+`"`, 1)
		return m.wasm()
	}
	p := openPlugged(t, keep)
	want := func(path string, wasm []byte, status int, says string) {
		t.Helper()
		method := "PUT"
		if wasm == nil {
			method = "POST"
		}
		if got, text := p.call(t, method, "/admin/plugins/mine"+path, wasm); got != status ||
			!strings.Contains(text, says) {
			t.Fatalf("%s: %d %s, want %d %s", path, got, text, status, says)
		}
	}
	same := func(what, n string) {
		t.Helper()
		u, ok := p.models.uploads["mine"]
		now, _ := p.models.Get("mine")
		if use := useOf(u.settings); !ok || u.version != n || now.Version != n || use.Apply != "always" ||
			use.OnError != "skip" || compact(use.Config) != `{"n":3}` || use.Limits.FuelPerStep != 12345 ||
			strings.Join(use.Keys, " ") != "school" || now.Apply != "always" || now.OnError != "skip" {
			t.Fatalf("%s: %q %+v %s %s", what, u.version, use, now.Apply, now.OnError)
		}
	}
	const all = `?apply=always&keys=school&on_error=skip&limits.fuel_per_step=12345&config={"n":3}`
	want(all, version("a"), 201, `"version":"a"`)
	same("first", "a")
	want("", version("b"), 200, `"apply":"always"`)
	same("replaced", "b")
	want("?canary=50", version("c"), 201, `"percent":50`)
	want("/canary/promote", nil, 200, `"version":"c"`)
	same("promoted", "c")
	p = openPlugged(t, keep)
	want("", version("d"), 200, `"apply":"always"`)
	same("replaced after a restart", "d")
	want("/rollback", nil, 200, `"version":"c"`)
	same("rolled back", "c")
	want("?dry_run&on_error=fail", version("e"), 200, `"settings":[{"name":"apply","before":"always","after":"always"},`+
		`{"name":"on_error","before":"skip","after":"fail"},{"name":"keys","before":"school","after":"school"},`+
		`{"name":"config","before":"{\"n\":3}","after":"{\"n\":3}"},`+
		`{"name":"limits.fuel_per_step","before":"12345","after":"12345"}]`)
	same("after a dry run", "c")
	want("?keys=boss", version("e"), 422, `keys: \"boss\" is not the name of a key`)
	want("?on_error=stop", version("e"), 422, "taken from what serves, as the query does not say it: apply, keys, config")
	want("?canary=5&keys=", version("e"), 422, "a canary applies to the clients of what serves")
	want("?apply=request", version("f"), 200, `"apply":"request"`)
	if use := useOf(p.models.uploads["mine"].settings); len(use.Keys) > 0 || use.OnError != "skip" {
		t.Errorf("%+v", use)
	}
}

// TestUploadOfOtherKind: an upload takes the place of a plugin of other kinds only where it says so; a rollback undoes
// it, and what serves stays as it is where it is refused.
func TestUploadOfOtherKind(t *testing.T) {
	p := openPlugged(t, nil)
	guard, err := os.ReadFile("../../plugins/std/wasm/redact.wasm")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string, wasm []byte, status int, says string) {
		t.Helper()
		if got, text := p.call(t, method, "/admin/plugins/mine"+path, wasm); got != status ||
			!strings.Contains(text, says) {
			t.Errorf("%s %s: %d %s, want %d %s", method, path, got, text, status, says)
		}
	}
	logits := newModule("").wasm()
	ask("PUT", "?on_full=release", guard, 201, `"kinds":["guard"]`)
	const refused = "mine is a plugin of kind guard, the module is of kind logits, and requests that name it would get " +
		"something else. change_kinds=true (tgi plugin upload --change-kinds) has it serve all the same; or remove mine " +
		"first, or take another name\""
	ask("PUT", "?on_full=stop", logits, 422, refused)
	ask("PUT", "?on_full=stop&dry_run", logits, 422, refused)
	ask("GET", "", nil, 200, moduleSum(guard))
	ask("PUT", "?on_full=release", guard, 200, `"kinds":["guard"]`)
	ask("PUT", "?change_kinds&canary=5", logits, 422, "canary and change_kinds do not go together")
	ask("PUT", "?on_full=stop&change_kinds&dry_run", logits, 200, `"kinds":["logits"]`)
	ask("PUT", "?on_full=stop&change_kinds", logits, 200, `"kinds":["logits"]`)
	ask("POST", "/rollback", nil, 200, `"kinds":["guard"]`)
	ask("DELETE", "", nil, 204, "")
	ask("PUT", "", logits, 201, `"kinds":["logits"]`)
}

// TestUploadOvertaken: an upload that takes over how what serves is used does so from what serves when it is installed.
func TestUploadOvertaken(t *testing.T) {
	p := openPlugged(t, nil)
	f := p.models
	put := func(s admin.Settings) {
		t.Helper()
		if _, err := f.Put(t.Context(), "mine", newModule("").wasm(), s); err != nil {
			t.Fatal(err)
		}
	}
	put(admin.Settings{})
	use, _, err := f.useOver("mine", admin.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	_, err = f.putOver(t.Context(), "mine", when([]byte{unreached}).wasm(), admin.Settings{}, func() {
		if tries++; tries == 1 { // the module is loaded to be used as the first one
			put(admin.Settings{Given: url.Values{"apply": {"always"}, "on_error": {"skip"}}})
		}
	})
	if now := f.uploads["mine"].settings; err != nil || tries != 2 || use.Apply != "request" ||
		now.Apply != "always" || now.OnError != "skip" {
		t.Errorf("%v, %d tries, %+v", err, tries, now)
	}
}

// TestUploadNoPlace: an upload whose compiled module no folder takes is no fault of the client.
func TestUploadNoPlace(t *testing.T) {
	err := adminError(fmt.Errorf("%w: mine: %w: /cache: read-only file system", plugins.ErrLoad, plugins.ErrNoPlace))
	const text = "not enough disk: mine: there is no place for the compiled module: /cache: read-only file system"
	if f := server.Explain(err); f.Status != http.StatusInsufficientStorage || f.Type != "insufficient_disk" ||
		f.Text != text {
		t.Errorf("%+v", f)
	}
}
