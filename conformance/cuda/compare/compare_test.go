package compare

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/store"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// open opens a golden checkpoint on the CPU.
func open(t *testing.T, name string, w models.Weights) *ort.Paged {
	t.Helper()
	path, err := ort.Locate("")
	if err != nil {
		t.Fatal(err)
	}
	if err := ort.Init(path); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join("../../../models/testdata/golden", name)
	b, err := store.Prepare(t.Context(), folder, store.Options{Weights: w})
	if err != nil {
		t.Fatal(err)
	}
	p, err := ort.Open(ort.Options{ModelPath: b.ModelFile, Layers: b.Layers, KVHeads: b.KVHeads, HeadDim: b.HeadDim,
		Cache: ort.CacheForm(b.Cache), Vocab: b.Vocab, MaxLen: b.MaxPositions, Blocks: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// runs are all ways to play sequences but Alone.
var runs = map[string]Run{
	"tokens": Tokens, "decode": Decode, "forked": Forked, "ragged 1": Ragged(1), "ragged 2": Ragged(2),
}

// TestEveryRunIsTheSame: the CPU's backend computes the same whichever way sequences are played.
func TestEveryRunIsTheSame(t *testing.T) {
	for _, name := range []string{"llama3", "mistral", "qwen3"} {
		b := open(t, name, models.FP32)
		sequences := Sequences(b.Vocab(), b.BlockSize(), 100, 3)
		want, err := Alone(b, sequences)
		if err != nil {
			t.Fatal(err)
		}
		for how, run := range runs {
			got, err := run(b, sequences)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, how, err)
			}
			if d, err := Of(got, want); err != nil || d.Worst > 1e-5 || d.Top1 < 1 {
				t.Errorf("%s, %s: %v %v", name, how, d, err)
			}
		}
	}
}

// TestChunks: a sequence in chunks gives what it gives as a whole, at the tokens that are asked for, and a fault in one
// chunk shows.
func TestChunks(t *testing.T) {
	b := open(t, "llama3", models.FP32)
	tokens := Sequences(b.Vocab(), b.BlockSize(), 100, 3)[9]
	at := []int{0, 16, 17, 54, 90, 95, 98, 99}
	all, err := Alone(b, [][]llm.Token{tokens})
	if err != nil {
		t.Fatal(err)
	}
	var want [][]float32
	for _, i := range at {
		want = append(want, all[0][i])
	}
	for _, chunk := range []int{1, 17, 64, 200} {
		got, err := Chunks(b, tokens, chunk, 5, at)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := Of(Logits{got}, Logits{want}); err != nil || d.Worst > 1e-5 || d.Tokens != len(at) {
			t.Errorf("chunks of %d: %v %v", chunk, d, err)
		}
	}
	lost := broken{b, func(s *llm.Step) {
		if s.PastLens[0] == 17 {
			s.SlotMapping[0] = -1
		}
	}, false}
	other := Sequences(b.Vocab(), b.BlockSize(), 100, 4)[9]
	if _, err := Chunks(b, other, 100, 0, nil); err != nil {
		t.Fatal(err)
	}
	got, err := Chunks(lost, tokens, 17, 5, at)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Of(Logits{got}, Logits{want}); err != nil || d.Worst < 1e-3 {
		t.Errorf("a token's key is lost: %v %v", d, err)
	}
}

// TestQuantisationShows: weights of 8 bits are off from those of 32, and not by much.
func TestQuantisationShows(t *testing.T) {
	exact, rounded := open(t, "llama3", models.FP32), open(t, "llama3", models.Int8)
	sequences := Sequences(exact.Vocab(), exact.BlockSize(), 100, 3)
	want, err := Alone(exact, sequences)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Alone(rounded, sequences)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Of(got, want); err != nil || d.Worst < 1e-3 || d.Mean > 0.1 {
		t.Errorf("%v %v", d, err)
	}
}

// broken is a backend with a fault.
type broken struct {
	Backend
	change func(s *llm.Step)
	lazy   bool // copies no blocks
}

func (b broken) Forward(s *llm.Step) ([]float32, error) {
	if b.change != nil {
		b.change(s)
	}
	return b.Backend.Forward(s)
}

func (b broken) CopyBlocks(pairs []llm.BlockCopy) error {
	if b.lazy {
		return nil
	}
	return b.Backend.CopyBlocks(pairs)
}

// TestFaultsAreFound: each fault that a backend may have shows in the run that is there for it.
func TestFaultsAreFound(t *testing.T) {
	b := open(t, "llama3", models.FP32)
	sequences := Sequences(b.Vocab(), b.BlockSize(), 100, 3)
	want, err := Alone(b, sequences)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		run Run
		b   Backend
	}{
		"blocks are not copied": {Forked, broken{b, nil, true}},
		"a token's key is not written": {Tokens, broken{b, func(s *llm.Step) {
			if s.PastLens[0] == 3 {
				s.SlotMapping[0] = -1
			}
		}, false}},
		"rows of a batch are taken for each other": {Decode, broken{b, func(s *llm.Step) {
			if s.Rows() > 1 && len(s.Tokens) == s.Rows() {
				s.Tokens[0], s.Tokens[1] = s.Tokens[1], s.Tokens[0]
			}
		}, false}},
		"a piece of a prompt does not see what came before": {Ragged(1), broken{b, func(s *llm.Step) {
			for i := range s.Rows() {
				if n := s.CuSeqlens[i+1] - s.CuSeqlens[i]; n > 1 && s.PastLens[i] > 0 {
					s.Tokens[s.CuSeqlens[i]] = 0
				}
			}
		}, false}},
	} {
		got, err := c.run(c.b, sequences)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d, err := Of(got, want); err != nil || d.Worst < 1e-3 {
			t.Errorf("%s is not noticed: %v %v", name, d, err)
		}
	}
}

