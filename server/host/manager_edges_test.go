package host

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tgi/models/library/fetch/hubtest"
	"tgi/models/library/lifecycle"
	"tgi/plugins/std"
	"tgi/runtime/filestamp"
	"tgi/server/api/modelsapi"
	"tgi/server/config"
)

// These tests change one thing of a server of several models while another is under way.

// lines is a log that calls itself with each line. A call may block: others go on.
type lines func(line string)

// Enabled implements slog.Handler.
func (lines) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l(line)
	return nil
}

// WithAttrs implements slog.Handler.
func (l lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lines(func(line string) {
		for _, a := range attrs {
			line += " " + a.String()
		}
		l(line)
	})
}

// WithGroup implements slog.Handler.
func (l lines) WithGroup(string) slog.Handler { return l }

// openLogged is openManager with a log.
func openLogged(t *testing.T, folder string, on lines, change func(*config.Config)) *plugged {
	t.Helper()
	c := testConfig()
	c.Server.AdminKeys = []string{adminKey}
	c.Plugins.Folder = t.TempDir()
	c.Models.Folder, c.Models.Memory, c.Runtime.KVMemory = folder, 1<<30, 8<<20
	change(&c)
	keepModules(t)
	h, err := Open(t.Context(), Options{Config: c, Version: "dev", Log: slog.New(on)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	return &plugged{h, ts.URL}
}

// banning is a plugin that keeps a word away from every text.
func banning(word string) config.Plugin {
	return config.Plugin{Name: "rules", Source: "builtin:banned-words", OnError: config.OnErrorFail,
		Apply: config.ApplyAlways, Config: config.Table{"words": []any{word}}}
}

// demoAnd are the settings of the demo model and of others that are loaded when they
// are asked for.
func demoAnd(names ...string) []config.Model {
	list := []config.Model{blockOf(config.DemoModel)}
	for _, name := range names {
		m := blockOf(name)
		m.Preload = false
		list = append(list, m)
	}
	return list
}

// story is what a model writes.
func (p *plugged) story(t testing.TB, id string) string {
	t.Helper()
	r := p.as(t, "", "POST", "/generate", `{"model":"`+id+
		`","inputs":"Once upon a time","parameters":{"max_new_tokens":30}}`)
	if r.status != http.StatusOK {
		t.Errorf("%s: %d %s", id, r.status, r.text)
	}
	return r.text
}

// TestReloadBesideLoad: a model that is being loaded with the settings of before while
// others are taken over has the new ones when it runs.
func TestReloadBesideLoad(t *testing.T) {
	loading, reloaded := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	p := openLogged(t, folderOf(t, "late"), func(line string) {
		if strings.Contains(line, "plugin loaded") && strings.Contains(line, "model=late") &&
			once.CompareAndSwap(false, true) {
			close(loading)
			<-reloaded
		}
	}, func(c *config.Config) {
		c.ModelList = demoAnd("late")
		c.Plugin = []config.Plugin{banning("happy")}
	})
	p.models.reload = func(running config.Config, _ *filestamp.Stamp) (config.Config, []string, error) {
		running.Plugin = []config.Plugin{banning("called")}
		return running, nil, nil
	}
	if r := p.as(t, adminKey, "PUT", "/v1/models/late/start", ""); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.text)
	}
	<-loading
	if r := p.as(t, adminKey, "POST", "/admin/reload", ""); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.text)
	}
	close(reloaded)
	p.until(t, "late", modelsapi.Running)
	if demo, late := p.story(t, config.DemoModel), p.story(t, "late"); late != demo ||
		strings.Contains(late, "called") || !strings.Contains(late, "happy") {
		t.Errorf("the model that was there: %s\nthe one that was loaded meanwhile: %s", demo, late)
	}
}

// TestKindsOutlastModel: a model that is loaded again holds the file of a plugin to the kinds that it had before.
func TestKindsOutlastModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.wasm")
	logits := string(newModule("").wasm())
	write(t, file, logits)
	p := openPlugged(t, func(c *config.Config) {
		c.Plugin = []config.Plugin{{Name: "rules", Source: file}}
		c.Plugins.Watch = 0
	})
	f := p.models
	id := f.defaultID()
	load := func() error {
		return sure(f.roster.Start(id)).Wait(t.Context())
	}
	if err := sure(f.roster.Stop(id)).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, file, string(sure(fs.ReadFile(std.FS(), "redact.wasm"))))
	const why = "a name keeps its kinds: what served is of kind logits"
	if err := load(); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("with a module of another kind: %v", err)
	}
	write(t, file, logits)
	if err := load(); err != nil {
		t.Error(err)
	}
}

