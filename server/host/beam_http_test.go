package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/config"
)

// TestBeamsOverHTTP checks that the same search through every API finds what the engine does, as one piece if streamed.
func TestBeamsOverHTTP(t *testing.T) {
	p := openPlugged(t, nil)
	const prompt = "Once upon a time"
	want, err := searchBeams(p.Server, engine.Request{Prompt: p.defaultModel().tokenizer.Encode(prompt, true),
		Params: llm.Params{
			Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 24, NumBeams: 4, NumReturn: 1,
			LengthPenalty: 2,
		}})
	if err != nil {
		t.Fatal(err)
	}
	text := p.defaultModel().tokenizer.Decode(want.tokens[0], true)
	const search = `"num_beams":4,"length_penalty":2`
	for _, c := range []struct {
		path, body, in string
	}{
		{"/generate", `{"inputs":"` + prompt + `","parameters":{"max_new_tokens":24,` + search + `}}`,
			`"generated_text":`},
		{"/generate_stream", `{"inputs":"` + prompt + `","parameters":{"max_new_tokens":24,` + search + `}}`,
			`"generated_text":`},
		{"/v1/completions", `{"prompt":"` + prompt + `","max_tokens":24,` + search + `}`, `"text":`},
		{"/api/generate-one", `{"request_id":"x","prompt":"` + prompt +
			`","stream_response":false,"generation_config":{"do_sample":false,"max_new_tokens":24,` + search + `}}`,
			""},
	} {
		status, body := p.call(t, http.MethodPost, c.path, []byte(c.body))
		quoted, _ := json.Marshal(text)
		expect := c.in + string(quoted)
		if c.in == "" {
			expect = text
		}
		if status != http.StatusOK || !strings.Contains(body, expect) {
			t.Errorf("%s: %d %s\nwant %s", c.path, status, body, expect)
		}
	}
	if _, body := p.call(t, http.MethodPost, "/v1/completions",
		[]byte(`{"prompt":"a","use_beam_search":true,"n":3,"max_tokens":5}`)); strings.Count(body,
		`"finish_reason"`) != 3 {
		t.Errorf("three of three beams: %s", body)
	}
	if status, body := p.call(t, http.MethodPost, "/generate",
		[]byte(`{"inputs":"a","parameters":{"num_beams":65}}`)); status != http.StatusUnprocessableEntity ||
		!strings.Contains(body, "`num_beams` must be >= 1 and <= 64. Given: 65") {
		t.Errorf("%d %s", status, body)
	}
}

// TestBeamsOfPlugins checks that each beam has its own copy of a plugin's state, so that the winner obeys the rule, and
// that all instances are returned.
func TestBeamsOfPlugins(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugin = []config.Plugin{{Name: "no-repeat", Source: "builtin:no-repeat-ngram",
			Config: config.Table{"n": int64(2)}}}
	})
	for _, plugins := range []string{"", `,"plugins":[{"name":"no-repeat"}]`} {
		body := fmt.Sprintf(`{"inputs":"the cat the cat the","parameters":{"max_new_tokens":60,"ignore_eos":true,"num_beams":4,"details":true%s}}`, plugins)
		status, text := p.call(t, http.MethodPost, "/generate", []byte(body))
		var r struct {
			Details struct{ Tokens []struct{ ID int } }
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK ||
			len(r.Details.Tokens) != 60 {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		ids := make([]int, 0, 60)
		for _, one := range r.Details.Tokens {
			ids = append(ids, one.ID)
		}
		if got := repeats(ids, 2); got != (plugins == "") {
			t.Errorf("with %q the text repeats a pair: %v", plugins, got)
		}
	}
	if status, text := p.call(t, http.MethodPost, "/generate",
		[]byte(`{"inputs":"a","parameters":{"num_beams":2,"max_new_tokens":4,"plugins":[{"name":"no-repeat","params":{"n":0}}]}}`)); status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", status, text)
	}
	p.quiet(t)
}
