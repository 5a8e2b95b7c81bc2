package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
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

// TestPaceHoldsStepTimes runs streams on machines of many speeds, lets prompts come, and looks at the steps' times
// once a few were seen.
func TestPaceHoldsStepTimes(t *testing.T) {
	for _, m := range []machine{{0.005, 0.001, 0}, {0.020, 0.003, 0}, {0.0005, 0.00001, 0}, {0.1, 0.02, 0},
		{0.005, 0.001, 0.3}, {0.020, 0.003, 0.3}} {
		for _, streams := range []int{1, 3, 8, 64} {
			for _, floor := range []time.Duration{0, 50 * time.Millisecond} {
				holdsStepTimes(t, m, streams, floor)
			}
		}
	}
}

func holdsStepTimes(t *testing.T, m machine, streams int, floor time.Duration) {
	r := rand.New(rand.NewPCG(1, uint64(streams)))
	p := &pace{stretch: 2.5, step: floor}
	p.observe(0, 512, m.step(r, 512))
	for range 20 {
		p.observe(streams, 0, m.step(r, streams))
	}
	quiet := machine{m.weights, m.row, 0}
	alone := quiet.step(r, streams)
	most, sum, steps, waits := max(floor, alone*5/2), time.Duration(0), 0, 0
	least := quiet.step(r, streams+1)
	for i := range 200 {
		n := p.tokens(streams, 1)
		if n == 0 {
			if waits++; waits > 1 {
				t.Fatalf("%+v, %d streams: prompts wait twice", m, streams)
			}
			p.observe(streams, 0, m.step(r, streams))
			continue
		}
		waits = 0
		took := quiet.step(r, streams+n)
		if i >= 20 {
			sum += took
			steps++
		}
		if i >= 20 && m.noise == 0 && took > max(most, least)*11/10 {
			t.Errorf("%+v, %d streams: a step with %d tokens takes %s, %s is allowed", m, streams, n, took, most)
		}
		p.observe(streams, n, m.step(r, streams+n))
	}
	if steps < 150 {
		t.Errorf("%+v, %d streams: %d steps of 200 had prompts", m, streams, steps)
	}
	if mean := sum / time.Duration(steps); mean > max(most, least)*3/2 || mean < min(most, time.Second)/4 {
		t.Errorf("%+v, %d streams: steps take %s, %s is allowed", m, streams, mean, most)
	}
}

// TestPaceOfManyPrompts: the more prompts wait for each row that decodes, the larger is their part.
func TestPaceOfManyPrompts(t *testing.T) {
	p := &pace{stretch: 2.5}
	p.observe(4, 0, 20*time.Millisecond)
	p.observe(4, 100, 120*time.Millisecond)
	for prompts, want := range map[int]int{0: 27, 1: 27, 4: 27, 8: 48, 16: 96, 40: 96} { // 27 ms for 4, of 1 ms each
		if got := p.tokens(4, prompts); got != want {
			t.Errorf("%d prompts: %d tokens, want %d", prompts, got, want)
		}
	}
	p = &pace{stretch: 1e300} // no bound, nearly
	p.observe(4, 0, 20*time.Millisecond)
	p.observe(4, 100, 120*time.Millisecond)
	if got := p.tokens(4, 1); got < math.MaxInt32/2 {
		t.Errorf("%d tokens in steps that may take for ever", got)
	}
	p = &pace{stretch: 2.5}
	if got := []int{p.tokens(1, 1), p.tokens(1, 1)}; !slices.Equal(got, []int{0, firstPrompt}) {
		t.Errorf("unknown: %d tokens", got)
	}
}

// TestPaceFollowsTheMachine: where steps become slower while prompts come without end, the prompts keep their part of
// the time: what steps take without them is measured again.
func TestPaceFollowsTheMachine(t *testing.T) {
	p, r := &pace{stretch: 2.5}, rand.New(rand.NewPCG(1, 1))
	for _, m := range []machine{{0.004, 0.0004, 0}, {0.030, 0.0004, 0}, {0.030, 0.004, 0}, {0.004, 0.0004, 0}} {
		var all, prompts time.Duration
		for i := range 400 {
			n := p.tokens(1, 1)
			took := m.step(r, 1+n)
			if p.observe(1, n, took); i >= 100 {
				all, prompts = all+took, prompts+took-m.step(r, 1)
			}
		}
		if part := float64(prompts) / float64(all); part < 0.45 || part > 0.65 {
			t.Errorf("%+v: prompts have %.2f of the time", m, part)
		}
	}
}

