package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/models/demo"
	"tgi/models/safetensors"
	"tgi/models/store"
	"tgi/server/config"
)

// beside opens a model next to those that the process serves already. stop frees it.
func beside(t testing.TB, c config.Config) (serve http.Handler, stop func()) {
	t.Helper()
	h, err := newHouse(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return h.server, func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// large is a checkpoint of random weights that speaks as the demo model does: its tokenizer and template, a wider and
// deeper network of 25 million parameters.
func large(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, demo.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	const hidden, wide, layers, heads, kv, head = 512, 1408, 8, 8, 4, 64
	text, err := fs.ReadFile(demo.Checkpoint(), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"] = hidden, wide, layers
	c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"] = heads, kv, head
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config.json"), string(text))
	var list []safetensors.Spec
	add := func(name string, shape ...int64) {
		list = append(list, safetensors.Spec{Name: name, DType: safetensors.BF16, Shape: shape})
	}
	add("model.embed_tokens.weight", int64(c["vocab_size"].(float64)), hidden)
	for i := range layers {
		at := fmt.Sprintf("model.layers.%d.", i)
		add(at+"input_layernorm.weight", hidden)
		add(at+"post_attention_layernorm.weight", hidden)
		add(at+"self_attn.q_proj.weight", heads*head, hidden)
		add(at+"self_attn.k_proj.weight", kv*head, hidden)
		add(at+"self_attn.v_proj.weight", kv*head, hidden)
		add(at+"self_attn.o_proj.weight", hidden, heads*head)
		add(at+"mlp.gate_proj.weight", wide, hidden)
		add(at+"mlp.up_proj.weight", wide, hidden)
		add(at+"mlp.down_proj.weight", hidden, wide)
	}
	add("model.norm.weight", hidden)
	f, err := os.Create(filepath.Join(dir, safetensors.SingleFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := safetensors.WriteHeader(w, list); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	for _, s := range list {
		n, err := s.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		for range n / 2 {
			x := float32(1) // of a norm
			if len(s.Shape) == 2 {
				x = float32((2*r.Float64() - 1) * math.Sqrt(3/float64(s.Shape[1])))
			}
			if _, err := w.Write(binary.LittleEndian.AppendUint16(w.AvailableBuffer(), uint16(math.Float32bits(x)>>16))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// say sends a request to a model and returns the body of its reply, which must be a success.
func say(t testing.TB, serve http.Handler, path, body string) string {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	serve.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Errorf("%s %s: %d %s", path, body, w.Code, w.Body)
	}
	return w.Body.String()
}

// footprint is what the process holds, memory in KiB.
type footprint struct {
	rss, anon, goroutines, files, maps int
}

// measure returns what is left once everything that can go is gone.
func measure(t testing.TB) (f footprint) {
	t.Helper()
	runtime.GC() // a second collection frees what finalizers let go
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			fmt.Sscan(value, &f.rss)
		case "RssAnon":
			fmt.Sscan(value, &f.anon)
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	f.goroutines, f.files, f.maps = runtime.NumGoroutine(), len(open), strings.Count(string(maps), "\n")
	return f
}

// ownCache gives the process a cache of its own for models, which goes with the test, but the machine's for compiled
// plugins.
func ownCache(t testing.TB) {
	t.Helper()
	usual, err := store.Dir()
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	for _, dir := range []string{filepath.Join(usual, "plugins"), filepath.Join(own, "models")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(usual, "plugins"), filepath.Join(own, "models", "plugins")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TGI_CACHE", own)
}

// TestCycles: a model that comes and goes ten times leaves nothing behind, and the one beside it does not notice.
func TestCycles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process holds is read from Linux's /proc")
	}
	if os.Getenv("TGI_TEST_ALONE") == "" {
		// What other tests freed would be room for a leak to hide in.
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "TGI_TEST_ALONE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v", err)
		}
		t.Logf("%s", out)
		return
	}
	ownCache(t)
	other := testConfig()
	other.Model.Path = large(t)
	other.Plugin = []config.Plugin{{Name: "dry", Source: config.Builtin + "dry", OnError: config.OnErrorFail, Apply: config.ApplyRequest}}

	serveA, stopA := beside(t, testConfig())
	defer stopA()
	const story = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":64,"details":true,"do_sample":true,"seed":3,"ignore_eos":true}}`
	quiet := say(t, serveA, "/generate", story)

	var between sync.Mutex // held by A's requests, and while the process is measured
	stop, stopped := make(chan struct{}), make(chan struct{})
	served := 0
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			between.Lock()
			got := say(t, serveA, "/generate", story)
			between.Unlock()
			if served++; got != quiet {
				t.Errorf("reply %d differs:\n%s\nalone:\n%s", served, got, quiet)
			}
		}
	}()
	var after []footprint
	for n := range 11 {
		serve, stop := beside(t, other)
		var talk sync.WaitGroup
		for i := range 3 {
			talk.Go(func() {
				say(t, serve, "/v1/chat/completions", `{"messages":[`+hi+`],"max_tokens":24`+weatherTool+`}`)
				say(t, serve, "/generate", fmt.Sprintf(`{"inputs":"a","parameters":{"max_new_tokens":24,"temperature":1.5,"seed":%d,"grammar":{"type":"json","value":`+
					`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a","b"]}}}}`, i))
				say(t, serve, "/generate", `{"inputs":"`+strings.Repeat("a long story ", 40)+`","parameters":{"max_new_tokens":24,"plugins":[{"name":"dry","params":{"multiplier":1}}]}}`)
			})
		}
		talk.Wait()
		full := measure(t)
		stop()
		between.Lock()
		after = append(after, measure(t))
		between.Unlock()
		t.Logf("cycle %d: with both %+v, after %+v", n, full, after[n])
	}
	close(stop)
	<-stopped
	t.Logf("%d replies of the other model", served)
	_ = slices.Max[[]int]
}
