package ort

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"tgi/conformance/cuda/fake"
	"tgi/runtime/llm"
)

// tinyCUDA is the model of tinyCUDAModel.
var tinyCUDA = CUDAOptions{Layers: 2, KVHeads: 1, HeadDim: 64, Vocab: 37, MaxLen: 1024, BlockSize: 256, MaxBlocks: 12,
	StepTokens: 64, StepRows: 8}

// tinyCUDAModel writes a model like that of tinyModel for CUDA, whose weights are zeros.
func tinyCUDAModel(t testing.TB, o CUDAOptions, kind element) string {
	const heads = 2
	width := heads * o.HeadDim
	g := &graph{}
	g.zeros("cos", kind, o.MaxLen, o.HeadDim/2)
	g.zeros("sin", kind, o.MaxLen, o.HeadDim/2)
	g.zeros("embedding", kind, o.Vocab, width)
	g.zeros("head", kind, width, o.Vocab)
	for _, name := range []string{"cu_seqlens", "past_lens", "slot_mapping"} {
		g.value(false, name, int32s, name)
	}
	g.value(false, "input_ids", int64s, "T")
	g.value(false, "block_table", int32s, "B", "M")
	g.value(false, "logit_rows", int64s, "n")
	g.value(false, "attention_metadata", int32s, metadataSize)
	g.value(false, attendInput, int64s, 1)
	if o.Adapters > 0 {
		g.value(false, adaptersInput, int64s, "T")
		g.value(false, loraInput, int64s, 1)
	}
	g.node("", "Gather", []string{"embedding", "input_ids"}, "x0", nil)
	x := "x0"
	for i := range o.Layers {
		l := strconv.Itoa(i)
		for _, half := range []string{"k_cache", "v_cache"} {
			g.value(false, half+"."+l, kind, "blocks", o.BlockSize, o.KVHeads, o.HeadDim)
			g.value(true, half+"_out."+l, kind, "blocks", o.BlockSize, o.KVHeads, o.HeadDim)
		}
		g.zeros("qkv_w"+l, kind, width, width+2*o.KVHeads*o.HeadDim)
		g.zeros("o_w"+l, kind, width, width)
		product := "qkv" + l
		if o.Adapters > 0 {
			product = "base" + l
			g.node("tgi", "LoRA", []string{product, x, adaptersInput, loraInput}, "qkv"+l,
				attrs{"first": 3 * i, "count": 3})
		}
		g.node("", "MatMul", []string{x, "qkv_w" + l}, product, nil)
		g.nodes("tgi", "PagedAttention", []string{"qkv" + l, "", "", "k_cache." + l, "v_cache." + l,
			"cu_seqlens", "past_lens", "block_table", "cos", "sin", "slot_mapping", "", "", "", "", "",
			"attention_metadata", attendInput}, []string{"a" + l, "k_cache_out." + l, "v_cache_out." + l},
			attrs{"num_heads": heads, "kv_num_heads": o.KVHeads, "do_rotary": 1})
		g.node("", "MatMul", []string{"a" + l, "o_w" + l}, "o"+l, nil)
		next := "x" + strconv.Itoa(i+1)
		g.node("", "Add", []string{x, "o" + l}, next, nil)
		x = next
	}
	g.node("", "Gather", []string{x, "logit_rows"}, "rows", nil)
	g.node("", "MatMul", []string{"rows", "head"}, "half_logits", nil)
	g.node("", "Cast", []string{"half_logits"}, "logits", attrs{"to": int(float32s)})
	g.value(true, "logits", float32s, "n", o.Vocab)
	return g.write(t)
}

