package tgi

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// sharedExample is the documented request of the shared endpoint as it stands.
const sharedExample = `{"model": "<MODEL_NAME>", "inputs": "My name is Olivier and I",
 "parameters": {"best_of": 1, "decoder_input_details": true, "details": true, "do_sample": false,
  "max_new_tokens": 20, "repetition_penalty": 1.03, "return_full_text": false, "seed": null,
  "stop": ["photographer"], "temperature": 0.5, "top_k": 10, "top_p": 0.95, "truncate": null,
  "typical_p": 0.95, "watermark": true}}`

// TestSharedEndpoint: the shared endpoint's paths answer like TGI's own, in every
// dialect, and take the documented request, of which a stream lets the prompt's
// tokens out.
func TestSharedEndpoint(t *testing.T) {
	var asked engine.Request
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		asked = r
		events := generatetest.Sequence(r, 0, llm.FinishStop, generate.Token{Token: 3, Text: " am", Logprob: -1.25},
			generate.Token{Token: 4, Text: " a photographer", Logprob: -0.5})
		if r.Params.PromptLogprobs {
			events[0].Prefill = []generate.PromptToken{{Token: 1, Text: "My"}, {Token: 2, Text: " name",
				Logprob: -0.25}}
		}
		return events
	}}
	s := newServer(e, func(l *generate.Limits, _ *config.Config) { l.MaxTotal = 40 })
	streamed := strings.Replace(sharedExample, `"decoder_input_details": true`, `"decoder_input_details": false`, 1)
	seed := regexp.MustCompile(`"seed":\d+`)
	for _, d := range dialect.Names() {
		say := map[string]string{}
		for _, path := range []string{"/generate", "/v1/completions/generate", "/generate_stream",
			"/v1/completions/generate_stream"} {
			body, kind := sharedExample, "application/json"
			if strings.HasSuffix(path, "_stream") {
				body, kind = streamed, "text/event-stream"
			}
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(dialect.Header, d)
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			if rec.Code != 200 || rec.Header().Get("Content-Type") != kind ||
				strings.Contains(rec.Body.String(), "error") {
				t.Fatalf("%s in %s: %d %v %s", path, d, rec.Code, rec.Header(), rec.Body)
			}
			p := asked.Params
			if len(asked.Prompt) != 6 || p.MaxNewTokens != 20 || !p.Sample || p.Temperature != 0.5 || p.TopK != 10 ||
				p.TopP != 0.95 || p.TypicalP != 0.95 ||
				p.RepetitionPenalty != 1.03 || !p.Watermark || len(p.Stop) != 1 || p.Stop[0] != "photographer" ||
				asked.N > 1 {
				t.Errorf("%s in %s: the engine was asked for %+v", path, d, asked)
			}
			say[path] = seed.ReplaceAllString(rec.Body.String(), `"seed":N`)
		}
		for _, path := range []string{"/generate", "/generate_stream"} {
			if here, there := say[path], say["/v1/completions"+path]; here != there ||
				!strings.Contains(here, `"generated_text":" am a photographer"`) ||
				!strings.Contains(here, `"seed":N`) {
				t.Errorf("%s in %s says\n%s\nand below /v1/completions\n%s", path, d, here, there)
			}
		}
		if !strings.Contains(say["/generate"], `"prefill":[{"id":1,"text":"My"`) {
			t.Errorf("%s: no prefill in %s", d, say["/generate"])
		}
	}
}
