package engine

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/sched"
)

// beamGolden is what testdata/make_beams.py wrote of one search.
type beamGolden struct {
	Checkpoint    string
	Prompt        []llm.Token
	MaxNew        int `json:"max_new"`
	EOS           []llm.Token
	Repetition    float32 `json:"repetition_penalty"`
	Beams         int
	LengthPenalty float32 `json:"length_penalty"`
	EarlyStopping any     `json:"early_stopping"`
	Return        int
	Sequences     [][]llm.Token
	Scores        []float64
	Steps         []float64 // scores of the best sequence's tokens
}

func (g *beamGolden) params() llm.Params {
	p := params(g.MaxNew)
	p.NumBeams, p.LengthPenalty, p.NumReturn = g.Beams, g.LengthPenalty, g.Return
	p.RepetitionPenalty = g.Repetition
	p.EarlyStopping = map[any]llm.EarlyStopping{false: llm.StopUnlikely, true: llm.StopFull,
		"never": llm.StopNever}[g.EarlyStopping]
	return p
}

// numbers is a codec whose texts say nothing.
type numbers struct{ eos []llm.Token }

func (numbers) Special(llm.Token) bool         { return false }
func (numbers) Text(llm.Token) string          { return "x" }
func (c numbers) EOS() []llm.Token             { return c.eos }
func (numbers) Stream([]llm.Token) Detokenizer { return numbers{} }
func (numbers) Next(llm.Token) string          { return "x" }
func (numbers) Flush() string                  { return "" }
func (numbers) Open() bool                     { return false }

// paged is ONNX Runtime as the engine wants it.
type paged struct{ *ort.Paged }

func (p paged) Shape() Shape {
	return Shape{Vocab: p.Vocab(), BlockSize: p.BlockSize(), Blocks: p.Blocks(), MaxLen: p.MaxLen(),
		OriginalLen: p.OriginalLen()}
}

