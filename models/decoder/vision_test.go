package decoder

import (
	"math"
	"os"
	"slices"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/vision"
	"tgi/models/vision/visiontest"
	"tgi/runtime/llm"
)

// TestLogitsOfPictures: with the features of pictures in the place of their tokens, text models give the logits and the
// greedy tokens of transformers, with the prompt whole and in pieces that cut pictures.
func TestLogitsOfPictures(t *testing.T) {
	for _, name := range visiontest.Names {
		t.Run(name, func(t *testing.T) {
			g, err := visiontest.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			ck, err := hf.Open(g.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			built, path := buildTo(t, ck, Options{Weights: models.FP32})
			if built.Arch.Width != ck.Config.Hidden || built.Arch.TileRows != ck.Config.Vision.TileRows() ||
				built.Vision == nil {
				t.Errorf("%+v", built.Arch)
			}
			m := runModel(t, built, path, 1024)
			for i, run := range g.Runs {
				pictures := places(t, g, *ck.Config.Vision, run)
				var list []llm.Embedding
				var features []float32
				for j := range run.Pictures {
					features = append(features, g.Features(i, j)...)
				}
				for at, id := range run.IDs {
					if id == ck.Config.Vision.ImageToken {
						list = append(list, llm.Embedding{At: at, N: 1, Vectors: features[:built.Arch.Width]})
						features = features[built.Arch.Width:]
					}
				}
				if len(features) != 0 {
					t.Fatalf("run %d: %d numbers are left", i, len(features))
				}
				for _, piece := range []int{len(run.IDs), 13} {
					q := &sequence{pictures: pictures}
					var got [][]float32
					for from := 0; from < len(run.IDs); from += piece {
						to := min(from+piece, len(run.IDs))
						m.embeddings = nil
						for _, e := range list {
							if e = e.Cut(from, to); e.N > 0 {
								e.At -= from
								m.embeddings = append(m.embeddings, e)
							}
						}
						got = append(got, m.feed([]*sequence{q}, [][]llm.Token{run.IDs[from:to]})...)
					}
					m.embeddings = nil
					most, want := 0.0, g.Logits(i)
					last := slices.Concat(got[len(got)-len(want)/m.vocab:]...)
					for k, x := range last {
						most = max(most, math.Abs(float64(x-want[k])))
					}
					if !(most < tolerance) {
						t.Errorf("run %d in pieces of %d: logits differ by %g", i, piece, most)
					}
					if tokens := m.greedy([]*sequence{q}, got[len(got)-1:], len(run.Greedy))[0]; !slices.Equal(tokens,
						run.Greedy) {
						t.Errorf("run %d in pieces of %d: greedy tokens %v, want %v", i, piece, tokens, run.Greedy)
					}
				}
			}
		})
	}
}

// places returns the pictures of a run whose tokens have places of their own; nil if the model has no such.
func places(t *testing.T, g visiontest.Golden, v hf.Vision, run visiontest.Run) (list []llm.Embedding) {
	t.Helper()
	if v.Kind != hf.QwenVL {
		return nil
	}
	p, err := vision.Open(os.DirFS(g.Dir), v)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, size := range run.Pictures {
		plan, err := p.Plan(size[0], size[1])
		if err != nil {
			t.Fatal(err)
		}
		at += slices.Index(run.IDs[at:], v.ImageToken)
		list = append(list, llm.Embedding{At: at, N: plan.Tokens, Columns: plan.Columns})
		at += plan.Tokens
	}
	return list
}
