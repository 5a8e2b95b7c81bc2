package sample

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"tgi/runtime/llm"
)

type golden struct {
	Name    string
	N       int
	Sigma   float64
	Grid    float64
	Seed    uint64
	Prompt  []llm.Token
	Output  []llm.Token
	Kept    int
	IDSum   int `json:"id_sum"`
	Best    llm.Token
	Logprob [][2]float64 `json:"logprobs"`
	Params  struct {
		Bias        [][2]float64
		Repetition  *float32 `json:"repetition_penalty"`
		Frequency   float32  `json:"frequency_penalty"`
		Presence    float32  `json:"presence_penalty"`
		Temperature *float32
		TopK        int      `json:"top_k"`
		TopP        *float32 `json:"top_p"`
		TypicalP    *float32 `json:"typical_p"`
		MinP        float32  `json:"min_p"`
	}
}

// row is the twin of make_goldens.py's.
func (g *golden) row() []float32 {
	x := make([]float32, g.N)
	state := g.Seed
	for i := range x {
		s := -2.0
		for range 4 {
			state = state*6364136223846793005 + 1442695040888963407
			s += float64(state>>11) * 0x1p-53
		}
		v := s * g.Sigma
		if g.Grid > 0 {
			v = math.Trunc(v/g.Grid) * g.Grid
		}
		x[i] = float32(v)
	}
	return x
}

func (g *golden) params() llm.Params {
	p := off()
	set := func(dst *float32, v *float32) {
		if v != nil {
			*dst = *v
		}
	}
	set(&p.RepetitionPenalty, g.Params.Repetition)
	set(&p.Temperature, g.Params.Temperature)
	set(&p.TopP, g.Params.TopP)
	set(&p.TypicalP, g.Params.TypicalP)
	p.FrequencyPenalty, p.PresencePenalty = g.Params.Frequency, g.Params.Presence
	p.TopK, p.MinP = g.Params.TopK, g.Params.MinP
	for _, b := range g.Params.Bias {
		p.LogitBias = append(p.LogitBias, llm.Bias{Token: llm.Token(b[0]), Add: float32(b[1])})
	}
	return p
}

// TestGoldens compares whole processed distributions, seen through Pick.Top,
// with those of transformers' logits processors.
func TestGoldens(t *testing.T) {
	data, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var goldens []golden
	if err := json.Unmarshal(data, &goldens); err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) {
			p := g.params()
			p.TopN = g.N
			chain, err := New(p, g.N, nil, Plugins{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := chain.Pick(History{Prompt: g.Prompt, Output: g.Output}, g.row())
			if err != nil {
				t.Fatal(err)
			}
			sum, at := 0, make(map[llm.Token]float32)
			for _, c := range got.Top {
				sum += int(c.Token)
				at[c.Token] = c.Logprob
			}
			if len(got.Top) != g.Kept || sum != g.IDSum {
				t.Errorf("kept %d tokens with id sum %d, want %d and %d", len(got.Top), sum, g.Kept, g.IDSum)
			}
			if got.Token != g.Best || got.Top[0].Token != g.Best {
				t.Errorf("picked %d, first of top %d, want %d", got.Token, got.Top[0].Token, g.Best)
			}
			for _, w := range g.Logprob {
				lp, ok := at[llm.Token(w[0])]
				if !ok || math.Abs(float64(lp)-w[1]) > 3e-6+1e-7*math.Abs(w[1]) {
					t.Errorf("token %v: logprob %v (kept: %v), want %v", w[0], lp, ok, w[1])
				}
			}
			if got.Logprob != at[g.Best] {
				t.Errorf("logprob of the pick is %v, in the list %v", got.Logprob, at[g.Best])
			}
		})
	}
}
