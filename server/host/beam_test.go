package host

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
)

// found is what a beam search returned.
type found struct {
	tokens [][]llm.Token
	scores []float32
}

func searchBeams(h *Server, r engine.Request) (out found, err error) {
	s, err := h.defaultModel().engine.Submit(context.Background(), r)
	if err != nil {
		return out, err
	}
	defer s.Close()
	out = found{make([][]llm.Token, r.Params.NumReturn), make([]float32, r.Params.NumReturn)}
	for {
		e, err := s.Next(context.Background())
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out.tokens[e.Index] = append(out.tokens[e.Index], e.Token)
		if e.Finish != nil {
			out.scores[e.Index] = e.Finish.Score
		}
	}
}

func beamRequests(h *Server) []engine.Request {
	out := mixedRequests(h, 10)
	for i := range out {
		p := llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 24,
			NumBeams: 2 + i%3, NumReturn: 1 + i%2, LengthPenalty: []float32{0.5, 1, 2}[i%3],
			EarlyStopping: llm.EarlyStopping(i % 3)}
		if i%4 == 3 {
			p.Sample, p.Seed, p.TopK = true, uint64(i), 20
		}
		out[i] = engine.Request{Prompt: out[i].Prompt, Params: p}
	}
	return out
}

// TestBeamsTogetherAsAlone checks on a real model that searches which share a small cache and are preempted find what
// each finds alone.
func TestBeamsTogetherAsAlone(t *testing.T) {
	quiet := testConfig()
	quiet.Runtime.PrefixSharing = false
	h := openServer(t, quiet)
	reqs := beamRequests(h)
	alone := make([]found, len(reqs))
	for i, r := range reqs {
		var err error
		if alone[i], err = searchBeams(h, r); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(alone[i].tokens[0], alone[i].tokens[len(alone[i].tokens)-1]) != (r.Params.NumReturn == 1) {
			t.Errorf("request %d: the same sequence twice: %v", i, alone[i].tokens)
		}
	}
	for _, share := range []bool{true, false} {
		t.Run(fmt.Sprintf("share=%v", share), func(t *testing.T) {
			c := testConfig()
			c.Runtime.PrefixSharing = share
			c.Limits.MaxTotalTokens = 256
			c.Limits.MaxBatchTotalTokens = 320
			h := openServer(t, c)
			var wg sync.WaitGroup
			for i, r := range reqs {
				wg.Go(func() {
					got, err := searchBeams(h, r)
					if err != nil || !slices.EqualFunc(got.tokens, alone[i].tokens, slices.Equal) {
						t.Errorf("request %d differs (%v):\ntogether %v\nalone    %v", i, err, got, alone[i])
					}
				})
			}
			wg.Wait()
			if st := h.defaultModel().engine.Stats(); st.Preempted == 0 || st.KVUsed != 0 ||
				st.Running+st.Waiting != 0 {
				t.Errorf("after the end: %+v", st)
			}
		})
	}
}