// TestUploadBesideLoad: a module that comes while a model gets those that came before
// serves it as well.
func TestUploadBesideLoad(t *testing.T) {
	wasm := sure(fs.ReadFile(std.FS(), "dry.wasm"))
	loading, uploaded := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	p := openLogged(t, folderOf(t, "late"), func(line string) {
		if strings.Contains(line, "plugin loaded") && strings.Contains(line, "model=late") &&
			strings.Contains(line, "plugin=first") && once.CompareAndSwap(false, true) {
			close(loading)
			<-uploaded
		}
	}, func(c *config.Config) { c.ModelList = demoAnd("late") })
	put := func(name string) {
		if status, text := p.call(t, "PUT", "/admin/plugins/"+name, wasm); status != http.StatusCreated {
			t.Errorf("%d %s", status, text)
		}
	}
	put("first")
	if r := p.as(t, adminKey, "PUT", "/v1/models/late/start", ""); r.status != http.StatusAccepted {
		t.Fatalf("%d %s", r.status, r.text)
	}
	<-loading
	done := make(chan struct{})
	go func() {
		defer close(done)
		put("second")
	}()
	select {
	case <-done:
	case <-time.After(300 * time.Millisecond): // it waits for the load, as it should
	}
	close(uploaded)
	<-done
	p.until(t, "late", modelsapi.Running)
	for _, id := range []string{config.DemoModel, "late"} {
		r := p.as(t, "", "POST", "/generate", `{"model":"`+id+
			`","inputs":"a","parameters":{"max_new_tokens":2,"plugins":[{"name":"second","params":{"multiplier":0.8}}]}}`)
		if r.status != http.StatusOK {
			t.Errorf("%s: %d %s", id, r.status, r.text)
		}
	}
}

// TestUploadsOfFew: a module that no model can check is refused, and one that no model
// has which runs can be removed all the same.
func TestUploadsOfFew(t *testing.T) {
	wasm := sure(fs.ReadFile(std.FS(), "dry.wasm"))
	p := openManager(t, folderOf(t, "other"), func(c *config.Config) {
		c.ModelList = demoAnd("other")
		c.ModelList[0].Plugins = []string{} // none
	})
	if status, text := p.call(t, "PUT", "/admin/plugins/mine", wasm); status != http.StatusUnprocessableEntity {
		t.Errorf("nothing checked it: %d %s", status, text)
	}
	p.story(t, "other")
	if status, text := p.call(t, "PUT", "/admin/plugins/mine", wasm); status != http.StatusCreated ||
		!strings.Contains(text, `"name":"mine"`) {
		t.Errorf("%d %s", status, text)
	}
	p.as(t, adminKey, "PUT", "/v1/models/other/stop", "")
	p.until(t, "other", modelsapi.Stopped)
	for _, want := range []int{http.StatusNoContent, http.StatusNotFound} {
		if status, text := p.call(t, "DELETE", "/admin/plugins/mine", nil); status != want {
			t.Errorf("%d %s, want %d", status, text, want)
		}
	}
	p.as(t, adminKey, "PUT", "/v1/models/other/start", "")
	p.until(t, "other", modelsapi.Running)
	if _, ok := p.models.Get("mine"); ok {
		t.Error("the module that was removed is back")
	}
}

// TestReloadGoesOn: when one model took the new settings over all others do, though the
// client has left, and one whose folder is gone does not keep others from them.
func TestReloadGoesOn(t *testing.T) {
	word := "happy"
	var first func()
	folder := folderOf(t, "a")
	p := openLogged(t, folder, func(line string) {
		if first != nil && strings.Contains(line, "plugin loaded") && strings.Contains(line, "model=a") {
			first()
		}
	}, func(c *config.Config) {
		c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("a")}
		c.Plugin = []config.Plugin{banning(word)}
	})
	p.preloading()
	p.models.reload = func(running config.Config, _ *filestamp.Stamp) (config.Config, []string, error) {
		running.Plugin = []config.Plugin{banning(word)}
		return running, nil, nil
	}
	ctx, leave := context.WithCancel(t.Context())
	word, first = "called", leave
	if report, err := p.models.Reload(ctx); err != nil || len(report.Failed) > 0 || ctx.Err() == nil {
		t.Errorf("%+v, %v", report, err)
	}
	for _, id := range []string{"a", config.DemoModel} {
		if text := p.story(t, id); strings.Contains(text, "called") {
			t.Errorf("%s has the settings of before: %s", id, text)
		}
	}
	if err := os.RemoveAll(filepath.Join(folder, "a")); err != nil {
		t.Fatal(err)
	}
	word, first = "happy", nil
	if report, err := p.models.Reload(t.Context()); err != nil || len(report.Failed) != 1 ||
		report.Failed[0].Name != "a" {
		t.Errorf("%+v, %v", report, err)
	}
	if text := p.story(t, config.DemoModel); strings.Contains(text, "happy") {
		t.Errorf("a model has the settings of before because another could not take those of now: %s", text)
	}
}

