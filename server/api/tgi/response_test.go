package tgi

import (
	"testing"

	"tgi/runtime/llm"
	"tgi/server/generate"
)

// TestSkipsOfBestOf: plugins that were passed over are told once, for all
// sequences of a request, after everything that TGI has.
func TestSkipsOfBestOf(t *testing.T) {
	one := generate.Sequence{
		Finish: llm.Finish{Reason: llm.FinishLength, Text: "a", Generated: 1, Seed: 7},
		Tokens: []generate.Token{{Token: 1, Text: "a", Logprob: -1}},
		Top:    [][]generate.Token{{{Token: 1, Text: "a", Logprob: -1}}},
	}
	a := answer{details: true, sampled: true, result: &generate.Result{
		Best: one, Others: []generate.Sequence{one}, Skipped: []generate.Skip{{Plugin: "x", Reason: "no \"fuel\""},
			{Plugin: "y"}},
	}}
	const sequence = `"finish_reason":"length","generated_tokens":1,"seed":7,"prefill":[],"tokens":[{"id":1,"text":"a","logprob":-1.0,"special":false}]`
	const top = `,"top_tokens":[[{"id":1,"text":"a","logprob":-1.0,"special":false}]]`
	const want = `{"generated_text":"a","details":{` + sequence + `,"best_of_sequences":[{"generated_text":"a",` +
		sequence + top + `}]` + top +
		`,"plugins":[{"name":"x","error":"no \"fuel\""},{"name":"y","error":""}]}}`
	if got := string(a.append(nil)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
