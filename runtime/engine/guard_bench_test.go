package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// spinning is a guard that finds nothing, and takes its time to see that.
type spinning struct{ takes time.Duration }

func (spinning) Rules() llm.GuardRules        { return llm.GuardRules{Name: "spinning", Hold: 1, Every: 1} }
func (spinning) Applied(llm.VerdictKind, int) {}
func (g spinning) Check(v *llm.GuardView) (llm.Verdict, error) {
	spin(g.takes)
	return llm.Verdict{Position: len(v.Output)}, nil
}

func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// pausedModel computes for a while, in which threads of Go that have nothing to do go to sleep.
type pausedModel struct {
	idleModel
	takes time.Duration
}

func (m *pausedModel) Forward(s *llm.Step) ([]float32, error) {
	spin(m.takes)
	return m.idleModel.Forward(s)
}

// processorTime is what the process used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGuards reports the microseconds of a decode step outside the model, of the median and of the fastest tenth,
// and the processors' time of a step: with no guard, and with one of a guest that takes 5 µs to find nothing.
func BenchmarkGuards(b *testing.B) {
	for _, rows := range []int{1, 16} {
		for _, guarded := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/guard=%v", rows, guarded), func(b *testing.B) {
				benchmarkGuards(b, rows, guarded)
			})
		}
	}
}

func benchmarkGuards(b *testing.B, rows int, guarded bool) {
	m := &pausedModel{idleModel{shape: Shape{Vocab: 49152, BlockSize: 16, Blocks: 4096, MaxLen: 1 << 30}},
		500 * time.Microsecond}
	r := rand.New(rand.NewPCG(1, 1))
	for range m.shape.Vocab {
		m.template = append(m.template, float32(r.NormFloat64())*3)
	}
	m.template[7] = 60 // always picked: the fake codec spells only its own tokens
	var o outsides
	e, err := build(m, fakeCodec{}, Config{Observer: &o})
	if err != nil {
		b.Fatal(err)
	}
	e.looping = true // one sequence has its guards asked as in loop
	p := params(2000)
	p.IgnoreEOS, p.Sample = true, true
	fill := func() {
		for range rows {
			q := Request{Prompt: randomTokens(r, 32), Params: p}
			if guarded {
				q.Plugins = func(int) sample.Plugins {
					return sample.Plugins{Guests: []string{"spinning"},
						Guards: []sample.Guard{spinning{5 * time.Microsecond}}}
				}
			}
			if _, err := e.Submit(context.Background(), q); err != nil {
				b.Fatal(err)
			}
		}
		e.step()
	}
	fill()
	o = o[:0]
	used := processorTime()
	b.ReportAllocs()
	for b.Loop() {
		for !e.step() {
			if e.sched.Parked() > 0 {
				<-e.wake
				continue
			}
			b.StopTimer()
			steps, was := len(o), processorTime()
			fill()
			o, used = o[:steps], used+processorTime()-was
			b.StartTimer()
		}
	}
	slices.Sort(o)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(o[len(o)/2].Nanoseconds())/1000, "outside-µs/step")
	b.ReportMetric(float64(o[len(o)/10].Nanoseconds())/1000, "quiet-outside-µs/step")
	b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/float64(len(o)), "processors-µs/step")
}

// outsides are what steps spend outside the model.
type outsides []time.Duration

func (o *outsides) Step(r Report) { *o = append(*o, r.Total-r.Forward) }
