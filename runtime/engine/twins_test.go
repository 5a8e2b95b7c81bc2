package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// guidanceGolden is what testdata/make_guidance.py wrote of one text.
type guidanceGolden struct {
	Checkpoint       string
	Prompt, Negative []llm.Token
	Scale            float32
	Repetition       float32 `json:"repetition_penalty"`
	Tokens           []llm.Token
	Steps            []float64
}

// TestGuidanceOfTransformers compares tokens and log-probabilities with what transformers generates on the same
// checkpoints, alone and all at the same time.
func TestGuidanceOfTransformers(t *testing.T) {
	var file struct{ Cases []guidanceGolden }
	data, err := os.ReadFile("testdata/guidance.json")
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil || len(file.Cases) < 100 {
		t.Fatalf("%d cases, %v", len(file.Cases), err)
	}
	opened := map[string]*Engine{}
	for _, g := range file.Cases {
		if opened[g.Checkpoint] == nil {
			opened[g.Checkpoint] = startWith(t, openCheckpoint(t, g.Checkpoint, 96), numbers{}, Config{})
		}
	}
	var wg sync.WaitGroup
	for i, g := range file.Cases {
		run := func() {
			if err := g.compare(opened[g.Checkpoint]); err != nil {
				t.Errorf("case %d, scale %v, %v without %v: %v", i, g.Scale, g.Prompt, g.Negative, err)
			}
		}
		if i%2 == 0 {
			wg.Go(run)
		} else {
			run()
		}
	}
	wg.Wait()
}

// compare generates a case.
func (g *guidanceGolden) compare(e *Engine) error {
	p := params(len(g.Tokens))
	p.RepetitionPenalty, p.IgnoreEOS = g.Repetition, true
	negative := g.Negative
	if negative == nil {
		negative = g.Prompt[len(g.Prompt)-1:]
	}
	got, err := generate(e, Request{Prompt: g.Prompt, Params: p, N: 1, Twins: [][]llm.Token{negative},
		Mix: sample.Mix{Weights: []float32{g.Scale, 1 - g.Scale}}})
	if err != nil {
		return err
	}
	if !slices.Equal(got.tokens[0], g.Tokens) {
		return fmt.Errorf("%v, want %v", got.tokens[0], g.Tokens)
	}
	for k, want := range g.Steps {
		if d := math.Abs(float64(got.logprobs[0][k]) - want); !(d <= 1e-3*max(1, math.Abs(want))) {
			return fmt.Errorf("token %d: log-probability %v, want %v", k, got.logprobs[0][k], want)
		}
	}
	return nil
}

// twinned gives requests without beams one or two more prompts, where they still fit into small caches.
func twinned(reqs []Request) (out []Request) {
	r := rand.New(rand.NewPCG(8, 8))
	for i, q := range reqs {
		twin := withTwins(r, i, q)
		tokens := len(q.Prompt) + q.Params.MaxNewTokens
		for _, p := range twin.Twins {
			tokens += len(p) + q.Params.MaxNewTokens
		}
		if q.Params.NumBeams > 1 || tokens > 100 {
			twin = q
		}
		out = append(out, twin)
	}
	return out
}

// withTwins gives a request one or two more prompts.
func withTwins(r *rand.Rand, i int, q Request) Request {
	q.Mix.Weights = []float32{1.5, -0.5}
	other := randomTokens(r, 1+r.IntN(12))
	if i%3 == 0 { // they begin alike
		other = append(slices.Clone(q.Prompt[:min(len(q.Prompt), 16)]), other...)
	}
	q.Twins = [][]llm.Token{other}
	if i%4 == 1 {
		q.Twins, q.Mix.Weights = append(q.Twins, q.Prompt[len(q.Prompt)-1:]), append(q.Mix.Weights, 0.25)
	}
	if i%5 == 2 {
		q.Mix.Alpha = 0.1
	}
	return q
}

// TestTwinsAreMixed compares greedy texts with what the model's own numbers say, in float64.
func TestTwinsAreMixed(t *testing.T) {
	var reqs []Request
	for _, q := range mixedRequests(24) {
		p := params(q.Params.MaxNewTokens)
		p.IgnoreEOS = true
		reqs = append(reqs, Request{Prompt: q.Prompt, Params: p, N: 1})
	}
	twins := 0
	for i, q := range twinned(reqs) {
		twins += len(q.Twins)
		if len(q.Twins) == 0 {
			continue
		}
		got := alone(t, []Request{q})[0].tokens[0]
		var want []llm.Token
		for range q.Params.MaxNewTokens {
			want = append(want, bestOfMix(q, want))
		}
		if !slices.Equal(got, want) {
			t.Errorf("request %d: %v, want %v", i, got, want)
		}
	}
	if twins < 15 {
		t.Errorf("%d twins", twins)
	}
}

func bestOfMix(q Request, output []llm.Token) (best llm.Token) {
	sum, first := make([]float64, len(pieces)), []float64(nil)
	for i, p := range append([][]llm.Token{q.Prompt}, q.Twins...) {
		x := make([]float32, len(pieces))
		logitsOf(append(slices.Clone(p), output...), x)
		all := 0.0
		for _, v := range x {
			all += math.Exp(float64(v))
		}
		for t, v := range x {
			sum[t] += float64(q.Mix.Weights[i]) * (float64(v) - math.Log(all))
			if i == 0 {
				first = append(first, float64(v))
			}
		}
	}
	most, value := slices.Max(first), math.Inf(-1)
	for t, v := range sum {
		if first[t] >= most+math.Log(float64(q.Mix.Alpha)) && v > value {
			best, value = llm.Token(t), v
		}
	}
	return best
}