// TestNotServing: what requests are told of models that they cannot have.
func TestNotServing(t *testing.T) {
	for _, autoload := range []bool{true, false} {
		folder := folderOf(t, "asleep", "broken", "removed")
		write(t, filepath.Join(folder, "broken", "config.json"), `{"architectures":["Nothing"]}`)
		p := openManager(t, folder, func(c *config.Config) {
			c.ModelList = demoAnd("asleep", "broken")
			c.ModelList[1].KeepAlive = config.Duration(time.Millisecond)
			c.Models.Autoload, c.Models.LoadWait = autoload, 0
		})
		want := func(id string, status int, kind, text string) {
			t.Helper()
			r := p.as(t, "", "POST", "/generate", `{"model":"`+id+`",`+hello+`}`)
			var e struct {
				Error string
				Type  string `json:"error_type"`
			}
			_ = json.Unmarshal([]byte(r.text), &e)
			if r.status != status || e.Type != kind || !strings.Contains(e.Error, text) ||
				(status == 503) != (r.header.Get("Retry-After") != "") {
				t.Errorf("autoload %v: %s: %d %s", autoload, id, r.status, r.text)
			}
		}
		if autoload {
			want("asleep", 503, "loading", "is loading")
			want("broken", 503, "model_stopped", "could not be loaded")
		} else {
			want("asleep", 503, "model_stopped", "is not loaded")
			want("broken", 503, "model_stopped", "is not loaded")
			p.as(t, adminKey, "PUT", "/v1/models/asleep/start", "")
			p.until(t, "asleep", modelsapi.Stopped) // soon
			want("asleep", 503, "model_stopped", "is stopped")
		}
		p.as(t, adminKey, "PUT", "/v1/models/removed/start", "")
		p.until(t, "removed", modelsapi.Running)
		if err := os.RemoveAll(filepath.Join(folder, "removed")); err != nil {
			t.Fatal(err)
		}
		p.as(t, adminKey, "PUT", "/v1/models/removed/stop", "")
		p.until(t, "removed", modelsapi.Stopped)
		want("removed", 404, "model_not_found", "does not exist")
	}
}

// TestForgetFailedImport: a model that a failed import made known can be deleted.
func TestForgetFailedImport(t *testing.T) {
	p := openManager(t, t.TempDir(), nil)
	p.as(t, adminKey, "POST", "/v1/models/import", `{"model":"x","modelPath":"/nowhere/at/all"}`)
	p.until(t, "x", modelsapi.Failed)
	for _, want := range []int{http.StatusOK, http.StatusNotFound} {
		if r := p.as(t, adminKey, "DELETE", "/v1/models/x", ""); r.status != want {
			t.Errorf("%d %s, want %d", r.status, r.text, want)
		}
	}
}

// TestPromisedCache: a model takes what was counted for it, whatever was estimated
// since.
func TestPromisedCache(t *testing.T) {
	p := openManager(t, folderOf(t, "a", "b"), func(c *config.Config) {
		c.ModelList = demoAnd("a", "b")
		c.Models.Memory = 2*(20+8)<<20 + 2*fixedOverhead + fixedOverhead/2 // two models
	})
	p.story(t, "a")
	_, release, _, err := p.models.roster.Use("a")
	if err != nil {
		t.Fatal(err)
	}
	pending := sure(p.models.roster.Stop("a"))
	start := sure(p.models.roster.Start("b")) // which waits for the memory of a
	p.models.mu.Lock()
	later := p.models.plans["b"]
	later.cache *= 2
	p.models.plans["b"] = later
	p.models.mu.Unlock()
	release()
	if err := pending.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := start.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	status, _ := p.models.roster.Get("b")
	p.models.mu.Lock()
	run := p.models.loaded["b"]
	p.models.mu.Unlock()
	if took := (plan{weights: later.weights, cache: run.backend.CacheBytes()}).total(); took > status.Memory {
		t.Errorf("it takes %d bytes, %d are counted", took, status.Memory)
	}
}

// TestEndBeforeLoads: a server that is told to end while it fetches a model does not
// begin with those behind it.
func TestEndBeforeLoads(t *testing.T) {
	hub := hubtest.New(t, hubtest.Checkpoint)
	hub.StopOnce(hubtest.Weights, 1000)
	c := testConfig()
	c.Models.Folder, c.Models.Hub = t.TempDir(), hub.URL
	c.ModelList = []config.Model{blockOf(config.DemoModel), blockOf("fetched"), blockOf("behind")}
	c.ModelList[1].Source, c.ModelList[2].Source = "org/model", "org/model"
	ctx, end := context.WithCancel(t.Context())
	defer end()
	h, err := Open(ctx, Options{Config: c, Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(strings.Join(hub.Asked(), " "), hubtest.Weights) {
		time.Sleep(time.Millisecond)
	}
	end()
	h.preloading()
	if s, _ := h.models.roster.Get("behind"); s.State != lifecycle.NotDownloaded {
		t.Errorf("the model behind is %s", s.State)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
