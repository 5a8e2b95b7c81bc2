package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// read returns the settings of a file with the text, and where it lies.
func read(t *testing.T, text string, environ map[string]string, args ...string) (Loaded, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tgi.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Read(parsed(t, append([]string{"--config", file}, args...)...), func(name string) (string, bool) {
		v, ok := environ[name]
		return v, ok
	})
	return l, file, err
}

// TestModelForms: one table, a list of tables and a list of inline tables mean
// the same, each with the defaults of a model.
func TestModelForms(t *testing.T) {
	with := func(name string, change func(*Model)) Model {
		m := defaultModel()
		m.Name = name
		change(&m)
		return m
	}
	a := with("org/a", func(m *Model) { m.Source, m.Context, m.KVMemory = "org/a@v1", 512, 1<<20 })
	b := with("b", func(m *Model) {
		m.Path, m.Weights, m.Plugins, m.Preload, m.KeepAlive = "/b", WeightsInt4, []string{}, false, 60*second
	})
	for name, text := range map[string]string{
		"tables": "[[model]]\nname = \"org/a\"\nsource = \"org/a@v1\"\ncontext = 512\nkv_memory = \"1MiB\"\n" +
			"[server]\nport = 1\n[[model]]\nname = \"b\"\npath = \"/b\"\nquantization = \"int4\"\nplugins = []\npreload = false\nkeep_alive = \"1m\"\n",
		"inline": "model = [{name = \"org/a\", source = \"org/a@v1\", context = 512, kv_memory = \"1MiB\"},\n" +
			" {NAME = \"b\", path = \"/b\", Quantisation = \"int4\", plugins = [], PreLoad = false, keep_alive = 60}]\n[server]\nport = 1\n",
	} {
		l, _, err := read(t, text, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := l.Config
		if want := []Model{a, b}; !reflect.DeepEqual(c.ModelList, want) || !reflect.DeepEqual(c.All(), want) {
			t.Errorf("%s: got\n%+v\nwant\n%+v", name, c.ModelList, want)
		}
		if !reflect.DeepEqual(c.Model, defaultModel()) || c.Server.Port != 1 {
			t.Errorf("%s: the rest became %+v", name, c)
		}
	}
	one, _, err := read(t,
		"[model]\nname = \"b\"\npath = \"/b\"\nquantisation = \"int4\"\nplugins = []\npreload = false\nkeep_alive = 60\n", nil)
	if err != nil || one.Config.ModelList != nil || !reflect.DeepEqual(one.Config.All(), []Model{b}) {
		t.Errorf("one: %v\ngot  %+v\nwant %+v", err, one.Config.All(), b)
	}
	none, _, err := read(t, "model = []\n", nil)
	if err != nil || len(none.Config.ModelList) != 0 || none.Config.All()[0].Name != DemoModel {
		t.Errorf("none: %v, %+v", err, none.Config)
	}
}

// TestNames: a model without a name is called after where it comes from.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		m    Model
		want string
	}{
		{Model{}, DemoModel},
		{Model{Name: "mine"}, "mine"},
		{Model{Name: "mine", Path: "/x/y"}, "mine"},
		{Model{Path: "/x/Qwen3-0.6B/"}, "Qwen3-0.6B"},
		{Model{Path: "some/.hidden model."}, "hidden-model"},
		{Model{Path: "/"}, "model"},
		{Model{Path: "/x/" + strings.Repeat("a", 95) + ".b"}, strings.Repeat("a", 95)},
		{Model{Path: "/x/été"}, "t-"},
		{Model{Source: "org/name@main"}, "org/name"},
		{Model{Source: "https://hub.example/a/llama-3.tar.gz?token=x"}, "llama-3"},
		{Model{Source: "https://hub.example/a/llama.tgz"}, "llama"},
		{Model{Source: "https://hub.example/"}, "model"},
	} {
		cfg := Config{Model: c.m}
		if got := cfg.All()[0].Name; got != c.want || CheckModelID(got) != nil {
			t.Errorf("%+v is called %q (%v), want %q", c.m, got, CheckModelID(got), c.want)
		}
	}
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := (&Config{Model: Model{Path: "."}}).All()[0].Name, filepath.Base(here); got != want {
		t.Errorf("the working folder is called %q, want %q", got, want)
	}
}

