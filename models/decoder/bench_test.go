package decoder

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/synth"
	"tgi/runtime/llm"
)

// BenchmarkForward times the graph alone, without a scheduler, sampler or
// server, on a random checkpoint of a public shape:
//
//	go test ./models/decoder -run '^$' -bench 'Forward/smollm2-135m/int4'
func BenchmarkForward(b *testing.B) {
	for _, shape := range []string{"smollm2-135m", "qwen2.5-0.5b", "llama3.2-1b"} {
		b.Run(shape, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), shape)
			if err := synth.Write(dir, shape, 1); err != nil {
				b.Fatal(err)
			}
			for _, w := range []models.Weights{models.Int4, models.Int8, models.FP32} {
				b.Run(string(w), func(b *testing.B) { benchmarkWeights(b, dir, w) })
			}
		})
	}
}

func benchmarkWeights(b *testing.B, dir string, w models.Weights) {
	const past = 128
	ck, err := hf.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ck.Close()
	r, path := buildTo(b, ck, Options{Weights: w})
	m := runModel(b, r, path, 16*(past/r.Layout.BlockSize+1))
	for _, c := range []struct {
		name               string
		rows, tokens, past int
	}{{"decode1", 1, 1, past}, {"decode4", 4, 1, past}, {"decode16", 16, 1, past}, {"prefill256", 1, 256, 0}} {
		b.Run(c.name, func(b *testing.B) {
			step := syntheticStep(c.rows, c.tokens, c.past, r)
			for b.Loop() {
				if _, err := m.model.Forward(step); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(c.rows*c.tokens*b.N)/b.Elapsed().Seconds(), "tok/s")
		})
	}
}

// syntheticStep feeds tokens to rows that have past tokens each, and asks for
// the logits of each row's last token.
func syntheticStep(rows, tokens, past int, b Result) *llm.Step {
	blockSize := b.Layout.BlockSize
	r := rand.New(rand.NewPCG(1, 1))
	s := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: (past + tokens + blockSize - 1) / blockSize}
	for row := range rows {
		first := row * s.MaxBlocks
		for i := range s.MaxBlocks {
			s.BlockTable = append(s.BlockTable, int32(first+i))
		}
		for pos := past; pos < past+tokens; pos++ {
			s.Tokens = append(s.Tokens, llm.Token(r.IntN(b.Arch.Vocab)))
			s.SlotMapping = append(s.SlotMapping, int32(first*blockSize+pos))
		}
		s.PastLens = append(s.PastLens, int32(past))
		s.CuSeqlens = append(s.CuSeqlens, int32(len(s.Tokens)))
		s.LogitRows = append(s.LogitRows, int32(len(s.Tokens)-1))
	}
	return s
}

// BenchmarkWithoutImages reports how fast steps without images are on a graph that takes vectors of images, in percent
// of the graph that does not, in the same turns: 135 million parameters in int4.
func BenchmarkWithoutImages(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "smollm2-135m")
	if err := synth.Write(dir, "smollm2-135m", 1); err != nil {
		b.Fatal(err)
	}
	ck, err := hf.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ck.Close()
	var machines [2]*machine
	for i := range machines {
		r, path := buildTo(b, ck, Options{Weights: models.Int4, embeddings: i == 1})
		machines[i] = runModel(b, r, path, 16*16)
	}
	r := Result{Layout: models.Layout{BlockSize: machines[0].blockSize}, Arch: models.Arch{Vocab: ck.Config.Vocab}}
	for _, c := range []struct {
		name               string
		rows, tokens, past int
	}{{"decode16", 16, 1, 128}, {"prefill64", 1, 64, 0}} {
		b.Run(c.name, func(b *testing.B) {
			step := syntheticStep(c.rows, c.tokens, c.past, r)
			var took [2][]float64
			for b.Loop() {
				for i, m := range machines {
					begin := time.Now()
					if _, err := m.model.Forward(step); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(begin).Seconds())
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			b.ReportMetric(100*took[0][len(took[0])/4]/took[1][len(took[1])/4], "%speed")
		})
	}
}
