package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/reduce"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// wideVocab is more than a reduction's candidates, so that these rarely are the whole row.
const wideVocab = 700

func newWideFake(blocks, blockSize, maxLen int) *fakeModel {
	m := newFake(blocks, blockSize, maxLen)
	m.shape.Vocab = wideVocab
	return m
}

// wideCodec spells the tokens of a wide vocabulary like those of the small one.
type wideCodec struct{ fakeCodec }

func narrow(id llm.Token) llm.Token {
	if int(id) < len(pieces) {
		return id
	}
	return 2 + id%llm.Token(len(pieces)-2)
}

func (c wideCodec) Text(id llm.Token) string { return c.fakeCodec.Text(narrow(id)) }
func (c wideCodec) Stream(context []llm.Token) Detokenizer {
	small := make([]llm.Token, len(context))
	for i, t := range context {
		small[i] = narrow(t)
	}
	return wideDetok{c.fakeCodec.Stream(small)}
}

type wideDetok struct{ Detokenizer }

func (d wideDetok) Next(id llm.Token) string { return d.Detokenizer.Next(narrow(id)) }

// reducingModel is a fake that reduces rows as a device does, and counts what it hands out.
type reducingModel struct {
	*fakeModel
	step    []float32
	results []float32 // of the last Fetch
	answers []llm.Reduced

	counts   sync.Mutex
	computed bool // and not fetched
	lazy     error
	rows     int // handed out whole
	reduced  int
	again    int // rows of second fetches
	failAt   int // the Fetch that fails; 0 is none
	fetches  int
	boom     bool // whether it panics instead
}

func (m *reducingModel) Forward(*llm.Step) ([]float32, error) {
	return nil, errors.New("fake: not asked to reduce")
}

// Compute returns no error of the step: like a device, it has not computed it by then.
func (m *reducingModel) Compute(s *llm.Step) error {
	m.spoil()
	m.step, m.lazy = m.fakeModel.Forward(s)
	m.step = slices.Clone(m.step)
	m.computed = true
	return nil
}

// spoil overwrites what the last Fetch returned.
func (m *reducingModel) spoil() {
	for i := range m.results {
		m.results[i] = float32(math.NaN())
	}
	clear(m.answers)
}

func (m *reducingModel) Fetch(rows []int, list []llm.Reduction) ([]float32, []llm.Reduced, error) {
	m.counts.Lock()
	defer m.counts.Unlock()
	m.spoil()
	if m.fetches++; m.fetches == m.failAt {
		if m.boom {
			panic("no more")
		}
		return nil, nil, errors.New("device lost")
	}
	if m.lazy != nil {
		return nil, nil, m.lazy
	}
	v := m.shape.Vocab
	m.results, m.answers = nil, nil
	for _, r := range rows {
		m.results = append(m.results, m.step[r*v:(r+1)*v]...)
	}
	for i := range list {
		m.answers = append(m.answers, reduce.Row(m.step[list[i].Row*v:(list[i].Row+1)*v], &list[i]))
	}
	m.rows += len(rows)
	m.reduced += len(list)
	if !m.computed {
		m.again += len(rows)
	}
	m.computed = false
	return m.results, m.answers, nil
}

// startWide is start with a wide vocabulary.
func startWide(t *testing.T, m Model, cfg Config) *Engine {
	t.Helper()
	return startWith(t, m, wideCodec{}, cfg)
}

// same5 is a processor of user code.
type same5 struct{}

func (same5) Process(_ sample.History, s *sample.Step) error { s.Logits[5]++; return nil }

// scarce is a masker that allows few tokens, or all of them at each third step.
type scarce struct{ step *int }

func (m scarce) Mask(bits []uint32) (bool, error) {
	for i := range bits {
		bits[i] = 0x00010101 << (*m.step % 8)
	}
	return *m.step%3 > 0, nil
}

func (m scarce) Accept(llm.Token) error { *m.step++; return nil }

// second is a sampler that takes the second candidate at times.
type second struct{}

func (second) Candidates() int { return 3 }
func (second) Sample(h sample.History, c []sample.Candidate) (int, error) {
	if len(h.Output)%2 == 0 {
		return sample.NoChoice, nil
	}
	return min(1, len(c)-1), nil
}

