package host

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/models/demo"
	"tgi/plugins/std"
	"tgi/runtime/filestamp"
	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/config"
)

// These tests serve several models from one process: copies of the demo model, which
// answer alike.

// folderOf makes a models folder that holds the demo model under ids, without its chat template: as testConfig.
func folderOf(t testing.TB, ids ...string) string {
	t.Helper()
	dir := chatFolderOf(t, ids...)
	for _, id := range ids {
		path := filepath.Join(dir, id, "tokenizer_config.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var settings map[string]json.RawMessage
		if err := json.Unmarshal(text, &settings); err != nil {
			t.Fatal(err)
		}
		delete(settings, "chat_template")
		if text, err = json.Marshal(settings); err != nil {
			t.Fatal(err)
		}
		write(t, path, string(text))
	}
	return dir
}

// chatFolderOf is folderOf with the template.
func chatFolderOf(t testing.TB, ids ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, id := range ids {
		if err := os.CopyFS(filepath.Join(dir, id), demo.Checkpoint()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// blockOf is a [[model]] as settings have it when nothing is said but its name.
func blockOf(name string) config.Model {
	m := config.Default().Model
	m.Name = name
	return m
}

// openManager serves the models of a folder, with room for a cache of a few
// sequences each. change may declare more.
func openManager(t testing.TB, folder string, change func(*config.Config)) *plugged {
	t.Helper()
	return openPlugged(t, func(c *config.Config) {
		c.Models.Folder = folder
		c.Runtime.KVMemory = 8 << 20
		c.Models.Memory = 1 << 30
		if change != nil {
			change(c)
		}
	})
}

// answered is a reply of the server.
type answered struct {
	status int
	header http.Header
	text   string
}

// as sends a request with a key.
func (p *plugged) as(t testing.TB, key, method, path, body string) answered {
	t.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{res.StatusCode, res.Header, string(text)}
}

// status returns the state of a model as the models API tells it.
func (p *plugged) status(t testing.TB, id string) string {
	t.Helper()
	var m struct{ Status string }
	r := p.as(t, adminKey, "GET", "/v1/models/"+id, "")
	if err := json.Unmarshal([]byte(r.text), &m); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.text, err)
	}
	return m.Status
}

// until waits for a model to be in a state.
func (p *plugged) until(t testing.TB, id string, want modelsapi.State) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); p.status(t, id) != string(want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s, want %s", id, p.status(t, id), want)
		}
	}
}

const hello = `"inputs":"Once upon a time","parameters":{"max_new_tokens":8}`

