package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// TestTallyIsIncremental: whatever the splits in which a sequence grows, and
// whether it was cut back meanwhile, the counts are those of the whole.
func TestTallyIsIncremental(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	prompt, output := make([]llm.Token, 20), make([]llm.Token, 60)
	for i := range prompt {
		prompt[i] = llm.Token(rng.IntN(15))
	}
	for i := range output {
		output[i] = llm.Token(rng.IntN(15))
	}
	grown := new(tokenCounts)
	for range 200 {
		h := History{Prompt: prompt, Output: output[:rng.IntN(len(output)+1)]}
		grown.update(h)
		total, out := make(map[llm.Token]int32), make(map[llm.Token]int32)
		for _, id := range h.Prompt {
			total[id]++
		}
		for _, id := range h.Output {
			total[id]++
			out[id]++
		}
		if len(grown.counts) != len(total) {
			t.Fatalf("%d tokens counted, want %d", len(grown.counts), len(total))
		}
		for _, c := range grown.counts {
			if c.total != total[c.token] || c.output != out[c.token] {
				t.Fatalf("token %d counted %d and %d times, want %d and %d", c.token, c.total, c.output, total[c.token],
					out[c.token])
			}
		}
	}
}

func TestPenaltiesByHand(t *testing.T) {
	h := History{Prompt: []llm.Token{0, 1, 1, 900}, Output: []llm.Token{1, 2, 2, 2}}
	for _, c := range []struct {
		name string
		p    Processor
		want []float32
	}{
		{"bias", bias{{Token: 3, Add: -2}, {Token: 0, Add: 0.5}}, []float32{2.5, -2, 4, -1}},
		{"repetition", repetition{new(tokenCounts), 2}, []float32{1, -4, 2, 1}},
		{"frequency", frequency{new(tokenCounts), 2}, []float32{2 - 2*1./8, -2 - 2*3./8, 4 - 2*3./8, 1}},
		{"presence", presence{new(tokenCounts), 0.5}, []float32{2, -2.5, 3.5, 1}},
	} {
		x := []float32{2, -2, 4, 1}
		if err := c.p.Process(h, &Step{Logits: x}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x, c.want) {
			t.Errorf("%s: %v, want %v", c.name, x, c.want)
		}
	}
}

func TestWatermark(t *testing.T) {
	const n = 20000
	green := func(gamma float32, h History, n int) []bool {
		x, list := make([]float32, n), make([]bool, n)
		if err := newWatermark(gamma, 2).Process(h, &Step{Logits: x}); err != nil {
			t.Fatal(err)
		}
		for i, v := range x {
			if v != 0 && v != 2 {
				t.Fatalf("logit moved by %v", v)
			}
			list[i] = v == 2
		}
		return list
	}
	share := func(list []bool) float64 {
		k := 0
		for _, g := range list {
			if g {
				k++
			}
		}
		return float64(k) / float64(len(list))
	}
	after7 := green(0.5, History{Prompt: []llm.Token{7}}, n)
	for _, gamma := range []float32{0.1, 0.25, 0.5, 0.9} {
		got := share(green(gamma, History{Prompt: []llm.Token{7}}, n))
		if g := float64(gamma); math.Abs(got-g) > 4*math.Sqrt(g*(1-g)/n) {
			t.Errorf("gamma %v: %.3f of the vocabulary is green", gamma, got)
		}
	}
	if !slices.Equal(after7, green(0.5, History{Prompt: []llm.Token{1, 2}, Output: []llm.Token{7}}, n)) {
		t.Error("the list depends on more than the previous token")
	}
	// The list is a public fact: whoever tests a text for the mark computes it so.
	for i, got := range after7 {
		lane := splitMix(splitMix(15485863*7)+uint64(i/4)) >> (i % 4 * 16) & 0xffff
		if want := lane < 32768; got != want {
			t.Fatalf("token %d green: %v, want %v", i, got, want)
		}
	}
	both, after8 := make([]bool, n), green(0.5, History{Output: []llm.Token{8}}, n)
	for i := range both {
		both[i] = after7[i] && after8[i]
	}
	if got := share(both); math.Abs(got-0.25) > 0.02 {
		t.Errorf("%.3f of the vocabulary is green after both of two tokens, want about 1/4", got)
	}
	if !slices.Equal(after7[:5], green(0.5, History{Prompt: []llm.Token{7}}, 5)) {
		t.Error("the list depends on the size of the vocabulary")
	}
	if got := share(green(0.5, History{}, n)); got != 0 {
		t.Errorf("without a previous token %.3f of the vocabulary is green, want none", got)
	}
}