// reducibleRequests returns requests of all kinds: most can be served by reductions, the others need rows.
func reducibleRequests(t *testing.T, n int) []Request {
	r := rand.New(rand.NewPCG(7, uint64(n)))
	out := mixedRequests(n)
	searches, paces := maskedRequests(n)
	for i := range out {
		if i%4 == 3 { // beams and guests
			out[i] = dear(t, searches[i], i, min(paces[i], time.Millisecond), 0)
			if paces[i] < 0 || searches[i].Params.BeamSearch() {
				out[i] = searches[i]
			}
			continue
		}
		p := &out[i].Params
		switch r.IntN(12) {
		case 0:
			p.RawLogprobs, p.TopN, p.RepetitionPenalty = true, 4, 1.2
		case 1:
			p.RawLogprobs, p.PresencePenalty = true, 0.6
		case 2:
			p.Sample, p.Temperature = true, 0.2
		case 3:
			p.LogitBias = []llm.Bias{{Token: 5, Add: 3}, {Token: 600, Add: 4}, {Token: 5, Add: 1},
				{Token: 9, Add: -100}}
		case 4:
			p.Sample, p.TypicalP = true, 0.7
		case 5:
			p.Sample, p.TopP, p.TypicalP = true, 0.4, 0.9
		case 6:
			p.Sample, p.TopP = true, 0.999 // which the candidates do not reach
		case 7:
			p.Sample, p.TopK, p.TopN = true, 300, 2
		case 8:
			p.TopN, p.PromptLogprobs, p.PromptTopN = 5, true, 2
		case 9:
			out[i].Plugins = func(int) sample.Plugins { return sample.Plugins{Sampler: second{}} }
		case 10:
			out[i].Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: scarce{new(int)}} }
		case 11:
			out[i].Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: distinct{new([]llm.Token)}} }
			p.Sample, p.FrequencyPenalty, p.PresencePenalty = true, 0.3, 0.2
		}
	}
	return out
}

// nearly compares outcomes whose log-probabilities may be rounded differently.
func nearly(a, b outcome) error {
	near := func(x, y float32) bool {
		return x == y || math.IsNaN(float64(x)) && math.IsNaN(float64(y)) || math.Abs(float64(x-y)) < 2e-5
	}
	for i := range a.logprobs {
		if !slices.EqualFunc(a.logprobs[i], b.logprobs[i], near) {
			return fmt.Errorf("sequence %d: log-probabilities %v, want %v", i, a.logprobs[i], b.logprobs[i])
		}
		if !slices.EqualFunc(a.best[i], b.best[i], func(x, y TopToken) bool {
			return x.Token == y.Token && x.Text == y.Text && near(x.Logprob, y.Logprob)
		}) {
			return fmt.Errorf("sequence %d: top tokens %v, want %v", i, a.best[i], b.best[i])
		}
	}
	c := b
	c.logprobs = a.logprobs
	return same(a, c)
}

