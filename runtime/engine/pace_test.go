package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// machine is a machine's time for a step, in seconds: rows share the reading of the weights.
type machine struct{ weights, row, noise float64 }

func (m machine) step(r *rand.Rand, rows int) time.Duration {
	s := m.weights + m.row*float64(rows)
	s *= 1 + m.noise*r.Float64()
	if m.noise > 0 && r.IntN(40) == 0 {
		s *= 20 // something else had the processor
	}
	return time.Duration(s * float64(time.Second))
}

// TestPaceHoldsStepTimes runs streams on machines of many speeds, lets prompts come, and looks at the steps' times once
// a few were seen.
func TestPaceHoldsStepTimes(t *testing.T) {
	for _, m := range []machine{{0.005, 0.001, 0}, {0.020, 0.003, 0}, {0.0005, 0.00001, 0}, {0.1, 0.02, 0},
		{0.005, 0.001, 0.3}, {0.020, 0.003, 0.3}} {
		for _, streams := range []int{1, 3, 8, 64} {
			r := rand.New(rand.NewPCG(1, uint64(streams)))
			p := &pace{step: 50 * time.Millisecond}
			p.observe(0, 512, m.step(r, 512))
			for range 20 {
				p.observe(streams, 0, m.step(r, streams))
			}
			alone := machine{m.weights, m.row, 0}.step(r, streams)
			most, sum := max(50*time.Millisecond, alone*5/2), time.Duration(0)
			least := machine{m.weights, m.row, 0}.step(r, streams+leastPrompt)
			const steps = 60
			for i := range steps + 20 {
				n := p.tokens(streams, 1)
				if n < leastPrompt {
					t.Fatalf("%+v, %d streams: %d tokens", m, streams, n)
				}
				took := machine{m.weights, m.row, 0}.step(r, streams+n)
				if i >= 20 {
					sum += took
				}
				if i >= 20 && m.noise == 0 && took > max(most, least)*11/10 {
					t.Errorf("%+v, %d streams: a step with %d tokens takes %s, %s is allowed", m, streams, n, took, most)
				}
				p.observe(streams, n, m.step(r, streams+n))
			}
			if mean := sum / steps; mean > max(most, least)*3/2 || mean < min(most, time.Second)/4 {
				t.Errorf("%+v, %d streams: steps take %s, %s is allowed", m, streams, mean, most)
			}
		}
	}
}

// TestPaceOfManyPrompts: the more prompts wait for each row that decodes, the larger is their part.
func TestPaceOfManyPrompts(t *testing.T) {
	p := &pace{step: time.Millisecond}
	p.observe(4, 0, 20*time.Millisecond)
	p.observe(4, 100, 120*time.Millisecond)
	for prompts, want := range map[int]int{0: 30, 1: 30, 4: 30, 8: 48, 16: 112, 40: 112} { // 30 ms for 4, of 1 ms each
		if got := p.tokens(4, prompts); got != want {
			t.Errorf("%d prompts: %d tokens, want %d", prompts, got, want)
		}
	}
	if got := (&pace{}).tokens(1, 1); got != firstPrompt {
		t.Errorf("unknown: %d tokens", got)
	}
}