// TestPaceAmongOtherPrograms: where other programs make steps take up to thirty times as long, at random, prompts still
// get about as many tokens in a step as on a quiet machine.
func TestPaceAmongOtherPrograms(t *testing.T) {
	for _, m := range []machine{{0.004, 0.0004, 0}, {0.012, 0.002, 0}} {
		r, p := rand.New(rand.NewPCG(1, 2)), &pace{stretch: 2.5}
		quiet, sum := int(aim*1.5*(m.weights+m.row)/m.row), 0
		const steps = 2000
		for range steps {
			n := p.tokens(1, 1)
			took := float64(m.step(r, 1+n)) * math.Exp(1.7*math.Abs(r.NormFloat64()))
			p.observe(1, n, time.Duration(took))
			sum += n
		}
		if mean := sum / steps; mean < quiet/2 || mean > 2*quiet {
			t.Errorf("%+v: %d tokens a step on average, %d on a quiet machine", m, mean, quiet)
		}
	}
}

// processor takes time for a step as a machine does: for reading the weights, for each row that decodes, and for each
// prompt token, more for few of them and for what is far behind its beginning.
type processor struct {
	name                        string
	weights, row, token, behind time.Duration
}

// The figures are those of two cores with AVX2 or AMX: the 135M shape, the 0.5B shape, and a model that is tiny.
var processors = []processor{
	{"135M, AMX", 3900 * time.Microsecond, 250 * time.Microsecond, 350 * time.Microsecond, 50 * time.Nanosecond},
	{"135M, AVX2", 4500 * time.Microsecond, time.Millisecond, 800 * time.Microsecond, 100 * time.Nanosecond},
	{"0.5B, AVX2", 11 * time.Millisecond, 1500 * time.Microsecond, 2200 * time.Microsecond, 100 * time.Nanosecond},
	{"tiny", 200 * time.Microsecond, 20 * time.Microsecond, 10 * time.Microsecond, time.Nanosecond},
}

func (p processor) step(s llm.Step) time.Duration {
	took := p.weights
	for b := range s.Rows() {
		n, past := time.Duration(s.CuSeqlens[b+1]-s.CuSeqlens[b]), time.Duration(s.PastLens[b])
		if n == 1 {
			took += p.row + past*p.behind
		} else {
			took += n*(p.token+(past+n/2)*p.behind) + min(n, 16)*p.token/4
		}
	}
	return took
}

// solo is how long a prompt of so many tokens takes alone.
func (p processor) solo(tokens int) (took time.Duration) {
	for at := 0; at < tokens; at += 512 {
		n := min(tokens-at, 512)
		took += p.step(llm.Step{CuSeqlens: []int32{0, int32(n)}, PastLens: []int32{int32(at)}})
	}
	return took
}

// open starts an engine whose steps take their time on the clock of a bubble.
func (p processor) open(t *testing.T, stretch float64) *Engine {
	m := newFake(4096, 16, 4096)
	m.before = func(s llm.Step) { time.Sleep(p.step(s)) }
	return start(t, m, Config{PromptStretch: stretch, Settings: sched.Settings{MaxBatchPrefillTokens: 512}})
}