// TestReduced: an engine whose model reduces rows generates what one with whole rows does, for all kinds of requests
// together, with preempted, forked and parked sequences, and fetches whole rows only where they are needed.
func TestReduced(t *testing.T) {
	reqs := reducibleRequests(t, 96)
	want := make([]outcome, len(reqs))
	e := startWide(t, newWideFake(4096, 16, 256), Config{})
	for i, r := range reqs {
		var err error
		if want[i], err = generate(e, r); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	for _, s := range []struct {
		name      string
		blocks    int
		blockSize int
		cfg       Config
	}{
		{"roomy", 2048, 16, Config{}},
		{"tiny cache", 20, 8, Config{}},
		{"one worker, chunks of 3", 26, 8, Config{Workers: 1, Settings: sched.Settings{MaxBatchPrefillTokens: 3}}},
		{"no wait", 512, 16, Config{GuestWait: 1}},
	} {
		t.Run(s.name, func(t *testing.T) {
			m := &reducingModel{fakeModel: newWideFake(s.blocks, s.blockSize, 256)}
			s.cfg.MaxConcurrentRequests = 1000
			e := startWide(t, m, s.cfg)
			together(t, e, m.fakeModel, reqs, func(i int, got outcome) error { return nearly(got, want[i]) })
			if s.blocks < 30 && e.Stats().Preempted == 0 {
				t.Error("no sequence was preempted")
			}
			if m.again == 0 || m.reduced < 1000 || m.rows-m.again == 0 {
				t.Errorf("%d reductions, %d rows at first, %d after them", m.reduced, m.rows-m.again, m.again)
			}
		})
	}
}

// TestReducedFetchesNoRow: what the candidates decide costs no row; what needs its row costs that one.
func TestReducedFetchesNoRow(t *testing.T) {
	for name, c := range map[string]struct {
		set                 func(r *Request)
		rows, again, reduce int
	}{
		"greedy":  {func(*Request) {}, 0, 0, 8},
		"sampled": {func(r *Request) { r.Params.Sample = true }, 0, 0, 8},
		"top_k":   {func(r *Request) { r.Params.Sample, r.Params.TopK = true, 40 }, 0, 0, 8},
		"penalties": {func(r *Request) { r.Params.RepetitionPenalty, r.Params.PresencePenalty = 1.2, 1 }, 0, 0,
			8},
		"three sequences": {func(r *Request) { r.N, r.Params.Sample = 3, true }, 0, 0, 24},
		"raw":             {func(r *Request) { r.Params.RawLogprobs, r.Params.TopN = true, 5 }, 0, 0, 8},
		"raw, penalty": {func(r *Request) {
			r.Params.RawLogprobs, r.Params.TopN, r.Params.PresencePenalty = true,
				5, 1
		}, 0, 0, 15},
		"watermark": {func(r *Request) { r.Params.Watermark = true }, 8, 0, 0},
		"typical_p": {func(r *Request) { r.Params.Sample, r.Params.TypicalP = true, 0.7 }, 8, 0, 0},
		"processor": {func(r *Request) {
			r.Plugins = func(int) sample.Plugins { return sample.Plugins{Processors: []sample.Processor{same5{}}} }
		}, 8, 0, 0},
		"prompt":            {func(r *Request) { r.Params.PromptLogprobs = true }, 3, 0, 8},
		"top_p not reached": {func(r *Request) { r.Params.Sample, r.Params.TopP = true, 0.9999 }, 8, 8, 8},
		"beams":             {func(r *Request) { r.Params = beamParams(3, 2, 1); r.Params.IgnoreEOS = true }, 5, 0, 0},
		"mask": {func(r *Request) {
			r.Plugins = func(int) sample.Plugins { return sample.Plugins{Masker: scarce{new(int)}} }
		}, 0, 0, 8},
		"guest": {func(r *Request) {
			r.Plugins = func(int) sample.Plugins { return ofGuest(newState().plugins()) }
		}, 8, 0, 0},
		"guard of a guest": {func(r *Request) {
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Guests: []string{"g"}, Guards: []sample.Guard{spinning{}}}
			}
		}, 0, 0, 8},
		"guards, top_p not reached": {func(r *Request) {
			r.N, r.Params.Sample, r.Params.TopP = 3, true, 0.9999
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Guests: []string{"g"}, Guards: []sample.Guard{spinning{}}}
			}
		}, 24, 24, 24},
	} {
		t.Run(name, func(t *testing.T) {
			m := &reducingModel{fakeModel: newWideFake(64, 16, 256)}
			e := startWide(t, m, Config{})
			r := Request{Prompt: []llm.Token{3, 4, 5, 6}, Params: params(8), N: 1}
			r.Params.IgnoreEOS = true
			c.set(&r)
			if _, err := generate(e, r); err != nil {
				t.Fatal(err)
			}
			e.Close()
			if m.rows != c.rows || m.again != c.again || m.reduced != c.reduce {
				t.Errorf("%d rows, %d of them after the reductions, %d reductions; want %d, %d, %d", m.rows, m.again,
					m.reduced,
					c.rows, c.again, c.reduce)
			}
			rows, got := int64(c.rows), e.WholeRows()
			want := map[string]WholeRows{"watermark": {Watermark: rows}, "prompt": {Prompt: rows},
				"top_p not reached": {Undecided: rows}, "guards, top_p not reached": {Undecided: rows},
				"beams": {Beams: rows}, "guest": {Plugin: rows},
				"typical_p": {Settings: rows}, "processor": {Plugin: rows}}[name]
			if got != want {
				t.Errorf("rows by reason: %+v, want %+v", got, want)
			}
		})
	}
}

// TestReducedFails: a Fetch that fails, the first or the second of a step, ends the step's requests, and the engine
// goes on.
func TestReducedFails(t *testing.T) {
	for _, boom := range []bool{false, true} {
		for at := 1; at <= 4; at++ { // odd ones are a step's first
			m := &reducingModel{fakeModel: newWideFake(64, 16, 256), failAt: at, boom: boom}
			e := startWide(t, m, Config{})
			r := Request{Prompt: []llm.Token{3, 4, 5, 6}, Params: params(3)}
			r.Params.Sample, r.Params.TopP = true, 0.9999
			st, err := e.Submit(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			why := "device lost"
			if boom {
				why = "panic: no more"
			}
			if _, err := collect(st, 1); !errors.Is(err, llm.ErrBackend) || !strings.Contains(err.Error(), why) {
				t.Errorf("fetch %d: %v", at, err)
			}
			if e.Healthy() == nil {
				t.Errorf("fetch %d: the engine is healthy", at)
			}
			if o, err := generate(e, r); err != nil || len(o.tokens[0]) == 0 {
				t.Errorf("after fetch %d: %v, %v", at, o.tokens, err)
			}
			if err := e.Healthy(); err != nil {
				t.Errorf("after fetch %d: %v", at, err)
			}
			e.Close()
		}
	}
}
