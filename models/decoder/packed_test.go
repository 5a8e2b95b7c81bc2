package decoder

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models"
	"tgi/models/hf"
)

// packedDir holds what testdata/make_packed_goldens.py wrote.
const packedDir = "../testdata/packed"

// TestPackedCheckpoints: a checkpoint whose linear layers are quantised computes what transformers does with the
// weights that the format's own library makes of them; in its stored form it loses no more than the last digit of its
// scales, or what 8 bits round.
func TestPackedCheckpoints(t *testing.T) {
	entries, err := os.ReadDir(packedDir)
	if err != nil || len(entries) < 13 {
		t.Fatalf("%d goldens in %s: %v", len(entries), packedDir, err)
	}
	near := []string{"gptq-order", "compressed-float", "fp8", "fp8-latent", "nf4", "fp4"} // which 8 bits round
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			dir := filepath.Join(packedDir, e.Name())
			ck, err := hf.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			g := readResults(t, dir, ck.Config.Vocab)
			r, path := buildTo(t, ck, Options{Weights: models.FP32})
			m := runModel(t, r, path, 64)
			seqs, last := make([]*sequence, len(g.Prompts)), make([][]float32, len(g.Prompts))
			for i, prompt := range g.Prompts {
				seqs[i] = &sequence{}
				logits := m.prefill(seqs[i], prompt, 0)
				if d := distance(logits, g.logits[i]); d > tolerance {
					t.Errorf("prompt %d: logits differ by %g", i, d)
				}
				last[i] = logits[len(logits)-1]
			}
			for i, got := range m.greedy(seqs, last, len(g.Greedy[0])) {
				if !slices.Equal(got, g.Greedy[i]) {
					t.Errorf("prompt %d: greedy tokens\n got %v\nwant %v", i, got, g.Greedy[i])
				}
			}
			stored, _ := buildTo(t, ck, Options{Weights: models.Stored})
			layers := 0.0 // the head, which is not packed, has 8 bits
			if slices.Contains(near, e.Name()) {
				layers = 0.006
			}
			t.Logf("stored weights err by %.3f %%", 100*stored.Error.Relative())
			if loss := stored.Error.Relative(); loss > 0.004+layers || len(ck.Coded) != 1 {
				t.Errorf("stored weights %v err by %g", ck.Coded, loss)
			} else if e.Name() == "nf4" && loss < 0.005 {
				t.Errorf("the rounding of the table is not in the error of %g", loss)
			}
		})
	}
}
