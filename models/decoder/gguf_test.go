package decoder

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models"
	"tgi/models/hf"
)

// ggufDir holds what testdata/make_gguf_goldens.py wrote.
const ggufDir = "../testdata/gguf"

// ggufNames lists the cases.
func ggufNames(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(ggufDir)
	if err != nil || len(entries) < 30 {
		t.Fatalf("%d goldens in %s: %v", len(entries), ggufDir, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// readGGUF opens a case, and what transformers computed for the model that it was converted from.
func readGGUF(t testing.TB, name string) (*hf.Checkpoint, golden) {
	t.Helper()
	dir := filepath.Join(ggufDir, name)
	ck, err := hf.Open(filepath.Join(dir, "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	if _, err := os.Stat(filepath.Join(dir, "golden.json")); err != nil { // a case of make_goldens.py
		dir = filepath.Join(goldenDir, name)
	}
	return ck, readResults(t, dir, ck.Config.Vocab)
}

// TestLogitsOfGGUF: a model in the GGUF format, as llama.cpp converts it, computes what transformers does with the
// original, whole and token by token.
func TestLogitsOfGGUF(t *testing.T) {
	for _, name := range ggufNames(t) {
		t.Run(name, func(t *testing.T) {
			ck, g := readGGUF(t, name)
			r, path := buildTo(t, ck, Options{Weights: models.FP32})
			for _, piece := range []int{0, 1} {
				m := runModel(t, r, path, 64)
				seqs, last := make([]*sequence, len(g.Prompts)), make([][]float32, len(g.Prompts))
				for i, prompt := range g.Prompts {
					seqs[i] = &sequence{}
					logits := m.prefill(seqs[i], prompt, piece)
					if d := distance(logits, g.logits[i]); d > tolerance {
						t.Errorf("prompt %d in pieces of %d: logits differ by %g", i, piece, d)
					}
					last[i] = logits[len(logits)-1]
				}
				for i, got := range m.greedy(seqs, last, len(g.Greedy[0])) {
					if !slices.Equal(got, g.Greedy[i]) {
						t.Errorf("prompt %d in pieces of %d: greedy tokens\n got %v\nwant %v", i, piece, got, g.Greedy[i])
					}
				}
			}
		})
	}
}
