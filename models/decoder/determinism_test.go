package decoder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/runtime/draft"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// numbered is the text side of a vocabulary whose tokens are their numbers.
type numbered struct{}

func (numbered) Stream([]llm.Token) engine.Detokenizer { return numbered{} }
func (numbered) Special(llm.Token) bool                { return false }
func (numbered) Text(id llm.Token) string              { return fmt.Sprint(id, " ") }
func (numbered) EOS() []llm.Token                      { return []llm.Token{1} }
func (n numbered) Next(id llm.Token) string            { return n.Text(id) }
func (numbered) Flush() string                         { return "" }
func (numbered) Open() bool                            { return false }

// served is a backend as an engine wants it.
type served struct{ *ort.Paged }

func (s served) Shape() engine.Shape {
	return engine.Shape{Vocab: s.Vocab(), BlockSize: s.BlockSize(), Blocks: s.Blocks(), MaxLen: s.MaxLen()}
}

// answer is what a request got: tokens and log-probabilities of all its sequences, in the order of their numbers.
type answer struct {
	tokens   [][]llm.Token
	logprobs [][]float32
}

func (a answer) equal(b answer) bool {
	return slices.EqualFunc(a.tokens, b.tokens, slices.Equal) && slices.EqualFunc(a.logprobs, b.logprobs, slices.Equal)
}

func answered(e *engine.Engine, r engine.Request) (answer, error) {
	a := answer{make([][]llm.Token, r.N), make([][]float32, r.N)}
	st, err := e.Submit(context.Background(), r)
	if err != nil {
		return a, err
	}
	for {
		ev, err := st.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return a, err
		}
		a.tokens[ev.Index] = append(a.tokens[ev.Index], ev.Token)
		a.logprobs[ev.Index] = append(a.logprobs[ev.Index], ev.Logprob)
	}
}

// requests returns requests of different lengths and settings; some share their beginnings.
func requests(n, vocab int) []engine.Request {
	r := rand.New(rand.NewPCG(11, uint64(n)))
	tokens := func(n int) []llm.Token {
		out := make([]llm.Token, n)
		for i := range out {
			out[i] = llm.Token(3 + r.IntN(vocab-3))
		}
		return out
	}
	system, out := tokens(40), make([]engine.Request, n)
	for i := range out {
		p := llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 8 + r.IntN(40),
			IgnoreEOS: true}
		if i%2 == 1 {
			p.Sample, p.Seed, p.Temperature, p.TopK = true, uint64(i)*77, 0.9, 20*(i%3)
		}
		prompt := tokens(1 + r.IntN(60))
		if i%3 == 0 {
			prompt = append(slices.Clone(system), prompt[:1+len(prompt)/4]...)
		}
		out[i] = engine.Request{Prompt: prompt, Params: p, N: 1 + i%7/6}
	}
	return out
}

// guesses drafts for a sequence what it generates, so many tokens at a time, and now and then something else.
type guesses struct {
	r    *rand.Rand
	want []llm.Token
	k    int
}

func (g guesses) Draft(h llm.History, ahead, room []llm.Token) int {
	n := copy(room[:min(g.k, len(room))], g.want[len(h.Output):])
	for i := range n {
		if g.r.IntN(12) == 0 {
			room[i] = (room[i] + 1) % 40
		}
	}
	return n
}

// right counts guesses that were right. It is an Observer.
type right struct{ accepted atomic.Int64 }

func (c *right) Step(r engine.Report) { c.accepted.Add(int64(r.Drafts.Accepted[draft.Plugin])) }

// guessed returns a request with guesses of what it generates.
func guessed(req engine.Request, want answer, k int) engine.Request {
	req.Plugins = func(i int) sample.Plugins {
		return sample.Plugins{Drafter: guesses{rand.New(rand.NewPCG(uint64(i), 3)), want.tokens[i], k}}
	}
	return req
}