// times generates and returns when each token came.
func times(ctx context.Context, e *Engine, r Request) (at []time.Time, err error) {
	st, err := e.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	for {
		_, err := st.Next(ctx)
		if err != nil && (err == io.EOF || ctx.Err() != nil && errors.Is(err, ctx.Err())) {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		at = append(at, time.Now())
	}
}

// promptOf is a request of so many prompt tokens, which share no beginning with those of other seeds.
func promptOf(seed uint64, prompt, tokens int) Request {
	r := endless(tokens)
	r.Prompt = randomTokens(rand.New(rand.NewPCG(seed, 2)), prompt)
	return r
}

// p99 is the 99th percentile of the gaps that end between from and to.
func p99(streams [][]time.Time, from, to time.Time) time.Duration {
	var gaps []time.Duration
	for _, at := range streams {
		for i := 1; i < len(at); i++ {
			if at[i].After(from) && !at[i].After(to) {
				gaps = append(gaps, at[i].Sub(at[i-1]))
			}
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)*99/100]
}

// beside has streams run for a while, and then a prompt of 2,000 tokens come. It returns the 99th percentile of the
// streams' gaps before and after that, and how long the prompt's first token took.
func (p processor) beside(t *testing.T, streams int, stretch float64) (without, with, first time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		e := p.open(t, stretch)
		ctx, stop := context.WithCancel(t.Context())
		at := make([][]time.Time, streams)
		var all sync.WaitGroup
		for i := range streams {
			all.Go(func() {
				var err error
				if at[i], err = times(ctx, e, promptOf(uint64(i), 64, 1900)); err != nil {
					t.Error(err)
				}
			})
		}
		// Until all run, and for about 100 steps more.
		time.Sleep(2*p.solo(64*streams) + 100*(p.weights+time.Duration(streams)*(p.row+200*p.behind)))
		begin := time.Now()
		prompt, err := times(t.Context(), e, promptOf(99, 2000, 1))
		if err != nil || len(prompt) != 1 {
			t.Fatal(prompt, err)
		}
		stop()
		all.Wait()
		for i, a := range at {
			if len(a) < 100 || len(a) >= 1900 {
				t.Fatalf("stream %d has %d tokens: it did not run beside the prompt", i, len(a))
			}
		}
		quiet := begin.Add(-80 * (p.weights + time.Duration(streams)*p.row))
		without, with, first = p99(at, quiet, begin), p99(at, begin, prompt[0]), prompt[0].Sub(begin)
		e.Close()
	})
	return without, with, first
}

// TestPromptBesideStreams: while a prompt of 2,000 tokens arrives, the gaps of running streams are at most 2.5 times
// those without it at the 99th percentile. The prompt has two fifths of the machine at least, so that its first token
// takes at most 2.5 times as long as alone.
func TestPromptBesideStreams(t *testing.T) {
	for _, p := range processors {
		for _, streams := range []int{1, 2, 8, 16} {
			without, with, first := p.beside(t, streams, 2.5)
			name := fmt.Sprintf("%s, %d streams", p.name, streams)
			t.Logf("%s: gaps %v, beside the prompt %v; its first token after %v, alone %v", name, without, with, first,
				p.solo(2000))
			if with > without*5/2 {
				t.Errorf("%s: gaps of %v beside a prompt, %v without", name, with, without)
			}
			if with < without*3/2 {
				t.Errorf("%s: gaps of %v beside a prompt, %v without: the prompt gets less than it may", name, with,
					without)
			}
			if alone := p.solo(2000); first > alone*5/2 {
				t.Errorf("%s: the prompt takes %v, alone %v", name, first, alone)
			}
		}
	}
}

// TestPromptWithoutBound: 0 bounds nothing.
func TestPromptWithoutBound(t *testing.T) {
	p := processors[0]
	without, with, first := p.beside(t, 2, 0)
	if with < 10*without || first > p.solo(2000)*11/10 {
		t.Errorf("gaps of %v beside a prompt, %v without; its first token after %v", with, without, first)
	}
}

// TestManyPromptsAtOnce: of sixteen prompts of 128 tokens that come at once, the last has its first token within 2.5
// times what all of them take one after the other, and each of the others within its part of that.
func TestManyPromptsAtOnce(t *testing.T) {
	const prompts = 16
	for _, p := range processors {
		synctest.Test(t, func(t *testing.T) {
			e := p.open(t, 2.5)
			begin := time.Now()
			first := make([]time.Duration, prompts)
			var all sync.WaitGroup
			for i := range prompts {
				all.Go(func() {
					at, err := times(t.Context(), e, promptOf(uint64(i), 128, 200))
					if err != nil || len(at) != 200 {
						t.Error(len(at), err)
						return
					}
					first[i] = at[0].Sub(begin)
				})
			}
			all.Wait()
			e.Close()
			slices.Sort(first)
			one := p.solo(128)
			t.Logf("%s: first tokens after %v, %v, … %v; one prompt alone %v", p.name, first[0], first[1],
				first[prompts-1], one)
			for i, took := range first {
				if most := time.Duration(max(i+1, 4)) * one * 5 / 2; took > most {
					t.Errorf("%s: the first token of prompt %d came after %v, want %v at most", p.name, i+1, took, most)
				}
			}
		})
	}
}
