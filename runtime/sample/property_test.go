package sample

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// settings draws request settings from a few bytes.
func settings(b [8]byte) llm.Params {
	p := off()
	on := func(i int) bool { return b[0]>>i&1 == 1 }
	share := func(v byte) float32 { return (float32(v) + 1) / 257 }
	p.Sample, p.RawLogprobs, p.Seed = on(0), on(1), uint64(b[1])
	if on(2) {
		p.Temperature = float32(b[2])/40 + 0.01
	}
	if on(3) {
		p.TopK = int(b[3])
	}
	if on(4) {
		p.TopP = share(b[4])
	}
	if on(5) {
		p.TypicalP = share(b[5])
	}
	if on(6) {
		p.MinP = share(b[6])
	}
	if on(7) {
		p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = 0.5+2*share(b[7]), 1-2*share(b[7]), 0.3
		p.Watermark, p.WatermarkGamma, p.WatermarkDelta = b[7]%2 == 1, share(b[7]), 2
	}
	p.TopN = int(b[1] % 7)
	return p
}

// TestPermutedVocabulary: renaming the tokens renames the survivors and changes
// no probability.
func TestPermutedVocabulary(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for round := range 300 {
		n := 2 + rng.IntN(3000)
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], rng.Uint64())
		p := settings(b)
		p.Sample, p.Watermark, p.TopN = false, false, n
		x := normals(rng, n, 0.5+4*rng.Float64())
		h := History{Prompt: []llm.Token{0, 1, 1}, Output: []llm.Token{1}}
		name := rng.Perm(n)
		y := make([]float32, n)
		for i, j := range name {
			y[j] = x[i]
		}
		rename := func(ids []llm.Token) (out []llm.Token) {
			for _, id := range ids {
				out = append(out, llm.Token(name[id]))
			}
			return out
		}
		a := pick(t, p, h, x)
		c := pick(t, p, History{Prompt: rename(h.Prompt), Output: rename(h.Output)}, y)
		if math.Abs(float64(a.Logprob-c.Logprob)) > 1e-5 || len(a.Top) != len(c.Top) {
			t.Fatalf("round %d: %d survivors and logprob %v, renamed %d and %v", round, len(a.Top), a.Logprob,
				len(c.Top), c.Logprob)
		}
		probability := make(map[llm.Token]float32)
		for _, e := range c.Top {
			probability[e.Token] = e.Logprob
		}
		for _, e := range a.Top {
			lp, ok := probability[llm.Token(name[e.Token])]
			if !ok || math.Abs(float64(lp-e.Logprob)) > 1e-5 {
				t.Fatalf("round %d: token %d has logprob %v, renamed %v (kept: %v)", round, e.Token, e.Logprob, lp, ok)
			}
		}
	}
}

// TestColdSamplingIsGreedy: as the temperature falls to 0, draws end at the best.
func TestColdSamplingIsGreedy(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for round := range 100 {
		x := normals(rng, 1+rng.IntN(2000), 2)
		cold := off()
		cold.Sample, cold.Seed, cold.Temperature = true, uint64(round), 1e-7
		a, b := pick(t, off(), History{}, x), pick(t, cold, History{}, x)
		if a.Token != b.Token || b.Logprob != 0 {
			t.Fatalf("round %d: greedy %d, cold %d with logprob %v", round, a.Token, b.Token, b.Logprob)
		}
	}
}

// FuzzPick reads logits as raw bits and holds what must be true of any of them.
func FuzzPick(f *testing.F) {
	f.Add(uint64(0), []byte{0, 0, 128, 63, 0, 0, 0, 64})
	f.Add(uint64(0xffffffffffffffff), []byte{0, 0, 192, 127, 0, 0, 128, 255, 0, 0, 128, 127, 0, 0, 128, 63})
	f.Add(uint64(0x8080808080808035), []byte{1, 0, 0, 0, 1, 0, 0, 128, 255, 255, 127, 127, 255, 255, 127, 255})
	f.Fuzz(func(t *testing.T, set uint64, data []byte) {
		n := min(len(data)/4, 5000)
		if n == 0 {
			return
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], set)
		p := settings(b)
		x := make([]float32, n)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		h := History{Prompt: []llm.Token{0, 1, 7}, Output: make([]llm.Token, int(b[3])%5)}
		run := func() (Pick, error) {
			chain, err := New(p, n, nil, Plugins{})
			if err != nil {
				t.Fatalf("%+v: %v", p, err)
			}
			return chain.Pick(h, slices.Clone(x))
		}
		got, err := run()
		if err != nil {
			if !errors.Is(err, ErrNoToken) {
				t.Fatal(err)
			}
			if slices.ContainsFunc(x, func(v float32) bool { return v-v == 0 && v > -1e30 && v < 1e30 }) {
				t.Fatalf("%v for %v", err, x)
			}
			return
		}
		if int(got.Token) >= n {
			t.Fatalf("token %d of %d", got.Token, n)
		}
		if !p.RawLogprobs && !(got.Logprob <= 1e-5 && got.Logprob > negInf) {
			t.Fatalf("logprob %v of %v", got.Logprob, x)
		}
		if p.RawLogprobs && got.Logprob != got.Logprob {
			t.Fatalf("raw logprob of %v is no number", x)
		}
		if len(got.Top) < min(p.TopN, 1) {
			t.Fatalf("no top tokens of %v", x)
		}
		for i, c := range got.Top {
			if int(c.Token) >= n || !(c.Logprob <= 1e-5 && c.Logprob > negInf) {
				t.Fatalf("top token %+v of %v", c, x)
			}
			if i > 0 && got.Top[i-1].Logprob < c.Logprob {
				t.Fatalf("top tokens %+v are not sorted", got.Top)
			}
		}
		if again, err := run(); err != nil || again.Token != got.Token || again.Logprob != got.Logprob {
			t.Fatalf("%+v, then %+v (%v)", got, again, err)
		}
	})
}
