package host

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
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
	"time"

	"tgi/conformance/long"
	"tgi/models/demo"
	"tgi/models/library/lifecycle"
	"tgi/models/safetensors"
	"tgi/models/store"
	"tgi/models/tensors"
	"tgi/runtime/ort"
	"tgi/server/config"
)

// largeID is a second model of some weight.
const largeID = "large"

// openBeside serves the demo model, with large next to it, which is not loaded yet.
func openBeside(t testing.TB, weights string) *plugged {
	t.Helper()
	folder := t.TempDir()
	writeLarge(t, filepath.Join(folder, largeID))
	p := openManager(t, folder, func(c *config.Config) {
		large := blockOf(largeID)
		large.Preload, large.Weights, large.KVMemory = false, weights, 32<<20
		c.ModelList = []config.Model{blockOf(config.DemoModel), large}
		c.Plugin = []config.Plugin{{Name: "dry", Source: config.Builtin + "dry", OnError: config.OnErrorFail,
			Apply: config.ApplyRequest}}
	})
	p.preloading()
	return p
}

// cycle loads large, uses it and unloads it. loaded is called while it is there.
func (p *plugged) cycle(t testing.TB, loaded func()) {
	t.Helper()
	wait := func(pending *lifecycle.Pending, err error) {
		t.Helper()
		if err == nil {
			err = pending.Wait(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wait(p.models.roster.Start(largeID))
	loaded()
	wait(p.models.roster.Stop(largeID))
}

// writeLarge writes a checkpoint of random weights that speaks as the demo model does: its tokenizer and template, a
// wider network of 16 million parameters.
func writeLarge(t testing.TB, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, demo.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	const hidden, wide, layers, heads, kv, head = 512, 1408, 5, 8, 4, 64
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
		list = append(list, safetensors.Spec{Name: name, DType: tensors.BF16, Shape: shape})
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
			if _, err := w.Write(binary.LittleEndian.AppendUint16(w.AvailableBuffer(),
				uint16(math.Float32bits(x)>>16))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request, without a connection, and returns the body of its reply, which must be a success.
func (p *plugged) ask(t testing.TB, path, body string) string {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.boot.server.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Errorf("%s %s: %d %s", path, body, w.Code, w.Body)
	}
	return w.Body.String()
}

// useLarge has large talk, call tools, follow a grammar and run a plugin.
func (p *plugged) useLarge(t testing.TB) {
	t.Helper()
	var talk sync.WaitGroup
	for seed := range 3 {
		talk.Go(func() {
			p.ask(t, "/v1/chat/completions", `{"model":"large","messages":[`+hi+`],"max_tokens":16`+weatherTool+`}`)
			p.ask(t, "/generate",
				fmt.Sprintf(`{"model":"large","inputs":"a","parameters":{"max_new_tokens":16,"temperature":1.5,"seed":%d,"grammar":{"type":"json",`+
					`"value":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a","b"]}}}}`, seed))
			p.ask(t, "/generate", `{"model":"large","inputs":"`+strings.Repeat("a long story ", 40)+
				`","parameters":{"max_new_tokens":16,"plugins":[{"name":"dry","params":{"multiplier":1}}]}}`)
		})
	}
	talk.Wait()
}

// burden is the process's resources; memory is in KiB.
type burden struct {
	rss, anon, goroutines, files, maps int
}

// measure returns the resources after everything unused was freed.
func measure(t testing.TB) (f burden) {
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

// middle returns the medians of what levels say.
func middle(levels []burden) burden {
	by := func(of func(burden) int) int {
		var list []int
		for _, l := range levels {
			list = append(list, of(l))
		}
		slices.Sort(list)
		return list[len(list)/2]
	}
	return burden{rss: by(func(b burden) int { return b.rss }), anon: by(func(b burden) int { return b.anon }),
		goroutines: by(func(b burden) int { return b.goroutines }), files: by(func(b burden) int { return b.files }),
		maps: by(func(b burden) int { return b.maps })}
}

// ownCache gives the process a cache of its own for models, which goes with the test, but the machine's for compiled
// plugins.
func ownCache(t testing.TB) {
	t.Helper()
	lib, err := ort.Locate("")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TGI_ORT_LIB", lib)
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

// TestCycles checks that loading and unloading a model many times leaks nothing and does not disturb another model.
func TestCycles(t *testing.T) {
	long.Test(t)
	if runtime.GOOS != "linux" {
		t.Skip("what a process holds is read from Linux's /proc")
	}
	if os.Getenv("TGI_TEST_ALONE") == "" {
		// Memory that other tests freed could hide a leak.
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
	p := openBeside(t, config.Auto)
	const story = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":64,"details":true,"do_sample":true,"seed":3,"ignore_eos":true}}`
	quiet := p.ask(t, "/generate", story)

	var between sync.Mutex // held by each request to the demo model, and while the process is measured
	stop, stopped := make(chan struct{}), make(chan struct{})
	replies := 0
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			between.Lock()
			got := p.ask(t, "/generate", story)
			between.Unlock()
			if replies++; got != quiet {
				t.Errorf("reply %d is %s, alone it was %s", replies, got, quiet)
			}
		}
	}()
	level := func() burden {
		between.Lock()
		defer between.Unlock()
		return measure(t)
	}
	t.Logf("before %+v", level())
	var loaded burden
	var levels []burden
	for range 13 {
		p.cycle(t, func() {
			p.useLarge(t)
			loaded = level()
			t.Logf("loaded %+v", loaded)
		})
		levels = append(levels, level())
		t.Logf("%d: after %+v", len(levels), levels[len(levels)-1])
	}
	close(stop)
	<-stopped
	t.Logf("%d replies of the demo model", replies)
	if replies < len(levels) {
		t.Error("the demo model hardly served meanwhile: nothing was shown")
	}
	// Allocators settle over some tens of cycles: what counts is how much of a model stays for each time that it
	// was there.
	first, last := middle(levels[:3]), middle(levels[10:])
	if most := (loaded.anon - first.anon) / 10; last.rss > first.rss+most || last.anon > first.anon+most {
		t.Errorf("%d KiB (%d of no file) after the first cycles, %d (%d) after ten more: more than %d KiB above, a "+
			"hundredth of the model for each", first.rss, first.anon, last.rss, last.anon, most)
	}
	// Threads of the library and arenas of the collector come and go.
	if last.goroutines > first.goroutines+2 || last.files > first.files+2 || last.maps > first.maps+40 {
		t.Errorf("held %+v after the first cycles and %+v after ten more", first, last)
	}
}

// BenchmarkBesideLoad reports the gaps between the tokens of a stream of the demo model, in turn undisturbed and while
// large is loaded and unloaded without pause; ratios are with over without in the same round. new converts the
// checkpoint each time, known finds it converted, and busy also uses it.
func BenchmarkBesideLoad(b *testing.B) {
	for _, weights := range []string{config.WeightsFP32, config.WeightsInt4} {
		for _, kind := range []string{"new", "known", "busy"} {
			b.Run(weights+"/"+kind, func(b *testing.B) {
				ownCache(b)
				p := openBeside(b, weights)
				cache, err := store.Dir()
				if err != nil {
					b.Fatal(err)
				}
				p.cycle(b, func() {})
				gaps := func(during func()) (p50, p99, most float64) {
					nb := p.watchNeighbours(b, 1)
					for began := time.Now(); time.Since(began) < 4*time.Second; {
						during()
					}
					half, tail, _ := nb.end()
					return half.Seconds() * 1e3, tail.Seconds() * 1e3, slices.Max(nb.gaps).Seconds() * 1e3
				}
				var alone, beside [3][]float64
				var ratios [2][]float64
				for b.Loop() {
					var a, c [3]float64
					a[0], a[1], a[2] = gaps(func() { time.Sleep(50 * time.Millisecond) })
					c[0], c[1], c[2] = gaps(func() {
						if kind == "new" {
							// the pattern is well-formed
							built, _ := filepath.Glob(filepath.Join(cache, "m-"+largeID+"-*"))
							for _, dir := range built {
								os.RemoveAll(dir)
							}
						}
						p.cycle(b, func() {
							if kind == "busy" {
								p.useLarge(b)
							}
						})
					})
					for i := range a {
						alone[i], beside[i] = append(alone[i], a[i]), append(beside[i], c[i])
					}
					ratios[0], ratios[1] = append(ratios[0], c[0]/a[0]), append(ratios[1], c[1]/a[1])
				}
				for i, name := range []string{"p50", "p99", "max"} {
					b.ReportMetric(median(alone[i]), "ms-alone-"+name)
					b.ReportMetric(median(beside[i]), "ms-beside-"+name)
				}
				b.ReportMetric(median(ratios[0]), "ratio-p50")
				b.ReportMetric(median(ratios[1]), "ratio-p99")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
