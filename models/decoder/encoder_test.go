package decoder

import (
	"compress/gzip"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/runtime/embed"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

const embeddings = "../testdata/embeddings"

// embeddingGolden is what make_embeddings.py wrote of a checkpoint.
type embeddingGolden struct {
	Texts   []string               `json:"texts"`
	IDs     [][]uint32             `json:"ids"`
	Types   [][]int                `json:"types"`
	Prompts map[string][][]float64 `json:"prompts"`
	Tokens  []float64              `json:"tokens"`
	Pairs   [][]float64            `json:"pairs"`
}

func readEmbeddingGolden(t *testing.T, name string) (g embeddingGolden) {
	t.Helper()
	f, err := os.Open(filepath.Join(embeddings, name, "golden.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// openEmbedder builds a checkpoint and loads it.
func openEmbedder(t *testing.T, name string, w models.Weights) (*ort.Embedder, *hf.Checkpoint) {
	t.Helper()
	startRuntime(t)
	ck, err := hf.Open(filepath.Join(embeddings, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	dir := t.TempDir()
	data, err := os.Create(filepath.Join(dir, DataFile))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Build(ck, data, Options{Weights: w})
	if err != nil {
		t.Fatal(err)
	}
	data.Close()
	o := ort.EmbedderOptions{ModelPath: filepath.Join(dir, ModelFile), Places: ck.Config.Tensors.Positions != "",
		Types: ck.Config.Encoder.TokenTypes > 0, Threads: 1, Shape: embed.Shape{Width: ck.Config.Hidden,
			MaxTokens: ck.Config.MaxPositions}}
	modes := []string{ck.Config.Encoder.Pooling}
	if ck.Sentence != nil {
		modes = ck.Sentence.Pooling
	}
	if s := ck.Sentence; s != nil && s.Sparse != nil {
		o.Sparse, modes = &embed.Sparse{Sum: s.Sparse.Sum, Twice: s.Sparse.Twice}, nil
	}
	for _, m := range modes {
		o.Pooling = append(o.Pooling, embed.Pooling(m))
	}
	o.Out = len(modes) * o.Width
	files := map[string][]byte{ModelFile: r.Model}
	if r.Stages != nil {
		o.StagesPath = filepath.Join(dir, StagesFile)
		files[StagesFile] = r.Stages
		stages := ck.Config.Encoder.Stages
		o.Out = stages[len(stages)-1].Out
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e, err := ort.OpenEmbedder(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e, ck
}

// textsOf are the golden's texts as tokens.
func (g *embeddingGolden) textsOf() []embed.Text {
	out := make([]embed.Text, len(g.IDs))
	for i, ids := range g.IDs {
		out[i] = embed.Text{IDs: ids}
		if g.Types != nil {
			out[i].Second = max(0, slices.Index(g.Types[i], 1))
		}
	}
	return out
}

// cosine returns that of two vectors.
func cosine(a []float32, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+float64(a[i])*b[i], aa+float64(a[i])*float64(a[i]), bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

func embeddingCases(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir(embeddings)
	if err != nil || len(list) == 0 {
		t.Fatal(err, len(list))
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestEmbeddingGoldens: vectors and scores are those of sentence-transformers, in the order of the texts.
func TestEmbeddingGoldens(t *testing.T) {
	for _, name := range embeddingCases(t) {
		t.Run(name, func(t *testing.T) {
			g := readEmbeddingGolden(t, name)
			e, ck := openEmbedder(t, name, models.FP32)
			b := embed.New(e, embed.Config{MaxBatchTokens: 1000})
			defer b.Close()
			got, err := b.Run(t.Context(), llm.Client{}, g.textsOf(), embed.Vector)
			if err != nil {
				t.Fatal(err)
			}
			if ck.Config.Encoder.Classifier {
				for i, want := range g.Pairs {
					for k := range want {
						if d := math.Abs(float64(got[i][k]) - want[k]); !(d < 1e-4) {
							t.Errorf("text %d, score %d: %g, want %g", i, k, got[i][k], want[k])
						}
					}
				}
				return
			}
			want, prompted := g.Prompts[""], ck.Sentence.DefaultPrompt != ""
			for i := range want {
				if prompted { // the ids have no prompt
					break
				}
				if c := cosine(got[i], want[i]); len(got[i]) != len(want[i]) || !(c > 0.99999) {
					t.Errorf("text %d: cosine %.7f, %d dimensions, want %d", i, c, len(got[i]), len(want[i]))
				}
			}
			tokens, err := b.Run(t.Context(), llm.Client{}, g.textsOf()[:1], embed.Tokens)
			if err != nil {
				t.Fatal(err)
			}
			if c := cosine(tokens[0], g.Tokens); len(tokens[0]) != len(g.Tokens) || !(c > 0.99999) {
				t.Errorf("tokens: cosine %.7f, %d numbers, want %d", c, len(tokens[0]), len(g.Tokens))
			}
		})
	}
}

// TestEmbeddingsDoNotDependOnTheBatch: a text's result is the same, bit by bit, alone and beside any others, with one
// thread and with two.
func TestEmbeddingsDoNotDependOnTheBatch(t *testing.T) {
	for _, name := range embeddingCases(t) {
		for _, w := range []models.Weights{models.FP32, models.Int8} {
			t.Run(name+" "+string(w), func(t *testing.T) {
				g := readEmbeddingGolden(t, name)
				e, _ := openEmbedder(t, name, w)
				texts := g.textsOf()
				run := func(most int, texts []embed.Text) [][]float32 {
					b := embed.New(e, embed.Config{MaxBatchTokens: most})
					defer b.Close()
					out, err := b.Run(t.Context(), llm.Client{}, texts, embed.Vector)
					if err != nil {
						t.Fatal(err)
					}
					return out
				}
				alone := run(1, texts)
				random := rand.New(rand.NewPCG(1, 2))
				for _, most := range []int{40, 350, 10000} {
					order := random.Perm(len(texts))
					mixed := make([]embed.Text, len(texts))
					for i, k := range order {
						mixed[i] = texts[k]
					}
					for i, v := range run(most, mixed) {
						if !slices.Equal(v, alone[order[i]]) {
							t.Errorf("steps of %d tokens: text %d differs: %v, alone %v", most, order[i], v[:min(4, len(v))],
								alone[order[i]][:min(4, len(v))])
						}
					}
				}
			})
		}
	}
}
