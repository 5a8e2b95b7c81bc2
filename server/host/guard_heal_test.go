package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/server/config"
)

// healedCase is a prompt that is healed, what the model says behind it, and a string that begins in the one and ends in
// the other.
type healedCase struct{ prompt, said, banned string }

// healedCases cut a text of the model's at each character.
func healedCases(t *testing.T, p *plugged) (list []healedCase) {
	t.Helper()
	text := "Once upon a time" + p.say(t, "Once upon a time", `"max_new_tokens":24`, "", "").Text
	tokenizer := p.defaultModel().tokenizer
	several, covering := 0, 0
	for end := 11; end < len(text)-20; end += 2 {
		prompt := text[:end]
		said := p.say(t, prompt, `"max_new_tokens":12,"token_healing":true`, "", "")
		if len(said.Text) < 8 || len(said.Details.Tokens) < 4 {
			continue
		}
		first := said.Details.Tokens[0]
		whole, _ := tokenizer.Bytes(llm.Token(first.ID))
		if len(whole) == len(first.Text) {
			continue // not healed
		}
		if first.Text == "" && said.Details.Tokens[1].Text != "" {
			several++
		} else if first.Text != "" {
			covering++
		}
		from, to := 1+len(list)%5, 1+len(list)%4
		list = append(list, healedCase{prompt, said.Text, prompt[end-from:] + said.Text[:to]})
	}
	if several < 3 || covering < 10 {
		t.Fatalf("%d prompts end where a token does, %d inside one", several, covering)
	}
	return list
}

// redacted is what a client gets of a text behind a prompt where a string is replaced.
func (c healedCase) redacted(with string) (out string) {
	all, at := c.prompt+c.said, 0
	for {
		i := strings.Index(all[at:], c.banned)
		if i < 0 {
			return out + all[max(at, len(c.prompt)):]
		}
		from, to := at+i, at+i+len(c.banned)
		if to > len(c.prompt) {
			out += all[max(at, len(c.prompt)):max(from, len(c.prompt))] + with
		}
		at = to
	}
}

// shows reports whether a text behind the prompt has the string, or the end of it.
func (c healedCase) shows(text string) bool {
	return strings.Contains(c.prompt[len(c.prompt)-len(c.banned)+1:]+text, c.banned)
}

// TestGuardsReadHealedPrompts: a string that begins in a healed prompt and ends in the text is replaced, taken back or
// denied as it is behind any other prompt, wherever that ends, whole and streamed.
func TestGuardsReadHealedPrompts(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "banned-words", Source: config.Builtin + "banned-words",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	for _, c := range healedCases(t, p) {
		params := `{"patterns":[],"with":"#","strings":[` + quoted(c.banned) + `]}`
		got := p.healed(t, c.prompt, "redact", params)
		want := c.redacted("#")
		if n := len(want) - len(c.banned); !strings.HasPrefix(got, want[:max(n, 1)]) { // an end may be half of one
			t.Errorf("%q, redact %q: got %q, want %q", c.prompt, c.banned, got, want)
		}
		params = `{"ignore_case":false,"strings":[` + quoted(c.banned) + `]}`
		if got := p.healed(t, c.prompt, "banned-strings", params); c.shows(got) {
			t.Errorf("%q, banned-strings %q: got %q", c.prompt, c.banned, got)
		}
		params = `{"from_prompt":true,"words":[` + quoted(c.banned) + `]}`
		if got := p.healed(t, c.prompt, "banned-words", params); c.shows(got) {
			t.Errorf("%q, banned-words %q: got %q", c.prompt, c.banned, got)
		}
	}
	p.quiet(t)
}

