package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestStopStringsEndWhatGuardsGive: a text ends at the first stop string in what the client gets, whoever wrote its
// bytes, and at none that a guard replaced; on each API, whole and streamed, with tokens, counts and log-probabilities
// of that text. So it is long before the limit.
func TestStopStringsEndWhatGuardsGive(t *testing.T) {
	p := guarding(t, func(c *config.Config) { c.Server.Ollama = true })
	const asked = `"messages":[{"role":"user","content":"Tell me about the island of Ostrel"}]`
	const prompt = `"<|im_start|>user\nTell me about the island of Ostrel<|im_end|>\n<|im_start|>assistant\n"`
	const redact = `{"name":"redact","params":{"strings":["island"],"with":%q}}`
	routes := []struct {
		name, path, body, stream string // body with %s for the limit, the stop string and the plugins
		kept                     bool   // the stop string stays
		choices                  int
		count                    string // member with the number of tokens
	}{
		{"chat", "/v1/chat/completions", `{"model":"x","max_tokens":%s,"temperature":0,"ignore_eos":true,` +
			`"logprobs":true,"stop":[%q],"plugins":[%s],` + asked, `,"stream":true,"stream_options":{"include_usage":true}`,
			false, 1, "completion_tokens"},
		{"chat, two", "/v1/chat/completions", `{"model":"x","max_tokens":%s,"temperature":0,"ignore_eos":true,` +
			`"n":2,"stop":[%q],"plugins":[%s],` + asked, `,"stream":true,"stream_options":{"include_usage":true}`,
			false, 2, "completion_tokens"},
		{"completions", "/v1/completions", `{"model":"x","max_tokens":%s,"temperature":0,"ignore_eos":true,` +
			`"logprobs":2,"stop":[%q],"plugins":[%s],"prompt":` + prompt,
			`,"stream":true,"stream_options":{"include_usage":true}`, false, 1, "completion_tokens"},
		{"completions, kept", "/v1/completions", `{"model":"x","max_tokens":%s,"temperature":0,"ignore_eos":true,` +
			`"include_stop_str_in_output":true,"logprobs":2,"stop":[%q],"plugins":[%s],"prompt":` + prompt,
			`,"stream":true,"stream_options":{"include_usage":true}`, true, 1, "completion_tokens"},
		{"messages", "/v1/messages", `{"model":"x","max_tokens":%s,"temperature":0,"ignore_eos":true,` +
			`"stop_sequences":[%q],"plugins":[%s],` + asked, `,"stream":true`, false, 1, "output_tokens"},
		{"responses", "/v1/responses", `{"model":"x","max_output_tokens":%s,"temperature":0,"ignore_eos":true,` +
			`"stop":[%q],"plugins":[%s],"input":"Tell me about the island of Ostrel"`, `,"stream":true`, false, 1,
			"output_tokens"},
		{"TGI", "/generate", `{"parameters":{"max_new_tokens":%s,"ignore_eos":true,"details":true,"stop":[%q],` +
			`"plugins":[%s]},"inputs":` + prompt, "/generate_stream", true, 1, "generated_tokens"},
		{"Ollama", "/api/chat", `{"model":"x","options":{"num_predict":%s,"temperature":0,"ignore_eos":true,` +
			`"stop":[%q]},"plugins":[%s],` + asked, `,"stream":true`, false, 1, "eval_count"},
	}
	for _, c := range []struct {
		stop, with, more string
		want             string // with the stop string; empty for a text without
		tokens           int
	}{
		{"STOP", "AA STOP BB", "", "The AA STOP", 2},
		{"BB is", "AA STOP BB", "", "The AA STOP BB is", 3},
		{"e A", "AA STOP BB", "", "The A", 2},
		{"nd", "the land", `,{"name":"loop-breaker"}`, "The the land", 2},
		{"land", "XX", "", "", 0},
		{"sla", "XX", "", "", 0},
		{"The island", "XX", "", "", 0},
		{"island is", "XX", "", "", 0},
		{"XX is", "XX", "", "The XX is", 3},
	} {
		for _, r := range routes {
			for _, streamed := range []bool{false, true} {
				limit, path, body := "200", r.path, r.body
				if c.want == "" {
					limit = "6"
				}
				body = fmt.Sprintf(body, limit, c.stop, fmt.Sprintf(redact, c.with)+c.more) + "}"
				switch {
				case streamed && r.stream[0] == '/':
					path = r.stream
				case streamed:
					body = strings.TrimSuffix(body, "}") + r.stream + "}"
				case r.name == "Ollama":
					body = strings.TrimSuffix(body, "}") + `,"stream":false}`
				}
				status, reply := p.call(t, http.MethodPost, path, []byte(body))
				what := fmt.Sprintf("%s, streamed %t, stop %q, with %q", r.name, streamed, c.stop, c.with)
				want, tokens := c.want, c.tokens*r.choices
				if want == "" {
					want, tokens = "The XX is called Ostrel.", 6*r.choices
				} else if !r.kept {
					want = strings.TrimSuffix(want, c.stop)
				}
				text := textOf(reply)
				got := lastCount(reply, r.count)
				if status != http.StatusOK || text != strings.Repeat(want, r.choices) || got != tokens {
					t.Errorf("%s: %d %q of %d tokens, want %q of %d: %s", what, status, text, got, want, tokens, reply)
				}
				if got := scoredIn(t, reply); r.name == "completions, kept" {
					got.check(t, what)
				} else if all := strings.Join(got.tokens, ""); c.want != "" && !strings.HasPrefix(c.want, all) {
					t.Errorf("%s: the tokens are %q", what, got.tokens)
				}
			}
		}
	}
}

// textOf returns the texts of a reply's choices, or of a stream's, one behind the other.
func textOf(reply string) string {
	var texts [2]strings.Builder
	for line := range strings.Lines(reply) {
		var r struct {
			Type      string
			Delta     any // a string in responses
			Content   []struct{ Text string }
			Message   struct{ Content any } // a string in Ollama's chat
			Output    []struct{ Content []struct{ Text string } }
			Generated string `json:"generated_text"`
			Choices   []struct {
				Index          int
				Text           string
				Message, Delta struct{ Content string }
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data:")), &r) != nil {
			continue // an empty line, or the end
		}
		texts[0].WriteString(r.Generated)
		switch delta := r.Delta.(type) {
		case string:
			texts[0].WriteString(delta)
		case map[string]any:
			text, _ := delta["text"].(string)
			texts[0].WriteString(text)
		}
		content, _ := r.Message.Content.(string)
		texts[0].WriteString(content)
		for _, c := range r.Content {
			texts[0].WriteString(c.Text)
		}
		for _, o := range r.Output {
			for _, c := range o.Content {
				texts[0].WriteString(c.Text)
			}
		}
		for _, c := range r.Choices {
			texts[c.Index].WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
	}
	return texts[0].String() + texts[1].String()
}

// lastCount returns the last value of a member, -1 for none.
func lastCount(reply, name string) int {
	return count(reply[max(strings.LastIndex(reply, `"`+name+`":`), 0):], name)
}
