package sample

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

// pick runs one step of a fresh chain on a copy of logits.
func pick(t *testing.T, p llm.Params, h History, logits []float32) Pick {
	t.Helper()
	chain, err := New(p, len(logits), nil, Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := chain.Pick(h, slices.Clone(logits))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func tokens(list []Candidate) (ids []llm.Token) {
	for _, c := range list {
		ids = append(ids, c.Token)
	}
	return ids
}

func TestNewRefuses(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		want string // parts of the message: the field and the value
		set  func(p *llm.Params)
	}{
		{"temperature 0", func(p *llm.Params) { p.Temperature = 0 }},
		{"temperature NaN", func(p *llm.Params) { p.Temperature = nan }},
		{"temperature +Inf", func(p *llm.Params) { p.Temperature = inf }},
		{"top_k -1", func(p *llm.Params) { p.TopK = -1 }},
		{"top_p 0", func(p *llm.Params) { p.TopP = 0 }},
		{"top_p 1.5", func(p *llm.Params) { p.TopP = 1.5 }},
		{"typical_p NaN", func(p *llm.Params) { p.TypicalP = nan }},
		{"min_p -0.5", func(p *llm.Params) { p.MinP = -0.5 }},
		{"repetition_penalty 0", func(p *llm.Params) { p.RepetitionPenalty = 0 }},
		{"frequency_penalty NaN", func(p *llm.Params) { p.FrequencyPenalty = nan }},
		{"presence_penalty +Inf", func(p *llm.Params) { p.PresencePenalty = inf }},
		{"gamma 1", func(p *llm.Params) { p.Watermark, p.WatermarkGamma = true, 1 }},
		{"delta NaN", func(p *llm.Params) { p.Watermark, p.WatermarkGamma, p.WatermarkDelta = true, 0.5, nan }},
		{"top_n_tokens -2", func(p *llm.Params) { p.TopN = -2 }},
		{"logit_bias[1] 10", func(p *llm.Params) { p.LogitBias = []llm.Bias{{Token: 9}, {Token: 10}} }},
		{"logit_bias[0] token 3 NaN", func(p *llm.Params) { p.LogitBias = []llm.Bias{{Token: 3, Add: nan}} }},
	} {
		p := off()
		c.set(&p)
		_, err := New(p, 10, nil, Plugins{})
		if !errors.Is(err, llm.ErrInvalid) {
			t.Errorf("%s: error %v, want llm.ErrInvalid", c.want, err)
			continue
		}
		for _, part := range strings.Fields(c.want) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %q", err, part)
			}
		}
	}
	if _, err := New(off(), 0, nil, Plugins{}); !errors.Is(err, llm.ErrInvalid) {
		t.Errorf("empty vocabulary: error %v, want llm.ErrInvalid", err)
	}
}

func TestGreedyTakesLowestOfEquals(t *testing.T) {
	logits := []float32{1, 5, 5, 2, 5}
	for name, set := range map[string]func(p *llm.Params){
		"row":       func(p *llm.Params) {},
		"survivors": func(p *llm.Params) { p.TopP = 0.99 },
		"top_k":     func(p *llm.Params) { p.TopK = 3 },
	} {
		p := off()
		set(&p)
		if got := pick(t, p, History{}, logits); got.Token != 1 {
			t.Errorf("%s: token %d, want 1", name, got.Token)
		}
	}
}

func TestTop(t *testing.T) {
	logits := []float32{-1, -3, -4, -2, -3, negInf, float32(math.NaN())}
	for _, c := range []struct {
		n    int
		set  func(p *llm.Params)
		want []llm.Token
	}{
		{0, nil, nil},
		{1, nil, []llm.Token{0}},
		{3, nil, []llm.Token{0, 3, 1, 4}}, // TGI's own example of ties
		{4, nil, []llm.Token{0, 3, 1, 4}},
		{100, nil, []llm.Token{0, 3, 1, 4, 2}},
		{100, func(p *llm.Params) { p.TopK = 2 }, []llm.Token{0, 3}},
		{1, func(p *llm.Params) { p.TopK = 2 }, []llm.Token{0}},
		{3, func(p *llm.Params) { p.TopK = 5 }, []llm.Token{0, 3, 1, 4}},
		{3, func(p *llm.Params) { p.TopK, p.RawLogprobs = 1, true }, []llm.Token{0, 3, 1, 4}},
		// So small a temperature puts all but the two best infinitely far away.
		{5, func(p *llm.Params) { p.Temperature = 1e-45 }, []llm.Token{0, 3}},
		{5, func(p *llm.Params) { p.Temperature, p.TopK = 1e-45, 5 }, []llm.Token{0, 3}},
	} {
		p := off()
		p.TopN = c.n
		if c.set != nil {
			c.set(&p)
		}
		got := pick(t, p, History{}, logits)
		if !slices.Equal(tokens(got.Top), c.want) {
			t.Errorf("TopN %d, %+v: %v, want %v", c.n, p, tokens(got.Top), c.want)
		}
		for _, e := range got.Top {
			if e.Token == got.Token && e.Logprob != got.Logprob {
				t.Errorf("TopN %d: logprob %v in the list, %v of the pick", c.n, e.Logprob, got.Logprob)
			}
		}
	}
}

