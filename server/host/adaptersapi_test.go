package host

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tgi/models/library/fetch/hubtest"
	"tgi/server/config"
)

// change loads an adapter, or unloads it if dir is empty, and wants a status and a text.
func (p *plugged) change(t testing.TB, name, dir string, replace bool, status int, has string) {
	t.Helper()
	path, body := "/v1/unload_lora_adapter", fmt.Sprintf(`{"lora_name":%q}`, name)
	if dir != "" {
		path = "/v1/load_lora_adapter"
		body = fmt.Sprintf(`{"lora_name":%q,"lora_path":%q,"load_inplace":%v}`, name, dir, replace)
	}
	got := p.as(t, adminKey, http.MethodPost, path, body)
	if got.status != status || !strings.Contains(got.text, has) {
		t.Errorf("%s %s: %d %s\nwant %d %s", path, body, got.status, got.text, status, has)
	}
}

// TestAdaptersComeAndGo: adapters are loaded, replaced and unloaded by requests, those of the settings too; the next
// time that the model is loaded it has the same.
func TestAdaptersComeAndGo(t *testing.T) {
	dirs := []string{writeAdapter(t, 1, 8, "q_proj", "down_proj"), writeAdapter(t, 2, 16, "v_proj", "up_proj")}
	p := openPlugged(t, func(c *config.Config) {
		c.Models.Folder = t.TempDir()
		c.Model.Adapters = []config.Adapter{{Name: "declared", Path: dirs[0]}}
		c.Model.AdapterMemory = 8 << 20
	})
	first, plain := p.generated(t, "declared", ""), p.generated(t, "", "")
	p.change(t, "mine", dirs[1], false, 200, "Success: LoRA adapter 'mine' added successfully.")
	second := p.generated(t, "mine", "")
	if first == plain || second == plain || first == second {
		t.Fatalf("texts are alike: %q %q %q", plain, first, second)
	}
	p.change(t, "mine", dirs[0], false, 409, "`load_inplace` replaces it")
	p.change(t, "mine", dirs[0], true, 200, "added")
	if got := p.generated(t, "mine", ""); got != first {
		t.Errorf("replaced: %q, want %q", got, first)
	}
	p.change(t, "declared", dirs[1], true, 200, "added")
	p.change(t, "nobody", "", false, 404, "adapter `nobody` is not loaded")
	model := p.defaultModel().id
	p.change(t, string(model), dirs[0], false, 409, "a model is called")
	p.change(t, "x", "../elsewhere", false, 422, "`lora_path` must be absolute, or a folder in the models folder")
	p.change(t, "x", "relative", false, 422, "`lora_path`: ")
	inFolder := filepath.Join(p.models.library.Dir(), "people", "in-folder")
	if err := os.CopyFS(inFolder, os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	p.change(t, "x", "people/in-folder", false, 200, "added")
	p.change(t, "x", "", false, 200, "removed")
	p.change(t, "x", t.TempDir(), false, 422, "there is no adapter_config.json")
	p.change(t, "x", writeAdapter(t, 3, 128, "lm_head", "up_proj", "gate_proj", "down_proj", "q_proj", "k_proj",
		"v_proj", "o_proj"), false, 409, "see model.adapter_memory")
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.CopyFS(gone, os.DirFS(dirs[0])); err != nil {
		t.Fatal(err)
	}
	p.change(t, "gone", gone, false, 200, "added")
	p.change(t, "short", dirs[0], false, 200, "added")
	p.change(t, "short", "", false, 200, "Success: LoRA adapter 'short' removed successfully.")
	check := func(when string, names string) {
		t.Helper()
		if got := p.generated(t, "declared", ""); got != second {
			t.Errorf("%s, declared gives %q, want %q", when, got, second)
		}
		if got := p.generated(t, "mine", ""); got != first {
			t.Errorf("%s, mine gives %q, want %q", when, got, first)
		}
		if _, body := p.call(t, http.MethodGet, "/info", nil); !strings.Contains(body, `"adapters":`+names) {
			t.Errorf("%s: %s, want %s", when, body, names)
		}
	}
	check("before", `["declared","gone","mine"]`)
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"stop", "start"} {
		pending, err := p.models.roster.Stop(model)
		if what == "start" {
			pending, err = p.models.roster.Start(model)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := pending.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("afterwards", `["declared","mine"]`)
}

// TestAdaptersUnderLoad: while a hundred adapters are loaded and unloaded, requests of others get the texts that they
// get alone, and requests of those that come and go get theirs or are told that there is none; the memory is free in
// the end.
func TestAdaptersUnderLoad(t *testing.T) {
	list := manyAdapters(t, 4)
	p := openPlugged(t, func(c *config.Config) {
		c.Model.Adapters = list[:2]
		c.Model.AdapterMemory = 8 << 20
		c.Limits.MaxConcurrentRequests = 64
	})
	want := []string{p.generated(t, "", ""), p.generated(t, "a0", ""), p.generated(t, "a1", "")}
	for _, a := range list[2:] {
		p.change(t, "alone", a.Path, true, 200, "added")
		want = append(want, p.generated(t, "alone", ""))
	}
	p.change(t, "alone", "", false, 200, "removed")
	used, _ := p.defaultModel().adapters.Bytes()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 6 {
		r := rand.New(rand.NewPCG(uint64(w), 3))
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if w < 3 {
					if got := p.generated(t, []string{"", "a0", "a1"}[w], ""); got != want[w] {
						t.Errorf("worker %d: %q, want %q", w, got, want[w])
					}
					continue
				}
				name := fmt.Sprint("t", r.IntN(4))
				body := `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"adapter_id":"` + name + `"}}`
				status, text := p.call(t, http.MethodPost, "/generate", []byte(body))
				ok := status == 422 && strings.Contains(text, "is not loaded")
				for _, one := range want[3:] {
					ok = ok || status == 200 && strings.Contains(text, one[:min(20, len(one))])
				}
				if !ok {
					t.Errorf("%s: %d %s", name, status, text)
				}
			}
		})
	}
	for i := range 100 {
		name := fmt.Sprint("t", i%4)
		p.change(t, name, list[2+i%2].Path, true, 200, "added")
		if i%3 == 0 {
			p.change(t, name, "", false, 200, "removed")
		}
	}
	close(stop)
	wg.Wait()
	for i := range 4 {
		if name := fmt.Sprint("t", i); p.defaultModel().adapters.Has(name) {
			p.change(t, name, "", false, 200, "removed")
		}
	}
	if now, _ := p.defaultModel().adapters.Bytes(); now != used {
		t.Errorf("adapters take %d bytes, %d before", now, used)
	}
}

