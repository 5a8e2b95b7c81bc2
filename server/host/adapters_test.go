package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/lora"
	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/server/config"
)

// writeAdapter writes an adapter of random numbers for some modules of the demo model, and returns its folder.
func writeAdapter(t testing.TB, seed uint64, rank int, modules ...string) string {
	t.Helper()
	base, err := hf.OpenFS(demo.Checkpoint(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	r := rand.New(rand.NewPCG(seed, 1))
	var specs []safetensors.Spec
	var body []byte
	add := func(name string, rows, columns int, spread float64) {
		specs = append(specs, safetensors.Spec{Name: "base_model.model." + name, DType: tensors.F32,
			Shape: []int64{int64(rows), int64(columns)}})
		numbers := make([]float32, rows*columns)
		for i := range numbers {
			numbers[i] = float32(r.NormFloat64() * spread)
		}
		if body, err = tensors.F32.AppendFloats(body, numbers); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range decoder.Matrices(models.CPU, base.Config) {
		if slices.Contains(modules, m.Module[strings.LastIndexByte(m.Module, '.')+1:]) {
			add(m.Module+".lora_A.weight", rank, m.In, 0.05)
			add(m.Module+".lora_B.weight", m.Out, rank, 0.05)
		}
	}
	var file bytes.Buffer
	if err := safetensors.WriteHeader(&file, specs); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	settings := fmt.Sprintf(`{"peft_type":"LORA","r":%d,"lora_alpha":%d,"target_modules":["%s"]}`, rank, 2*rank,
		strings.Join(modules, `","`))
	for name, data := range map[string][]byte{
		hf.AdapterConfigFile: []byte(settings), hf.AdapterFile: append(file.Bytes(), body...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// manyAdapters are n adapters, a0, a1 and so on, of different ranks and modules.
func manyAdapters(t testing.TB, n int) (list []config.Adapter) {
	t.Helper()
	modules := []string{"q_proj", "v_proj", "down_proj", "gate_proj", "up_proj", "o_proj", "k_proj", "lm_head"}
	for i := range n {
		list = append(list, config.Adapter{Name: fmt.Sprintf("a%d", i),
			Path: writeAdapter(t, uint64(i), 4<<(i%4), modules[:2+i%7]...)})
	}
	return list
}

// generated returns the text of a request's reply.
func (p *plugged) generated(t testing.TB, adapter string, parameters string) string {
	t.Helper()
	if adapter != "" {
		parameters += `,"adapter_id":"` + adapter + `"`
	}
	body := `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24` + parameters + `}}`
	status, text := p.call(t, http.MethodPost, "/generate", []byte(body))
	var r struct {
		Text *string `json:"generated_text"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || r.Text == nil {
		t.Errorf("%s: %d %s", body, status, text)
		return ""
	}
	return *r.Text
}

// TestAdaptersTogetherAsAlone: requests with many adapters and with none, greedy, sampled, with beams and with
// grammars, give in one crowd the texts that each gives alone, though there is memory for a few only, and different
// adapters give different texts.
func TestAdaptersTogetherAsAlone(t *testing.T) {
	list := manyAdapters(t, 8)
	settings := []string{"", `,"do_sample":true,"temperature":0.9,"seed":7`, `,"num_beams":3`,
		`,"grammar":{"type":"regex","value":"[a-f ]{5,60}"}`}
	for _, small := range []bool{false, true} {
		p := openPlugged(t, func(c *config.Config) {
			c.Model.Adapters = list
			c.Limits.MaxConcurrentRequests = 512
			if small {
				c.Limits.MaxTotalTokens, c.Limits.MaxBatchTotalTokens = 128, 320
			}
		})
		alone, texts := map[[2]string]string{}, map[string]int{}
		for _, s := range settings {
			for i := range len(list) + 1 {
				adapter := ""
				if i > 0 {
					adapter = list[i-1].Name
				}
				text := p.generated(t, adapter, s)
				alone[[2]string{adapter, s}] = text
				if s == "" {
					texts[text]++
				}
			}
		}
		if len(texts) < 7 {
			t.Errorf("nine adapters, none among them, give %d different texts: %v", len(texts), texts)
		}
		var wg sync.WaitGroup
		for range 2 {
			for key, want := range alone {
				wg.Go(func() {
					if got := p.generated(t, key[0], key[1]); got != want {
						t.Errorf("adapter %q with %q\ntogether %q\nalone    %q", key[0], key[1], got, want)
					}
				})
			}
		}
		wg.Wait()
		if st := p.defaultModel().engine.Stats(); small != (st.Preempted > 0) {
			t.Errorf("small=%v but %d sequences stepped back", small, st.Preempted)
		}
	}
}

// TestAdaptersDoNotShareCaches: a prompt finds what the cache holds of it for the same adapter, and nothing of another
// one or of the model without; a cached beginning changes no text.
func TestAdaptersDoNotShareCaches(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Model.Adapters = manyAdapters(t, 3)
		c.Models.Unknown = config.Auto
	})
	prompt := strings.Repeat("Once upon a time there was a mill. ", 12)
	texts := map[string]string{}
	for round := range 2 {
		for _, model := range []string{config.DemoModel, "a0", "a1", "a2"} {
			body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":16,"temperature":0}`, model, prompt)
			status, reply := p.call(t, http.MethodPost, "/v1/completions", []byte(body))
			var r struct {
				Choices []struct{ Text string }
				Usage   struct {
					Details struct {
						Cached int `json:"cached_tokens"`
					} `json:"prompt_tokens_details"`
				}
			}
			if err := json.Unmarshal([]byte(reply), &r); err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d %s", model, status, reply)
			}
			if cached := r.Usage.Details.Cached; round == 0 && cached != 0 || round == 1 && cached < 32 {
				t.Errorf("%s, round %d: %d cached tokens", model, round, cached)
			}
			if text := r.Choices[0].Text; round == 1 && text != texts[model] {
				t.Errorf("%s: %q, before %q", model, text, texts[model])
			} else {
				texts[model] = text
			}
		}
	}
}

// TestAdaptersOfRequests: how requests name adapters on each API, what lists say, and what an unknown one is told.
func TestAdaptersOfRequests(t *testing.T) {
	p := openChat(t, func(c *config.Config) {
		c.Model.Adapters = manyAdapters(t, 2)
		c.Models.Unknown = config.Auto
	})
	want, plain := p.generated(t, "a1", ""), p.generated(t, "", "")
	if want == plain {
		t.Fatal("the adapter changes nothing")
	}
	quoted, _ := json.Marshal(want)
	for _, c := range []struct {
		path, body string
		status     int
		has        string
	}{
		{"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"adapter_id":null}}`,
			200, ""},
		{"/v1/completions", `{"model":"a1","prompt":"Once upon a time","max_tokens":24,"temperature":0}`,
			200, string(quoted)},
		{"/v1/completions", `{"model":"a1","prompt":"Once upon a time","max_tokens":24,"stream":true}`, 200, `"model":"a1"`},
		{"/v1/chat/completions", `{"model":"a0","messages":[{"role":"user","content":"hello"}],"max_tokens":4}`,
			200, `"model":"a0"`},
		{"/generate", `{"inputs":"a","parameters":{"adapter_id":"a2"}}`, 422, "adapter `a2` is not loaded"},
		{"/generate", `{"inputs":"a","parameters":{"adapter_id":7}}`, 422, "adapter_id"},
		{"/generate", `{"inputs":"a","parameters":{"adapter_id":""}}`, 200, ""},
		{"/generate_stream", `{"inputs":"a","parameters":{"adapter_id":"a2"}}`, 200,
			`data: {"error":"Input validation error: adapter ` + "`a2`" + ` is not loaded"`},
		{"/v1/completions", `{"model":"a2","prompt":"a"}`, 404, "model_not_found"},
		{"/vertex", `{"instances":[{"inputs":"a","parameters":{"adapter_id":"a2"}}]}`, 500, ""},
		{"/vertex", `{"instances":[{"inputs":"a","parameters":{"max_new_tokens":2,"adapter_id":"a1"}}]}`, 200, "predictions"},
		{"/v1/chat/completions", `{"model":"a2","messages":[{"role":"user","content":"hello"}]}`, 404, "model_not_found"},
	} {
		status, body := p.call(t, http.MethodPost, c.path, []byte(c.body))
		if status != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s %s: %d %s\nwant %d %s", c.path, c.body, status, body, c.status, c.has)
		}
	}
	model := p.defaultModel().id
	for path, has := range map[string]string{
		"/info":         `"adapters":["a0","a1"]`,
		"/v1/models":    fmt.Sprintf(`"id":"a1","object":"model","created":%d`, 0)[:26],
		"/v1/models/a0": fmt.Sprintf(`"parent":"%s"`, model),
	} {
		status, body := p.call(t, http.MethodGet, path, nil)
		if status != http.StatusOK || !strings.Contains(body, has) {
			t.Errorf("%s: %d %s\nwant %s", path, status, body, has)
		}
	}
}

// TestKeysOfAdapters: a key for some models and adapters reaches, and sees, those alone.
func TestKeysOfAdapters(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Model.Adapters = manyAdapters(t, 2)
		c.Models.Unknown = config.Auto
		c.Key = []config.Key{
			{Name: "both", Key: "key-of-both", Scopes: []string{config.ScopeGenerate},
				Models: []string{config.DemoModel, "a0"}},
			{Name: "one", Key: "key-of-one", Scopes: []string{config.ScopeGenerate}, Models: []string{"a1"}},
		}
	})
	for _, c := range []struct {
		key, model, adapter string
		status              int
	}{
		{"key-of-both", config.DemoModel, "", 200},
		{"key-of-both", config.DemoModel, "a0", 200},
		{"key-of-both", "a0", "", 200},
		{"key-of-both", config.DemoModel, "a1", 403},
		{"key-of-both", "a1", "", 403},
		{"key-of-one", "a1", "", 200},
		{"key-of-one", "a0", "", 403},
		{"key-of-one", config.DemoModel, "", 403},
	} {
		body := `{"prompt":"a","max_tokens":2,"model":"` + c.model + `"`
		path := "/v1/completions"
		if c.adapter != "" {
			path, body = "/generate", `{"inputs":"a","parameters":{"max_new_tokens":2,"adapter_id":"`+c.adapter+`"}`
		}
		if status, reply := p.withKey(t, c.key, http.MethodPost, path, body+"}"); status != c.status {
			t.Errorf("%+v: %d %s", c, status, reply)
		}
	}
}

