package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/conformance/cuda/fake"
	"tgi/models"
	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/host/hardware"
)

// onFakeGPU returns a fake GPU in a process of the test's own, or nil where that process was run: a process loads one
// build of ONNX Runtime.
func onFakeGPU(t *testing.T) (*fake.Device, string) {
	t.Helper()
	const library = "TGI_TEST_GPU_LIBRARY" // the process's cache is another
	if path := os.Getenv(library); path != "" {
		return fake.Load(t), path
	}
	path := fake.Need(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), library+"="+path, "TGI_CACHE="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return nil, ""
}

// TestGPU has the demo model run on a fake GPU, whose logits are zeros: everything but the numbers is as on the CPU.
// The greedy choice is always token 0.
func TestGPU(t *testing.T) {
	d, path := onFakeGPU(t)
	if d == nil {
		return
	}
	for _, weights := range []string{config.Auto, "fp16", "int8", "int4"} {
		t.Run(weights, func(t *testing.T) {
			before := d.Counters()
			c := testConfig()
			c.Model.Weights, c.Runtime.KVMemory = weights, 64<<20
			c.Plugin = []config.Plugin{{Name: "no-repeat", Source: "builtin:no-repeat-ngram",
				Config: config.Table{"n": int64(2)}}}
			h := openOnGPU(t, c, path, io.Discard)
			requestsOnGPU(t, h)
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			got := d.Counters()
			if steps := got.Since(before); steps.CopiesOut == 0 || steps.Launches == 0 {
				t.Errorf("the device did nothing: %+v", steps)
			}
			if got.Live != before.Live && before.Live > 0 {
				t.Errorf("%d allocations are left, before it were %d", got.Live, before.Live)
			}
		})
	}
}

