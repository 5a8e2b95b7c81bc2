package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/config"
)

// naiveHealing allows what agrees with the text that is left, by looking at every token.
type naiveHealing struct {
	bytes func(llm.Token) []byte // nil for no text
	left  []byte
}

func (m *naiveHealing) Mask(bits []uint32) (bool, error) {
	clear(bits)
	for t := range llm.Token(32 * len(bits)) {
		b := m.bytes(t)
		n := min(len(b), len(m.left))
		if n > 0 && bytes.Equal(b[:n], m.left[:n]) {
			bits[t/32] |= 1 << (t % 32)
		}
	}
	return len(m.left) > 0, nil
}

func (m *naiveHealing) Accept(t llm.Token) error {
	m.left = m.left[min(len(m.left), len(m.bytes(t))):]
	return nil
}

// TestTokenHealing: a healed reply is what the model writes behind a prompt without its last token if it must begin
// with that token's text, less that text, to the byte.
func TestTokenHealing(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Limits.MaxStopSequences = 4 })
	m := p.defaultModel()
	of := func(id llm.Token) []byte {
		if int(id) >= m.built.Vocab || m.hidden(id) {
			return nil
		}
		b, _ := m.tokenizer.Bytes(id)
		return b
	}
	other, healed := 0, 0
	story := "Once upon a time there was a little fox who lived in the forest. Éva said: hello"
	for end := 2; end <= len(story); end++ {
		prompt := story[:end]
		if !strings.HasPrefix(story[end:], "\x80") && end < len(story) && story[end]&0xC0 == 0x80 {
			continue // within a character
		}
		tokens := m.tokenizer.Encode(prompt, true)
		last := of(tokens[len(tokens)-1])
		quoted, err := json.Marshal(prompt)
		if err != nil {
			t.Fatal(err)
		}
		stop := `"` + prompt[end-1:] + `y"` // never ends a text in what was taken back
		if prompt[end-1] >= 0x80 {
			stop = `"zebra"`
		}
		status, text := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
			`{"inputs":%s,"parameters":{"details":true,"max_new_tokens":12,"token_healing":true,"stop":["\u0001",%s]}}`,
			quoted, stop))
		var got spoken
		if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK {
			t.Fatalf("%q: %d %s", prompt, status, text)
		}
		var written []byte
		for _, tok := range got.Details.Tokens {
			written = append(written, of(llm.Token(tok.ID))...)
		}
		longer := false
		for id := range llm.Token(m.built.Vocab) {
			longer = longer || len(of(id)) > len(last) && bytes.HasPrefix(of(id), last)
		}
		if len(tokens) < 2 || !longer || of(tokens[len(tokens)-2]) == nil { // nothing could stand in its place
			if !strings.HasPrefix(string(written), got.Text) {
				t.Errorf("%q: wrote %q, replied %q", prompt, written, got.Text)
			}
			continue
		}
		healed++
		if !strings.HasPrefix(string(written), string(last)+got.Text) {
			t.Errorf("%q: wrote %q, of which %q is the reply; the last token was %q", prompt, written, got.Text, last)
		}
		if len(got.Details.Tokens) > 0 && got.Details.Tokens[0].ID != int(tokens[len(tokens)-1]) {
			other++
		}
		want := p.forcedStart(t, tokens[:len(tokens)-1], &naiveHealing{of, last})
		ids := got.ids()
		if !slices.EqualFunc(ids, want[:len(ids)], func(a int, b llm.Token) bool { return a == int(b) }) {
			t.Errorf("%q: tokens %v, want %v", prompt, ids, want)
		}
	}
	if healed < 20 || other < 10 {
		t.Errorf("%d prompts were healed, %d by another token", healed, other)
	}
	plain, again := p.say(t, story[:40], `"max_new_tokens":10`, "", ""),
		p.say(t, story[:40], `"max_new_tokens":10,"token_healing":false`, "", "")
	if plain.Text != again.Text {
		t.Errorf("%q, unasked %q", again.Text, plain.Text)
	}
	const native, openai = `{"inputs":"Once upon a t","parameters":{"token_healing":true,%s}}`,
		`{"model":"x","prompt":"Once upon a t","token_healing":true,%s}`
	for _, c := range []struct{ path, body, more, other string }{
		{"/generate", native, `"grammar":{"type":"regex","value":"a"}`, "`grammar`"},
		{"/generate", native, `"decoder_input_details":true,"details":true`, "`decoder_input_details`"},
		{"/generate", native, `"num_beams":2`, "`num_beams` > 1"},
		{"/v1/completions", openai, `"echo":true,"logprobs":1`, "`echo`"},
		{"/v1/completions", openai, `"use_beam_search":true,"n":2`, "`use_beam_search`"},
		{"/v1/completions", openai, `"response_format":{"type":"json_object"}`, "`response_format`"},
	} {
		status, text := p.call(t, http.MethodPost, c.path, fmt.Appendf(nil, c.body, c.more))
		told := strings.Contains(text, "`token_healing` and "+c.other+" exclude each other")
		if !told || status < 400 || status > 422 {
			t.Errorf("%s %s: %d %s", c.path, c.more, status, text)
		}
	}
}

// TestHealingIsOfTexts: what ends where it is meant to is not healed, and the reply tells that.
func TestHealingIsOfTexts(t *testing.T) {
	p := openChat(t, nil)
	const chat = `{"model":"x","max_tokens":2,"messages":[{"role":"user","content":"Hi"}],"token_healing":%s}`
	for _, c := range []struct{ path, body, on string }{
		{"/v1/chat/completions", chat, "token_healing"},
		{"/v1/messages", chat, "token_healing"},
		{"/v1/responses", `{"model":"x","max_output_tokens":16,"input":"Hi","token_healing":%s}`, "token_healing"},
		{"/v1/completions", `{"model":"x","max_tokens":2,"prompt":[5,6],"token_healing":%s}`, "token_healing"},
		{"/v1/completions", `{"model":"x","max_tokens":2,"prompt":"Once upon a t","token_healing":%s}`, ""},
	} {
		for _, asked := range []string{"true", "false"} {
			reply, err := http.Post(p.url+c.path, "application/json", strings.NewReader(fmt.Sprintf(c.body, asked)))
			if err != nil {
				t.Fatal(err)
			}
			reply.Body.Close()
			want := c.on
			if asked == "false" {
				want = ""
			}
			if got := reply.Header.Get("X-Ignored-Fields"); reply.StatusCode != http.StatusOK || got != want {
				t.Errorf("%s %s: %d, ignored %q, want %q", c.path, asked, reply.StatusCode, got, want)
			}
		}
	}
}

// forcedStart generates greedily behind a prompt under a mask.
func (p *plugged) forcedStart(t *testing.T, prompt []llm.Token, m sample.Masker) (out []llm.Token) {
	t.Helper()
	s, err := p.defaultModel().engine.Submit(t.Context(), engine.Request{Prompt: prompt,
		Plugins: func(int) sample.Plugins { return sample.Plugins{Masker: m} },
		Params:  llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 12}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		e, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Token)
	}
}
