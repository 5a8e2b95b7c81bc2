package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/models/demo"
	"tgi/models/library"
	"tgi/models/library/lifecycle"
	"tgi/runtime/kvdisk"
	"tgi/server/config"
)

// settings are those of an empty folder.
func settings(t *testing.T) config.Config {
	t.Helper()
	cfg := config.Default()
	cfg.Models.Folder, cfg.Plugins.Folder, cfg.Plugins.Uploads = t.TempDir(), t.TempDir(), ""
	return cfg
}

func TestModels(t *testing.T) {
	cfg := settings(t)
	cfg.ModelList = []config.Model{
		{Name: "far", Source: "https://hub.example/far.tar?key=secret"}, {Name: "broken", Path: t.TempDir()},
	}
	if err := os.CopyFS(filepath.Join(cfg.Models.Folder, "org", "small"), demo.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	folder, list, err := Models(cfg)
	if err != nil || folder != cfg.Models.Folder {
		t.Fatal(folder, err)
	}
	var ids []library.ID
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, []library.ID{"broken", "far", "org/small"}) {
		t.Fatalf("listed %q", ids)
	}
	broken, far, small := list[0], list[1], list[2]
	if broken.State != lifecycle.Error || broken.Error == "" || !broken.Declared {
		t.Errorf("%+v", broken)
	}
	if far.State != lifecycle.NotDownloaded || !far.Default || strings.Contains(far.Source, "secret") {
		t.Errorf("%+v", far)
	}
	if small.State != lifecycle.Downloaded || small.Declared || small.Parameters == 0 || small.Files == 0 {
		t.Errorf("%+v", small)
	}

	_, d, err := Find(cfg, "org/small")
	if err != nil || d.Dir != filepath.Join(cfg.Models.Folder, "org", "small") {
		t.Fatalf("found %+v, %v", d, err)
	}
	r, err := Describe(cfg, d)
	if err != nil || r.Parameters != small.Parameters || r.Estimated || r.Weights == nil ||
		len(r.Weights.Choices) != 3 || len(r.Weights.Weights) != 3 || r.Weights.CUDA == nil ||
		len(r.Weights.CUDA.Choices) != 4 || len(r.Weights.CUDA.Weights) != 4 ||
		r.Weights.CachePerToken != 2*r.Weights.CUDA.CachePerToken {
		t.Errorf("described %+v, %v", r, err)
	}
	if _, _, err := Find(cfg, "org/none"); !errors.Is(err, library.ErrNotFound) {
		t.Errorf("found none: %v", err)
	}
	r, err = Describe(cfg, library.Declared{ID: "broken", Dir: cfg.ModelList[1].Path})
	if err == nil || r != nil {
		t.Errorf("described %+v, %v", r, err)
	}
}

