package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/server/config"
)

// scored is what a reply has of its first choice: the text, and the tokens of its log-probabilities.
type scored struct {
	text    string
	tokens  []string
	bytes   []byte // of all tokens, in chat
	offsets []int  // in completions
	columns [3]int // tokens, log-probabilities, alternatives
}

// scoredIn reads a reply, or the events of a stream.
func scoredIn(t *testing.T, reply string) (out scored) {
	t.Helper()
	for line := range strings.SplitSeq(reply, "\n") {
		var r struct {
			Choices []struct {
				Index          int
				Text           string
				Message, Delta struct{ Content string }
				Logprobs       struct {
					Tokens  []string
					Probs   []*float64            `json:"token_logprobs"`
					Top     []map[string]*float64 `json:"top_logprobs"`
					Offsets []int                 `json:"text_offset"`
					Content []struct {
						Token string
						Bytes []int
					}
				}
			}
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &r) != nil {
			continue // an empty line, or the end
		}
		for _, c := range r.Choices {
			if c.Index != 0 {
				continue
			}
			out.text += c.Text + c.Message.Content + c.Delta.Content
			l := &c.Logprobs
			out.tokens, out.offsets = append(out.tokens, l.Tokens...), append(out.offsets, l.Offsets...)
			for i, n := range []int{len(l.Tokens), len(l.Probs), len(l.Top)} {
				out.columns[i] += n
			}
			for _, x := range l.Content {
				out.tokens = append(out.tokens, x.Token)
				for _, b := range x.Bytes {
					out.bytes = append(out.bytes, byte(b))
				}
			}
		}
	}
	return out
}

// check holds the tokens to the text.
func (s *scored) check(t *testing.T, what string) {
	t.Helper()
	if joined := strings.Join(s.tokens, ""); joined != s.text {
		t.Errorf("%s: the tokens are %q, the text is %q", what, s.tokens, s.text)
	}
	if len(s.offsets) == 0 {
		if string(s.bytes) != s.text {
			t.Errorf("%s: bytes %q, text %q", what, s.bytes, s.text)
		}
		return
	}
	if n := s.columns; n[0] != n[1] || n[0] != n[2] || n[0] != len(s.offsets) {
		t.Errorf("%s: columns of %v entries and %d offsets", what, n, len(s.offsets))
	}
	at := 0
	for i, offset := range s.offsets {
		if offset != at {
			t.Errorf("%s: token %d of %q is at %d, want %d", what, i, s.tokens, offset, at)
			break
		}
		at += utf8.RuneCountInString(s.tokens[i])
	}
}

// TestLogprobsBesideGuards: whatever guards take back and replace, the tokens of log-probabilities are those of the
// text that the client has: put together they are the text, and their offsets are where they begin in it.
func TestLogprobsBesideGuards(t *testing.T) {
	p := guarding(t, nil)
	const completions, chat = "/v1/completions", "/v1/chat/completions"
	routes := [][2]string{
		{completions, `{"model":"x","prompt":"Once upon a","max_tokens":30,"temperature":0,"logprobs":2,` +
			`"plugins":[%s]%s}`},
		{completions, `{"model":"x","prompt":"Once upon a","max_tokens":30,"seed":2,"logprobs":2,"echo":true,` +
			`"plugins":[%s]%s}`},
		{chat, `{"model":"x","max_tokens":60,"temperature":0,"logprobs":true,"top_logprobs":2,"plugins":[%s],` +
			`"messages":[{"role":"user","content":"Tell me a story about a fox."}]%s}`},
	}
	const banned = `,{"name":"banned-strings","params":{"strings":["fox","lived"]}}`
	replaced, several := 0, false
	try := func(with, guards, path, body string) {
		var whole scored
		for _, stream := range []string{"", `,"stream":true`} {
			status, reply := p.call(t, http.MethodPost, path, fmt.Appendf(nil, body, guards, stream))
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", body, status, reply)
			}
			got, what := scoredIn(t, reply), guards+" "+path+stream
			got.check(t, what)
			if replaced += strings.Count(got.text, with); stream == "" {
				whole = got
			} else if whole.text != got.text || len(whole.tokens) != len(got.tokens) {
				t.Errorf("%s: whole %q, streamed %q", what, whole.tokens, got.tokens)
			}
			for _, token := range got.tokens {
				several = several || token != "" && token != with && strings.HasPrefix("[redacted]", token)
			}
		}
	}
	for _, with := range []string{"[redacted]", "#", "\u2603\u00e9 \u2603!"} {
		for _, list := range []string{`["time"]`, `["there lived","a "]`, `["upon a time","e"]`} {
			redact := fmt.Sprintf(`{"name":"redact","params":{"strings":%s,"with":%q}}`, list, with)
			for _, r := range routes {
				try(with, redact, r[0], r[1])
				try(with, redact+banned, r[0], r[1])
			}
		}
	}
	if replaced < 50 || !several {
		t.Errorf("%d replacements, one of several tokens: %t", replaced, several)
	}
}