// TestOf: errors by hand, and logits that are no numbers.
func TestOf(t *testing.T) {
	want := Logits{{{3, 4}}, {{1, 0}, {0, 2}}}
	d, err := Of(Logits{{{3, 4.5}}, {{1, 0}, {3, 2}}}, want)
	if err != nil || d.Tokens != 3 || math.Abs(d.Worst-1.5) > 1e-9 || d.Sequence != 1 || d.Token != 1 ||
		math.Abs(d.Mean-(0.1+1.5)/3) > 1e-9 || math.Abs(d.Median-0.1) > 1e-9 || math.Abs(d.Top1-2.0/3) > 1e-9 {
		t.Errorf("%+v %v", d, err)
	}
	nan := float32(math.NaN())
	if d, _ := Of(Logits{{{nan, 4}}, {{1, 0}, {0, 2}}}, want); !math.IsInf(d.Worst, 1) {
		t.Errorf("a NaN is %+v", d)
	}
	for _, got := range []Logits{nil, {{{3, 4}}, {{1, 0}}}} {
		if _, err := Of(got, want); err == nil {
			t.Errorf("%v has the shape of %v", got, want)
		}
	}
}

// TestSmallCache: a run that does not fit says so.
func TestSmallCache(t *testing.T) {
	b := open(t, "llama3", models.FP32)
	long := make([]llm.Token, b.MaxLen())
	var many [][]llm.Token
	for range b.Blocks()*b.BlockSize()/len(long) + 1 {
		many = append(many, long)
	}
	if _, err := Alone(b, many); err == nil || !strings.Contains(err.Error(), fmt.Sprint(b.Blocks())) {
		t.Errorf("%v", err)
	}
	failing := broken{b, func(s *llm.Step) { s.Tokens[0] = math.MaxInt32 }, false}
	for how, run := range runs {
		if _, err := run(failing, Sequences(b.Vocab(), b.BlockSize(), 20, 1)); !errors.Is(err, llm.ErrBackend) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestSequences: lengths around the edges of a block are there, and nothing is longer than asked for.
func TestSequences(t *testing.T) {
	b := open(t, "llama3", models.FP32)
	have := map[int]bool{}
	for _, s := range Sequences(b.Vocab(), b.BlockSize(), 40, rand.Uint64()) {
		have[len(s)] = true
		if len(s) < 1 || len(s) > 40 {
			t.Errorf("%d tokens", len(s))
		}
	}
	for _, n := range []int{1, 15, 16, 17, 32, 33, 40} {
		if !have[n] {
			t.Errorf("none has %d tokens: %v", n, have)
		}
	}
}
