package engine

import (
	"math/rand/v2"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// TestWholeTokenIsNew: where a text goes on behind a stop string of which a guard replaces something, the whole last
// token is new to all guards, of which they saw a part. And what one lets go at that end it may hold then.
func TestWholeTokenIsNew(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	ends, grown := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 12))
		seen := map[int]string{}
		last, stopped := 0, false
		watch := saying{llm.GuardRules{Name: "watch", Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			from := uint32(v.Context)
			for i, end := range v.Ends {
				at, text := v.Released+i, string(v.Text[from:end])
				if at < len(v.Output)-v.New && seen[at] != text {
					t.Errorf("%d: token %d is %q, it was %q, and %d of %d are new", seed, at, text, seen[at], v.New,
						len(v.Output))
				}
				seen[at], from = text, end
			}
			if stopped && len(v.Output) == last && v.Reason == llm.FinishNone {
				grown++
			}
			last, stopped = len(v.Output), v.Reason == llm.FinishStop
			return llm.Verdict{Position: len(v.Output)}
		}}
		list := []sample.Guard{longest("#", "b", "hb"), longest("@", "bc"+"bh"[r.IntN(2):], "c"), watch}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		q := endless(24)
		q.Params.Temperature, q.Params.Seed = 1.5, seed
		q.Params.Stop = []string{[]string{"b", "c", "cb", "h"}[r.IntN(4)]}
		q.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: list} }
		got, err := generate(e, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.finish[0].Text {
			if c == 'b' && q.Params.Stop[0] != "b" && q.Params.Stop[0] != "cb" {
				t.Errorf("%d: %q went out", seed, got.finish[0].Text)
				break
			}
		}
		if got.finish[0].Reason == llm.FinishStop {
			ends++
		}
	}
	if ends < 100 || grown < 100 {
		t.Errorf("%d texts ended at a stop string, %d went on behind one", ends, grown)
	}
}