func TestChooseModel(t *testing.T) {
	p := openManager(t, chatFolderOf(t, "org/second", "third"), func(c *config.Config) {
		c.Model.Template = config.Auto
		c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("org/second")}
		c.Server.APIKeys = []string{"user"}
		c.Key = []config.Key{{Name: "some", Key: "some", Scopes: []string{"generate", "models"},
			Models: []string{"org/second"}}}
	})
	p.preloading()
	model := func(text string) string {
		var v struct {
			Model   string
			ModelID string `json:"model_id"`
		}
		_ = json.Unmarshal([]byte(text), &v)
		return v.Model + v.ModelID
	}
	chat := func(name string) string {
		return fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"Hi"}],"max_tokens":2}`, name)
	}
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		want                    string // the model, or the error type
	}{
		{"user", "GET", "/info", "", 200, "tgi-demo"},
		{"user", "GET", "/info?model=org/second", "", 200, "org/second"},
		{"user", "GET", "/info?model=nobody", "", 404, "model_not_found"},
		{"some", "GET", "/info?model=org/second", "", 200, "org/second"},
		{"some", "GET", "/info", "", 403, "forbidden"},
		{"user", "POST", "/v1/chat/completions", chat(`"org/second"`), 200, "org/second"},
		{"user", "POST", "/v1/chat/completions", chat(`"tgi"`), 200, "tgi-demo"},
		{"user", "POST", "/v1/chat/completions", chat(`null`), 200, "tgi-demo"},
		{"user", "POST", "/v1/chat/completions", chat(`"nobody"`), 404, "model_not_found"},
		{"some", "POST", "/v1/chat/completions", chat(`"tgi-demo"`), 403, "forbidden"},
		{"user", "POST", "/generate", `{"model":"org/second",` + hello + `}`, 200, ""},
		{"user", "POST", "/generate", `{` + hello + `,"model":"<MODEL_NAME>"}`, 200, ""},
		{"user", "POST", "/generate", `{` + hello + `,"model":"nobody"}`, 404, "model_not_found"},
		{"user", "POST", "/v1/completions/generate", `{"model":"org/second",` + hello + `}`, 200, ""},
		{"some", "POST", "/generate", `{` + hello + `}`, 403, "forbidden"},
		// the API says it in plain text
		{"user", "POST", "/api/generate-one?model=nobody", `{"request_id":"a","prompt":"x"}`, 404, ""},
	} {
		r := p.as(t, c.key, c.method, c.path, c.body)
		var e struct {
			Type string `json:"error_type"`
		}
		_ = json.Unmarshal([]byte(r.text), &e)
		if r.status != c.status || model(r.text)+e.Type != c.want {
			t.Errorf("%s %s %s %s: %d %s", c.key, c.method, c.path, c.body, r.status, r.text)
		}
	}

	// A key sees the models that it may use, and what the folder holds is there.
	ids := func(key string) (list []string) {
		var l struct{ Data []struct{ ID, Status string } }
		if err := json.Unmarshal([]byte(p.as(t, key, "GET", "/v1/models", "").text), &l); err != nil {
			t.Fatal(err)
		}
		for _, m := range l.Data {
			list = append(list, m.ID+" "+m.Status)
		}
		return list
	}
	if got := fmt.Sprint(ids("user")); got != "[tgi-demo running org/second running third downloaded]" {
		t.Error(got)
	}
	if got := fmt.Sprint(ids("some")); got != "[org/second running]" {
		t.Error(got)
	}
	// A model that the settings do not name is loaded by the request that wants it.
	if r := p.as(t, "user", "POST", "/generate", `{"model":"third",`+hello+`}`); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.text)
	}
	if got := fmt.Sprint(ids("user")); got != "[tgi-demo running org/second running third running]" {
		t.Error(got)
	}
}

// TestUnknownModel: a server of one model serves it under any name, as TGI does,
// unless it is told not to.
func TestUnknownModel(t *testing.T) {
	for unknown, want := range map[string]int{config.Auto: 200, config.UnknownDefault: 200, config.UnknownRefuse: 404} {
		p := openManager(t, t.TempDir(), func(c *config.Config) { c.Models.Unknown = unknown })
		if r := p.as(t, "", "POST", "/generate", `{"model":"meta-llama/Llama-3",`+hello+`}`); r.status != want {
			t.Errorf("%s: %d %s", unknown, r.status, r.text)
		}
		if r := p.as(t, "", "GET", "/v1/models/meta-llama/Llama-3", ""); r.status != http.StatusNotFound {
			t.Errorf("%s: the list: %d %s", unknown, r.status, r.text)
		}
	}
}

// TestStopBesideLoad: while a model is stopped and started, requests to another go on
// undisturbed, those to the stopped one are told when to come again, and those that it
// has begun end well.
func TestStopBesideLoad(t *testing.T) {
	p := openManager(t, folderOf(t, "other"), func(c *config.Config) {
		c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("other")}
		c.Models.LoadWait = 0
	})
	p.preloading()
	want := p.as(t, "", "POST", "/generate", `{`+hello+`}`).text
	stop := make(chan struct{})
	var load sync.WaitGroup
	var served, refused atomic.Int64
	for i := range 4 {
		name := []string{"tgi-demo", "other"}[i%2]
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := p.as(t, "", "POST", "/generate", fmt.Sprintf(`{"model":%q,%s}`, name, hello))
				switch {
				case r.status == http.StatusOK && r.text == want:
					served.Add(1)
				case name == "other" && r.status == http.StatusServiceUnavailable:
					if n, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || n < 1 {
						t.Errorf("503 with Retry-After %q: %s", r.header.Get("Retry-After"), r.text)
					}
					refused.Add(1)
				default:
					t.Errorf("%s: %d %s", name, r.status, r.text)
					return
				}
			}
		})
	}
	for range 3 {
		if r := p.as(t, adminKey, "PUT", "/v1/models/other/stop", ""); r.status != 200 && r.status != 202 {
			t.Errorf("stop: %d %s", r.status, r.text)
		}
		p.until(t, "other", modelsapi.Stopped)
		before := refused.Load()
		for refused.Load() == before { // somebody is told
			time.Sleep(time.Millisecond)
		}
		if r := p.as(t, adminKey, "POST", "/v1/models/start", `{"model":"other"}`); r.status != http.StatusAccepted {
			t.Errorf("start: %d %s", r.status, r.text)
		}
		p.until(t, "other", modelsapi.Running)
		before = served.Load()
		for served.Load() < before+4 {
			time.Sleep(time.Millisecond)
		}
	}
	close(stop)
	load.Wait()
	t.Logf("%d requests served, %d told to come again", served.Load(), refused.Load())
	if err := p.models.roster.Check(); err != nil {
		t.Error(err)
	}
}

// TestMemoryOfModels: what does not fit is refused before it is loaded, or makes idle
// models go, as the settings say.
func TestMemoryOfModels(t *testing.T) {
	folder := folderOf(t, "a", "b")
	room := func(policy string) func(*config.Config) {
		return func(c *config.Config) {
			c.Models.Policy = policy
			// two models of 20 MiB and 8 MiB of cache, not three
			c.Models.Memory = 2*(20+8)<<20 + 2*fixedOverhead + fixedOverhead/2
			c.ModelList = []config.Model{blockOf("a"), blockOf("b"), blockOf(config.DemoModel)}
			c.ModelList[1].Preload, c.ModelList[2].Preload = false, false
		}
	}
	p := openManager(t, folder, room(config.PolicyRefuse))
	if r := p.as(t, "", "POST", "/generate", `{"model":"b",`+hello+`}`); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.text)
	}
	var e struct {
		Error struct {
			Code   string
			Needed int64 `json:"needed_bytes"`
			Free   int64 `json:"free_bytes"`
		}
	}
	r := p.as(t, adminKey, "POST", "/v1/models/start", `{"model":"tgi-demo"}`)
	if err := json.Unmarshal([]byte(r.text), &e); err != nil || r.status != http.StatusInsufficientStorage ||
		e.Error.Code != "insufficient_memory" || e.Error.Needed <= e.Error.Free {
		t.Errorf("%d %s", r.status, r.text)
	}
	// waiting would not help: no Retry-After
	figures := fmt.Sprintf("it needs %d bytes, %d are free", e.Error.Needed, e.Error.Free)
	for path, body := range map[string]string{"/generate": hello, "/v1/completions": `"prompt":"Hello"`} {
		r := p.as(t, "", "POST", path, `{"model":"tgi-demo",`+body+`}`)
		if r.status != http.StatusInsufficientStorage || r.header.Get("Retry-After") != "" ||
			!strings.Contains(r.text, figures) || !strings.Contains(r.text, "insufficient_memory") {
			t.Errorf("%s: %d %s", path, r.status, r.text)
		}
	}

	p = openManager(t, folder, room(config.PolicyEvict))
	for _, id := range []string{"b", "tgi-demo", "a"} { // each time the one that was not used for longest goes
		if r := p.as(t, "", "POST", "/generate", `{"model":"`+id+`",`+hello+`}`); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", id, r.status, r.text)
		}
	}
	if p.status(t, "b") == "running" {
		t.Error("three models run where two fit")
	}
}

// TestKeepAlive: a model that nobody asks for is unloaded, and comes back by itself.
func TestKeepAlive(t *testing.T) {
	p := openManager(t, folderOf(t, "brief"), func(c *config.Config) {
		brief := blockOf("brief")
		brief.KeepAlive, brief.Preload = config.Duration(20*time.Millisecond), false
		c.ModelList = []config.Model{blockOf(config.DemoModel), brief}
	})
	for range 2 {
		if r := p.as(t, "", "POST", "/generate", `{"model":"brief",`+hello+`}`); r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.text)
		}
		p.until(t, "brief", modelsapi.Stopped)
	}
}

// TestModelSettings: each model has its own context, template and plugins.
func TestModelSettings(t *testing.T) {
	template := filepath.Join(t.TempDir(), "x.jinja")
	write(t, template, "mine {{ messages[0].content }}")
	p := openManager(t, folderOf(t, "own"), func(c *config.Config) {
		c.Model.Template = config.Auto
		own := blockOf("own")
		own.Context, own.Template, own.Plugins = 64, template, []string{"dry"}
		c.ModelList = []config.Model{blockOf(config.DemoModel), own}
		c.Plugin = []config.Plugin{
			{Name: "dry", Source: "builtin:dry", OnError: "fail", Apply: "request"},
			{Name: "ngrams", Source: "builtin:no-repeat-ngram", OnError: "fail", Apply: "request"},
		}
	})
	p.preloading()
	for id, want := range map[string]string{"own": "mine Hi",
		"tgi-demo": "<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n"} {
		r := p.as(t, "", "POST", "/chat_tokenize", `{"model":"`+id+`","messages":[`+hi+`]}`)
		if !strings.Contains(r.text, `"templated_text":"`+want+`"`) {
			t.Errorf("%s: %s", id, r.text)
		}
	}
	var info struct {
		Max     int `json:"max_total_tokens"`
		Plugins []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(p.as(t, "", "GET", "/info?model=own", "").text), &info); err != nil ||
		info.Max != 64 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, pl := range info.Plugins {
		if pl.Name == "ngrams" {
			t.Error("a model has a plugin that its block does not name")
		}
	}
	// An edit of its template reaches the model, and the other keeps its own.
	write(t, template, "edited {{ messages[0].content }}")
	if r := p.as(t, "", "POST", "/chat_tokenize", `{"model":"own","messages":[`+hi+`]}`); !strings.Contains(r.text,
		"edited Hi") {
		t.Errorf("%s", r.text)
	}
}

// TestUploadsOfModels: a module that is uploaded serves all models, those that are
// loaded later too.
func TestUploadsOfModels(t *testing.T) {
	p := openManager(t, folderOf(t, "late"), func(c *config.Config) {
		late := blockOf("late")
		late.Preload = false
		c.ModelList = []config.Model{blockOf(config.DemoModel), late}
	})
	wasm, err := fs.ReadFile(std.FS(), "dry.wasm")
	if err != nil {
		t.Fatal(err)
	}
	if status, text := p.call(t, "PUT", "/admin/plugins/mine", wasm); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	ask := func(id string) answered {
		return p.as(t, "", "POST", "/generate", `{"model":"`+id+
			`","inputs":"a","parameters":{"max_new_tokens":2,"plugins":[{"name":"mine","params":{"multiplier":0.8}}]}}`)
	}
	for _, id := range []string{"tgi-demo", "late", "tgi-demo"} {
		if r := ask(id); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", id, r.status, r.text)
		}
	}
	plugins := p.models.memory.Stats().Limit
	if all, each := p.models.allGrammars(plugins), grammarMemory(p.models.pluginSettings(), plugins); all != min(2*each,
		plugins) {
		t.Errorf("the grammars of two models may take %d bytes, those of one %d", all, each)
	}
	calls := func() float64 {
		s, _ := p.models.Get("mine")
		return float64(s.Calls)
	}
	before := calls()
	if r := p.as(t, adminKey, "POST", "/v1/models/stop", `{"model":"late"}`); r.status != http.StatusAccepted {
		t.Errorf("%d %s", r.status, r.text)
	}
	p.until(t, "late", modelsapi.Stopped)
	if after := calls(); after < before {
		t.Errorf("the calls of the plugin went from %v to %v", before, after)
	}
	if status, text := p.call(t, "DELETE", "/admin/plugins/mine", nil); status != http.StatusNoContent {
		t.Errorf("%d %s", status, text)
	}
	for _, id := range []string{"tgi-demo"} {
		if r := ask(id); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", id, r.status, r.text)
		}
	}
}