// openOnGPU opens a server on the fake GPU of ONNX Runtime's library at path.
func openOnGPU(t *testing.T, c config.Config, path string, log io.Writer) *Server {
	t.Helper()
	h, err := Open(t.Context(), optionsOnGPU(c, path, log))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func optionsOnGPU(c config.Config, path string, log io.Writer) Options {
	return Options{Config: c, Version: "dev", Log: slog.New(slog.NewTextHandler(log, nil)),
		device: func(config.Config) (device, error) {
			c := hardware.Choice{Processor: models.Processor{Device: models.CUDA, Major: 9}, Library: path}
			return device{c}, ort.Init(path)
		}}
}

// TestGPUDies: when the device fails for good, requests that run end with an error, later ones are refused, the probes
// ask for a restart, the log says so, and the server ends as ever.
func TestGPUDies(t *testing.T) {
	d, path := onFakeGPU(t)
	if d == nil {
		return
	}
	defer d.FailAt(0, 0, 0, false)
	for _, kind := range []fake.Fault{fake.Launch, fake.Replay, fake.Copy, fake.Wait} {
		c := testConfig()
		if kind == fake.Launch { // graphs are not launched kernel by kernel
			c.Runtime.CUDAGraphs = "0"
		}
		c.Runtime.KVMemory = 64 << 20
		log := &logLines{}
		h := openOnGPU(t, c, path, log)
		ts := httptest.NewServer(h)
		ask := func() (int, string) {
			res, err := http.Post(ts.URL+"/generate", "application/json", strings.NewReader(
				`{"inputs":"Once","parameters":{"max_new_tokens":500,"ignore_eos":true}}`))
			if err != nil {
				return 0, err.Error()
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(text)
		}
		replies := make(chan string, 8)
		for range cap(replies) {
			go func() {
				status, text := ask()
				replies <- fmt.Sprint(status, " ", text)
			}()
		}
		for h.defaultModel().engine.Stats().Running < cap(replies) {
			time.Sleep(time.Millisecond)
		}
		d.FailAt(kind, 1, 700, true)
		for range cap(replies) {
			if r := <-replies; !strings.HasPrefix(r, "4") && !strings.HasPrefix(r, "5") {
				t.Errorf("fault %d, a request that ran: %s", kind, r)
			}
		}
		if status, text := ask(); status != http.StatusServiceUnavailable {
			t.Errorf("fault %d, a later request: %d %s", kind, status, text)
		}
		for _, probe := range []string{"/health", "/readyz", "/livez"} {
			res, err := http.Get(ts.URL + probe)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("fault %d, %s: %d", kind, probe, res.StatusCode)
			}
		}
		log.has(t, "until this process is restarted")
		ts.Close()
		if err := h.Close(); err != nil {
			t.Logf("closing: %v", err)
		}
		d.FailAt(0, 0, 0, false)
	}
}

// TestGPUShared: two models share the device, by a budget: one that does not fit is refused with figures, and a model
// that is stopped gives its memory back.
func TestGPUShared(t *testing.T) {
	d, path := onFakeGPU(t)
	if d == nil {
		return
	}
	for _, fits := range []bool{true, false} {
		c := testConfig()
		c.Runtime.KVMemory = 32 << 20
		first := c.Model
		first.Name = config.DemoModel
		second := first
		second.Name, second.Path, second.Preload = "second", "../../models/demo/checkpoint", false
		c.ModelList = []config.Model{first, second}
		if !fits {
			c.Models.Memory = 200 << 20
		}
		p := plug(t, openOnGPU(t, c, path, io.Discard))
		ask := func(model string) (int, string) {
			return p.call(t, http.MethodPost, "/v1/completions",
				[]byte(`{"model":"`+model+`","prompt":"a","max_tokens":2}`))
		}
		if status, text := ask(config.DemoModel); status != http.StatusOK {
			t.Fatal(status, text)
		}
		one := d.Counters()
		status, text := ask("second")
		if !fits {
			if status != http.StatusInsufficientStorage || !strings.Contains(text, "it needs ") {
				t.Errorf("a second model beside the budget: %d %s", status, text)
			}
		} else {
			for range 5 {
				if status != http.StatusOK || d.Counters().LiveBytes <= one.LiveBytes {
					t.Errorf("a second model: %d %s, %+v", status, text, d.Counters().Since(one))
				}
				pending, err := p.models.roster.Stop("second")
				if err == nil {
					err = pending.Wait(t.Context())
				}
				if got := d.Counters(); err != nil || got.LiveBytes != one.LiveBytes || got.Live != one.Live {
					t.Errorf("without it %d bytes in %d pieces are left, before it were %d in %d: %v", got.LiveBytes,
						got.Live, one.LiveBytes, one.Live, err)
				}
				pending, err = p.models.roster.Start("second")
				if err == nil {
					err = pending.Wait(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				status, text = ask("second")
			}
		}
		if status, text := ask(config.DemoModel); status != http.StatusOK {
			t.Error("the first, afterwards:", status, text)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGPUAdapters: requests with several adapters and without share the steps of a GPU; adapters come and go while it
// works, within their memory, which comes back; steps without adapters launch none of their kernels.
func TestGPUAdapters(t *testing.T) {
	d, path := onFakeGPU(t)
	if d == nil {
		return
	}
	before := d.Counters()
	list := manyAdapters(t, 4)
	c := testConfig()
	c.Model.Adapters, c.Model.AdapterMemory, c.Runtime.KVMemory = list[:2], 4<<20, 64<<20
	c.Server.AdminKeys = []string{adminKey}
	p := plug(t, openOnGPU(t, c, path, io.Discard))
	launches := func(adapter string) int64 { // of our own, for a prompt: its token ends the text
		before := d.Counters()
		p.generated(t, adapter, "")
		return d.Counters().Since(before).OwnLaunches
	}
	desc := p.defaultModel().instance.source.desc.Config
	if got, want := launches("a0")-launches(""), int64(2*(5*desc.Layers+1)); got != want {
		t.Errorf("%d launches of our own more with an adapter, want %d", got, want)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, adapter := range []string{"", "a0", "a1"} {
		for _, parameters := range []string{"", `,"num_beams":3`, `,"grammar":{"type":"regex","value":"[a-f ]{5,60}"}`} {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						p.generated(t, adapter, parameters)
					}
				}
			})
		}
	}
	for i := range 20 {
		p.change(t, "mine", list[2+i%2].Path, true, 200, "added")
		p.generated(t, "mine", "")
		if i%3 == 0 {
			p.change(t, "mine", "", false, 200, "removed")
		}
	}
	close(stop)
	wg.Wait()
	if status, text := p.call(t, http.MethodPost, "/generate",
		[]byte(`{"inputs":"a","parameters":{"adapter_id":"none"}}`)); status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown adapter: %d %s", status, text)
	}
	st := p.defaultModel().adapters
	if used, budget := st.Bytes(); used > budget || budget != 4<<20 {
		t.Errorf("adapters take %d of %d bytes", used, budget)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := d.Counters(); got.Modules != before.Modules || got.Streams != before.Streams || got.LiveBytes > 32<<20 {
		t.Errorf("left: %+v", got)
	}
}

// TestGPUAdapterWithoutRoom: an adapter that finds the device full is refused with what is needed and what helps, its
// base model goes on, and it is loaded when there is room again.
func TestGPUAdapterWithoutRoom(t *testing.T) {
	d, path := onFakeGPU(t)
	if d == nil {
		return
	}
	list := manyAdapters(t, 2)
	c := testConfig()
	c.Model.Adapters, c.Model.AdapterMemory, c.Runtime.KVMemory = list, 4<<20, 64<<20
	c.Server.AdminKeys = []string{adminKey}
	p := plug(t, openOnGPU(t, c, path, io.Discard))
	p.generated(t, "a0", "")
	p.generated(t, "a1", "")
	all, _ := p.defaultModel().adapters.Bytes()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	c.Model.AdapterMemory = config.Size(all - 1) // so that one has to make room for the other
	p = plug(t, openOnGPU(t, c, path, io.Discard))
	p.generated(t, "a0", "")
	d.NoMemory(true)
	status, text := p.call(t, http.MethodPost, "/generate", []byte(`{"inputs":"a","parameters":{"adapter_id":"a1"}}`))
	want := regexp.MustCompile(`the memory of GPU 0 is full, it needs [1-9][0-9]* bytes: a smaller runtime.kv_memory`)
	if status != http.StatusInsufficientStorage || !want.MatchString(text) {
		t.Errorf("without room: %d %s", status, text)
	}
	p.change(t, "mine", list[1].Path, true, http.StatusInsufficientStorage, "the memory of GPU 0 is full")
	p.generated(t, "", "")
	d.NoMemory(false)
	p.generated(t, "a1", "")
	p.generated(t, "a0", "")
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	c.Model.AdapterMemory = 4 << 20
	before := d.Counters()
	p = plug(t, openOnGPU(t, c, path, io.Discard))
	last := d.Counters().Since(before).Allocations // of the second adapter
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	d.FailAt(fake.Allocation, int(last), 2, false)
	defer d.FailAt(0, 0, 0, false)
	o := optionsOnGPU(c, path, io.Discard)
	_, err := Open(t.Context(), o)
	if err == nil || !want.MatchString(err.Error()) || !strings.Contains(err.Error(), "model.adapter[1] a1: ") ||
		strings.Contains(err.Error(), "CUDA error") {
		t.Errorf("a start without room: %v", err)
	}
}

// TestGraphSizes: the sizes of the setting, as far as steps have so many rows.
func TestGraphSizes(t *testing.T) {
	for _, c := range []struct {
		setting string
		rows    int
		want    string
	}{{"auto", 20, "[1 2 4 8 16 24]"}, {"auto", 16, "[1 2 4 8 16]"}, {"auto", 500, "[1 2 4 8 16 24 32 48 64 96 128]"},
		{"0", 8, "[]"}, {"3,5", 1, "[3]"}} {
		if got, err := graphSizes(c.setting, c.rows); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s with %d rows: %v, %v", c.setting, c.rows, got, err)
		}
	}
}

// requestsOnGPU sends one request of each kind.
func requestsOnGPU(t *testing.T, h *Server) {
	for _, r := range []struct{ name, method, path, body, want string }{
		{"greedy", "POST", "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":5,"details":true}}`,
			`"generated_tokens":5|"finish_reason":"eos_token"`},
		{"prompt longer than a block", "POST", "/generate", `{"inputs":"` + strings.Repeat("Once upon a time. ", 100) +
			`","parameters":{"max_new_tokens":3,"do_sample":true,"seed":1,"details":true}}`, `"generated_tokens"`},
		{"the same again", "POST", "/generate", `{"inputs":"` + strings.Repeat("Once upon a time. ", 100) +
			`","parameters":{"max_new_tokens":3,"do_sample":true,"seed":1,"details":true,"decoder_input_details":true}}`,
			`"prefill":\[\{`},
		{"n", "POST", "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":5,"best_of":2,"do_sample":true,` +
			`"details":true}}`, `"best_of_sequences":\[`},
		{"beams", "POST", "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":5,"num_beams":3}}`,
			`"generated_text"`},
		{"plugin", "POST", "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":9,"ignore_eos":true,` +
			`"details":true,"plugins":[{"name":"no-repeat"}]}}`, `"generated_tokens":9`},
		{"grammar", "POST", "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":9,` +
			`"grammar":{"type":"regex","value":"[a-c]{3}"}}}`, `"generated_text":"[abc]{3}"`},
		{"stream", "POST", "/generate_stream", `{"inputs":"Once","parameters":{"max_new_tokens":3}}`, `"generated_text":`},
		{"info", "GET", "/info", "", `"model_device_type":"cuda"`},
		{"metrics", "GET", "/metrics", "", `tgi_device_memory_bytes\{device="cuda:0"\} 1.37438953472e\+11`},
		{"steps", "GET", "/metrics", "", `tgi_device_steps_total\{model="tgi-demo"\} [1-9]`},
		{"copies", "GET", "/metrics", "", `tgi_device_copied_bytes_total\{direction="in",model="tgi-demo"\} [1-9]`},
		{"reduced rows", "GET", "/metrics", "", `tgi_device_rows_total\{came="reduced",model="tgi-demo"\} [1-9]`},
		{"whole rows", "GET", "/metrics", "", `tgi_device_rows_total\{came="whole",model="tgi-demo"\} [1-9]`},
		{"rows of prompts", "GET", "/metrics", "", `tgi_device_whole_rows_total\{model="tgi-demo",reason="prompt"\} [1-9]`},
		{"rows of beams", "GET", "/metrics", "", `tgi_device_whole_rows_total\{model="tgi-demo",reason="beams"\} [1-9]`},
		{"rows of plugins", "GET", "/metrics", "", `tgi_device_whole_rows_total\{model="tgi-demo",reason="plugin"\} [1-9]`},
		{"graphs", "GET", "/metrics", "", `tgi_cuda_graph_replays_total\{model="tgi-demo"\} [1-9]`},
		{"health", "GET", "/health", "", ""},
	} {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(r.method, r.path, strings.NewReader(r.body))
		q.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, q)
		if text := w.Body.String(); w.Code != http.StatusOK || !regexp.MustCompile(r.want).MatchString(text) {
			t.Errorf("%s: %d %.300s", r.name, w.Code, text)
		}
	}
	if info, ok := h.Default(); !ok || info.Device != "cuda:0" || info.BlockTokens < 64 ||
		info.CacheBytes > 64<<20 || info.CacheTokens < info.BlockTokens {
		t.Errorf("%+v", info)
	}
}