// TestBorders are rows in which the stages' shortcuts would go wrong.
func TestBorders(t *testing.T) {
	alike := make([]float32, 5000)
	late := make([]float32, 5000) // the best come last, and tie
	for i := range late {
		late[i] = float32(i / 10)
	}
	spike := make([]float32, 50000) // most of the mass is far below the best
	for i := range spike {
		spike[i] = -9
	}
	spike[77] = 0
	for _, c := range []struct {
		name        string
		logits      []float32
		set         func(p *llm.Params)
		kept        int
		first, last llm.Token
	}{
		{"top_p cuts equals by id", alike, func(p *llm.Params) { p.TopP = 0.3501 }, 1751, 0, 1750},
		{"typical_p keeps equals", alike, func(p *llm.Params) { p.TypicalP = 0.35 }, 5000, 0, 4999},
		{"top_k keeps equals", alike, func(p *llm.Params) { p.TopK = 3 }, 5000, 0, 4999},
		{"top_k with ties to the end", late, func(p *llm.Params) { p.TopK = 13 }, 20, 4990, 4989},
		{"top_k of all", late, func(p *llm.Params) { p.TopK = 5000 }, 5000, 4990, 9},
		{"top_k of all but one", late, func(p *llm.Params) { p.TopK = 4999 }, 5000, 4990, 9},
		{"top_p far below the best", spike, func(p *llm.Params) { p.TopP = 0.5 }, 20949, 77, 20948},
		{"typical_p drops the best", spike, func(p *llm.Params) { p.TypicalP = 0.5 }, 49999, 0, 49999},
		{"min_p 1", alike, func(p *llm.Params) { p.MinP = 1 }, 5000, 0, 4999},
		{"min_p", spike, func(p *llm.Params) { p.MinP = 0.0002 }, 1, 77, 77},
		{"min_p far", spike, func(p *llm.Params) { p.MinP = 0.0001 }, 50000, 77, 49999},
	} {
		p := off()
		p.TopN = len(c.logits)
		c.set(&p)
		top := pick(t, p, History{}, c.logits).Top
		if n := len(top); n != c.kept || top[0].Token != c.first || top[n-1].Token != c.last {
			t.Errorf("%s: %d tokens from %d to %d, want %d from %d to %d",
				c.name, n, top[0].Token, top[n-1].Token, c.kept, c.first, c.last)
		}
	}
}

