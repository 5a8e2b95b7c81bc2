package decoder

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
	"tgi/runtime/ort"
)

// adapterGoldens holds what Python's peft computed.
const adapterGoldens = "../testdata/adapters"

// peft is an adapter, and the logits of a prompt with it.
type peft struct {
	name       string
	Checkpoint string      `json:"checkpoint"`
	Prompt     []llm.Token `json:"prompt"`
	logits     []float32
	matrices   []lowrank.Matrix
}

// readPEFT reads an adapter for a model of configuration c, beside package lora, which imports this one.
func readPEFT(t *testing.T, name string) (p peft, ck *hf.Checkpoint) {
	t.Helper()
	file := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	dir := filepath.Join(adapterGoldens, name)
	if err := json.Unmarshal(file(filepath.Join(dir, "golden.json")), &p); err != nil {
		t.Fatal(err)
	}
	p.name = name
	settings, err := hf.ParseAdapterConfig(file(filepath.Join(dir, hf.AdapterConfigFile)))
	if err != nil {
		t.Fatal(err)
	}
	numbers := func(name string, names ...string) [][]float32 {
		set, err := safetensors.OpenFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		out := make([][]float32, len(names))
		for i, n := range names {
			if tensor, err := set.Tensor(n); err == nil {
				out[i] = make([]float32, tensor.Len())
				if err := tensor.Floats(out[i], 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		return out
	}
	p.logits = numbers("golden.safetensors", "logits")[0]
	ck, _ = readGolden(t, p.Checkpoint)
	for _, m := range Matrices(ck.Config) {
		prefix := "base_model.model." + m.Module
		ab := numbers(hf.AdapterFile, prefix+".lora_A.weight", prefix+".lora_B.weight")
		l := lowrank.Matrix{In: m.In, Out: m.Out, Offset: m.Offset}
		if a, b := ab[0], ab[1]; a != nil && len(a)%m.In == 0 {
			rank, scale := settings.Of(m.Module)
			l.Rank, l.Scale = rank, float32(scale)
			for _, v := range a {
				l.A = binary.LittleEndian.AppendUint32(l.A, math.Float32bits(v))
			}
			for r := range rank {
				for o := range m.Out {
					l.B = binary.LittleEndian.AppendUint32(l.B, math.Float32bits(b[o*rank+r]))
				}
			}
		}
		if err := l.Check(); err != nil {
			t.Fatalf("%s: %s: %v", name, m.Module, err)
		}
		p.matrices = append(p.matrices, l)
	}
	return p, ck
}

// TestCUDAAdaptersComputeTheLogitsOfPEFT interprets the graph with adapters, in 32 bits: rows with all adapters of a
// checkpoint, and one without, in one step, have each the logits that PEFT, or transformers, computed.
func TestCUDAAdaptersComputeTheLogitsOfPEFT(t *testing.T) {
	entries, err := os.ReadDir(adapterGoldens)
	if err != nil {
		t.Fatal(err)
	}
	byCheckpoint := map[string][]peft{}
	for _, e := range entries {
		p, _ := readPEFT(t, e.Name())
		byCheckpoint[p.Checkpoint] = append(byCheckpoint[p.Checkpoint], p)
	}
	seen := 0
	for name, list := range byCheckpoint {
		ck, g := readGolden(t, name)
		w, ok := narrowest(t, ck)
		if !ok {
			continue
		}
		f := builtAdapted(t, ck, Options{Device: models.CUDA, Weights: w, anySizes: true})
		m := interpret(t, f, rotaryOf(t, ck))
		m.adapters = [][]lowrank.Matrix{nil}
		prompts, which := [][]llm.Token{g.Prompts[0]}, []int{0}
		for _, p := range list {
			seen++
			m.adapters = append(m.adapters, p.matrices)
			prompts, which = append(prompts, p.Prompt), append(which, len(which))
		}
		m.which(prompts, which)
		got := m.logits(prompts...)
		n := len(g.Prompts[0])
		if d := distance(got[:n], g.logits[0]); d > tolerance {
			t.Errorf("%s: a row without an adapter differs by %g", name, d)
		}
		for _, p := range list {
			got = got[n:]
			n = len(p.Prompt)
			if d := distance(got[:n], slices.Collect(slices.Chunk(p.logits, ck.Config.Vocab))); d > tolerance {
				t.Errorf("%s: logits differ by %g from PEFT's", p.name, d)
			}
		}
	}
	if seen < 6 {
		t.Errorf("only %d adapters were compared", seen)
	}
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
				out[row*in[0].width+a.Offset-list[0].Offset+o] += v
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
	o.Adapters = len(Matrices(c))
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
	if want := int64(c.Layers*(3+c.Projections()) + 1); lora != want {
		t.Errorf("%d nodes add adapters, want %d", lora, want)
	}
	var sites []ort.LowRank
	for _, x := range Matrices(c) {
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