func TestDemo(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want bool
	}{
		{Default(), true},
		{Config{Model: Model{Name: DemoModel}}, true},
		{Config{Model: Model{Name: "other"}}, false},
		{Config{Model: Model{Path: "/x/" + DemoModel}}, false},
		{Config{Model: Model{Source: "org/x", Name: DemoModel}}, false},
		{Config{ModelList: []Model{{Name: DemoModel}}}, true},
		{Config{ModelList: []Model{{Name: "other"}}}, false},
	} {
		if m := c.cfg.All()[0]; m.Demo() != c.want {
			t.Errorf("%+v: demo is %v", m, m.Demo())
		}
	}
}

func TestDefaultAndUnknown(t *testing.T) {
	list := []Model{{Name: "a"}, {Name: "b"}}
	for _, c := range []struct {
		cfg    Config
		id     string
		refuse bool
	}{
		{Config{Models: Models{Unknown: Auto}}, DemoModel, false},
		{Config{Models: Models{Unknown: UnknownRefuse}}, DemoModel, true},
		{Config{ModelList: list, Models: Models{Unknown: Auto}}, "a", true},
		{Config{Model: Model{Adapters: []Adapter{{Name: "x"}}}, Models: Models{Unknown: Auto}}, DemoModel, true},
		{Config{ModelList: list, Models: Models{Unknown: UnknownDefault, Default: "b"}}, "b", false},
		{Config{ModelList: list, Models: Models{Unknown: UnknownRefuse, Default: "in/folder"}}, "in/folder", true},
	} {
		if got := c.cfg.DefaultModel(); got != c.id || c.cfg.RefuseUnknown() != c.refuse {
			t.Errorf("%+v: default %q, refuse %v", c.cfg.Models, got, c.cfg.RefuseUnknown())
		}
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]Source{
		"gpt2":                            {Repo: "gpt2"},
		"org/name":                        {Repo: "org/name"},
		"org/name@refs/pr/1":              {Repo: "org/name", Revision: "refs/pr/1"},
		"org/name@a@b":                    {Repo: "org/name", Revision: "a@b"},
		"https://hub.example/m.tar?sig=x": {URL: "https://hub.example/m.tar?sig=x"},
		"https://h/@scope/m.tar?sig=a@b":  {URL: "https://h/@scope/m.tar?sig=a@b"},
		"https://h:80/a%40b/m.tar":        {URL: "https://h:80/a%40b/m.tar"},
	} {
		if got, err := ParseSource(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "@v", "org/name@", "a/b/c", "../x", "org/name@a..b", "org/name@a\nb", "ftp://h/x",
		"https:///x", "https://u:secret@h/x", "http://%zz",
		"https://u:12345/secret@h/x", "http://u:80/secret@127.0.0.1:9/a",
		"https://u:1/2/secret@h/x", "https://u:1?secret@h/x", "https://u:1#secret@h/x", "https://user/secret@h/x",
		"https://u:443/@secret@h/x", "hf://u:80/secret@h/x", "u:80/secret@h/x", `https://u:80\secret@h/x`} {
		if got, err := ParseSource(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}

func TestModelsFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for data, want := range map[string]string{
		"/data": "/data/tgi/models", "": filepath.Join(home, ".local/share/tgi/models"),
		"not/absolute": filepath.Join(home, ".local/share/tgi/models"),
	} {
		t.Setenv("XDG_DATA_HOME", data)
		if got, err := (&Models{}).Dir(); err != nil || got != filepath.FromSlash(want) {
			t.Errorf("XDG_DATA_HOME=%s: got %s, %v", data, got, err)
		}
	}
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("HOME", "")
	if got, err := (&Models{}).Dir(); err == nil || !strings.Contains(err.Error(), "models.folder") {
		t.Errorf("without a home: %q, %v", got, err)
	}
	l, file, err := read(t,
		"[models]\nfolder = \"here\"\n[[model]]\nname = \"a\"\ntemplate = \"a.jinja\"\ntools = \"a.json\"\npath = \"a\"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	got, err := l.Config.Models.Dir()
	m := l.Config.ModelList[0]
	if err != nil || got != filepath.Join(dir, "here") || m.Template != filepath.Join(dir, "a.jinja") ||
		m.Tools != filepath.Join(dir, "a.json") || m.Path != filepath.Join(dir, "a") {
		t.Errorf("below the file's folder: %s, %v, %+v", got, err, m)
	}
	if l, _, err := read(t, "[models]\nfolder = \"here\"\n", nil, "--models-folder", "there"); err != nil ||
		l.Config.Models.Folder != "there" {
		t.Errorf("by a flag: %q, %v", l.Config.Models.Folder, err)
	}
	if l, _, err := read(t, "[model]\npath = \"here\"\n", nil, "--model-id", "there"); err != nil ||
		l.Config.Model.Path != "there" {
		t.Errorf("by a flag: %q, %v", l.Config.Model.Path, err)
	}
}

// TestOneModelFlags: what is about one model is refused where there are several.
func TestOneModelFlags(t *testing.T) {
	const several = "[[model]]\nname = \"a\"\n[[model]]\nname = \"b\"\n"
	for flag, env := range map[string]string{
		"--model-id": "HF_MODEL_ID", "--weights": "WEIGHTS", "--chat-template": "CHAT_TEMPLATE",
		"--tool-call-parser": "TOOL_CALL_PARSER",
	} {
		_, file, err := read(t, several, nil, flag, "x")
		if err == nil || !strings.HasPrefix(err.Error(), flag+" sets model.") ||
			!strings.HasSuffix(err.Error(), file+" declares 2 by [[model]], set it there") {
			t.Errorf("%s: %v", flag, err)
		}
		if _, _, err = read(t, several, map[string]string{env: "x"}); err == nil ||
			!strings.HasPrefix(err.Error(), env+" sets model.") {
			t.Errorf("%s: %v", env, err)
		}
	}
	if _, _, err := read(t, several, map[string]string{"MODEL_ID": ""}, "--max-total-tokens", "99", "--models-folder",
		"x"); err != nil {
		t.Errorf("what is about all of them: %v", err)
	}
}

func TestHubToken(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{map[string]string{"HUGGING_FACE_HUB_TOKEN": "b", "HUB_TOKEN": "a"}, nil, "b"},
		{map[string]string{"HUGGING_FACE_HUB_TOKEN": "b", "HF_TOKEN": "c"}, nil, "c"},
		{map[string]string{"HF_TOKEN": "c"}, []string{"--hub-token", "d"}, "d"},
		{nil, nil, "file"},
	} {
		l, _, err := read(t, "[models]\nhub_token = \"file\"\n", c.env, c.args...)
		if err != nil || l.Config.Models.HubToken != c.want || l.Notices != nil {
			t.Errorf("%v %v: got %q, %v, %v", c.env, c.args, l.Config.Models.HubToken, err, l.Notices)
		}
	}
	if l, _, err := read(t, "", map[string]string{"HF_ENDPOINT": "https://mirror.example"}); err != nil ||
		l.Config.Models.Hub != "https://mirror.example" {
		t.Errorf("HF_ENDPOINT: %q, %v", l.Config.Models.Hub, err)
	}
}

// TestEffectiveModels: several models are shown as they were given, without
// secrets, and what is shown gives the same settings.
func TestEffectiveModels(t *testing.T) {
	l, file, err := read(t, `[[model]]
name = "a"
source = "https://hub.example/a.tar?sig=secret-a"
[[model]]
name = "b"

quantization = "int4"
plugins = ["dry"]
preload = false
[models]
hub_token = "secret-b"
allow_hosts = ["cdn.example"]
[[key]]
name = "k"
key = "secret-c"
scopes = ["generate"]
models = ["b"]
`, map[string]string{"MODELS_FOLDER": "/m"})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "secret") || strings.Contains(out.String(), "[model]\n") {
		t.Errorf("a secret or a second model is shown:\n%s", out.String())
	}
	var again Config
	if err := Decode("printed", []byte(out.String()), &again); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	want := l.Config
	want.File, want.Model, want.Key[0].Key, want.Models.HubToken = "", Model{}, masked, masked
	want.ModelList[0].Source = "https://hub.example/a.tar?" + masked
	want.Given, want.text = nil, ""
	if !reflect.DeepEqual(again, want) {
		t.Errorf("printed\n%+v\nwant\n%+v", again, want)
	}
	squeezed := strings.Join(strings.Fields(out.String()), " ")
	for _, line := range []string{
		`[[model]] name = "a" # ` + file + ":2", `# plugins: all preload = true # default`,
		`weights = "int4" # ` + file + ":7", `plugins = ["dry"] # ` + file + ":8", `preload = false # ` + file + ":9",
		`keep_alive = "0s" # default`,
		`folder = "/m" # env MODELS_FOLDER`, `hub_token = "***" # ` + file + ":11", `max_size = "1TiB" # default`,
		`models = ["b"] # ` + file + ":17",
	} {
		if !strings.Contains(squeezed, line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
	inline, file, err := read(t, "model = [{name = \"a\"},\n{name = \"b\", quantisation = \"int8\"}]\n", nil)
	if err != nil || inline.origins["model[1].weights"] != file+":2" || inline.origins["model[0].name"] != file+":1" {
		t.Errorf("inline: %v, %v", inline.origins, err)
	}
}

// TestReloadModels: the template and tools of each model are taken over by its
// name, wherever it stands.
func TestReloadModels(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	args, nothing := []string{"--config", file}, func(string) (string, bool) { return "", false }
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[[model]]\nname = \"a\"\n[[model]]\nname = \"b\"\n")
	running, err := load(parsed(t, args...), nothing)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		restart    []string
		templates  []string
	}{
		{"taken over", "[[model]]\nname = \"a\"\ntemplate = \"x\"\n[[model]]\nname = \"b\"\ntools = \"hermes\"\n", nil,
			[]string{"x", Auto}},
		{"a value",
			"[[model]]\nname = \"a\"\n[[model]]\nname = \"b\"\ntemplate = \"y\"\nweights = \"int8\"\npreload = false\n",
			[]string{"model[1].weights", "model[1].preload"}, []string{Auto, "y"}},
		{"another order", "[[model]]\nname = \"b\"\ntemplate = \"y\"\n[[model]]\nname = \"a\"\n[models]\npulls = 3\n",
			[]string{"model", "models.pulls"}, []string{Auto, "y"}},
		{"one less", "[[model]]\nname = \"b\"\n", []string{"model"}, []string{Auto, Auto}},
		{"one table", "[model]\nname = \"a\"\ntemplate = \"x\"\n", []string{"model.name", "model"},
			[]string{Auto, Auto}},
	} {
		write(c.text)
		next, restart, err := Reload(running, parsed(t, args...), nothing, nil)
		if err != nil || !reflect.DeepEqual(restart, c.restart) {
			t.Errorf("%s: restart %v, %v", c.name, restart, err)
			continue
		}
		if next.ModelList[0].Template != c.templates[0] || next.ModelList[1].Template != c.templates[1] {
			t.Errorf("%s: got %+v", c.name, next.ModelList)
		}
		if running.ModelList[0].Template != Auto || running.ModelList[1].Template != Auto {
			t.Fatalf("%s: what ran was changed: %+v", c.name, running.ModelList)
		}
	}
}