// TestAdapterWhoseFilesAreGone: an adapter that was swapped out and cannot be read again is refused by its name, and
// the others go on.
func TestAdapterWhoseFilesAreGone(t *testing.T) {
	list := manyAdapters(t, 2)
	larger, err := lora.EstimateBytes(list[1].Path)
	if err != nil {
		t.Fatal(err)
	}
	p := openPlugged(t, func(c *config.Config) {
		c.Model.Adapters = list
		c.Model.AdapterMemory = config.Size(larger)
	})
	use := func(name string) (int, string) {
		return p.call(t, http.MethodPost, "/generate",
			[]byte(`{"inputs":"a","parameters":{"max_new_tokens":2,"adapter_id":"`+name+`"}}`))
	}
	for _, name := range []string{"a0", "a1"} { // of which one fits
		if status, body := use(name); status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, status, body)
		}
	}
	if err := os.RemoveAll(list[0].Path); err != nil {
		t.Fatal(err)
	}
	status, body := use("a0")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "`a0` is an adapter that cannot be read again") ||
		strings.Contains(body, list[0].Path) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := use("a1"); status != http.StatusOK {
		t.Errorf("the other: %d %s", status, body)
	}
}

// TestAdaptersThatDoNotFit: each says which setting, which file and why, and the model is not served without it.
func TestAdaptersThatDoNotFit(t *testing.T) {
	damaged := func(change func(dir string) error) string {
		dir := writeAdapter(t, 1, 8, "q_proj")
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct{ dir, has string }{
		"absent": {filepath.Join(t.TempDir(), "x"), "there is no adapter_config.json"},
		"truncated": {damaged(func(dir string) error {
			return os.Truncate(filepath.Join(dir, hf.AdapterFile), 1000)
		}), hf.AdapterFile},
		"another rank": {damaged(func(dir string) error {
			return os.WriteFile(filepath.Join(dir, hf.AdapterConfigFile), []byte(`{"peft_type":"LORA","r":4}`), 0o600)
		}), "want [4 256]"},
		"DoRA": {damaged(func(dir string) error {
			return os.WriteFile(filepath.Join(dir, hf.AdapterConfigFile),
				[]byte(`{"peft_type":"LORA","r":8,"use_dora":true}`), 0o600)
		}), "DoRA is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Model.Adapters = []config.Adapter{{Name: "a", Path: c.dir}}
			h, err := Open(t.Context(), Options{Config: cfg, Version: "dev", Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				h.Close()
				t.Fatal("the server has opened")
			}
			if !strings.Contains(err.Error(), "model.adapter[0] a: ") || !strings.Contains(err.Error(), c.has) {
				t.Errorf("%v\nwant %s", err, c.has)
			}
		})
	}
}
