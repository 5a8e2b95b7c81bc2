package decoder

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/models"
	"tgi/runtime/llm"
)

// TestEmbeddingsOfTheTable: vectors of the checkpoint's own table, given in the place of other tokens, give the logits
// of the tokens that they are of, bit by bit, whole or in pieces, in a step with rows that have none; and a step
// without embeddings gives what the graph gives that takes none.
func TestEmbeddingsOfTheTable(t *testing.T) {
	for _, name := range []string{"llama2", "qwen2"} {
		ck, g := readGolden(t, name)
		table, err := ck.Tensors.Tensor("model.embed_tokens.weight")
		if err != nil {
			t.Fatal(err)
		}
		width := ck.Config.Hidden
		r := rand.New(rand.NewPCG(1, 2))
		prompt := slices.MaxFunc(g.Prompts, func(a, b []llm.Token) int { return len(a) - len(b) })
		other := slices.Clone(prompt)
		var list []llm.Embedding
		for at := 1; at < len(prompt); at += 2 {
			e := llm.Embedding{At: at, N: min(1+r.IntN(4), len(prompt)-at)}
			for i := at; i < e.End(); i++ {
				row := make([]float32, width)
				if err := table.Floats(row, int(prompt[i])*width); err != nil {
					t.Fatal(err)
				}
				e.Vectors = append(e.Vectors, row...)
				other[i] = 0
			}
			list = append(list, e)
			at = e.End()
		}
		plain, plainPath := buildTo(t, ck, Options{Weights: models.FP32})
		built, path := buildTo(t, ck, Options{Weights: models.FP32, embeddings: true})
		want := runModel(t, plain, plainPath, 64).prefill(&sequence{}, prompt, 0)
		m := runModel(t, built, path, 256)
		compare := func(what string, got [][]float32) {
			t.Helper()
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("%s, %s: the logits of token %d differ", name, what, i)
					return
				}
			}
		}
		compare("without embeddings", m.prefill(&sequence{}, prompt, 0))
		m.embeddings = list
		compare("with embeddings", m.prefill(&sequence{}, other, 0))
		m.embeddings = nil
		got := m.feed([]*sequence{{}, {}}, [][]llm.Token{other, prompt})
		if slices.Equal(got[len(prompt)-1], want[len(want)-1]) {
			t.Errorf("%s: embeddings change nothing", name)
		}
		for i := range list { // behind another row
			moved := list[i]
			moved.At += len(prompt)
			m.embeddings = append(m.embeddings, moved)
		}
		got = m.feed([]*sequence{{}, {}}, [][]llm.Token{prompt, other})
		compare("a row beside it", got[:len(prompt)])
		compare("behind another row", got[len(prompt):])
	}
}
