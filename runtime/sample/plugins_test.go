package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

var errGuest = errors.New("guest trapped")

type processorFunc func(h History, logits []float32) error

func (f processorFunc) Process(h History, logits []float32) error { return f(h, logits) }

type samplerFunc func(h History, c []Candidate) (int, error)

func (f samplerFunc) Sample(h History, c []Candidate) (int, error) { return f(h, c) }

// script is a Masker that allows one set of tokens per step and logs its calls.
type script struct {
	steps   [][]llm.Token // nil at a step: not constrained
	at      int
	calls   []string
	maskErr error
	tellErr error
}

func (m *script) Mask(bits []uint32) (bool, error) {
	m.calls = append(m.calls, "mask")
	for i := range bits {
		bits[i] = 0
	}
	for _, id := range m.steps[m.at] {
		bits[id/32] |= 1 << (id % 32)
	}
	return m.steps[m.at] != nil, m.maskErr
}

func (m *script) Accept(t llm.Token) error {
	m.calls = append(m.calls, fmt.Sprint(t))
	m.at++
	return m.tellErr
}

// TestOrder shows every stage the row as the ones before have left it.
func TestOrder(t *testing.T) {
	p := off()
	p.LogitBias = []llm.Bias{{Token: 0, Add: 4}}
	p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty, p.Temperature = 2, 3, 1, 0.5
	p.Watermark, p.WatermarkGamma, p.WatermarkDelta = true, 0.99, 2 // all of so small a vocabulary
	h := History{Prompt: []llm.Token{2}, Output: []llm.Token{0, 0}}
	var log []string
	chain, err := New(p, 3, Plugins{
		Processors: []Processor{
			processorFunc(func(h History, x []float32) error {
				log = append(log, fmt.Sprint("first ", x))
				x[0] += 10
				return nil
			}),
			processorFunc(func(h History, x []float32) error {
				log = append(log, fmt.Sprint("second ", x))
				return nil
			}),
		},
		Masker: &script{steps: [][]llm.Token{{0, 2}}},
		Sampler: samplerFunc(func(h History, c []Candidate) (int, error) {
			log = append(log, fmt.Sprintf("sampler %d:%v %d:%v", c[0].Token, c[0].Logit, c[1].Token, c[1].Logit))
			return 1, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := chain.Pick(h, []float32{2, 1, 3})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"first [1 3 1.5]", // (2+4+2)/2 - 3*2/3 - 1, 1+2, (3+2)/2 - 3*1/3
		"second [11 3 1.5]",
		"sampler 0:22 2:3",
	}
	if !slices.Equal(log, want) {
		t.Errorf("stages saw %q, want %q", log, want)
	}
	if got.Token != 2 || math.Abs(float64(got.Logprob)+19) > 1e-5 {
		t.Errorf("picked %d with logprob %v, want 2 with -19", got.Token, got.Logprob)
	}
}

func TestMaskerCallsAlternate(t *testing.T) {
	m := &script{steps: [][]llm.Token{{3}, nil, {1, 40}}}
	chain, err := New(off(), 50, Plugins{Masker: m})
	if err != nil {
		t.Fatal(err)
	}
	row := func() []float32 {
		x := make([]float32, 50)
		x[49], x[40] = 9, 1
		return x
	}
	for i, want := range []llm.Token{3, 49, 40} {
		for range i { // as often as the caller likes, and not at all
			if err := chain.PrepareMask(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := chain.Pick(History{}, row())
		if err != nil {
			t.Fatal(err)
		}
		if got.Token != want {
			t.Errorf("step %d: token %d, want %d", i, got.Token, want)
		}
	}
	if got, want := strings.Join(m.calls, " "), "mask 3 mask 49 mask 40"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
}

func TestForbid(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 70} {
		for _, word := range []uint32{0, 1, 0x80000000, 0xdeadbeef, math.MaxUint32} {
			mask := make([]uint32, (n+31)/32)
			for i := range mask {
				mask[i] = word // bits past the vocabulary included
			}
			x := make([]float32, n)
			forbid(mask, x)
			for i, v := range x {
				if allowed := word>>(i%32)&1 == 1; allowed != (v == 0) {
					t.Errorf("n=%d word %#x: token %d has logit %v", n, word, i, v)
				}
			}
		}
	}
}

func TestSamplerSeesTheSurvivors(t *testing.T) {
	p := off()
	p.TopK = 3
	var seen []Candidate
	chain, err := New(p, 5, Plugins{Sampler: samplerFunc(func(h History, c []Candidate) (int, error) {
		seen = slices.Clone(c)
		return len(c) - 1, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	got, err := chain.Pick(History{}, []float32{1, 4, 2, 4, 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := []llm.Token{1, 3, 2, 4}; !slices.Equal(tokens(seen), want) {
		t.Errorf("candidates %v, want %v", tokens(seen), want)
	}
	total := 0.0
	for _, c := range seen {
		total += math.Exp(float64(c.Logprob))
	}
	if got.Token != 4 || got.Logprob != seen[3].Logprob || math.Abs(total-1) > 1e-6 {
		t.Errorf("picked %+v of %+v", got, seen)
	}
}

func TestPluginFailures(t *testing.T) {
	fine := func() *script { return &script{steps: [][]llm.Token{{0, 1}, {0, 1}}} }
	for _, c := range []struct {
		name  string
		plug  Plugins
		cause error
		says  string
	}{
		{"processor", Plugins{Processors: []Processor{
			processorFunc(func(History, []float32) error { return nil }),
			processorFunc(func(History, []float32) error { return errGuest }),
		}}, errGuest, "processor 1"},
		{"mask", Plugins{Masker: &script{steps: [][]llm.Token{{0}}, maskErr: errGuest}}, errGuest, "mask"},
		{"accept", Plugins{Masker: &script{steps: [][]llm.Token{{1}}, tellErr: errGuest}}, errGuest, "accept token 1"},
		{"sampler", Plugins{Sampler: samplerFunc(func(History, []Candidate) (int, error) { return 0, errGuest })}, errGuest, "sampler"},
		{"sampler beyond", Plugins{Sampler: samplerFunc(func(_ History, c []Candidate) (int, error) { return len(c), nil })}, nil, "candidate 3 of 3"},
		{"sampler below", Plugins{Sampler: samplerFunc(func(History, []Candidate) (int, error) { return -1, nil })}, nil, "candidate -1 of 3"},
		{"empty mask", Plugins{Masker: &script{steps: [][]llm.Token{{}}}}, ErrNoToken, "mask"},
		{"mask against processor", Plugins{Masker: fine(), Processors: []Processor{
			processorFunc(func(_ History, x []float32) error { x[0], x[1] = negInf, negInf; return nil }),
		}}, ErrNoToken, "mask"},
		{"processor forbids all", Plugins{Processors: []Processor{
			processorFunc(func(_ History, x []float32) error { x[0], x[1], x[2] = negInf, negInf, negInf; return nil }),
		}}, ErrNoToken, "processors"},
	} {
		chain, err := New(off(), 3, c.plug)
		if err != nil {
			t.Fatal(err)
		}
		_, err = chain.Pick(History{Prompt: []llm.Token{1}}, []float32{1, 2, 3})
		if !errors.Is(err, llm.ErrPlugin) || c.cause != nil && !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want llm.ErrPlugin and %v that says %q", c.name, err, c.cause, c.says)
		}
		// What failed stays failed: the state of user code is unknown.
		if _, again := chain.Pick(History{}, []float32{1, 2, 3}); again != err {
			t.Errorf("%s: second pick: error %v, want %v", c.name, again, err)
		}
		if again := chain.PrepareMask(); again != err {
			t.Errorf("%s: PrepareMask: error %v, want %v", c.name, again, err)
		}
	}
}
