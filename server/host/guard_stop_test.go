package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/server/config"
)

// tells reports whether a reply, or a line of a stream, has a word in a string or in bytes, or its token's id.
func tells(reply, word string, id float64) bool {
	found := false
	var within func(v any, at string)
	within = func(v any, at string) {
		switch v := v.(type) {
		case string:
			found = found || strings.Contains(v, word)
		case float64:
			found = found || v == id && slices.Contains([]string{"id", "context"}, at)
		case map[string]any:
			for key, x := range v {
				found = found || strings.Contains(key, word)
				within(x, key)
			}
		case []any:
			var b []byte
			for _, x := range v {
				if n, ok := x.(float64); ok && at == "bytes" {
					b = append(b, byte(n))
				}
				within(x, at)
			}
			found = found || strings.Contains(string(b), word)
		}
	}
	for line := range strings.Lines(reply) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		var v any
		if json.Unmarshal([]byte(line), &v) == nil {
			within(v, "")
		}
	}
	return found
}

// TestStopCutsWhatGuardsDidNotJudge: a guard judges a text up to its stop string, so a client gets no more of the token
// that this cuts, in no form; without a guard it gets the token.
func TestStopCutsWhatGuardsDidNotJudge(t *testing.T) {
	p := guarding(t, func(c *config.Config) { c.Server.Ollama = true })
	tokens := p.defaultModel().tokenizer.Encode("Once upon", false)
	id := float64(tokens[len(tokens)-1]) // of " upon", with which the text of each route goes on
	for _, r := range [][3]string{
		{"TGI", "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":12,"stop":["up"],"details":true,` +
			`"top_n_tokens":3,"explain":{"top":3}%s}}`},
		{"TGI, streamed", "/generate_stream", `{"inputs":"Once","parameters":{"max_new_tokens":12,"stop":["up"],` +
			`"details":true,"top_n_tokens":3,"explain":{"top":3}%s}}`},
		{"completions", "/v1/completions", `{"model":"x","prompt":"Once","max_tokens":12,"temperature":0,"logprobs":3,` +
			`"explain":{"top":3},"stop":["up"]%s}`},
		{"completions, stop kept", "/v1/completions", `{"model":"x","prompt":"Once","max_tokens":12,"temperature":0,` +
			`"logprobs":3,"include_stop_str_in_output":true,"stop":["up"]%s}`},
		{"chat", "/v1/chat/completions", `{"model":"x","max_tokens":12,"temperature":0,"logprobs":true,` +
			`"top_logprobs":3,"stop":["up"],"explain":{"top":3},` + story + `%s}`},
		{"chat, streamed", "/v1/chat/completions", `{"model":"x","max_tokens":12,"temperature":0,"logprobs":true,` +
			`"stream":true,"top_logprobs":3,"stop":["up"],"explain":{"top":3},` + story + `%s}`},
		{"responses", "/v1/responses", `{"model":"x","input":"Tell me a story about a fox.","max_output_tokens":12,` +
			`"temperature":0,"include":["message.output_text.logprobs"],"top_logprobs":3,"stop":["up"],` +
			`"explain":{"top":3}%s}`},
		{"Ollama's chat", "/api/chat", `{"model":"x","logprobs":true,"top_logprobs":3,"stream":false,` +
			`"options":{"num_predict":12,"temperature":0,"stop":["up"]},` + story + `%s}`},
		{"Ollama's generate", "/api/generate", `{"model":"x","prompt":"Tell me a story about a fox.","stream":false,` +
			`"options":{"num_predict":12,"temperature":0,"stop":["up"]}%s}`},
	} {
		for _, guard := range []string{"", `{"name":"redact","params":{"strings":["upon"]}}`,
			`{"name":"banned-strings","params":{"strings":["upon"]}}`} {
			more := ""
			if guard != "" {
				more = `,"plugins":[` + guard + `]`
			}
			status, reply := p.call(t, http.MethodPost, r[1], fmt.Appendf(nil, r[2], more))
			reply = strings.ReplaceAll(reply, more, "") // as responses repeat it
			if status != http.StatusOK || tells(reply, "upon", id) != (guard == "") {
				t.Errorf("%s, guard %q: %d %s", r[0], guard, status, reply)
			}
		}
	}
}

// TestPredictionTellsNothingBesideGuards: what became of a prediction is not told of a text of which a guard, or the
// stop string that cuts a token, keeps something from the client: a right guess looks like a wrong one.
func TestPredictionTellsNothingBesideGuards(t *testing.T) {
	p := openGuessing(t, config.Speculation{Kinds: []string{"prediction"}, Tokens: 7, Always: true}, nil)
	for _, x := range [][2]string{
		{"/v1/completions", `{"model":"x","prompt":"Once upon a time","max_tokens":24,"temperature":0%s}`},
		{"/v1/chat/completions", `{"model":"x","max_tokens":24,"temperature":0,` + story + `%s}`},
		{"/v1/responses", `{"model":"x","input":"Tell me a story about a fox.","max_output_tokens":24,"temperature":0%s}`},
		{"/v1/messages", `{"model":"x","max_tokens":24,"temperature":0,` + story + `%s}`},
		{"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"details":true%s}}`},
	} {
		_, plain := p.call(t, http.MethodPost, x[0], fmt.Appendf(nil, x[1], ""))
		text := letters(t, plain)
		words := strings.Fields(text)
		word := words[len(words)/2]
		prediction, _ := json.Marshal(map[string]string{"type": "content", "content": text})
		for guard, quiet := range map[string]bool{
			`{"name":"redact","params":{"strings":["never said"]}}`:                  false,
			fmt.Sprintf(`{"name":"redact","params":{"strings":[%q]}}`, word):         true,
			fmt.Sprintf(`{"name":"banned-strings","params":{"strings":[%q]}}`, word): true,
		} {
			status, reply := p.call(t, http.MethodPost, x[0], fmt.Appendf(nil, x[1],
				fmt.Sprintf(`,"prediction":%s,"plugins":[%s]`, prediction, guard)))
			accepted, rejected := count(reply, "accepted_prediction_tokens"), count(reply, "rejected_prediction_tokens")
			if status != http.StatusOK || (accepted > 0) == quiet || rejected < 0 || quiet && rejected != 0 {
				t.Errorf("%s, %s: %d accepted, %d rejected: %d %s", x[0], guard, accepted, rejected, status, reply)
			}
		}
	}
	const cut = `{"model":"x","prompt":"Once","max_tokens":12,"temperature":0,"stop":["up"],"prediction":{"type":` +
		`"content","content":" upon a time"},"plugins":[{"name":"redact","params":{"strings":["upon"]}}]}`
	_, reply := p.call(t, http.MethodPost, "/v1/completions", []byte(cut))
	if count(reply, "accepted_prediction_tokens") != 0 || count(reply, "rejected_prediction_tokens") != 0 {
		t.Error(reply)
	}
}
