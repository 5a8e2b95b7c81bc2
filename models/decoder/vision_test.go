package decoder

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/vision"
	"tgi/models/vision/visiontest"
	"tgi/runtime/llm"
)

// TestLogitsOfPictures: with the features of pictures in the place of their tokens, text models give the logits and the
// greedy tokens of transformers, with the prompt whole and in pieces that cut pictures, unless their tokens see each
// other.
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
					for from, to := 0, 0; from < len(run.IDs); from = to {
						most, least := llm.Whole(pictures, from, min(from+piece, len(run.IDs)))
						to = max(most, least)
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

// places returns the pictures of a run whose tokens have places of their own, or see each other; nil if the model has
// no such.
func places(t *testing.T, g visiontest.Golden, v hf.Vision, run visiontest.Run) (list []llm.Embedding) {
	t.Helper()
	if v.Kind != hf.QwenVL && !v.Mutual {
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
		list = append(list, llm.Embedding{At: at, N: plan.Tokens, Columns: plan.Columns,
			Mutual: plan.Mutual})
		at += plan.Tokens
	}
	return list
}

// TestGemmaWithoutTower: a checkpoint of Gemma 3's text model alone, of the class that reads images, is one of text and
// gives what the whole gives for text, whether its configuration speaks of a tower or not.
func TestGemmaWithoutTower(t *testing.T) {
	g, err := visiontest.Read("gemma3")
	if err != nil {
		t.Fatal(err)
	}
	prompt := []llm.Token{60, 70, 80, 90, 100, 110, 60, 70, 81}
	answer := func(dir string, sees bool) []llm.Token {
		ck, err := hf.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		built, path := buildTo(t, ck, Options{Weights: models.FP32})
		if (built.Vision != nil) != sees || built.Arch.KeyEnds != sees || (built.Arch.Width > 0) != sees {
			t.Errorf("%+v", built.Arch)
		}
		m, q := runModel(t, built, path, 64), &sequence{}
		return m.greedy([]*sequence{q}, m.prefill(q, prompt, 0)[len(prompt)-1:], 24)[0]
	}
	want := answer(g.Dir, true)
	config, err := os.ReadFile(filepath.Join(g.Dir, hf.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := safetensors.OpenFile(filepath.Join(g.Dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	var specs []safetensors.Spec
	var body []byte
	for _, name := range whole.Names() {
		tensor, err := whole.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(name, "vision") && !strings.Contains(name, "projector") {
			specs = append(specs, safetensors.Spec{Name: name, DType: tensor.DType, Shape: tensor.Shape})
			body = append(body, tensor.Bytes()...)
		}
	}
	var file bytes.Buffer
	if err := safetensors.WriteHeader(&file, specs); err != nil {
		t.Fatal(err)
	}
	file.Write(body)
	for _, key := range []string{"vision_config", ""} {
		dir := t.TempDir()
		own := config
		if key != "" {
			own = bytes.Replace(config, []byte(`"vision_config": {`), []byte(`"vision_config": null, "_was": {`), 1)
		}
		for name, data := range map[string][]byte{hf.ConfigFile: own, "model.safetensors": file.Bytes()} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := answer(dir, false); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