// TestMergePlugin: the counts of a plugin are those of all models that have it.
func TestMergePlugin(t *testing.T) {
	one := server.Plugin{Name: "a", State: server.PluginReady, OffClients: 1, Calls: 1, InstancesOut: 2,
		InstancesWaiting: 3, InstanceBytes: 4,
		Guard: &server.Guard{Verdicts: map[string]uint64{"stop": 1}, Held: 2, Rewound: 3}}
	other := server.Plugin{Name: "a", State: server.PluginFailed, OffClients: 2, Error: "5 faults", Calls: 10,
		InstancesOut: 20, InstancesWaiting: 30, InstanceBytes: 40,
		Guard: &server.Guard{Verdicts: map[string]uint64{"stop": 10}, Held: 20, Rewound: 30}}
	want := server.Plugin{Name: "a", State: server.PluginFailed, OffClients: 3, Error: "model m: 5 faults", Calls: 11,
		InstancesOut: 22, InstancesWaiting: 33, InstanceBytes: 44,
		Guard: &server.Guard{Verdicts: map[string]uint64{"stop": 11}, Held: 22, Rewound: 33}}
	if got := mergePlugin(one, other, "m"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestImportAndDelete: a checkpoint comes in by the models API, serves, and goes.
func TestImportAndDelete(t *testing.T) {
	from := folderOf(t, "source")
	p := openManager(t, t.TempDir(), nil)
	admin := func(method, path, body string, want int) string {
		t.Helper()
		r := p.as(t, adminKey, method, path, body)
		if r.status != want {
			t.Fatalf("%s %s: %d %s", method, path, r.status, r.text)
		}
		return r.text
	}
	admin("POST", "/v1/models/import", fmt.Sprintf(`{"model":"my/copy","modelPath":%q,"name":"Mine"}`,
		filepath.Join(from, "source")), http.StatusAccepted)
	p.until(t, "my/copy", modelsapi.Downloaded)
	admin("POST", "/v1/models/import", fmt.Sprintf(`{"model":"my/copy","modelPath":%q}`, filepath.Join(from, "source")),
		http.StatusConflict)
	if r := p.as(t, "", "POST", "/generate", `{"model":"my/copy",`+hello+`}`); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.text)
	}
	admin("DELETE", "/v1/models/my/copy", "", http.StatusConflict) // it runs
	admin("PUT", "/v1/models/my/copy/stop", "", http.StatusAccepted)
	p.until(t, "my/copy", modelsapi.Stopped)
	admin("DELETE", "/v1/models/my/copy", "", http.StatusOK)
	admin("GET", "/v1/models/my/copy", "", http.StatusNotFound)
	admin("DELETE", "/v1/models/tgi-demo", "", http.StatusConflict)
	admin("POST", "/v1/models/start", `{"model":"nobody"}`, http.StatusNotFound)
	if text := admin("POST", "/v1/models/pull", `{"model":"http://127.0.0.1:1/x.tar"}`,
		http.StatusUnprocessableEntity); !strings.Contains(text,
		"host 127.0.0.1:1 is neither that of models.hub nor among models.allow_hosts") {
		t.Errorf("%s", text)
	}
	admin("GET", "/v1/models/x", "", http.StatusNotFound) // nothing began
}

