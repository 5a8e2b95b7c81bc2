package decoder

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/models"
	"tgi/models/hf"
	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
	"tgi/runtime/ort"
)

// InterpretAdapted interprets the graph with adapters, in 32 bits, and returns the logits of all tokens of prompts;
// each has the adapter of a number, 0 for none. ok is false where no format holds the checkpoint's weights as they
// are.
func InterpretAdapted(t *testing.T, ck *hf.Checkpoint, adapters [][]lowrank.Matrix, prompts [][]llm.Token,
	numbers []int) (logits [][]float32, ok bool) {
	t.Helper()
	w, ok := narrowest(t, ck)
	if !ok {
		return nil, false
	}
	f := builtAdapted(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true})
	m := interpret(t, f, rotaryOf(t, ck))
	m.adapters = append([][]lowrank.Matrix{nil}, adapters...)
	m.which(prompts, numbers)
	return m.logits(prompts...), true
}

// which gives each prompt's tokens the number of its adapter.
func (m *interpreter) which(prompts [][]llm.Token, numbers []int) {
	var ids array
	ids.width = 1
	for i, p := range prompts {
		for range p {
			ids.ints = append(ids.ints, numbers[i])
		}
	}
	m.values[adaptersInput] = ids
}

// lora is what tgi:LoRA adds.
func (m *interpreter) lora(n readNode, in []array) []float32 {
	if n.in[3] != kernelsInput {
		m.t.Fatalf("node %s: inputs %q", n.name, n.in)
	}
	out := slices.Clone(in[0].floats)
	for row, id := range in[2].ints {
		if m.adapters[id] == nil {
			continue
		}
		list := m.adapters[id][n.ints["first"]:][:n.ints["count"]]
		for _, a := range list {
			for o, v := range a.Add(in[1].row(row)) {
				out[row*in[0].width+a.Offset+o] += v
			}
		}
	}
	return out
}

// adaptersOnDevice opens the graph with adapters of a model on the fake device: all nodes are on it, and a step
// launches two kernels of our own for each product if a row has an adapter, and none else.
func adaptersOnDevice(t *testing.T, device *fake.Device, c hf.Config, r Result, path string, o ort.CUDAOptions,
	s *llm.Step) {
	o.ModelPath = filepath.Join(filepath.Dir(path), AdaptedFile)
	if err := os.WriteFile(o.ModelPath, r.Adapted, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Adapters = len(Matrices(models.CUDA, c))
	m, err := ort.OpenCUDA(o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	nodes, err := m.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	lora := int64(0)
	for _, n := range nodes {
		if n.Provider != "CUDAExecutionProvider" || strings.HasPrefix(n.Operator, "Memcpy") {
			t.Errorf("%+v", n)
		}
		if n.Operator == "LoRA" {
			lora++
		}
	}
	if want := int64(len(adaptedProducts(&c, true))); lora != want {
		t.Errorf("%d nodes add adapters, want %d", lora, want)
	}
	var sites []ort.LowRank
	for _, x := range Matrices(models.CUDA, c) {
		sites = append(sites, ort.LowRank{In: x.In, Out: x.Out, Offset: x.Offset, Rank: 4, Scale: 1, BFloat16: true,
			A: make([]byte, 8*x.In), B: make([]byte, 8*x.Out)})
	}
	id, err := m.AddAdapter(sites)
	if err != nil {
		t.Fatal(err)
	}
	for _, adapters := range [][]llm.Adapter{nil, {0, id, 0}} {
		s.Adapters = adapters
		before := device.Counters()
		if _, err := m.Forward(s); err != nil {
			t.Fatal(err)
		}
		got, want := device.Counters().Since(before).OwnLaunches, int64(0)
		if adapters != nil {
			want = 2 * lora
		}
		if got != want {
			t.Errorf("adapters %v: %d launches, want %d", adapters, got, want)
		}
	}
}