func TestPlugins(t *testing.T) {
	cfg := settings(t)
	file := filepath.Join(cfg.Plugins.Folder, "mine.wasm")
	for name, text := range map[string]string{"mine.wasm": "\x00asm\x01\x00\x00\x00", ".mine.wasm": "",
		"jinja.wasm": ""} {
		if err := os.WriteFile(filepath.Join(cfg.Plugins.Folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Plugin = []config.Plugin{
		{Name: "penalty", Source: "builtin:dry"}, {Name: "half", Source: "builtin:grammar", Kind: "grammar"},
		{Name: "lost", Source: filepath.Join(cfg.Plugins.Folder, "none.wasm")},
	}
	list, err := Plugins(cfg)
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) Plugin {
		at := slices.IndexFunc(list, func(p Plugin) bool { return p.Name == name })
		if at < 0 {
			t.Fatalf("%s is not among %+v", name, list)
		}
		return list[at]
	}
	if p := find("penalty"); p.Declared != BySettings || !slices.Equal(p.Kinds, []string{"logits"}) || p.Bytes == 0 {
		t.Errorf("%+v", p)
	}
	if p := find("lost"); p.Error == "" || p.Bytes != 0 {
		t.Errorf("%+v", p)
	}
	if p := find("mine"); p.Declared != ByFolder || p.Source != file || len(p.Kinds) != 0 {
		t.Errorf("%+v", p)
	}
	if p := find("jinja"); p.Declared != ByFolder { // a file of the folder beats a built-in one of its name
		t.Errorf("%+v", p)
	}
	if p := find("xtc"); p.Declared != "" || p.Source != "builtin:xtc" {
		t.Errorf("%+v", p)
	}
	for _, hidden := range []string{".mine", "dry", "grammar"} {
		if slices.ContainsFunc(list, func(p Plugin) bool { return p.Name == hidden }) {
			t.Errorf("%s is listed", hidden)
		}
	}
}

// TestCheck starts the demo model, and leaves alone what was not fetched.
func TestCheck(t *testing.T) {
	cfg := settings(t)
	cfg.ModelList = []config.Model{cfg.Model, cfg.Model}
	cfg.ModelList[0].Name, cfg.ModelList[1].Name = config.DemoModel, "far"
	cfg.ModelList[1].Source, cfg.Models.Hub = "org/far", "http://127.0.0.1:1" // nobody is there
	var found []Checked
	err := Check(t.Context(), cfg, "test", slog.New(slog.DiscardHandler), func(m Checked) { found = append(found, m) })
	if err != nil || len(found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	if m := found[0]; m.ID != config.DemoModel || !m.Fetched || m.Blocks == 0 || m.Limits == nil ||
		m.Limits.MaxTotalTokens == 0 {
		t.Errorf("%+v", m)
	}
	if m := found[1]; m.ID != "far" || m.Fetched || m.Unsure == "" || m.Limits != nil {
		t.Errorf("%+v", m)
	}
	if cfg.ModelList[0].Preload != cfg.Model.Preload {
		t.Error("the settings were changed")
	}
}

// TestSettled: limits that a plugin leaves out are shown as they hold for its module, and those of the settings are not
// changed by that.
func TestSettled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	if err := os.WriteFile(file, []byte(`[[plugin]]
name = "pick"
source = "builtin:dry"
limits = {share = 0.5}
[[plugin]]
name = "schema"
source = "builtin:grammar"
[[plugin]]
name = "lost"
source = "none.wasm"
on_error = "skip"
[[mcp]]
name = "files"
command = ["x"]
timeout = "3s"
`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Read(nil, func(name string) (string, bool) { return file, name == "TGI_CONFIG" })
	if err != nil {
		t.Fatal(err)
	}
	settled := Settled(l)
	got := map[string]string{}
	for _, e := range settled.Effective() {
		got[e.Key] = fmt.Sprintf("%v %s", e.Value, strings.TrimPrefix(e.Origin, file))
	}
	for key, want := range map[string]string{
		"plugin[0].limits.memory": "64MiB default", "plugin[1].limits.memory": "256MiB default",
		"plugin[0].limits.fuel_per_step": "2000000 default", "plugin[0].limits.fuel_per_request": "50000000 default",
		"plugin[1].limits.fuel_per_request": "5000000000 default", "plugin[1].limits.time_load": "1m0s default",
		"plugin[0].limits.share": "0.5 :4", "plugin[1].limits.share": "1 default",
		"plugin[2].limits.share": "0 default",
		"mcp[0].timeout":         "3s :15", "mcp[0].start_timeout": "30s default", "mcp[0].concurrency": "4 default",
	} {
		if got[key] != want {
			t.Errorf("%s = %s, want %s", key, got[key], want)
		}
	}
	if l.Config.Plugin[0].Limits.Memory != 0 || l.Config.MCP[0].Concurrency != 0 {
		t.Errorf("the settings were changed: %+v", l.Config.Plugin[0].Limits)
	}
}

// TestCheckFinds: what only a start would find is found with its line: a source that does not have the model, an
// address that can't be listened on, a library that is none.
func TestCheckFinds(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/models/org/there/revision/main":
			_, _ = w.Write([]byte(`{"siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors"},` +
				`{"rfilename":"tokenizer.json"}]}`))
		case "/a.gguf":
			w.WriteHeader(http.StatusPartialContent)
		default:
			w.Header().Set("X-Error-Code", "RepoNotFound")
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer hub.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "tgi.toml")
	check := func(text string) (string, []Checked) {
		t.Helper()
		text += "\n[models]\nhub = \"" + hub.URL + "\"\nallow_hosts = [\"*\"]\nfolder = \"models\"\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.Read(nil, func(name string) (string, bool) { return file, name == "TGI_CONFIG" })
		if err != nil {
			t.Fatal(err)
		}
		var list []Checked
		log := slog.New(slog.DiscardHandler)
		err = Check(t.Context(), l.Config, "test", log, func(m Checked) { list = append(list, m) })
		if err == nil {
			return "", list
		}
		return strings.TrimPrefix(err.Error(), file), list
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"[model]\nsource = \"nosuch\"": ":2:1: model.source: ",
		"[[model]]\nname = \"tgi-demo\"\npreload = false\n[[model]]\nname = \"b\"\nsource = \"" + hub.URL + "/b.gguf\"": ":6:1: " +
			"model[1].source: ",
		"[server]\nhostname = \"256.1.1.1\"":                ":2:1: server.hostname: cannot listen: ",
		"[server]\ntls_cert = \"text\"\ntls_key = \"text\"": ":2:1: server.tls_cert: ",
		"[runtime]\nort_lib = \"text\"":                     ":2:1: runtime.ort_lib: ",
	} {
		if got, _ := check(text); !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
	for _, source := range []string{"org/there", hub.URL + "/a.gguf"} {
		got, list := check("[model]\nsource = \"" + source + "\"")
		if got != "" || list[0].Fetched || list[0].Unsure != "" {
			t.Errorf("%s: %s, %+v", source, got, list)
		}
	}
	hub.Close()
	got, list := check("[model]\nsource = \"org/there\"")
	if got != "" || len(list) != 1 || list[0].Unsure == "" {
		t.Errorf("of nobody who answers: %s, %+v", got, list)
	}
}

// TestCheckBesideServer: that a server on the same settings has the folder of prompts is noted, and is no error.
func TestCheckBesideServer(t *testing.T) {
	cfg := settings(t)
	cfg.Runtime.KVDisk, cfg.Runtime.KVDiskSize = t.TempDir(), 1<<20
	of, err := kvdisk.Open(kvdisk.Options{Path: cfg.Runtime.KVDisk, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	var text strings.Builder
	err = Check(t.Context(), cfg, "test", slog.New(slog.NewTextHandler(&text, nil)), func(m Checked) {
		if m.KVDisk != nil || m.Blocks == 0 {
			t.Errorf("%+v", m)
		}
	})
	if got := text.String(); err != nil || strings.Contains(got, "level=ERROR") ||
		!strings.Contains(got, "another server uses runtime.kv_disk") {
		t.Errorf("%v:\n%s", err, got)
	}
}

// TestModule: what is not built in is named.
func TestModule(t *testing.T) {
	if module, err := Module("builtin:dry"); err != nil || len(module) == 0 {
		t.Errorf("%d bytes, %v", len(module), err)
	}
	for _, name := range []string{"none", "../dry", ""} {
		_, err := Module("builtin:" + name)
		if want := fmt.Sprintf("there is no built-in plugin %q: ", name); !errors.Is(err, fs.ErrNotExist) ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestDescribeTexts: a model that embeds, ranks or classifies is described by that, and has no cache and no GPU.
func TestDescribeTexts(t *testing.T) {
	for name, want := range map[string][]string{
		"bert-modes": {"task       embeds texts, on the CPU\n",
			"pooling    cls, max, mean_sqrt_len_tokens, weightedmean\n"},
		"qwen3":             {"task       embeds texts, on the CPU\n", "pooling    lasttoken\n"},
		"bert-rank":         {"task       ranks texts, on the CPU\n", "pooling    cls\n", "labels     "},
		"distilbert-labels": {"task       classifies texts, on the CPU\n", "labels     "},
	} {
		dir := filepath.Join("../../../models/testdata/embeddings", name)
		r, err := Describe(settings(t), library.Declared{ID: library.ID(name), Dir: dir})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var text strings.Builder
		r.WriteText(&text)
		for _, line := range want {
			if !strings.Contains(text.String(), line) {
				t.Errorf("%s: lacks %q:\n%s", name, line, text.String())
			}
		}
		if strings.Contains(text.String(), "cache") || strings.Contains(text.String(), "GPU") ||
			r.Chat != "" || r.Weights.CUDA != nil {
			t.Errorf("%s: has a cache or a GPU:\n%s", name, text.String())
		}
	}
}
