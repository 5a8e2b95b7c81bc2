package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// withEmbeddings returns a request whose prompt has token 5 in some runs, and embeddings there that mean the tokens of
// the plain request in their place.
func withEmbeddings(r *rand.Rand, plain Request) Request {
	out := plain
	out.Prompt = slices.Clone(plain.Prompt)
	for at := r.IntN(3); at < len(out.Prompt); at += r.IntN(4) {
		n := min(1+r.IntN(9), len(out.Prompt)-at)
		e := llm.Embedding{At: at, N: n}
		sum := sha256.New()
		for i := range n {
			token := plain.Prompt[at+i]
			out.Prompt[at+i] = 5
			e.Vectors = append(e.Vectors, float32(token), float32(token))
			sum.Write(binary.LittleEndian.AppendUint32(nil, token))
		}
		sum.Sum(e.Sum[:0])
		out.Embeddings = append(out.Embeddings, e)
		at += n
	}
	return out
}

// TestEmbeddingsAreTokens: with embeddings that mean tokens, a request gets what it gets with the tokens, alone or in a
// crowd, with sequences that share its prompt, with beams, in pieces, with a cache of prefixes and under preemption.
func TestEmbeddingsAreTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var plain, embedded []Request
	for i := range 40 {
		// few prompts, many with the same beginning, so that the cache has prefixes that only look equal
		prompt := slices.Repeat([]llm.Token{llm.Token(10 + i%3)}, 20+r.IntN(20))
		for range r.IntN(4) {
			prompt[r.IntN(len(prompt))] = llm.Token(10 + r.IntN(20))
		}
		one := Request{Prompt: prompt, Params: params(1 + r.IntN(20))}
		switch i % 4 {
		case 0:
			one.N = 3
			one.Params.Sample, one.Params.Seed = true, uint64(i)
		case 1:
			one = Request{Prompt: prompt, Params: beamParams(1+r.IntN(8), 3, 2)}
		case 2:
			one.Params.PromptLogprobs = i%8 == 2
		}
		plain, embedded = append(plain, one), append(embedded, withEmbeddings(r, one))
	}
	want := alone(t, plain)
	m := newFake(32, 4, 96)
	e := start(t, m, Config{Settings: sched.Settings{MaxBatchSize: 16, MaxBatchPrefillTokens: 13}})
	var wg sync.WaitGroup
	for i, req := range embedded {
		wg.Go(func() {
			got, err := generate(e, req)
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			got.prefill, got.tops, want[i].prefill, want[i].tops = nil, nil, nil, nil // of the tokens that stand there
			if err := same(want[i], got); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if stats := e.Stats(); stats.Preempted == 0 {
		t.Error("nothing was preempted: the test needs fewer blocks")
	}
}

// TestPlaces: pictures in lines give the same in a crowd, in pieces, with beams and sequences that share a prompt, with
// a cache of prefixes and under preemption, as they do alone; and something else than pictures without lines.
func TestPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	var list []Request
	for i := range 40 {
		req := Request{Prompt: slices.Repeat([]llm.Token{5}, 20+r.IntN(20)), Params: params(1 + r.IntN(20))}
		switch i % 4 {
		case 0:
			req.N = 3
			req.Params.Sample, req.Params.Seed = true, uint64(i)
		case 1:
			req.Params = beamParams(1+r.IntN(8), 3, 2)
		}
		if i%5 < 4 { // the others are text
			for at := 0; at < 2; at++ {
				e := llm.Embedding{At: 1 + at*9, Columns: 1 + r.IntN(3), Sum: [32]byte{byte(i % 3)}}
				e.N = e.Columns * (1 + r.IntN(2))
				e.Vectors = slices.Repeat([]float32{7}, 2*e.N)
				req.Embeddings = append(req.Embeddings, e)
			}
		}
		list = append(list, req)
	}
	want := alone(t, list)
	flat := slices.Clone(list)
	for i := range flat {
		flat[i].Embeddings = slices.Clone(flat[i].Embeddings)
		for j := range flat[i].Embeddings {
			flat[i].Embeddings[j].Columns = 0
		}
	}
	differ := 0
	for i, got := range alone(t, flat) {
		if same(want[i], got) != nil {
			differ++
		}
	}
	if differ < 20 {
		t.Errorf("lines change %d of %d requests: the test sees nothing", differ, len(list))
	}
	m := newFake(32, 4, 96)
	e := start(t, m, Config{Settings: sched.Settings{MaxBatchSize: 16, MaxBatchPrefillTokens: 13}})
	var wg sync.WaitGroup
	for i, req := range list {
		wg.Go(func() {
			got, err := generate(e, req)
			if err == nil {
				err = same(want[i], got)
			}
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if stats := e.Stats(); stats.Preempted == 0 {
		t.Error("nothing was preempted: the test needs fewer blocks")
	}
}

// TestEmbeddingsRefused: embeddings that do not fit the prompt or the model are refused.
func TestEmbeddingsRefused(t *testing.T) {
	vectors := make([]float32, 8)
	for name, list := range map[string][]llm.Embedding{
		"past the end":    {{At: 1, N: 4, Vectors: vectors}},
		"before the last": {{At: 2, N: 1, Vectors: vectors[:2]}, {At: 1, N: 1, Vectors: vectors[:2]}},
		"none":            {{At: 1}},
		"too narrow":      {{At: 1, N: 2, Vectors: vectors[:2]}},
		"half a line":     {{At: 0, N: 3, Vectors: vectors[:6], Columns: 2}},
	} {
		e := start(t, newFake(8, 4, 32), Config{})
		_, err := e.Submit(context.Background(), Request{Prompt: []llm.Token{5, 5, 5}, Params: params(1),
			Embeddings: list})
		if !errors.Is(err, llm.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newFake(8, 4, 32)
	m.shape.Width = 0
	_, err := start(t, m, Config{}).Submit(context.Background(), Request{Prompt: []llm.Token{5}, Params: params(1),
		Embeddings: []llm.Embedding{{N: 1, Vectors: vectors[:2]}}})
	if !errors.Is(err, llm.ErrInvalid) {
		t.Errorf("a model without embeddings: %v", err)
	}
}