func openTinyCUDA(t testing.TB, o CUDAOptions, kind element) *CUDA {
	t.Helper()
	o.ModelPath = tinyCUDAModel(t, o, kind)
	m, err := OpenCUDA(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// decodeStep is a step of rows with one token each, after past tokens.
func decodeStep(o CUDAOptions, rows, past int) *llm.Step {
	s := &llm.Step{CuSeqlens: []int32{0}}
	for range rows {
		addRow(s, o, past, 1)
	}
	return s
}

// TestCUDA runs the tests of the backend over one fake device, in a process of its own.
func TestCUDA(t *testing.T) {
	d := onFake(t)
	if d == nil {
		return
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *fake.Device)
	}{
		{"Nodes", cudaNodes},
		{"StepCost", cudaStepCost},
		{"CopiesBlocks", cudaCopiesBlocks},
		{"RefusesSteps", cudaRefusesSteps},
		{"PlansItsCache", cudaPlansItsCache},
		{"OpenRefuses", cudaOpenRefuses},
		{"GivesBack", cudaGivesBack},
		{"Attends", cudaAttends}, {"Graphs", cudaGraphs},
		{"GraphsAreFew", cudaGraphsAreFew},
		{"Reduces", cudaReduces},
		{"LoRA", cudaLoRA}, {"Adapters", cudaAdapters}, {"AdaptersComeAndGo", cudaAdaptersComeAndGo},
		{"AdaptersFail", cudaAdaptersFail},
		{"Failure", cudaFailure},
		{"FailsAnywhere", cudaFailsAnywhere}, {"GraphRefused", cudaGraphRefused},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, d) })
	}
}

// cudaNodes: all nodes are on the device, and none copies tensors between it and the CPU.
func cudaNodes(t *testing.T, _ *fake.Device) {
	for _, kind := range []element{bfloat16s, float16s} {
		m := openTinyCUDA(t, tinyCUDA, kind)
		nodes, err := m.session.nodes()
		if err != nil || len(nodes) < 10 {
			t.Fatal(nodes, err)
		}
		attention := 0
		for _, n := range nodes {
			if n.provider != "CUDAExecutionProvider" || strings.HasPrefix(n.operator, "Memcpy") {
				t.Errorf("%+v", n)
			}
			if n.operator == "PagedAttention" {
				attention++
			}
		}
		if attention != tinyCUDA.Layers || m.kind != kind {
			t.Errorf("%d attention nodes, elements %d", attention, m.kind)
		}
	}
}

// cudaStepCost: a step is one copy to the device, one back, one wait, and no allocation.
func cudaStepCost(t *testing.T, d *fake.Device) {
	o := tinyCUDA
	o.Graphs = []int{1, 4}
	m := openTinyCUDA(t, o, bfloat16s)
	silent := cudaStep()
	silent.LogitRows = nil
	for _, c := range []struct {
		name   string
		step   *llm.Step
		copies int64 // back
		replay bool
	}{
		{"chunk and decoding row", cudaStep(), 1, false},
		{"no logits", silent, 0, false},
		{"largest", largestSteps(o)[0], 1, false},
		{"graph", decodeStep(o, 3, 10), 1, true},
		{"more rows than any graph", decodeStep(o, 5, 10), 1, false},
	} {
		for run := range 3 {
			before := d.Counters()
			logits, err := m.Forward(c.step)
			if err != nil {
				t.Fatal(c.name, err)
			}
			got := d.Counters().Since(before)
			if len(logits) != len(c.step.LogitRows)*o.Vocab {
				t.Errorf("%s: %d logits", c.name, len(logits))
			}
			replays := int64(0)
			if c.replay && run > 0 {
				replays = 1
			}
			if got.CopiesIn != 1 || got.CopiesOut != c.copies || got.GraphLaunches != replays && run > 0 ||
				run > 0 && (got.Waits != 1 || got.Allocations != 0) || replays == 1 && got.Launches != 0 {
				t.Errorf("%s, run %d: %+v", c.name, run, got)
			}
		}
	}
}

