package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"tgi/runtime/llm"
)

// BenchmarkBeams reports the microseconds of a step of one beam search outside the
// model; 200 tokens with a stop string show what looking for it costs.
func BenchmarkBeams(b *testing.B) {
	for _, beams := range []int{4, 8} {
		for _, what := range []string{"best", "drawn", "stop"} {
			b.Run(fmt.Sprintf("vocab=49152/beams=%d/%s", beams, what), func(b *testing.B) {
				benchmarkBeams(b, beams, what)
			})
		}
	}
}

func benchmarkBeams(b *testing.B, beams int, what string) {
	const vocab = 49152
	m := &idleModel{shape: Shape{Vocab: vocab, BlockSize: 16, Blocks: 4096, MaxLen: 1 << 30}}
	r := rand.New(rand.NewPCG(1, 1))
	for range vocab {
		m.template = append(m.template, float32(r.NormFloat64())*3)
	}
	var o overhead
	e, err := build(m, numbers{}, Config{Observer: &o})
	if err != nil {
		b.Fatal(err)
	}
	p := params(200)
	p.NumBeams, p.LengthPenalty, p.Sample = beams, 1, what == "drawn"
	if what == "stop" {
		p.Stop = []string{"never"}
	}
	b.ReportAllocs()
	for b.Loop() {
		if !e.step() {
			b.StopTimer()
			if _, err := e.Submit(context.Background(), Request{Prompt: []llm.Token{1, 2, 3}, Params: p}); err != nil {
				b.Fatal(err)
			}
			e.step()
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(o.outside.Nanoseconds())/1000/float64(o.steps), "outside-µs/step")
}
