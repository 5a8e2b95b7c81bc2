package engine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// params returns greedy settings with everything else off.
func params(maxNew int) llm.Params {
	return llm.Params{
		Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1,
		WatermarkGamma: 0.5, WatermarkDelta: 2, MaxNewTokens: maxNew,
	}
}

// start runs an engine for a test and checks at its end that nothing is left.
func start(t *testing.T, m Model, cfg Config) *Engine {
	t.Helper()
	return startWith(t, m, fakeCodec{}, cfg)
}

func startWith(t *testing.T, m Model, c Codec, cfg Config) *Engine {
	t.Helper()
	cfg.Verify = true
	e, err := New(m, c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.closeReason(); err != nil && err != llm.ErrClosed { // closed for a reason
			t.Errorf("the engine closed itself: %v", err)
		}
		e.Close()
		if used, _, _ := e.sched.Cache(); used != 0 || len(e.active) != 0 || e.open != 0 {
			t.Errorf("left over: %d blocks, %d sequences, %d open", used, len(e.active), e.open)
		}
	})
	return e
}

// outcome is what a request generated, sequence by sequence.
type outcome struct {
	tokens   [][]llm.Token
	logprobs [][]float32
	texts    []string // of the events that are not special
	finish   []llm.Finish
	prefill  []float32
	tops     [][]TopToken // of the prompt
	best     [][]TopToken // of each sequence's tokens, one after the other
}

// generate submits a request and reads it to its end.
func generate(e *Engine, r Request) (outcome, error) {
	st, err := e.Submit(context.Background(), r)
	if err != nil {
		return outcome{}, err
	}
	return collect(st, max(r.N, r.Params.NumReturn, 1))
}

func collect(st *Stream, n int) (outcome, error) {
	o := outcome{
		tokens: make([][]llm.Token, n), logprobs: make([][]float32, n),
		texts: make([]string, n), finish: make([]llm.Finish, n), best: make([][]TopToken, n),
	}
	for {
		ev, err := st.Next(context.Background())
		if err == io.EOF {
			return o, nil
		}
		if err != nil {
			st.Close()
			return o, err
		}
		i := ev.Index
		if o.finish[i].Reason != llm.FinishNone {
			return o, fmt.Errorf("sequence %d goes on after its end", i)
		}
		o.tokens[i] = append(o.tokens[i], ev.Token)
		o.logprobs[i] = append(o.logprobs[i], ev.Logprob)
		o.best[i] = append(o.best[i], ev.Top...)
		if !ev.Special {
			o.texts[i] += ev.Text
		}
		for _, p := range ev.Prefill {
			o.prefill = append(o.prefill, p.Logprob)
			o.tops = append(o.tops, p.Top)
		}
		if ev.Finish != nil {
			o.finish[i] = *ev.Finish
		}
	}
}

// same compares what must not depend on what else runs.
func same(a, b outcome) error {
	for i := range a.tokens {
		if !slices.Equal(a.tokens[i], b.tokens[i]) {
			return fmt.Errorf("sequence %d: tokens %v, want %v", i, a.tokens[i], b.tokens[i])
		}
		if !slices.Equal(a.logprobs[i], b.logprobs[i]) {
			return fmt.Errorf("sequence %d: log-probabilities differ", i)
		}
		fa, fb := a.finish[i], b.finish[i]
		fa.Cached, fb.Cached = 0, 0
		fa.AcceptedPrediction, fa.RejectedPrediction = fb.AcceptedPrediction, fb.RejectedPrediction
		if fa != fb || a.texts[i] != b.texts[i] {
			return fmt.Errorf("sequence %d: %+v %q, want %+v %q", i, fa, a.texts[i], fb, b.texts[i])
		}
	}
	if !slices.EqualFunc(a.prefill, b.prefill, func(x, y float32) bool {
		return x == y || math.IsNaN(float64(x)) && math.IsNaN(float64(y))
	}) {
		return fmt.Errorf("prompt log-probabilities %v, want %v", a.prefill, b.prefill)
	}
	return nil
}