// TestExplanationsFitText: behind what a guard replaces too, a reply has an explanation for each of its tokens, with
// the token's text, and tells which guard gave it; all of what is replaced is told.
func TestExplanationsFitText(t *testing.T) {
	p := guarding(t, nil)
	status, reply := p.call(t, http.MethodPost, "/generate", []byte(`{"inputs":"Once","parameters":{"max_new_tokens":12,`+
		`"details":true,"explain":{"top":1},"plugins":[{"name":"redact","params":{"strings":["upon","girl"]}}]}}`))
	var r struct {
		Details struct {
			Tokens  []struct{ Text string }
			Explain []struct {
				Text, Picked, By string
				Replaced         []struct {
					By     string
					Tokens int
				}
			}
			Replaced int `json:"replaced_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(reply), &r); status != http.StatusOK || err != nil || r.Details.Replaced == 0 ||
		len(r.Details.Explain) != len(r.Details.Tokens) {
		t.Fatalf("%d %s (%v)", status, reply, err)
	}
	replaced := 0
	for i, x := range r.Details.Explain {
		if x.Text != r.Details.Tokens[i].Text || (x.Picked == "guard") != (x.By == "redact") {
			t.Errorf("token %d, %q, is explained by %+v", i, r.Details.Tokens[i].Text, x)
		}
		for _, by := range x.Replaced {
			if replaced += by.Tokens; by.By != "redact" || x.Picked != "guard" {
				t.Errorf("token %d: %+v", i, x)
			}
		}
	}
	if replaced != r.Details.Replaced {
		t.Errorf("%d tokens are told as replaced, want %d", replaced, r.Details.Replaced)
	}
}

// TestExplanationsHide: behind what a guard replaced, explanations tell nothing of what rests on it: penalties and
// plugins that count the tokens, and guesses that go by them.
func TestExplanationsHide(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		for _, name := range []string{"no-repeat-ngram", "vote"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name})
		}
		c.Model.Speculation.Always = true
	})
	type explained struct {
		Text     string
		Raw      *float32 `json:"raw_logprob"`
		Final    *float32 `json:"logprob"`
		Changes  []struct{ Name string }
		Others   []any `json:"candidates"`
		Draft    any
		Replaced []any
	}
	const question = `"messages":[{"role":"user","content":"What is three plus four?"}],"temperature":0,` +
		`"presence_penalty":0.5,"explain":{"top":20},"prediction":{"type":"content","content":"3 plus 4 is 7."}`
	list := `{"name":"no-repeat-ngram","params":{"n":2}}`
	for _, c := range []struct {
		name, body string
		program    bool
	}{
		{"chat", `{"model":"x",` + question + `,"plugins":[%s]}`, false},
		{"stream", `{"model":"x","stream":true,` + question + `,"plugins":[%s]}`, false},
		{"program", `{"model":"x",` + question + `,"plugins":[{"name":"vote","params":{"n":2}},%s]}`, true},
	} {
		for _, secret := range []string{"plus 4", "nothing of it"} {
			status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(fmt.Sprintf(c.body, list+
				fmt.Sprintf(`,{"name":"redact","params":{"strings":[%q]}}`, secret))))
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", c.name, status, reply)
			}
			var all []explained
			for line := range strings.Lines(reply) {
				var r struct {
					Choices []struct{ Explain []explained }
				}
				if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimSpace(line), "data:")), &r) == nil {
					for _, x := range r.Choices {
						all = append(all, x.Explain...)
					}
				}
			}
			hidden, told := c.program, 0
			for i, x := range all {
				hidden = hidden || len(x.Replaced) > 0
				if whole := x.Raw != nil && len(x.Others) > 0; whole == hidden || hidden && (x.Final != nil ||
					len(x.Changes) > 0 || x.Draft != nil) {
					t.Errorf("%s, %s: token %d, %q: hidden is %t, %+v", c.name, secret, i, x.Text, hidden, x)
				}
				if x.Draft != nil || len(x.Changes) > 0 {
					told++
				}
			}
			if len(all) < 6 || hidden != (c.program || secret == "plus 4") || !hidden && told < 6 {
				t.Errorf("%s, %s: %d explanations, %d tell of something: %s", c.name, secret, len(all), told, reply)
			}
		}
	}
}