// TestAdaptersNeedMemory: a model that was loaded without memory for adapters says so.
func TestAdaptersNeedMemory(t *testing.T) {
	p := openPlugged(t, nil)
	p.change(t, "a", writeAdapter(t, 1, 4, "q_proj"), false, 409, "set model.adapter_memory")
	p.change(t, "a", "", false, 404, "not loaded")
}

// TestAdaptersOfTheHub: an adapter whose folder is not there is fetched from its source into the models folder, once; a
// source that is none ends the load with the setting's name.
func TestAdaptersOfTheHub(t *testing.T) {
	hub := hubtest.New(t, writeAdapter(t, 1, 8, "q_proj", "down_proj"))
	folder := t.TempDir()
	settings := func(c *config.Config) {
		c.Models.Folder, c.Models.Hub = folder, hub.URL
		c.Model.Adapters = []config.Adapter{{Name: "org/mine", Path: filepath.Join(folder, "org", "mine"),
			Source: "org/model"}}
		c.Model.AdapterMemory = 8 << 20
	}
	p := openPlugged(t, settings)
	if text := p.generated(t, "org/mine", ""); text == p.generated(t, "", "") {
		t.Errorf("the adapter changes nothing: %q", text)
	}
	if asked := hub.Asked(); len(asked) != 2 {
		t.Errorf("asked for %v", asked)
	}
	again := openPlugged(t, settings)
	again.generated(t, "org/mine", "")
	if asked := hub.Asked(); len(asked) != 0 {
		t.Errorf("asked again: %v", asked)
	}
	if list, err := p.models.library.List(); err != nil || len(list) != 1 {
		t.Errorf("models: %v, %v; an adapter is none", list, err)
	}
	c := testConfig()
	settings(&c)
	c.Model.Adapters[0].Path, c.Model.Adapters[0].Source = filepath.Join(folder, "other"), "org/nothing@v1"
	c.Model.Adapters[0].Name, hub.Files = "other", nil
	h, err := Open(t.Context(), Options{Config: c, Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		h.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "model.adapter[0] other: ") {
		t.Errorf("a source that is none: %v", err)
	}
}
