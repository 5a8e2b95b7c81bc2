package engine

import (
	"context"
	"slices"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// TestReplacedIsNotFound: the cache tells nobody what guards took back or replaced: who asks for a prompt that goes on
// as the model wrote finds no more of it than went out as it was. What went out is found.
func TestReplacedIsNotFound(t *testing.T) {
	const block = 4
	e := start(t, newFake(512, block, 256), Config{})
	whole, cut := 0, 0
	for seed := range uint64(400) {
		var wrote []llm.Token
		spy := saying{llm.GuardRules{Name: "spy", Hold: 1, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			wrote = append(wrote[:0], v.Output...)
			return llm.Verdict{Position: len(v.Output)}
		}}
		list := [][]sample.Guard{{spy}, {spy, masks("#", "b")}, {masks("#", "ca"), spy},
			{spy, fickle(seed, true)}}[seed%4]
		r := endless(30)
		r.Prompt = append(slices.Clone(r.Prompt), llm.Token(seed%50), llm.Token(seed/50)) // one's own
		r.Params.Temperature, r.Params.Seed = 1.5, seed
		if seed%3 == 0 {
			r.Twins, r.Mix.Weights = [][]llm.Token{append([]llm.Token{3}, r.Prompt...)}, []float32{1.5, -0.5}
		}
		plugins := sample.Plugins{Guards: list}
		if seed%5 < 2 { // they are asked apart from the steps
			plugins.Guests = []string{"all"}
		}
		r.Plugins = func(int) sample.Plugins { return plugins }
		got, err := generate(e, r)
		if err != nil {
			t.Fatalf("%d: %v", seed, err)
		}
		out := common(got.tokens[0], wrote)
		for _, prompt := range append([][]llm.Token{r.Prompt}, r.Twins...) {
			probe := endless(1)
			probe.Prompt = append(slices.Clone(prompt), wrote...)
			found, err := generate(e, probe)
			if err != nil {
				t.Fatalf("%d: %v", seed, err)
			}
			// The last token was never computed, and the last of a prompt always is.
			open := min(len(prompt)+out, len(probe.Prompt)-1) / block * block
			switch cached := found.finish[0].Cached; {
			case cached > open:
				t.Errorf("%d: %d of %d tokens are found, %d of them went out as they were", seed, cached,
					len(probe.Prompt), len(prompt)+out)
			case got.finish[0].Replaced == 0 && cached != open:
				t.Errorf("%d: %d of %d tokens are found, all went out", seed, cached, len(probe.Prompt))
			case got.finish[0].Replaced == 0:
				whole++
			case open < (len(probe.Prompt)-1)/block*block:
				cut++
			}
		}
	}
	if whole < 100 || cut < 100 {
		t.Errorf("%d whole, %d cut: nothing was tried", whole, cut)
	}
}

// TestGuardedContextsAreNotFound: of the contexts of a program that guards read, others find the prompt alone.
func TestGuardedContextsAreNotFound(t *testing.T) {
	const block = 4
	for _, guarded := range []bool{false, true} {
		e := start(t, newFake(64, block, 128), Config{})
		prompt := endless(1).Prompt
		s, err := e.OpenSession(SessionRequest{Slots: 1, Guarded: guarded, Prompt: prompt})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := s.New(slices.Clone(prompt), nil)
		p := params(12)
		p.IgnoreEOS = true
		sp, err := c.Start(SpanRequest{Params: p})
		if err != nil {
			t.Fatal(err)
		}
		text := slices.Clone(prompt)
		for over := false; !over; {
			ev, err := s.Next(context.Background())
			if err != nil || ev.Err != nil {
				t.Fatal(err, ev.Err)
			}
			if over = ev.Span == sp && ev.Last(); !ev.Dropped {
				text = append(text, ev.Event.Token)
			}
		}
		probe := endless(1)
		probe.Prompt = text
		found, err := generate(e, probe)
		want := (len(text) - 1) / block * block
		if guarded {
			want = len(prompt) / block * block
		}
		if err != nil || found.finish[0].Cached != want {
			t.Errorf("guarded %v: %d of %d tokens are found, want %d (%v)", guarded, found.finish[0].Cached, len(text), want,
				err)
		}
	}
}