func TestStrangeLogits(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	sets := map[string]func(p *llm.Params){
		"greedy":  func(p *llm.Params) {},
		"sample":  func(p *llm.Params) { p.Sample = true },
		"top_k":   func(p *llm.Params) { p.Sample, p.TopK = true, 2 },
		"top_p":   func(p *llm.Params) { p.Sample, p.TopP = true, 0.9 },
		"typical": func(p *llm.Params) { p.Sample, p.TypicalP = true, 0.9 },
		"min_p":   func(p *llm.Params) { p.Sample, p.MinP = true, 0.9 },
	}
	for name, set := range sets {
		p := off()
		set(&p)
		for _, c := range []struct {
			logits  []float32
			allowed []llm.Token // nil: ErrNoToken
		}{
			{[]float32{nan, nan, nan}, nil},
			{[]float32{negInf, nan, negInf}, nil},
			{[]float32{negInf, nan, -3}, []llm.Token{2}},
			{[]float32{inf, 3, nan, inf}, []llm.Token{0, 3}},
			{[]float32{3e38, -3e38, 3e38}, []llm.Token{0, 2}},
			{[]float32{-3e38, -3e38}, []llm.Token{0, 1}},
		} {
			chain, err := New(p, len(c.logits), nil, Plugins{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := chain.Pick(History{}, slices.Clone(c.logits))
			switch {
			case c.allowed == nil:
				if !errors.Is(err, ErrNoToken) || !errors.Is(err, llm.ErrBackend) {
					t.Errorf("%s %v: error %v, want ErrNoToken and llm.ErrBackend", name, c.logits, err)
				}
			case err != nil:
				t.Errorf("%s %v: %v", name, c.logits, err)
			case !slices.Contains(c.allowed, got.Token):
				t.Errorf("%s %v: picked %d, want one of %v", name, c.logits, got.Token, c.allowed)
			case !(got.Logprob <= 0 && got.Logprob >= -1):
				t.Errorf("%s %v: logprob %v", name, c.logits, got.Logprob)
			}
		}
	}
}

// TestLogprobOfSoleSurvivor: it is certain, and prints as 0, not as -0.
func TestLogprobOfSoleSurvivor(t *testing.T) {
	for _, set := range []func(p *llm.Params){
		func(p *llm.Params) { p.TopK = 1 },
		func(p *llm.Params) { p.TopP = 0.01 },
		func(p *llm.Params) { p.MinP = 1 },
		func(p *llm.Params) { p.TypicalP = 0.01 },
		func(p *llm.Params) { p.Temperature = 1e-6 },
	} {
		p := off()
		set(&p)
		got := pick(t, p, History{}, []float32{1, 2, 3.5, -1})
		if math.Float32bits(got.Logprob) != 0 {
			t.Errorf("%+v: logprob %v, want 0", p, got.Logprob)
		}
	}
}

func TestRawLogprobs(t *testing.T) {
	logits := []float32{1, 2, 3, 4}
	p := off()
	p.RawLogprobs, p.TopN, p.TopK, p.Temperature = true, 2, 2, 0.5
	p.LogitBias = []llm.Bias{{Token: 0, Add: 10}}
	got := pick(t, p, History{}, logits)
	want := PromptLogprob(slices.Clone(logits), 0)
	if got.Token != 0 || got.Logprob != want {
		t.Errorf("token %d with logprob %v, want 0 with %v", got.Token, got.Logprob, want)
	}
	if !slices.Equal(tokens(got.Top), []llm.Token{3, 2}) {
		t.Errorf("top %v, want [3 2]: the model's own order", tokens(got.Top))
	}
}

func TestWrongRowLength(t *testing.T) {
	chain, err := New(off(), 4, nil, Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Pick(History{}, make([]float32, 5)); err == nil || !strings.Contains(err.Error(), "5 logits") {
		t.Errorf("error %v, want one that names the 5 logits", err)
	}
}

// TestStepsAreIndependent: the k-th token is the same whether or not the chain
// saw the steps before, which is what preemption and recomputation need.
func TestStepsAreIndependent(t *testing.T) {
	const n, steps = 500, 40
	p := off()
	p.Sample, p.Seed, p.TopP, p.RepetitionPenalty, p.FrequencyPenalty = true, 99, 0.95, 1.3, 0.7
	p.Watermark, p.WatermarkGamma, p.WatermarkDelta = true, 0.5, 1
	rng := rand.New(rand.NewPCG(1, 9))
	rows := make([][]float32, steps)
	for i := range rows {
		rows[i] = normals(rng, n, 2)
	}
	whole, err := New(p, n, nil, Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	h := History{Prompt: []llm.Token{3, 1, 4}}
	distinct := make(map[llm.Token]bool)
	for k := range steps {
		a, err := whole.Pick(h, slices.Clone(rows[k]))
		if err != nil {
			t.Fatal(err)
		}
		if b := pick(t, p, h, rows[k]); a.Token != b.Token || a.Logprob != b.Logprob {
			t.Fatalf("step %d: %+v with the steps before, %+v without", k, a, b)
		}
		h.Output = append(h.Output, a.Token)
		distinct[a.Token] = true
	}
	if len(distinct) < steps/2 {
		t.Errorf("only %d different tokens in %d draws", len(distinct), steps)
	}
}

// TestPickDoesNotAllocate holds for the steady state of a sequence.
func TestPickDoesNotAllocate(t *testing.T) {
	for name, set := range map[string]func(p *llm.Params){
		"greedy": func(p *llm.Params) {},
		"all": func(p *llm.Params) {
			p.Sample, p.Temperature, p.TopK, p.TopP, p.TypicalP, p.MinP = true, 0.7, 400, 0.95, 0.95, 0.01
			p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty, p.TopN = 1.1, 0.1, 0.1, 5
		},
		"flat": func(p *llm.Params) { p.Sample, p.TopP, p.RawLogprobs, p.RepetitionPenalty = true, 0.99, true, 1.2 },
	} {
		p := off()
		set(&p)
		row := normals(rand.New(rand.NewPCG(1, 2)), 5000, 1)
		chain, err := New(p, len(row), nil, Plugins{})
		if err != nil {
			t.Fatal(err)
		}
		x, s := make([]float32, len(row)), new(scratch)
		h := History{Prompt: []llm.Token{1, 2, 3}, Output: []llm.Token{2}}
		if n := testing.AllocsPerRun(5, func() {
			copy(x, row)
			if _, err := chain.pick(s, h, x); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per step", name, n)
		}
	}
}