// TestSettledWithoutDefault: a server whose default model is not preloaded is ready at
// once, and loads it when it is asked for.
func TestSettledWithoutDefault(t *testing.T) {
	p := openManager(t, t.TempDir(), func(c *config.Config) { c.Model.Preload = false })
	rec := httptest.NewRecorder()
	p.boot.server.ServeHTTP(rec, httptest.NewRequest("GET", "/readyz", nil))
	if rec.Code != http.StatusOK || p.status(t, config.DemoModel) != "downloaded" {
		t.Errorf("%d, %s", rec.Code, p.status(t, config.DemoModel))
	}
	if r := p.as(t, "", "POST", "/generate", `{`+hello+`}`); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// TestReloadSeveral: what a block says of its template and its plugins is taken over
// by its model, and a template that cannot be leaves the one before, of that model
// alone.
func TestReloadSeveral(t *testing.T) {
	dir := chatFolderOf(t, "models/other")
	file, args := filepath.Join(dir, "tgi.toml"), []string{"--config", filepath.Join(dir, "tgi.toml")}
	unset := func(string) (string, bool) { return "", false }
	write(t, filepath.Join(dir, "one.jinja"), "one {{ messages[0].content }}")
	write(t, filepath.Join(dir, "two.jinja"), "two {{ messages[0].content }}")
	settings := func(first, second, more string) {
		write(t, file,
			fmt.Sprintf("[server]\nadmin_keys = [%q]\n[models]\nfolder = \"models\"\n[plugins]\nfolder = \"none\"\n"+
				"[[model]]\nname = \"tgi-demo\"\ntemplate = %q\n[[model]]\nname = \"other\"\ntemplate = %q\n%s",
				adminKey,
				first, second, more))
	}
	settings("one.jinja", "two.jinja", "")
	l, err := config.Read(settingFlags(t, args...), unset)
	c := l.Config
	if err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(have *config.Config) { *have = c })
	p.models.reload = func(running config.Config, seen *filestamp.Stamp) (config.Config, []string, error) {
		return config.Reload(running, settingFlags(t, args...), unset, seen)
	}
	p.preloading()
	for _, s := range []struct{ first, second, more, demo, other, says string }{
		{"one.jinja", "two.jinja", "", "one Hi", "two Hi", ""},
		{"two.jinja", "one.jinja", "", "two Hi", "one Hi", `"loaded":["chat-template"`},
		{"one.jinja", "nobody", "", "one Hi", "one Hi", `tgi.toml:12:1: model.template: there is no plugin \"nobody\"`},
		{"one.jinja", "two.jinja", "context = 64\n", "one Hi", "two Hi", `"restart":["model[1].context"]`},
	} {
		settings(s.first, s.second, s.more)
		if _, report := p.call(t, http.MethodPost, "/admin/reload", nil); !strings.Contains(report, s.says) {
			t.Errorf("%+v: %s", s, report)
		}
		for id, want := range map[string]string{"tgi-demo": s.demo, "other": s.other} {
			if r := p.as(t, "", "POST", "/chat_tokenize", `{"model":"`+id+`","messages":[`+hi+
				`]}`); !strings.Contains(r.text, `"templated_text":"`+want+`"`) {
				t.Errorf("%+v: %s: %s", s, id, r.text)
			}
		}
	}
}

