package host

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tgi/plugins"
	"tgi/server/config"
)

// filesOf lists the files of a folder.
func filesOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
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
	for _, left := range []string{"a.json.tmp", "b-0123456789abcdef.wasm"} {
		if err := os.WriteFile(filepath.Join(string(dir), left), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := dir.load()
	if err != nil || !reflect.DeepEqual(list["b"], second) || string(list["a"].wasm) != "one" || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	got := list["a"].settings
	if compact := strings.Join(strings.Fields(string(got.Config)), ""); compact != `{"n":3}` {
		t.Errorf("config %s", got.Config)
	}
	got.Config = first.settings.Config
	if !reflect.DeepEqual(got, first.settings) {
		t.Errorf("settings %+v", got)
	}
	if files := filesOf(t, string(dir)); len(files) != 4 {
		t.Errorf("files %q", files)
	}
	if err := os.WriteFile(filepath.Join(string(dir), "b-"+moduleSum(second.wasm)[:16]+".wasm"), []byte("tw"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if list, err = dir.load(); err == nil || !strings.Contains(err.Error(), "uploaded plugin b: ") || len(list) != 2 ||
		list["b"].damaged == nil || !reflect.DeepEqual(list["b"].settings, second.settings) ||
		len(filesOf(t, string(dir))) != 4 {
		t.Errorf("with a damaged module: %v, %v", list, err)
	}
	if err := errors.Join(dir.remove("a"), dir.remove("b"), dir.remove("c")); err != nil ||
		len(filesOf(t, string(dir))) != 0 {
		t.Errorf("%v, files %q", err, filesOf(t, string(dir)))
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
