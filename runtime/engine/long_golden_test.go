package engine

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// TestGrowingLongAsTransformers: sequences that grow beyond the original context, and prompts that are longer, continue
// as in transformers, which computes the whole sequence anew with other frequencies then: alone and together, in chunks
// and whole, with a cache of prefixes and without, and where memory is short.
func TestGrowingLongAsTransformers(t *testing.T) {
	const name = "phi3-longer"
	var golden struct {
		Prompts, Greedy [][]llm.Token
	}
	data, err := os.ReadFile("../../models/testdata/golden/" + name + "/golden.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := openCheckpoint(t, name, 24)
	if original := m.Shape().OriginalLen; original != 40 || len(golden.Prompts) != 3 {
		t.Fatalf("%d prompts, original context %d", len(golden.Prompts), original)
	}
	for _, set := range []sched.Settings{
		{}, {NoPrefixSharing: true}, {MaxBatchPrefillTokens: 7}, {MaxBatchSize: 2}, {MaxBatchTotalTokens: 128},
	} {
		e, err := New(m, numbers{}, Config{Verify: true, Settings: set})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time the cache has it all
			var streams []*Stream
			var want [][]llm.Token
			for i, prompt := range golden.Prompts {
				for _, n := range []int{len(golden.Greedy[i]), 20} {
					st, err := e.Submit(t.Context(), Request{Prompt: prompt, Params: params(n)})
					if err != nil {
						t.Fatal(err)
					}
					streams, want = append(streams, st), append(want, golden.Greedy[i][:n])
				}
			}
			for i, st := range streams {
				got, err := collect(st, 1)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.tokens[0], want[i]) {
					t.Errorf("%+v, request %d:\n got %v\nwant %v", set, i, got.tokens[0], want[i])
				}
			}
		}
		if s := e.Stats(); s.Preempted == 0 {
			t.Errorf("%+v: no sequence was computed anew", set)
		}
		e.Close()
	}
}