// TestStopWithSocket: a socket that nobody speaks on does not keep a model from being
// stopped.
func TestStopWithSocket(t *testing.T) {
	p := openManager(t, folderOf(t, "other"), func(c *config.Config) {
		c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("other")}
	})
	p.preloading()
	socket, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.url, "http")+"/api/ws?model=other", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	began := time.Now()
	p.as(t, adminKey, "PUT", "/v1/models/other/stop", "")
	p.until(t, "other", modelsapi.Stopped)
	if took := time.Since(began); took > time.Duration(p.models.cfg.Models.Drain)/2 {
		t.Errorf("the stop took %v", took)
	}
	for err == nil { // what it says before it goes
		_, _, err = socket.Read(t.Context())
	}
	if websocket.CloseStatus(err) == -1 {
		t.Errorf("the socket was not closed: %v", err)
	}
}

// TestDefaultFits: a default model that takes more than was available at the start is
// tried, whatever is available by the time that it is loaded.
func TestDefaultFits(t *testing.T) {
	p := openManager(t, t.TempDir(), func(c *config.Config) {
		c.Model.Preload, c.Models.Memory,
			c.Runtime.KVMemory = false, 0, 0
	})
	f := p.models
	f.systemMemory = func() int64 { return 1 << 20 }
	budget := f.budget()
	f.systemMemory = func() int64 { return 1 << 40 }
	if need, err := f.estimate(config.DemoModel); err != nil || need > budget {
		t.Errorf("the model needs %d bytes of %d: %v", need, budget, err)
	}
}