// TestTwinsTogetherAsAlone: with settings, masks, processors and n, beside each other and beside requests without
// twins, in roomy and tiny caches, whatever is guessed for those.
func TestTwinsTogetherAsAlone(t *testing.T) {
	reqs := twinned(maskedKinds(30))
	want := alone(t, reqs)
	for name, s := range map[string]struct {
		blocks, blockSize int
		cfg               Config
		preempts          bool
	}{
		"roomy":                  {512, 16, Config{}, false},
		"tiny cache":             {40, 8, Config{}, true},
		"tiny cache, no sharing": {40, 8, Config{Settings: sched.Settings{NoPrefixSharing: true}}, true},
		"chunks of 3":            {48, 8, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 3}}, false},
		"blocks of one token":    {300, 1, Config{Settings: sched.Settings{MaxPromptLogits: 3}}, true},
		"few rows":               {128, 16, Config{Settings: sched.Settings{MaxBatchSize: 5}, Workers: 1}, false},
		"drafts":                 {128, 8, Config{Speculation: always(4)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFake(s.blocks, s.blockSize, 256)
			e := start(t, m, s.cfg)
			together(t, e, m, ofClients(reqs, 3), func(i int, got outcome) error { return sameSteps(got, want[i]) })
			if n := e.Stats().Preempted; s.preempts && n == 0 {
				t.Error("no sequence was preempted")
			}
			if e.mu.Lock(); e.open != 0 {
				t.Errorf("%d places are not given back", e.open)
			}
			e.mu.Unlock()
		})
	}
}

// TestTwinsAreRefused: what cannot run is refused with the reason.
func TestTwinsAreRefused(t *testing.T) {
	e := start(t, newFake(16, 4, 64), Config{Settings: sched.Settings{MaxConcurrentRequests: 6, MaxBatchSize: 4}})
	other := [][]llm.Token{{5, 6}}
	good := Request{Prompt: []llm.Token{3, 4}, Params: params(4), N: 1, Twins: other,
		Mix: sample.Mix{Weights: []float32{2, -1}}}
	if _, err := generate(e, good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Request){
		"num_beams cannot be used with a second prompt. Given: 2": func(r *Request) {
			r.Params.NumBeams, r.Params.LengthPenalty = 2, 1
		},
		"second prompt 0 token 1 is 4000": func(r *Request) { r.Twins = [][]llm.Token{{5, 4000}} },
		"the prompt has no token":         func(r *Request) { r.Twins = [][]llm.Token{{}} },
		"3 weights for 2 rows":            func(r *Request) { r.Mix.Weights = []float32{1, 1, 1} },
		"weights of a mix must be finite": func(r *Request) { r.Mix.Weights = []float32{1, float32(math.NaN())} },
		"alpha of a mix":                  func(r *Request) { r.Mix.Alpha = 1.5 },
		"5 prompts for one text, at most 4": func(r *Request) {
			r.Twins = slices.Repeat(other, 4)
			r.Mix.Weights = make([]float32, 5)
		},
		"4 texts of 2 prompts each, at most 6": func(r *Request) { r.N = 4 },
		"need 18 cache blocks of 4 tokens, there are 16": func(r *Request) {
			r.Prompt, r.Params.MaxNewTokens = slices.Repeat([]llm.Token{3}, 17), 20
			r.Twins = [][]llm.Token{slices.Repeat([]llm.Token{3}, 17)}
		},
		"images cannot be used": func(r *Request) {
			r.Embeddings = []llm.Embedding{{At: 0, N: 1, Vectors: []float32{5, 5}}}
		},
	} {
		r := good
		change(&r)
		_, err := generate(e, r)
		if err == nil || !strings.Contains(err.Error(), want) ||
			!errors.Is(err, llm.ErrInvalid) && !errors.Is(err, llm.ErrTooLong) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTwinsFollow: further texts of a request find in the cache what the first has computed, and the first token comes
// with the prompt's step.
func TestTwinsFollow(t *testing.T) {
	m := newFake(64, 4, 64)
	var steps [][2]int
	m.before = func(s llm.Step) { steps = append(steps, [2]int{s.Rows(), len(s.Tokens)}) }
	e := start(t, m, Config{})
	r := rand.New(rand.NewPCG(1, 1))
	p := params(2)
	p.IgnoreEOS = true
	got, err := generate(e, Request{Prompt: randomTokens(r, 21), Params: p, N: 2,
		Twins: [][]llm.Token{randomTokens(r, 13)}, Mix: sample.Mix{Weights: []float32{1, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]int{{2, 34}, {4, 4}, {2, 2}}
	if !slices.Equal(steps, want) {
		t.Errorf("rows and tokens of steps %v, want %v", steps, want)
	}
	if got.finish[0].Cached != 0 || got.finish[1].Cached != 20 || got.finish[1].Prompt != 21 {
		t.Errorf("%+v", got.finish)
	}
}