// cudaCopiesBlocks: the fake's copies are real, so that what lies in the cache can be compared.
func cudaCopiesBlocks(t *testing.T, _ *fake.Device) {
	m := openTinyCUDA(t, tinyCUDA, bfloat16s)
	n := m.layerBlock()
	block := func(layer, i int) []byte { return unsafe.Slice((*byte)(m.cache[layer].at), (m.blocks+1)*n)[i*n:][:n] }
	for layer := range m.cache {
		for i := range m.blocks {
			for j := range block(layer, i) {
				block(layer, i)[j] = byte(1 + layer*m.blocks + i)
			}
		}
	}
	if err := m.CopyBlocks([]llm.BlockCopy{{Src: 1, Dst: 2}, {Src: 2, Dst: 0}, {Src: 11, Dst: 5}}); err != nil {
		t.Fatal(err)
	}
	want := []int{1, 1, 1, 3, 4, 11, 6, 7, 8, 9, 10, 11} // block that each holds now
	for layer := range m.cache {
		for i, from := range want {
			if got := block(layer, i); got[0] != byte(1+layer*m.blocks+from) || got[n-1] != got[0] {
				t.Errorf("layer %d: block %d holds %d", layer, i, got[0])
			}
		}
		if spare := block(layer, m.blocks); spare[0] != 0 || spare[n-1] != 0 {
			t.Error("the spare block is not empty")
		}
	}
	for _, c := range []llm.BlockCopy{{Src: -1, Dst: 0}, {Src: 0, Dst: 12}} { // 12 is the spare one
		if err := m.CopyBlocks([]llm.BlockCopy{c}); !errors.Is(err, llm.ErrBackend) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// cudaRefusesSteps: what is not a step of this model never reaches the device.
func cudaRefusesSteps(t *testing.T, d *fake.Device) {
	m := openTinyCUDA(t, tinyCUDA, bfloat16s)
	for name, spoil := range map[string]func(s *llm.Step){
		"block beyond the cache": func(s *llm.Step) { s.BlockTable[0], s.SlotMapping[0] = 12, 12*256+2 },
		"no block":               func(s *llm.Step) { s.BlockTable[3] = -1 },
		"slot of another block":  func(s *llm.Step) { s.SlotMapping[2] = 300 },
		"token":                  func(s *llm.Step) { s.Tokens[1] = 37 },
		"longer than its blocks": func(s *llm.Step) { s.PastLens[1] = 767 + 1 },
		"logit row":              func(s *llm.Step) { s.LogitRows[0] = 3 },
		"nothing":                func(s *llm.Step) { *s = llm.Step{} },
	} {
		s := cudaStep()
		spoil(s)
		before := d.Counters()
		if _, err := m.Forward(s); !errors.Is(err, llm.ErrBackend) || !strings.Contains(err.Error(), "step") {
			t.Errorf("%s: %v", name, err)
		}
		if got := d.Counters().Since(before); got.CopiesIn+got.Launches != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := m.Forward(cudaStep()); err != nil {
		t.Error(err)
	}
	m.Close()
	if _, err := m.Forward(cudaStep()); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("closed: %v", err)
	}
}

// cudaPlansItsCache: the cache takes what it may and what is of use.
func cudaPlansItsCache(t *testing.T, _ *fake.Device) {
	block := int64(2 * 2 * 256 * 64 * 2)
	for _, c := range []struct {
		bytes  int64
		most   int
		blocks int
	}{{0, 12, 12}, {5*block + 1, 12, 4}, {2 * block, 12, 1}, {100 * block, 12, 12}} {
		o := tinyCUDA
		o.CacheBytes, o.MaxBlocks = c.bytes, c.most
		m := openTinyCUDA(t, o, float16s)
		if m.Blocks() != c.blocks || m.CacheBytes() != int64(c.blocks+1)*block {
			t.Errorf("%+v: %d blocks of %d bytes", c, m.Blocks(), m.CacheBytes())
		}
	}
	o := tinyCUDA
	o.ModelPath, o.CacheBytes = tinyCUDAModel(t, o, float16s), block
	if _, err := OpenCUDA(o); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "cache") {
		t.Errorf("a cache of one block with the spare one: %v", err)
	}
}

// cudaOpenRefuses: what the options and the model disagree on is said.
func cudaOpenRefuses(t *testing.T, d *fake.Device) {
	full := tinyCUDA
	full.ModelPath = tinyCUDAModel(t, full, bfloat16s)
	for n := 1; n < 40; n++ { // whichever allocation it is: its own, or ONNX Runtime's
		d.FailAt(fake.Allocation, n, 2, false)
		m, err := OpenCUDA(full)
		came := d.Faulted()
		d.FailAt(0, 0, 0, false)
		if err == nil {
			m.Close()
		}
		if !came {
			break
		}
		if err != nil && (strings.Count(err.Error(), "the device's memory is full: use a smaller form") != 1 ||
			strings.Contains(err.Error(), "CUDA error") || strings.Contains(err.Error(), "onnxruntime_src")) {
			t.Errorf("allocation %d fails: %v", n, err)
		}
	}
	for want, change := range map[string]func(o *CUDAOptions){
		"has element type":  func(o *CUDAOptions) { o.BlockSize = 128 },
		`"logits"`:          func(o *CUDAOptions) { o.Vocab = 38 },
		"option Layers":     func(o *CUDAOptions) { o.Layers = 0 },
		"option Graphs":     func(o *CUDAOptions) { o.Graphs = []int{4, 2} },
		"option StepTokens": func(o *CUDAOptions) { o.StepTokens = 0 },
	} {
		o := tinyCUDA
		o.ModelPath = tinyCUDAModel(t, o, bfloat16s)
		change(&o)
		if _, err := OpenCUDA(o); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	o := tinyCUDA
	o.ModelPath = tinyModel(t) // whose operators have no kernels for CUDA
	if _, err := OpenCUDA(o); !errors.Is(err, ErrModel) {
		t.Errorf("the CPU's model: %v", err)
	}
}

// cudaGivesBack: what a model took is there again when it is closed, with graphs and without.
func cudaGivesBack(t *testing.T, d *fake.Device) {
	o := tinyCUDA
	o.Graphs = []int{1, 2, 4}
	path := tinyCUDAModel(t, o, bfloat16s)
	o.ModelPath = path
	work := func() {
		m, err := OpenCUDA(o)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for _, s := range []*llm.Step{cudaStep(), decodeStep(o, 1, 3), decodeStep(o, 2, 1000), decodeStep(o, 100, 3)} {
			if _, err := m.Forward(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	work()
	before := d.Counters()
	for range 20 {
		work()
	}
	if got := d.Counters(); got.Live != before.Live || got.LiveBytes != before.LiveBytes ||
		got.Streams != before.Streams {
		t.Errorf("20 models left %+v, before it was %+v", got, before)
	}
}

// cudaGraphs: steps of a bucket share a recorded run, whichever goroutine asks; others launch their kernels.
func cudaGraphs(t *testing.T, d *fake.Device) {
	o := tinyCUDA
	o.Graphs = []int{1, 2, 8}
	m := openTinyCUDA(t, o, bfloat16s)
	run := func(s *llm.Step) {
		t.Helper()
		done := make(chan error)
		go func() { // on another thread, as likely as not
			_, err := m.Forward(s)
			done <- err
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		run(decodeStep(o, 1+r.IntN(8), r.IntN(1023)))
	}
	// Three numbers of rows, tables of 512 and 1024 tokens.
	if n := m.counts.graphs.Load(); n != 6 || m.counts.replays.Load() != 194 {
		t.Errorf("%d graphs, %d replays", n, m.counts.replays.Load())
	}
	loading.RLock() // as if another model was opened
	before := d.Counters()
	run(decodeStep(o, 3, 0))
	m.graphs.graph[bucket{rows: 1, width: 2}].recorded = false
	run(decodeStep(o, 1, 0))
	loading.RUnlock()
	if got := d.Counters().Since(before); got.GraphLaunches != 1 || got.Launches == 0 || got.Captures != 0 {
		t.Errorf("while a model is opened: %+v", got)
	}
	run(cudaStep())
	if n := m.counts.graphs.Load(); n != 6 {
		t.Errorf("%d graphs", n)
	}
}

// cudaGraphsAreFew: beyond the bound steps run without.
func cudaGraphsAreFew(t *testing.T, _ *fake.Device) {
	o := tinyCUDA
	for i := range maxGraphs + 4 {
		o.Graphs = append(o.Graphs, i+1)
	}
	m := openTinyCUDA(t, o, bfloat16s)
	for range 2 {
		for rows := range maxGraphs + 4 {
			if _, err := m.Forward(decodeStep(o, rows+1, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := m.counts.graphs.Load(); n != maxGraphs || m.counts.replays.Load() != maxGraphs {
		t.Errorf("%d graphs, %d replays", n, m.counts.replays.Load())
	}
}

// cudaFailure: where the device fails for good, the model says so at once from then on; where a step alone fails, the
// next one runs.
func cudaFailure(t *testing.T, d *fake.Device) {
	m := openTinyCUDA(t, tinyCUDA, bfloat16s)
	d.NoMemory(true)
	_, err := m.Forward(largestSteps(CUDAOptions{MaxLen: 1000, BlockSize: 256, StepTokens: 5000, StepRows: 100})[0])
	if !errors.Is(err, llm.ErrBackend) || strings.Contains(err.Error(), "restarted") {
		t.Errorf("no memory for a large step: %v", err)
	}
	d.NoMemory(false)
	if _, err := m.Forward(cudaStep()); err != nil {
		t.Errorf("the step after it: %v", err)
	}
	d.Fail(700)
	for range 2 {
		before := d.Counters()
		_, err := m.Forward(cudaStep())
		if !errors.Is(err, llm.ErrBackend) || !strings.Contains(err.Error(), "restarted") {
			t.Errorf("the device fails: %v", err)
		}
		if got := d.Counters().Since(before); m.dead != nil && got.CopiesIn > 1 {
			t.Errorf("%+v", got)
		}
		d.Fail(0) // whatever it says afterwards
	}
	if err := m.CopyBlocks([]llm.BlockCopy{{Src: 1, Dst: 2}}); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("a copy on a dead device: %v", err)
	}
}

// TestCUDAKernel: with the block sizes that models are built with, attention reads the cache in place by its fast
// kernel; with the CPU's it does not. The library says on its output which it took.
func TestCUDAKernel(t *testing.T) {
	shapes := []struct{ headDim, block int }{{64, 256}, {80, 128}, {128, 128}, {256, 64}, {64, 16}}
	if os.Getenv(kernelInfo) == "" {
		fake.Need(t)
		cmd := exec.Command(os.Args[0], "-test.run=^TestCUDAKernel$")
		cmd.Env = append(os.Environ(), "TGI_TEST_ALONE=1", kernelInfo+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for i, part := range strings.Split(string(out), "heads of ")[1:] {
			all, flash := strings.Count(part, "SdpaKernel="), strings.Count(part, "SdpaKernel=FLASH_ATTENTION")
			if all == 0 || (flash == all) != (shapes[i].block > 16) {
				t.Errorf("%+v: %d of %d by FlashAttention\n%s", shapes[i], flash, all, part)
			}
		}
		return
	}
	startFake(t)
	for _, c := range shapes {
		o := tinyCUDA
		o.HeadDim, o.BlockSize = c.headDim, c.block
		fmt.Printf("heads of %d\n", c.headDim)
		m := openTinyCUDA(t, o, bfloat16s)
		if _, err := m.Forward(decodeStep(o, 2, 100)); err != nil {
			t.Error(err)
		}
		m.Close()
	}
}

// kernelInfo has the library print which attention kernel each node takes.
const kernelInfo = "ORT_ENABLE_ATTENTION_KERNEL_DEBUG_INFO"

// BenchmarkCUDADecode measures what a step costs the host, where the device costs nothing:
//
//	go test ./runtime/ort -run '^$' -bench CUDADecode
func BenchmarkCUDADecode(b *testing.B) {
	startFake(b)
	for name, graphs := range map[string][]int{"eager": nil, "graph": {1}} {
		b.Run(name, func(b *testing.B) {
			o := tinyCUDA
			o.Layers, o.Graphs = 32, graphs
			m := openTinyCUDA(b, o, bfloat16s)
			s := decodeStep(o, 1, 300)
			for b.Loop() {
				if _, err := m.Forward(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
