package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tgi/runtime/llm"
)

// idleModel costs nothing: what remains is the engine's own part of a step.
type idleModel struct {
	shape    Shape
	template []float32
	buf      []float32
}

func (m *idleModel) Shape() Shape                     { return m.shape }
func (m *idleModel) CopyBlocks([]llm.BlockCopy) error { return nil }
func (m *idleModel) Forward(s *llm.Step) ([]float32, error) {
	m.buf = m.buf[:0]
	for range s.LogitRows {
		m.buf = append(m.buf, m.template...)
	}
	return m.buf, nil
}

// overhead sums what steps spend outside the model.
type overhead struct {
	outside, pick time.Duration
	steps         int
}

func (o *overhead) Step(r Report) {
	o.outside += r.Total - r.Forward
	o.pick += r.Pick
	o.steps++
}

// BenchmarkStep reports the microseconds of a decode step outside the model.
func BenchmarkStep(b *testing.B) {
	for _, vocab := range []int{1000, 49152} {
		for _, rows := range []int{1, 16} {
			for _, draw := range []bool{false, true} {
				b.Run(fmt.Sprintf("vocab=%d/rows=%d/sample=%v", vocab, rows, draw), func(b *testing.B) {
					benchmarkStep(b, vocab, rows, draw)
				})
			}
		}
	}
}

func benchmarkStep(b *testing.B, vocab, rows int, draw bool) {
	m := &idleModel{shape: Shape{Vocab: vocab, BlockSize: 16, Blocks: 4096, MaxLen: 1 << 30}}
	r := rand.New(rand.NewPCG(1, 1))
	for range vocab {
		m.template = append(m.template, float32(r.NormFloat64())*3)
	}
	var o overhead
	e, err := build(m, fakeCodec{}, Config{Observer: &o})
	if err != nil {
		b.Fatal(err)
	}
	p := params(2000)
	p.IgnoreEOS, p.Stop = true, []string{"never", "\n\nUser:"}
	if draw {
		p.Sample, p.TopP, p.TopK = true, 0.9, 50
	}
	m.template[7] = 60 // always picked: the fake codec spells only its own tokens
	fill := func() {
		for range rows {
			if _, err := e.Submit(context.Background(), Request{Prompt: randomTokens(r, 32), Params: p}); err != nil {
				b.Fatal(err)
			}
		}
		e.step()
		o = overhead{}
	}
	fill()
	b.ReportAllocs()
	for b.Loop() {
		if !e.step() {
			b.StopTimer()
			before := o
			fill()
			o = before
			b.StartTimer()
		}
	}
	b.ReportMetric(float64(o.outside.Nanoseconds())/1000/float64(o.steps), "outside-µs/step")
	b.ReportMetric(float64(o.pick.Nanoseconds())/1000/float64(o.steps), "pick-µs/step")
}
