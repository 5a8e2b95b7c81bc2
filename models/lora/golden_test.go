package lora_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/lora"
	"tgi/models/safetensors"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// goldens holds what testdata/make_adapter_goldens.py wrote.
const goldens = "../testdata/adapters"

// tolerance on logits in 32-bit floats, whose size is about 15.
const tolerance = 1e-3

// golden is what Python's peft computed.
type golden struct {
	name       string
	Checkpoint string      `json:"checkpoint"`
	Prompt     []llm.Token `json:"prompt"`
	logits     []float32
}

func (g golden) dir() string { return filepath.Join(goldens, g.name) }

func readGoldens(t testing.TB) map[string][]golden {
	t.Helper()
	entries, err := os.ReadDir(goldens)
	if err != nil || len(entries) < 8 {
		t.Fatalf("%d goldens: %v", len(entries), err)
	}
	out := map[string][]golden{}
	for _, e := range entries {
		g := golden{name: e.Name()}
		data, err := os.ReadFile(filepath.Join(g.dir(), "golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatal(err)
		}
		set, err := safetensors.OpenFile(filepath.Join(g.dir(), "golden.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		tensor, err := set.Tensor("logits")
		if err != nil {
			t.Fatal(err)
		}
		g.logits = make([]float32, tensor.Len())
		if err := tensor.Floats(g.logits, 0); err != nil {
			t.Fatal(err)
		}
		set.Close()
		out[g.Checkpoint] = append(out[g.Checkpoint], g)
	}
	return out
}

// model is an open model that takes adapters.
type model struct {
	*ort.Paged
	checkpoint *hf.Checkpoint
}

// openModel builds a tiny checkpoint and opens it.
func openModel(t testing.TB, checkpoint string, w models.Weights) *model {
	t.Helper()
	path, err := ort.Locate("")
	if err == nil {
		err = ort.Init(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	ck, err := hf.Open(filepath.Join("../testdata/golden", checkpoint))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decoder.Build(ck, f, decoder.Options{Weights: w})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, decoder.AdaptedFile)
	if err := os.WriteFile(file, r.Adapted, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ort.Open(ort.Options{ModelPath: file, Layers: r.Arch.Layers, KVHeads: r.Arch.KVHeads,
		HeadDim: r.Arch.HeadDim, Cache: ort.CacheForm(r.Layout.Cache),
		Vocab: r.Arch.Vocab, MaxLen: r.Arch.MaxPositions, Blocks: 64, Threads: 2, Width: r.Arch.Width,
		Places: r.Arch.Places, KeyEnds: r.Arch.KeyEnds, Adapters: len(decoder.Matrices(models.CPU, ck.Config))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &model{p, ck}
}

// add loads a golden's adapter.
func (m *model) add(t testing.TB, dir string) llm.Adapter {
	t.Helper()
	a, err := lora.Open(dir, m.checkpoint, models.CPU)
	if err != nil {
		t.Fatal(err)
	}
	id, err := m.AddAdapter(sites(a))
	if err != nil {
		t.Fatal(err)
	}
	estimate, err := lora.EstimateBytes(dir)
	if bytes := m.AdapterBytes(sites(a)); err != nil || bytes < a.Bytes || bytes > estimate+16<<10 {
		t.Errorf("%s takes %d bytes, its numbers %d, the estimate is %d: %v", dir, bytes, a.Bytes, estimate, err)
	}
	return id
}

// sites hands an adapter to the backend.
func sites(a *lora.Adapter) []ort.LowRank {
	out := make([]ort.LowRank, len(a.Matrices))
	for i, m := range a.Matrices {
		out[i] = ort.LowRank{In: m.In, Out: m.Out, Offset: m.Offset, Rank: m.Rank, Scale: m.Scale, BFloat16: m.BFloat16,
			A: m.A, B: m.B}
	}
	return out
}

// row is one prompt with its adapter; from tokens of it are cached already.
type row struct {
	tokens  []llm.Token
	adapter llm.Adapter
	block   int32 // first of its blocks
	from    int
}

// run computes one step and returns all logits of each row.
func (m *model) run(t testing.TB, rows []row) [][]float32 {
	t.Helper()
	size, width := m.BlockSize(), 0
	for _, r := range rows {
		width = max(width, (r.from+len(r.tokens)+size-1)/size)
	}
	s := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: width}
	for _, r := range rows {
		s.PastLens = append(s.PastLens, int32(r.from))
		s.Adapters = append(s.Adapters, r.adapter)
		for b := range width {
			s.BlockTable = append(s.BlockTable, r.block+int32(b))
		}
		for i, token := range r.tokens {
			s.LogitRows = append(s.LogitRows, int32(len(s.Tokens)))
			s.Tokens = append(s.Tokens, token)
			s.SlotMapping = append(s.SlotMapping, r.block*int32(size)+int32(r.from+i))
		}
		s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
	}
	flat, err := m.Forward(s)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for i := range rows {
		out = append(out, slices.Clone(flat[int(s.CuSeqlens[i])*m.Vocab():int(s.CuSeqlens[i+1])*m.Vocab()]))
	}
	return out
}

// distance returns the largest difference of two sets of logits.
func distance(got, want []float32) float32 {
	var most float32
	for i := range want {
		most = max(most, got[i]-want[i], want[i]-got[i])
	}
	return most
}

// TestLogitsOfPEFT: every adapter gives PEFT's logits, alone, in pieces, and in one step with all others of its
// checkpoint and a row without an adapter, whose logits are those of a step without adapters, bit by bit.
func TestLogitsOfPEFT(t *testing.T) {
	for checkpoint, cases := range readGoldens(t) {
		t.Run(checkpoint, func(t *testing.T) {
			m := openModel(t, checkpoint, models.FP32)
			prompt := cases[0].Prompt
			plain := m.run(t, []row{{tokens: prompt}})[0]
			rows, alone := []row{{tokens: prompt}}, [][]float32{plain}
			for i, g := range cases {
				r := row{tokens: g.Prompt, adapter: m.add(t, g.dir()), block: int32(8 * (i + 1))}
				got := m.run(t, []row{r})[0]
				if d := distance(got, g.logits); !(d <= tolerance) {
					t.Errorf("%s: logits differ by %g", g.name, d)
				}
				pieces := m.run(t, []row{{tokens: r.tokens[:5], adapter: r.adapter, block: 50}})[0]
				for at := 5; at < len(r.tokens); at += 9 {
					piece := r.tokens[at:min(at+9, len(r.tokens))]
					next := row{tokens: piece, adapter: r.adapter, block: 50, from: at}
					pieces = append(pieces, m.run(t, []row{next})[0]...)
				}
				if d := distance(pieces, g.logits); !(d <= tolerance) {
					t.Errorf("%s in pieces: logits differ by %g", g.name, d)
				}
				rows, alone = append(rows, r), append(alone, got)
			}
			for i, got := range m.run(t, rows) {
				if !slices.Equal(got, alone[i]) {
					t.Errorf("row %d is another one beside others: by %g", i, distance(got, alone[i]))
				}
			}
		})
	}
}

// TestAdaptersOfQuantisedModels: an adapter moves an int4 model as it moves one in 32 bits.
func TestAdaptersOfQuantisedModels(t *testing.T) {
	for checkpoint, cases := range readGoldens(t) {
		if checkpoint != "llama3" && checkpoint != "smollm2" {
			continue
		}
		m := openModel(t, checkpoint, models.Int8)
		g := cases[0]
		plain := m.run(t, []row{{tokens: g.Prompt}})[0]
		moved := m.run(t, []row{{tokens: g.Prompt, adapter: m.add(t, g.dir())}})[0]
		off, far := distance(moved, g.logits), distance(plain, g.logits)
		if off > far/4 {
			t.Errorf("%s: %g from PEFT's logits with the adapter, %g without", g.name, off, far)
		}
	}
}

// TestAdaptersComeAndGo: adapters are loaded and freed beside steps of others, whose logits stay as they are, and their
// numbers are given again.
func TestAdaptersComeAndGo(t *testing.T) {
	cases := readGoldens(t)["llama2"]
	m := openModel(t, "llama2", models.FP32)
	kept := row{tokens: cases[0].Prompt, adapter: m.add(t, cases[0].dir())}
	want := m.run(t, []row{kept})[0]
	others := make([]*lora.Adapter, len(cases))
	for i, g := range cases {
		var err error
		if others[i], err = lora.Open(g.dir(), m.checkpoint, models.CPU); err != nil {
			t.Fatal(err)
		}
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		r := rand.New(rand.NewPCG(1, 2))
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			id, err := m.AddAdapter(sites(others[r.IntN(len(others))]))
			if err == nil && id > 2 {
				err = fmt.Errorf("adapter %d, at most two are loaded", id)
			}
			if err != nil {
				done <- err
				return
			}
			m.RemoveAdapter(id)
		}
	}()
	for range 100 {
		if got := m.run(t, []row{kept})[0]; !slices.Equal(got, want) {
			t.Fatalf("logits have changed by %g", distance(got, want))
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	step := &llm.Step{Tokens: []llm.Token{1}, CuSeqlens: []int32{0, 1}, PastLens: []int32{0}, BlockTable: []int32{0},
		MaxBlocks: 1, SlotMapping: []int32{0}, Adapters: []llm.Adapter{2}}
	if _, err := m.Forward(step); err == nil {
		t.Error("a step with an adapter that was freed is computed")
	}
}