// mixedRequests returns requests of different lengths and settings; some share
// their beginnings.
func mixedRequests(n int) []Request {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	system := randomTokens(r, 40)
	out := make([]Request, n)
	for i := range out {
		p := params(1 + r.IntN(40))
		if i%2 == 1 {
			p.Sample, p.Seed, p.Temperature = true, uint64(i)*77, 0.9
		}
		switch i % 8 {
		case 1:
			p.TopK = 7
		case 2:
			p.RepetitionPenalty = 1.3
		case 3:
			p.TopP, p.TopN = 0.8, 3
		case 4:
			p.PromptLogprobs = true
		case 5:
			p.FrequencyPenalty, p.MinP = 0.4, 0.05
		case 6:
			p.Stop, p.IgnoreEOS = []string{"ab", "h é"}, true
		case 7:
			p.Watermark = true
		}
		prompt := randomTokens(r, 1+r.IntN(50))
		if i%3 == 0 {
			prompt = append(slices.Clone(system), prompt[:1+len(prompt)/4]...)
		}
		out[i] = Request{Prompt: prompt, Params: p, N: 1}
		if i%5 == 3 {
			out[i].N = 2 + i%3
		}
	}
	return out
}

func randomTokens(r *rand.Rand, n int) []llm.Token {
	out := make([]llm.Token, n)
	for i := range out {
		out[i] = llm.Token(2 + r.IntN(len(pieces)-2))
	}
	return out
}

