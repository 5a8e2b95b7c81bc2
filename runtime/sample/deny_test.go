package sample

import (
	"errors"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// forcing is a processor that forces a token, or ends the sequence.
type forcing struct{ token int64 }

func (f forcing) Process(_ History, s *Step) error {
	s.Force, s.Stop = f.token, f.token < 0
	return nil
}

// TestDeny: a denied token is not the first, whoever wants it, and nobody is told of it; at the next place it is free.
// Where no other is left the pick fails, unless a processor ends the sequence.
func TestDeny(t *testing.T) {
	all := []llm.Token{0, 1, 2, 3, 4, 5, 6, 7}
	for _, c := range []struct {
		name string
		plug Plugins
		deny []llm.Token
		set  func(p *llm.Params)
		want int // -1 for none
	}{
		{"best", Plugins{}, []llm.Token{7, 6}, nil, 5},
		{"bias", Plugins{}, []llm.Token{7}, func(p *llm.Params) { p.LogitBias = []llm.Bias{{Token: 7, Add: 50}} }, 6},
		{"draw", Plugins{}, all[1:], func(p *llm.Params) { p.Sample = true }, 0},
		{"top_k", Plugins{}, all[5:], func(p *llm.Params) { p.Sample, p.TopK = true, 1 }, 4},
		{"raw", Plugins{}, []llm.Token{7}, func(p *llm.Params) { p.RawLogprobs = true }, 6},
		{"mask", Plugins{Masker: firstTokens(3)}, []llm.Token{2}, nil, 1},
		{"sampler", Plugins{Sampler: samplerOf(7)}, []llm.Token{7}, nil, 6},
		{"processor", Plugins{Processors: []Processor{forcing{7}}}, []llm.Token{7, 6}, nil, 5},
		{"forced otherwise", Plugins{Processors: []Processor{forcing{2}}}, []llm.Token{7}, nil, 2},
		{"all", Plugins{}, all, nil, -1},
		{"all of the mask", Plugins{Masker: firstTokens(3)}, all[:3], nil, -1},
		{"all, and a processor", Plugins{Processors: []Processor{forcing{7}}}, all, nil, -1},
		{"all but an end", Plugins{Processors: []Processor{forcing{-1}}}, all, nil, 0},
	} {
		p := off()
		p.TopN, p.Explain = 3, llm.Explain{Tokens: 9, Top: 2}
		if c.set != nil {
			c.set(&p)
		}
		chain, err := New(p, 8, []llm.Token{0}, c.plug)
		if err != nil {
			t.Fatal(err)
		}
		deny := slices.Clone(c.deny)
		chain.Deny(deny, "program")
		clear(deny) // it is copied
		row := func() []float32 { return []float32{0, 10, 20, 30, 40, 50, 60, 70} }
		if err := chain.Prepare(History{}); err != nil {
			t.Fatal(err)
		}
		if _, ok := chain.Reductions(History{}, 0, nil); ok {
			t.Errorf("%s: a device reduces the row", c.name)
		}
		got, err := chain.Pick(History{}, row())
		if c.want < 0 {
			if !errors.Is(err, ErrBanned) {
				t.Errorf("%s: %+v (%v), want none", c.name, got, err)
			}
			continue
		}
		if err != nil || int(got.Token) != c.want {
			t.Errorf("%s: %+v (%v), want %d", c.name, got, err, c.want)
			continue
		}
		for _, id := range named7(got) {
			if slices.Contains(c.deny, id) && id != got.Token {
				t.Errorf("%s: token %d is named", c.name, id)
			}
		}
		told := slices.ContainsFunc(got.Explained.Changes, func(x llm.Change) bool {
			return x.Kind == llm.ChangeProgram && x.Name == "program" && x.Count > 0
		})
		if !told {
			t.Errorf("%s: nothing tells of the program: %+v", c.name, got.Explained.Changes)
		}
		if c.name != "best" {
			continue
		}
		if next, err := chain.Pick(History{Output: []llm.Token{5}}, row()); err != nil || next.Token != 7 {
			t.Errorf("behind it: %+v (%v), want 7", next, err)
		}
	}
}