// TestTogetherAsAlone: a request gets the same tokens and log-probabilities, to the last bit, alone and among 31
// others, with prompts cut into pieces, with prefixes that are cached, after preemption, on one thread or three, and
// with guesses of its next tokens, in every format.
func TestTogetherAsAlone(t *testing.T) {
	startRuntime(t)
	// One of each kind of norm, activation and embedding of positions.
	names := []string{"llama3", "qwen2", "gemma2", "gpt2", "bloom", "phi-norms", "cohere", "olmo2", "nemotron",
		"granite",
		"qwen2-moe", "gpt-oss", "deepseek-v3", "glm4-moe"}
	for _, name := range names {
		ck, _ := readGolden(t, name)
		for _, w := range models.CPU.Formats() {
			t.Run(name+" "+string(w), func(t *testing.T) { togetherAsAlone(t, ck, w) })
		}
	}
	t.Run("stored", func(t *testing.T) { togetherAsAlone(t, openStored(t, "Q4_K", "Q4_K", "Q6_K"), models.Stored) })
}

func togetherAsAlone(t *testing.T, ck *hf.Checkpoint, w models.Weights) {
	r, path := buildTo(t, ck, Options{Weights: w})
	open := func(t *testing.T, blocks, threads, guesses int, set sched.Settings, o engine.Observer) *engine.Engine {
		p := openPaged(t, path, ort.Options{Layers: r.Arch.Layers, KVHeads: r.Arch.KVHeads,
			HeadDim: r.Arch.HeadDim, Vocab: r.Arch.Vocab, MaxLen: 128, Blocks: blocks, Width: r.Arch.Width,
			Places: r.Arch.Places, Latent: r.Arch.Latent,
			Threads: threads, Cache: ort.CacheForm(r.Layout.Cache)})
		e, err := engine.New(served{p}, numbered{}, engine.Config{Settings: set, Verify: true, Observer: o,
			Speculation: draft.Settings{Tokens: guesses, Always: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	reqs := requests(32, r.Arch.Vocab)
	want := make([]answer, len(reqs))
	lonely := open(t, 64, 1, 0, sched.Settings{NoPrefixSharing: true}, nil)
	for i, req := range reqs {
		var err error
		if want[i], err = answered(lonely, req); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name            string
		blocks, threads int
		guesses         int
		set             sched.Settings
		preempts        bool
	}{
		{"roomy", 400, 2, 0, sched.Settings{}, false},
		{"one thread, no sharing", 400, 1, 0, sched.Settings{NoPrefixSharing: true}, false},
		{"small cache", 12, 3, 0, sched.Settings{}, true},
		{"pieces", 400, 2, 0, sched.Settings{MaxBatchPrefillTokens: 7}, false},
		{"three rows", 400, 2, 0, sched.Settings{MaxBatchSize: 3}, false},
		{"guesses", 400, 2, 4, sched.Settings{}, false},
		{"guesses, three rows", 400, 1, 8, sched.Settings{MaxBatchSize: 3, NoPrefixSharing: true}, false},
		{"guesses, one row, small cache", 12, 2, 7, sched.Settings{MaxBatchSize: 1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen right
			e := open(t, c.blocks, c.threads, c.guesses, c.set, &seen)
			// The second time, prefixes are cached. How many sequences meet, and so whether one is preempted, is not
			// given.
			for round := 0; round < 2 || c.preempts && e.Stats().Preempted == 0 && round < 50; round++ {
				var all sync.WaitGroup
				for i, req := range reqs {
					all.Go(func() {
						if c.guesses > 0 {
							req = guessed(req, want[i], c.guesses)
						}
						got, err := answered(e, req)
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						} else if !got.equal(want[i]) {
							t.Errorf("request %d: %v, alone %v", i, got.tokens, want[i].tokens)
						}
					})
				}
				all.Wait()
			}
			if n := seen.accepted.Load(); c.guesses > 0 && n < 500 {
				t.Errorf("%d guesses were right", n)
			}
			if c.preempts && e.Stats().Preempted == 0 {
				t.Error("no sequence was preempted")
			}
		})
	}
}