// healed returns the text behind a healed prompt beside a plugin, of which it checks that all routes say the same,
// whole and streamed.
func (p *plugged) healed(t *testing.T, prompt, plugin, params string) string {
	t.Helper()
	plugins := fmt.Sprintf(`"plugins":[{"name":%q,"params":%s}]`, plugin, params)
	body := fmt.Appendf(nil, `{"inputs":%s,"parameters":{"max_new_tokens":12,"token_healing":true,%s}}`, quoted(prompt),
		plugins)
	status, whole := p.call(t, http.MethodPost, "/generate", body)
	var r struct {
		Text string `json:"generated_text"`
	}
	if err := json.Unmarshal([]byte(whole), &r); err != nil || status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, whole)
	}
	_, events := p.call(t, http.MethodPost, "/generate_stream", body)
	if got := streamedTokens(t, events); got != r.Text {
		t.Errorf("%s: streamed %q, whole %q", body, got, r.Text)
	}
	const form = `{"model":"x","prompt":%s,"max_tokens":12,"temperature":0,"token_healing":true,"n":2,%s%s}`
	_, whole = p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil, form, quoted(prompt), plugins, ""))
	_, events = p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil, form, quoted(prompt), plugins,
		`,"stream":true`))
	for _, reply := range []string{whole, events} {
		texts := map[int]string{}
		for line := range strings.SplitSeq(reply, "\n") {
			var v struct {
				Choices []struct {
					Index int
					Text  string
				}
			}
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil {
				for _, c := range v.Choices {
					texts[c.Index] += c.Text
				}
			}
		}
		if texts[0] != r.Text || texts[1] != r.Text {
			t.Errorf("%s: completions say %v, TGI's route %q", body, texts, r.Text)
		}
	}
	return r.Text
}

// streamedTokens puts the texts of a stream's tokens together.
func streamedTokens(t *testing.T, events string) (text string) {
	t.Helper()
	for line := range strings.SplitSeq(events, "\n") {
		var v struct {
			Token struct {
				Text    string
				Special bool
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil && !v.Token.Special {
			text += v.Token.Text
		}
	}
	return text
}

// TestInsertedBehindHealedPrompts: what a guard inserts at the beginning of a text comes behind the whole prompt, of
// which the model has written the end again.
func TestInsertedBehindHealedPrompts(t *testing.T) {
	p := guarding(t, nil)
	list := healedCases(t, p)
	p = guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "rules", Source: "testdata/cuts/rules.wasm",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	for _, c := range list {
		got := p.healed(t, c.prompt, "rules", `{"string":`+quoted(c.said[:2])+`,"with":"#","do":"insert"}`)
		if !strings.HasPrefix(got, "#") {
			t.Errorf("%q, # for %q: got %q", c.prompt, c.said[:2], got)
		}
	}
}

// TestLogprobsOfHealedPrompts: the tokens of log-probabilities behind a healed prompt are those of the reply's text,
// those that begin in the prompt without what that has of them, and so are those of explanations, with and without
// guards.
func TestLogprobsOfHealedPrompts(t *testing.T) {
	p := guarding(t, nil)
	const path = "/v1/completions"
	for _, c := range healedCases(t, p)[:8] {
		for _, guards := range []string{"", fmt.Sprintf(`{"name":"redact","params":{"strings":[%q],"with":"#"}}`, c.banned),
			fmt.Sprintf(`{"name":"banned-strings","params":{"strings":[%q]}}`, c.said[1:4])} {
			for _, stream := range []string{"", `,"stream":true`} {
				status, reply := p.call(t, http.MethodPost, path, fmt.Appendf(nil, `{"prompt":%q,"max_tokens":12,`+
					`"temperature":0,"logprobs":3,"token_healing":true,"plugins":[%s]%s}`, c.prompt, guards, stream))
				got, what := scoredIn(t, reply), c.prompt+guards+stream
				if got.check(t, what); status != http.StatusOK || len(got.tokens) < 3 {
					t.Errorf("%s: %d %s", what, status, reply)
				}
			}
			status, reply := p.call(t, http.MethodPost, path, fmt.Appendf(nil, `{"prompt":%q,"max_tokens":12,`+
				`"temperature":0,"explain":{"top":1},"token_healing":true,"plugins":[%s]}`, c.prompt, guards))
			var r struct {
				Choices []struct {
					Text    string
					Explain []struct {
						Text       string
						ID         int
						Candidates []struct {
							Text string
							ID   int
						}
					}
				}
			}
			if err := json.Unmarshal([]byte(reply), &r); err != nil || status != http.StatusOK {
				t.Fatalf("%d %s (%v)", status, reply, err)
			}
			joined := ""
			for _, x := range r.Choices[0].Explain {
				joined += x.Text
				for _, other := range x.Candidates {
					if other.ID == x.ID && other.Text != x.Text {
						t.Errorf("%s%s: %q is explained by %+v", c.prompt, guards, x.Text, other)
					}
				}
			}
			if joined != r.Choices[0].Text {
				t.Errorf("%s%s: %q is explained, the text is %q", c.prompt, guards, joined, r.Choices[0].Text)
			}
		}
	}
}
