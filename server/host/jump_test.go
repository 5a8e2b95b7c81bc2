package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// closed is a schema that leaves little choice, of an object that the demo model was not trained to write.
const closed = `{"type":"object","properties":{"kind":{"const":"invoice"},"currency":{"enum":["EUR","USD"]},` +
	`"paid":{"type":"boolean"},"delivery_address_is_billing_address":{"type":"boolean"},` +
	`"customer_status":{"enum":["new","returning","unknown"]},` +
	`"next_action":{"enum":["send reminder","close the case"]}},` +
	`"required":["kind","currency","paid","delivery_address_is_billing_address","customer_status","next_action"],` +
	`"additionalProperties":false}`

// TestJumpForce: where tokens without a choice are the tokenizer's, most steps of a closed schema give several tokens,
// and guesses change nothing: greedy and drawn, with guards that take tokens back out of what is forced, with
// processors and several texts.
func TestJumpForce(t *testing.T) {
	open := func(s config.Speculation) *plugged {
		s.Jump = config.JumpForce
		return openChat(t, func(c *config.Config) {
			c.Model.Speculation = s
			for _, name := range []string{"dry", "mirostat", "banned-strings"} {
				c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
					OnError: config.OnErrorFail, Apply: config.ApplyRequest})
			}
		})
	}
	plain := open(config.Speculation{})
	guesses := open(config.Speculation{Kinds: config.SpeculationKinds, Tokens: 7, Always: true})
	for _, c := range []struct {
		name, space, more string
		most              float64 // steps per token; 0 is not looked at
	}{
		{"compact", "compact", "", 0.3},
		{"flexible", "flexible", "", 0.5},
		{"probable", "compact", `,"logprobs":true,"top_logprobs":2`, 0},
		{"processors", "compact", `,"plugins":[{"name":"dry","params":{"multiplier":1}}]`, 0},
		{"sampler", "compact", `,"plugins":[{"name":"mirostat","params":{"tau":2}}]`, 0},
		{"taken back", "compact",
			`,"plugins":[{"name":"banned-strings","params":{"strings":["EUR","y_addr","unk","cust"]}}]`, 0},
		{"two", "compact", `,"n":2,"frequency_penalty":0.5`, 0},
		{"explained", "compact", `,"explain":{"top":1,"tokens":8}`, 0},
	} {
		steps, tokens := 0, 0
		for seed := range 4 {
			temperature := min(seed, 1)
			body := fmt.Appendf(nil, `{"model":"x","messages":[{"role":"user","content":"Describe the invoice."}],`+
				`"max_tokens":200,"grammar":{"type":"json","value":%s,"params":{"whitespace":%q}},"seed":%d,"temperature":%d%s}`,
				closed, c.space, seed+1, temperature, c.more)
			_, want := plain.call(t, http.MethodPost, "/v1/chat/completions", body)
			before := guesses.defaultModel().engine.Stats().Steps
			status, got := guesses.call(t, http.MethodPost, "/v1/chat/completions", body)
			steps += guesses.defaultModel().engine.Stats().Steps - before
			var r struct {
				Choices []struct {
					Finish  string `json:"finish_reason"`
					Message struct{ Content string }
				}
				Usage struct {
					Tokens int `json:"completion_tokens"`
				}
			}
			err := json.Unmarshal([]byte(got), &r)
			same := c.name == "explained" || steady(got) == steady(want) // explanations tell of guesses
			if err != nil || status != http.StatusOK || len(r.Choices) == 0 || !same {
				t.Fatalf("%s, seed %d: %v\n%s\n%s", c.name, seed, err, got, want)
			}
			text := r.Choices[0].Message.Content
			if finish := r.Choices[0].Finish; finish == "stop" && !json.Valid([]byte(text)) {
				t.Errorf("%s, seed %d: %s %q", c.name, seed, finish, text)
			}
			if c.name == "taken back" && (strings.Contains(text, "EUR") || strings.Contains(text, "cust")) {
				t.Errorf("banned: %q", text)
			}
			if c.name == "explained" && !strings.Contains(got, `"picked":"forced","by":"grammar"`) {
				t.Errorf("nothing was forced: %s", got)
			}
			if tokens += r.Usage.Tokens; seed == 0 {
				t.Log(got)
			}
		}
		ratio := float64(steps) / float64(tokens)
		t.Logf("%s: %d steps for %d tokens, %.2f", c.name, steps, tokens, ratio)
		if c.most > 0 && ratio > c.most {
			t.Errorf("%s: %d steps for %d tokens, %.2f, want %.2f at most", c.name, steps, tokens, ratio, c.most)
		}
	}
	t.Log(strings.Join(guesses.lines(t, "tgi_draft_tokens_total"), "\n"))
	if _, text := guesses.call(t, http.MethodPost, "/generate", []byte(
		`{"inputs":"a","parameters":{"max_new_tokens":1,"details":true}}`)); !strings.Contains(text, `"jump":"force"`) {
		t.Errorf("no receipt tells: %s", text)
	}
}

// TestJumpLeavesBeams: beam searches compare all ways to cut a text, also where tokens without a choice are the
// tokenizer's elsewhere.
func TestJumpLeavesBeams(t *testing.T) {
	var texts []string
	for _, jump := range []string{config.JumpVerify, config.JumpForce} {
		p := openPlugged(t, func(c *config.Config) { c.Model.Speculation.Jump = jump })
		_, text := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, `{"inputs":"Describe the invoice.",`+
			`"parameters":{"max_new_tokens":40,"num_beams":3,"details":true,"grammar":{"type":"json","value":%s,`+
			`"params":{"whitespace":"compact"}}}}`, closed))
		var r struct {
			Text    string `json:"generated_text"`
			Details struct{ Tokens []struct{ ID int } }
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Details.Tokens) == 0 {
			t.Fatalf("%v %s", err, text)
		}
		texts = append(texts, fmt.Sprintf("%q %v", r.Text, r.Details.Tokens))
	}
	if texts[0] != texts[1] {
		t.Errorf("verify %s\nforce  %s", texts[0], texts[1])
	}
}

// TestForcedByGuests: what a plugin that follows a grammar forces is computed ahead, and changes no token.
func TestForcedByGuests(t *testing.T) {
	open := func(s config.Speculation) *plugged {
		p := openPlugged(t, func(c *config.Config) { c.Model.Speculation = s })
		p.upload(t, "c-picture", sdkGuest(t, "c", "picture"))
		return p
	}
	plain := open(config.Speculation{})
	guesses := open(config.Speculation{Kinds: []string{"grammar"}, Tokens: 7, Always: true})
	for seed := range 4 {
		body := fmt.Appendf(nil, `{"inputs":"Mia","parameters":{"max_new_tokens":60,"details":true,"seed":%d,`+
			`"temperature":1,"grammar":{"type":"grammar","language":"picture","value":"The customer of invoice ## has paid ### in full. "}}}`,
			seed+1)
		status, want := plain.call(t, http.MethodPost, "/generate", body)
		before := guesses.defaultModel().engine.Stats().Steps
		_, got := guesses.call(t, http.MethodPost, "/generate", body)
		steps := guesses.defaultModel().engine.Stats().Steps - before
		var r struct {
			Details struct {
				Tokens int `json:"generated_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(got), &r); err != nil || status != http.StatusOK || got != want {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, err, got, want)
		}
		t.Logf("%d steps for %d tokens", steps, r.Details.Tokens)
		if 3*steps > 2*r.Details.Tokens {
			t.Errorf("seed %d: %d steps for %d tokens", seed, steps, r.Details.Tokens)
		}
	}
}