// alone runs each request on an engine of its own with room for all it wants.
func alone(t *testing.T, reqs []Request) []outcome {
	t.Helper()
	out := make([]outcome, len(reqs))
	for i, r := range reqs {
		e := start(t, newFake(64, 16, 256), Config{})
		var err error
		if out[i], err = generate(e, r); err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
	return out
}

// together has an engine of m generate, and gives each outcome to check. All other requests wait when the pass of the
// first one ends: how many meet must not depend on what the machine does beside.
func together(t *testing.T, e *Engine, m *fakeModel, reqs []Request, check func(i int, got outcome) error) {
	t.Helper()
	begun, all := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	m.before = func(llm.Step) { begin(); <-all }
	streams := make([]*Stream, len(reqs))
	for i, r := range reqs {
		var err error
		if streams[i], err = e.Submit(context.Background(), r); err != nil {
			close(all)
			t.Fatalf("request %d: %v", i, err)
		}
		<-begun
	}
	close(all)
	var wg sync.WaitGroup
	for i, st := range streams {
		wg.Go(func() {
			got, err := collect(st, max(reqs[i].N, reqs[i].Params.NumReturn, 1))
			if err == nil {
				err = check(i, got)
			}
			if err != nil {
				t.Errorf("request %d (%+v): %v", i, reqs[i].Params, err)
			}
		})
	}
	wg.Wait()
}

// ofClients returns requests of so many clients.
func ofClients(reqs []Request, clients int) []Request {
	out := slices.Clone(reqs)
	for i := range out {
		out[i].Client = fmt.Sprint(i % clients)
	}
	return out
}

func TestTogetherAsAlone(t *testing.T) {
	reqs := mixedRequests(32)
	want := alone(t, reqs)
	for i, o := range want {
		if len(o.tokens[0]) == 0 || o.finish[0].Text != o.texts[0] {
			t.Fatalf("request %d: tokens %v, events say %q, the end says %q", i, o.tokens[0], o.texts[0],
				o.finish[0].Text)
		}
	}
	type setup struct {
		name      string
		blocks    int
		blockSize int
		set       sched.Settings
		preempts  bool
	}
	setups := []setup{
		{"roomy", 256, 16, sched.Settings{}, false},
		{"tiny cache", 7, 16, sched.Settings{}, true},
		{"tiny cache, no sharing", 7, 16, sched.Settings{NoPrefixSharing: true}, true},
		{"small blocks", 30, 4, sched.Settings{MaxPromptLogits: 3}, true},
		{"blocks of one token", 130, 1, sched.Settings{}, true},
		{"blocks of 64", 3, 64, sched.Settings{}, true},
		{"blocks of 128", 4, 128, sched.Settings{MaxBatchPrefillTokens: 7}, true},
		{"blocks of 256", 3, 256, sched.Settings{}, true},
		{"no sharing", 256, 16, sched.Settings{NoPrefixSharing: true}, false},
		{"few rows", 64, 16, sched.Settings{MaxBatchSize: 3}, false},
		{"delayed prompts", 64, 16, sched.Settings{WaitingServedRatio: 2, MaxWaitingTokens: 6}, false},
	}
	for _, chunk := range []int{1, 2, 3, 5, 7, 16, 17, 31, 64} {
		setups = append(setups,
			setup{fmt.Sprintf("chunks of %d", chunk), 64, 16, sched.Settings{MaxBatchPrefillTokens: chunk}, false},
			setup{fmt.Sprintf("chunks of %d, tiny cache", chunk), 20, 5, sched.Settings{MaxBatchPrefillTokens: chunk},
				false})
	}
	for i, s := range append(setups, setups...) {
		clients := 1 + i/len(setups)*3
		t.Run(fmt.Sprintf("%s, clients: %d", s.name, clients), func(t *testing.T) {
			m := newFake(s.blocks, s.blockSize, 256)
			e := start(t, m, Config{Settings: s.set})
			together(t, e, m, ofClients(reqs, clients), func(i int, got outcome) error { return same(got, want[i]) })
			if n := e.Stats().Preempted; s.preempts && n == 0 {
				t.Error("no sequence was preempted")
			}
			if m.mixed == 0 && s.set.MaxBatchPrefillTokens != 1 {
				t.Error("no step held a chunk beside single tokens")
			}
		})
	}
}

func TestPrefixIsFound(t *testing.T) {
	for _, size := range []int{16, 64, 128, 256} {
		t.Run(fmt.Sprintf("blocks of %d", size), func(t *testing.T) {
			e := start(t, newFake(64, size, 32*size), Config{})
			prompt := randomTokens(rand.New(rand.NewPCG(1, 1)), 10*size)
			for i, want := range []int{0, 9 * size} { // the last block is computed again, for its logits
				o, err := generate(e, Request{Prompt: prompt, Params: params(3)})
				if err != nil {
					t.Fatal(err)
				}
				if got := o.finish[0].Cached; got != want {
					t.Errorf("run %d found %d tokens, want %d", i, got, want)
				}
			}
			o, err := generate(e, Request{Prompt: prompt, Params: params(3), Salt: "another adapter"})
			if err != nil || o.finish[0].Cached != 0 {
				t.Errorf("a foreign prefix was found: %d tokens, %v", o.finish[0].Cached, err)
			}
		})
	}
}

// What was generated is a prefix for the next turn of a conversation.
func TestOutputIsFound(t *testing.T) {
	e := start(t, newFake(64, 16, 512), Config{})
	p := params(64)
	p.IgnoreEOS = true
	prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 20)
	o, err := generate(e, Request{Prompt: prompt, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	next := append(slices.Clone(prompt), o.tokens[0]...)
	o, err = generate(e, Request{Prompt: next, Params: params(1)})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.finish[0].Cached; got != 80 { // 84 tokens, of which the last was never computed
		t.Errorf("found %d tokens, want 80", got)
	}
}

func TestForksShareTheirPrompt(t *testing.T) {
	m := newFake(64, 16, 256)
	e := start(t, m, Config{})
	p := params(8)
	p.Sample, p.Seed, p.IgnoreEOS = true, 42, true
	prompt := randomTokens(rand.New(rand.NewPCG(3, 3)), 50)
	total := 0
	m.before = func(s llm.Step) { total += len(s.Tokens) }
	o, err := generate(e, Request{Prompt: prompt, Params: p, N: 4})
	if err != nil {
		t.Fatal(err)
	}
	if want := 50 + 4*7; total != want {
		t.Errorf("computed %d tokens, want %d: the prompt once", total, want)
	}
	if m.copies != 3 {
		t.Errorf("copied %d blocks, want 3: the last holder keeps the original", m.copies)
	}
	for i := range 4 {
		p.Seed = llm.SeedFor(42, i)
		single, err := generate(e, Request{Prompt: prompt, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(single.tokens[0], o.tokens[i]) || o.finish[i].Seed != p.Seed {
			t.Errorf("sequence %d: %v with seed %d, alone %v", i, o.tokens[i], o.finish[i].Seed, single.tokens[0])
		}
	}
}

func TestPromptLogprobs(t *testing.T) {
	m := newFake(64, 16, 256)
	e := start(t, m, Config{Settings: sched.Settings{MaxPromptLogits: 7}})
	p := params(1)
	p.PromptLogprobs, p.PromptTopN = true, 3
	prompt := randomTokens(rand.New(rand.NewPCG(4, 4)), 60)
	for range 2 { // the second time the prompt is in the cache
		o, err := generate(e, Request{Prompt: prompt, Params: p, N: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(o.prefill) != len(prompt) || !math.IsNaN(float64(o.prefill[0])) {
			t.Fatalf("prompt log-probabilities: %v", o.prefill)
		}
		row := make([]float32, len(pieces))
		if o.tops[0] != nil {
			t.Errorf("nothing precedes the first token, and it has %v", o.tops[0])
		}
		for i := 1; i < len(prompt); i++ {
			logitsOf(prompt[:i], row)
			if want := sample.PromptLogprob(row, prompt[i]); o.prefill[i] != want {
				t.Errorf("token %d: %v, want %v", i, o.prefill[i], want)
			}
			logitsOf(prompt[:i], row)
			order := make([]llm.Token, len(row))
			for j := range order {
				order[j] = llm.Token(j)
			}
			slices.SortStableFunc(order, func(a, b llm.Token) int { return cmp.Compare(row[b], row[a]) })
			for j, top := range o.tops[i] {
				if want := sample.PromptLogprob(slices.Clone(row), order[j]); top.Token != order[j] ||
					top.Logprob != want || top.Text != pieces[top.Token] {
					t.Errorf("token %d: %+v is number %d, want token %d with %v", i, top, j, order[j], want)
				}
			}
			if len(o.tops[i]) != 3 {
				t.Errorf("token %d: %d likeliest tokens, want 3", i, len(o.tops[i]))
			}
		}
	}
	if m.logits > 8 {
		t.Errorf("a step asked for %d rows of logits, at most 7 and a pick are allowed", m.logits)
	}
}

func TestTopTokens(t *testing.T) {
	e := start(t, newFake(8, 16, 64), Config{})
	p := params(4)
	p.TopN, p.IgnoreEOS = 3, true
	st, err := e.Submit(context.Background(), Request{Prompt: []llm.Token{5}, Params: p})
	if err != nil {
		t.Fatal(err)
	}
	events, err := readAll(st)
	if err != nil || len(events) != 4 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	for i, ev := range events {
		if len(ev.Top) != 3 || ev.Top[0].Token != ev.Token || ev.Top[0].Logprob != ev.Logprob ||
			ev.Top[1].Text != pieces[ev.Top[1].Token] {
			t.Errorf("event %d: token %d (%v), top %+v", i, ev.Token, ev.Logprob, ev.Top)
		}
	}
}

func TestSubmitRefuses(t *testing.T) {
	e := start(t, newFake(4, 16, 512), Config{Settings: sched.Settings{MaxConcurrentRequests: 4}})
	long := make([]llm.Token, 60)
	for _, c := range []struct {
		name string
		r    Request
		want string
	}{
		{"empty", Request{Params: params(1)}, "invalid request: the prompt has no token"},
		{"no new tokens", Request{Prompt: []llm.Token{3}, Params: params(0)},
			"invalid request: max_new_tokens must be at least 1, got 0"},
		{"foreign token", Request{Prompt: []llm.Token{3, 999}, Params: params(1)},
			fmt.Sprintf("invalid request: prompt token 1 is 999, the vocabulary has %d", len(pieces))},
		{"too many sequences", Request{Prompt: []llm.Token{3}, Params: params(1), N: 5},
			"invalid request: the number of sequences must be from 1 to 4, got 5"},
		{"cache too small", Request{Prompt: long, Params: params(6)},
			"request exceeds the model's capacity: 60 prompt tokens and 6 new ones, at most 65 fit together"},
		{"prompt too long", Request{Prompt: append(long, long...), Params: params(1)},
			"request exceeds the model's capacity: the prompt has 120 tokens, at most 64 fit"},
		{"overflow", Request{Prompt: long, Params: params(math.MaxInt)}, "request exceeds the model's capacity"},
		{"settings", Request{Prompt: []llm.Token{3}, Params: llm.Params{MaxNewTokens: 1}}, "invalid request"},
		{"adapter without salt", Request{Prompt: []llm.Token{3}, Params: params(1), Adapter: 1},
			"invalid request: BUG: engine: adapter 1 has no salt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := e.Submit(context.Background(), c.r); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	// The longest that fits does, alone in a cache of four blocks.
	p := params(5)
	p.IgnoreEOS = true
	if o, err := generate(e, Request{Prompt: long, Params: p}); err != nil || len(o.tokens[0]) != 5 {
		t.Errorf("%d tokens, %v", len(o.tokens[0]), err)
	}
}