// openCheckpoint builds a checkpoint of models/testdata and loads it.
func openCheckpoint(t *testing.T, name string, blocks int) Model {
	t.Helper()
	lib, err := ort.Locate("")
	if err != nil {
		t.Fatal(err)
	}
	ck, err := hf.Open(filepath.Join("../../models/testdata/golden", name))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	dir := t.TempDir()
	data, err := os.Create(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decoder.Build(ck, data, decoder.Options{Weights: models.FP32})
	path := filepath.Join(dir, decoder.ModelFile)
	if err := errors.Join(err, data.Close(), os.WriteFile(path, r.Model, 0o644), ort.Init(lib)); err != nil {
		t.Fatal(err)
	}
	m, err := ort.Open(ort.Options{ModelPath: path, Layers: r.Arch.Layers, KVHeads: r.Arch.KVHeads,
		HeadDim: r.Arch.HeadDim, Vocab: r.Arch.Vocab,
		MaxLen: r.Arch.MaxPositions, OriginalLen: r.Arch.OriginalPositions, Blocks: blocks, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return paged{m}
}

type beamFile struct {
	Cases []beamGolden
	Drawn []drawnGolden
}

// drawnGolden is how often the searches of many seeds found a sequence.
type drawnGolden struct {
	beamGolden
	Temperature float32
	TopK        int     `json:"top_k"`
	TopP        float32 `json:"top_p"`
	Runs        int
	Counts      [][2]json.RawMessage // sequence and times
}

func readBeams(t *testing.T) (f beamFile) {
	t.Helper()
	data, err := os.ReadFile("testdata/beams.json")
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil || len(f.Cases) < 300 || len(f.Drawn) < 8 {
		t.Fatalf("%d cases and %d drawn, %v", len(f.Cases), len(f.Drawn), err)
	}
	return f
}

// TestBeamsOfTransformers compares sequences, their scores and those of their
// tokens with what transformers finds on the same checkpoints.
func TestBeamsOfTransformers(t *testing.T) {
	file := readBeams(t)
	opened := map[string]Model{}
	for _, g := range file.Cases {
		if opened[g.Checkpoint] == nil {
			opened[g.Checkpoint] = openCheckpoint(t, g.Checkpoint, 96)
		}
	}
	for i, g := range file.Cases {
		e, err := New(opened[g.Checkpoint], numbers{eos: g.EOS},
			Config{Verify: true, Settings: sched.Settings{NoPrefixSharing: i%2 == 0}})
		if err != nil {
			t.Fatal(err)
		}
		st, err := e.Submit(t.Context(), Request{Prompt: g.Prompt, Params: g.params()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := collect(st, g.Return)
		if err != nil {
			t.Fatal(err)
		}
		e.Close()
		compareBeams(t, i, &g, got)
	}
}

func compareBeams(t *testing.T, i int, g *beamGolden, got outcome) {
	t.Helper()
	const tolerance = 2e-3 // on sums of 20 log-probabilities of about 2
	what := func() string {
		s, _ := json.Marshal(g)
		return string(s)
	}
	for k, want := range g.Sequences {
		if !slices.Equal(got.tokens[k], want) {
			t.Errorf("case %d, sequence %d: %v, want %v\n%s", i, k, got.tokens[k], want, what())
			continue
		}
		f := got.finish[k]
		if d := math.Abs(float64(f.Score) - g.Scores[k]); d > tolerance*max(1, math.Abs(g.Scores[k])) {
			t.Errorf("case %d, sequence %d: score %v, want %v\n%s", i, k, f.Score, g.Scores[k], what())
		}
		reason := llm.FinishEOS
		if len(want) == g.MaxNew {
			reason = llm.FinishLength
		}
		if f.Reason != reason || f.Generated != len(want) {
			t.Errorf("case %d, sequence %d: %+v, want reason %v", i, k, f, reason)
		}
	}
	for k, want := range g.Steps {
		if k < len(got.logprobs[0]) && math.Abs(float64(got.logprobs[0][k])-want) > tolerance {
			t.Errorf("case %d, token %d: scored %v, want %v\n%s", i, k, got.logprobs[0][k], want, what())
		}
	}
}

// TestDrawnBeamsOfTransformers compares how often searches that draw find what.
func TestDrawnBeamsOfTransformers(t *testing.T) {
	const runs = 1500
	for i, g := range readBeams(t).Drawn {
		e, err := New(openCheckpoint(t, g.Checkpoint, 2000), numbers{eos: g.EOS},
			Config{Settings: sched.Settings{MaxConcurrentRequests: 3 * runs}})
		if err != nil {
			t.Fatal(err)
		}
		p := g.params()
		p.Sample, p.Temperature, p.TopK, p.TopP = true, g.Temperature, g.TopK, g.TopP
		streams := make([]*Stream, runs)
		for seed := range streams {
			p.Seed = uint64(seed)
			if streams[seed], err = e.Submit(t.Context(), Request{Prompt: g.Prompt, Params: p}); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]float64{}
		for _, st := range streams {
			o, err := collect(st, 1)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(o.tokens[0])
			got[string(text)]++
		}
		e.Close()
		compareCounts(t, i, &g, got, runs)
	}
}

// compareCounts is a chi-square test of two samples; sequences that both found
// seldom count as one.
func compareCounts(t *testing.T, i int, g *drawnGolden, got map[string]float64, runs float64) {
	t.Helper()
	chi, degrees := 0.0, -1.0
	restGot, restWant := runs, float64(g.Runs)
	add := func(a, b float64) {
		share := (a + b) / (runs + float64(g.Runs))
		if d := a/runs - b/float64(g.Runs); share > 0 {
			chi += d * d / (share * (1/runs + 1/float64(g.Runs)))
			degrees++
		}
	}
	for _, c := range g.Counts {
		var n float64
		if err := json.Unmarshal(c[1], &n); err != nil {
			t.Fatal(err)
		}
		if n*runs < 10*float64(g.Runs) {
			continue
		}
		a := got[string(c[0])]
		add(a, n)
		restGot, restWant = restGot-a, restWant-n
	}
	add(restGot, restWant)
	if limit := degrees + 4*math.Sqrt(2*degrees); chi > limit || degrees < 5 {
		t.Errorf("drawn %d: chi-square %.0f with %.0f degrees of freedom, at most %.0f is likely", i, chi, degrees,
			limit)
	}
}
