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

func (f processorFunc) Process(h History, s *Step) error { return f(h, s.Logits) }

// stepFunc is a Processor that sets more than logits.
type stepFunc func(s *Step)

func (f stepFunc) Process(_ History, s *Step) error {
	f(s)
	return nil
}

type samplerFunc func(h History, c []Candidate) (int, error)

func (f samplerFunc) Candidates() int { return 100 }

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
	chain, err := New(p, 3, nil, Plugins{
		Processors: []Processor{
			processorFunc(func(h History, x []float32) error {
				log = append(log, fmt.Sprint("first ", x))
				x[0] += 10
				x[1] = 50 // what the mask forbids stays forbidden
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
		"first [1 -Inf 1.5]", // (2+4+2)/2 - 3*2/3 - 1, by the mask, (3+2)/2 - 3*1/3
		"second [11 50 1.5]",
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
	chain, err := New(off(), 50, nil, Plugins{Masker: m})
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
			if err := chain.Prepare(History{}); err != nil {
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

// quick is a script whose masks take long where dear says so.
type quick struct {
	*script
	dear []bool
}

func (m quick) TryMask(bits []uint32) (constrained, done bool, err error) {
	if m.calls = append(m.calls, "try"); m.dear[m.at] {
		return false, false, nil
	}
	constrained, err = m.Mask(bits)
	return constrained, true, err
}

// TestTryMask: a mask that takes long is computed once, where the caller wants it; a cheap one at once.
func TestTryMask(t *testing.T) {
	m := quick{&script{steps: [][]llm.Token{{3}, nil, {1, 40}}}, []bool{false, true, true}}
	chain, err := New(off(), 50, nil, Plugins{Masker: m})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []llm.Token{3, 49, 40} {
		for range 1 + i { // as often as the caller likes
			if done := chain.TryMask(); done == m.dear[i] {
				t.Errorf("step %d: done %v", i, done)
			}
		}
		if i == 1 {
			for range 2 {
				chain.Mask()
				if !chain.TryMask() {
					t.Error("a mask that is there is not done")
				}
			}
		}
		x := make([]float32, 50)
		x[49], x[40] = 9, 1
		if got, err := chain.Pick(History{}, x); err != nil || got.Token != want {
			t.Errorf("step %d: token %d, want %d, %v", i, got.Token, want, err)
		}
	}
	if got, want := strings.Join(m.calls, " "), "try mask 3 try try mask 49 try try try mask 40"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	m = quick{&script{steps: [][]llm.Token{{3}, {3}}, maskErr: errGuest}, []bool{false, true}}
	for _, at := range []int{0, 1} {
		m.at = at
		if chain, err = New(off(), 50, nil, Plugins{Masker: m}); err != nil {
			t.Fatal(err)
		}
		if !chain.TryMask() {
			chain.Mask()
		}
		if err := chain.Prepare(History{}); !errors.Is(err, errGuest) || !chain.TryMask() {
			t.Errorf("a mask that fails: got %v", err)
		}
	}
}

func TestSamplerSeesTheSurvivors(t *testing.T) {
	p := off()
	p.TopK = 3
	var seen []Candidate
	chain, err := New(p, 5, nil, Plugins{Sampler: samplerFunc(func(h History, c []Candidate) (int, error) {
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

// TestMaskerRefusals: what a masker says of the request reaches the client as it is.
func TestMaskerRefusals(t *testing.T) {
	refused := fmt.Errorf("%w: too much", llm.ErrInvalid)
	for name, m := range map[string]*script{
		"mask": {steps: [][]llm.Token{{0}}, maskErr: refused}, "accept": {steps: [][]llm.Token{{1}}, tellErr: refused},
	} {
		chain, err := New(off(), 3, nil, Plugins{Masker: m})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = chain.Pick(History{Prompt: []llm.Token{1}}, []float32{1, 2, 3}); err != refused {
			t.Errorf("%s: %v", name, err)
		}
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
		}}, errGuest, "guest trapped"},
		{"mask", Plugins{Masker: &script{steps: [][]llm.Token{{0}}, maskErr: errGuest}}, errGuest, "mask"},
		{"accept", Plugins{Masker: &script{steps: [][]llm.Token{{1}}, tellErr: errGuest}}, errGuest, "accept token 1"},
		{"sampler", Plugins{Sampler: samplerFunc(func(History, []Candidate) (int, error) { return 0, errGuest })},
			errGuest, "guest trapped"},
		{"sampler beyond", Plugins{Sampler: samplerFunc(func(_ History, c []Candidate) (int, error) {
			return len(c), nil
		})}, nil, "plugin server: the sampler picked candidate 3 of 3"},
		{"sampler below", Plugins{Sampler: samplerFunc(func(History, []Candidate) (int, error) { return -2, nil })},
			nil, "candidate -2 of 3"},
		{"empty mask", Plugins{Masker: &script{steps: [][]llm.Token{{}}}}, ErrNoToken,
			"after what the grammar forbade"},
		{"mask against processor", Plugins{Masker: fine(), Processors: []Processor{
			processorFunc(func(_ History, x []float32) error { x[0], x[1] = negInf, negInf; return nil }),
		}}, ErrNoToken, "after what the grammar and plugin server forbade"},
		{"processor forbids all", Plugins{Processors: []Processor{
			processorFunc(func(_ History, x []float32) error { x[0], x[1], x[2] = negInf, negInf, negInf; return nil }),
		}}, ErrNoToken, "after what plugin server forbade"},
	} {
		chain, err := New(off(), 3, nil, c.plug)
		if err != nil {
			t.Fatal(err)
		}
		_, err = chain.Pick(History{Prompt: []llm.Token{1}}, []float32{1, 2, 3})
		if !errors.Is(err, llm.ErrPlugin) || c.cause != nil && !errors.Is(err, c.cause) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want llm.ErrPlugin and %v that says %q", c.name, err, c.cause, c.says)
		}
		// What failed stays failed: the state of user code is unknown.
		if _, again := chain.Pick(History{}, []float32{1, 2, 3}); again != err {
			t.Errorf("%s: second pick: error %v, want %v", c.name, again, err)
		}
		if again := chain.Prepare(History{}); again != err {
			t.Errorf("%s: Prepare: error %v, want %v", c.name, again, err)
		}
	}
}

// fewOf is a Sampler that wants to see n candidates and takes the last.
type fewOf struct {
	n    int
	seen []Candidate
}

func (f *fewOf) Candidates() int { return f.n }

func (f *fewOf) Sample(_ History, c []Candidate) (int, error) {
	f.seen = slices.Clone(c)
	return len(c) - 1, nil
}

func TestSamplerSeesAsManyAsItWants(t *testing.T) {
	logits := []float32{1, 4, 2, 4, 2, 0, negInf}
	for _, c := range []struct {
		n, topK, topN int
		want, top     []llm.Token
	}{
		{n: 1, want: []llm.Token{1}},
		{n: 3, want: []llm.Token{1, 3, 2}}, // a tie at the border: the lower token
		{n: 100, want: []llm.Token{1, 3, 2, 4, 0, 5}},
		{n: 3, topK: 4, want: []llm.Token{1, 3, 2}},
		{n: 100, topK: 2, want: []llm.Token{1, 3}},
		{n: 1, topN: 3, want: []llm.Token{1}, top: []llm.Token{1, 3, 2, 4}},
		{n: 5, topN: 1, want: []llm.Token{1, 3, 2, 4, 0}, top: []llm.Token{1, 3}},
	} {
		p := off()
		p.TopK, p.TopN = c.topK, c.topN
		few := &fewOf{n: c.n}
		chain, err := New(p, len(logits), nil, Plugins{Sampler: few})
		if err != nil {
			t.Fatal(err)
		}
		got, err := chain.Pick(History{}, slices.Clone(logits))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(tokens(few.seen), c.want) || got.Token != c.want[len(c.want)-1] {
			t.Errorf("%+v: saw %v, picked %d", c, tokens(few.seen), got.Token)
		}
		if !slices.Equal(tokens(got.Top), c.top) {
			t.Errorf("%+v: top %v", c, tokens(got.Top))
		}
		// The probabilities are those among all survivors, not among the shown.
		total := 0.0
		for _, l := range logits {
			if c.topK != 2 || l == 4 {
				total += math.Exp(float64(l) - 4)
			}
		}
		if c.topK == 4 {
			total = 2 + 2*math.Exp(-2)
		}
		if want := -math.Log(total); math.Abs(float64(few.seen[0].Logprob)-want) > 1e-5 {
			t.Errorf("%+v: logprob %v of the best, want %v", c, few.seen[0].Logprob, want)
		}
	}
}

// TestSamplerLeavesThePick: a sampler that chooses nothing is as none.
func TestSamplerLeavesThePick(t *testing.T) {
	for _, set := range []func(*llm.Params){
		func(p *llm.Params) {},
		func(p *llm.Params) { p.Sample, p.Seed, p.TopN = true, 7, 2 },
		func(p *llm.Params) { p.Sample, p.TopK, p.TopP = true, 3, 0.9 },
	} {
		p := off()
		set(&p)
		row := []float32{1, 1.5, 2, 0, 1.2}
		var got [2]Pick
		for i, s := range []Sampler{nil, samplerFunc(func(History, []Candidate) (int, error) {
			return NoChoice, nil
		})} {
			chain, err := New(p, len(row), nil, Plugins{Sampler: s})
			if err != nil {
				t.Fatal(err)
			}
			if got[i], err = chain.Pick(History{}, slices.Clone(row)); err != nil {
				t.Fatal(err)
			}
		}
		if got[0].Token != got[1].Token || got[0].Logprob != got[1].Logprob || !slices.Equal(got[0].Top, got[1].Top) {
			t.Errorf("%+v: without a sampler %+v, with one that passes %+v", p, got[0], got[1])
		}
	}
}

// TestStepBesideTheLogits covers what a processor may set beside the logits.
func TestStepBesideTheLogits(t *testing.T) {
	logits := []float32{1, 3, 2, 0}
	lse := 3 + math.Log(1+math.Exp(-1)+math.Exp(-2)+math.Exp(-3))
	only := func(allowed ...llm.Token) Masker { return &script{steps: [][]llm.Token{allowed}} }
	for _, c := range []struct {
		name    string
		ends    []llm.Token
		step    func(*Step)
		masker  Masker
		sampler Sampler
		sample  bool
		token   llm.Token
		logprob float64 // 1: not tested
		stop    bool
		fails   string
	}{
		{name: "nothing", step: func(*Step) {}, token: 1, logprob: 3 - lse},
		{name: "forced", step: func(s *Step) { s.Force = 3 }, token: 3, logprob: 0 - lse},
		{name: "forced over a sampler and a draw", step: func(s *Step) { s.Force = 0 }, sampler: &fewOf{n: 2},
			sample: true, token: 0, logprob: 1 - lse},
		{name: "forced and allowed by the mask", step: func(s *Step) { s.Force = 2 }, masker: only(2, 3), token: 2,
			logprob: 1},
		{name: "forced and forbidden by the mask", step: func(s *Step) { s.Force = 2 }, masker: only(3),
			fails: "the grammar forbids it"},
		{name: "forced where nothing is left", step: func(s *Step) {
			s.Force = 2
			for i := range s.Logits {
				s.Logits[i] = negInf
			}
		}, token: 2, logprob: math.Inf(-1)},
		{name: "forced outside the vocabulary", step: func(s *Step) { s.Force = 4 },
			fails: "forced token must be < 4. Given: 4"},
		{name: "stopped", ends: []llm.Token{0, 2}, step: func(s *Step) { s.Stop, s.Force = true, 3 }, token: 2,
			logprob: 2 - lse, stop: true},
		{name: "stopped against the mask", ends: []llm.Token{0}, step: func(s *Step) { s.Stop = true }, masker: only(3),
			token: 0, logprob: 1, stop: true},
		{name: "stopped without an end token", step: func(s *Step) { s.Stop = true }, token: 1, logprob: 3 - lse,
			stop: true},
		{name: "coldest", step: func(s *Step) { s.Temperature = 0 }, sample: true, token: 1, logprob: 3 - lse},
		{name: "all but cold", step: func(s *Step) { s.Temperature = 1e-3 }, sample: true, token: 1, logprob: 0},
		{name: "negative", step: func(s *Step) { s.Temperature = -1 },
			fails: "temperature must be >= 0 and finite. Given: -1"},
		{name: "infinite", step: func(s *Step) { s.Temperature = float32(math.Inf(1)) }, fails: "Given: +Inf"},
	} {
		p := off()
		p.Sample = c.sample
		chain, err := New(p, 4, c.ends, Plugins{Processors: []Processor{stepFunc(c.step)}, Masker: c.masker,
			Sampler: c.sampler})
		if err != nil {
			t.Fatal(err)
		}
		got, err := chain.Pick(History{}, slices.Clone(logits))
		if c.fails != "" {
			if !errors.Is(err, llm.ErrPlugin) || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: error %v, want one that says %q", c.name, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Token != c.token || got.Stop != c.stop {
			t.Errorf("%s: token %d, stop %v", c.name, got.Token, got.Stop)
		}
		if off := math.Abs(float64(got.Logprob) - c.logprob); c.logprob != 1 && off > 1e-5 {
			t.Errorf("%s: logprob %v, want %v", c.name, got.Logprob, c.logprob)
		}
	}
}

// TestHeatDraws: a temperature turns a greedy sequence into a drawn one, at
// that temperature, and for that step alone.
func TestHeatDraws(t *testing.T) {
	heat := float32(2)
	chain, err := New(off(), 2, nil, Plugins{Processors: []Processor{stepFunc(func(s *Step) { s.Temperature = heat })}})
	if err != nil {
		t.Fatal(err)
	}
	n, second := 4000, 0
	out := make([]llm.Token, n)
	for i := range n {
		got, err := chain.Pick(History{Output: out[:i]}, []float32{1, 0})
		if err != nil {
			t.Fatal(err)
		}
		second += int(got.Token)
	}
	// p = 1/(1+e^(1/2)) = 0.3775; six standard deviations of the share are 0.046.
	if share := float64(second) / float64(n); math.Abs(share-0.3775) > 0.046 {
		t.Errorf("the second token was drawn in %v of the steps, want 0.3775", share)
	}
	heat = nan
	for i := range 50 {
		if got, err := chain.Pick(History{Output: out[:i]}, []float32{1, 0}); err != nil || got.Token != 0 {
			t.Fatalf("without heat: token %d, %v", got.Token, err)
		}
	}
}

// early is a Preparer that notes its calls.
type early struct {
	calls []string
	err   error
}

func (p *early) Prepare(h History) error {
	p.calls = append(p.calls, fmt.Sprint("prepare ", len(h.Output)))
	return p.err
}

func (p *early) Process(h History, _ *Step) error {
	p.calls = append(p.calls, fmt.Sprint("process ", len(h.Output)))
	return nil
}

func TestPreparerCallsAlternate(t *testing.T) {
	p := &early{}
	chain, err := New(off(), 2, nil, Plugins{Processors: []Processor{p}})
	if err != nil {
		t.Fatal(err)
	}
	if !chain.Prepares() {
		t.Error("the chain has nothing to prepare")
	}
	out := make([]llm.Token, 3)
	for i := range 3 {
		h := History{Output: out[:i]}
		for range i {
			if err := chain.Prepare(h); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := chain.Pick(h, []float32{1, 0}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Join(p.calls, ", "),
		"prepare 0, process 0, prepare 1, process 1, prepare 2, process 2"; got != want {
		t.Errorf("calls %s, want %s", got, want)
	}
	p.err = errGuest
	if err := chain.Prepare(History{}); !errors.Is(err, errGuest) || !errors.Is(err, llm.ErrPlugin) {
		t.Errorf("error %v", err)
	}
	if _, err := chain.Pick(History{}, []float32{1, 0}); !errors.Is(err, errGuest) {
		t.Errorf("a pick after it: %v", err)
	}
}
