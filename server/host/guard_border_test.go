package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestPiecesShowNoMore: a client that asks for one token after the other, each time behind what the model wrote before,
// reads no more than the beginning of what an operator's guard replaces: in a plain prompt, in an answer that is gone
// on with, and in a text that goes on by its id.
func TestPiecesShowNoMore(t *testing.T) {
	const pieces = 24
	ways := map[string]func(p *plugged, said string) string{
		"TGI": func(p *plugged, said string) string {
			_, reply := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
				`{"inputs":%s,"parameters":{"max_new_tokens":1}}`, quoted("Once upon a time"+said)))
			var r struct {
				Text *string `json:"generated_text"`
			}
			if err := json.Unmarshal([]byte(reply), &r); err != nil || r.Text == nil {
				t.Fatalf("%v: %s", err, reply)
			}
			return *r.Text
		},
		"chat": func(p *plugged, said string) string {
			more := `]`
			if said != "" {
				more = `,{"role":"assistant","content":` + quoted(said) + `}],"continue_final_message":true,` +
					`"add_generation_prompt":false`
			}
			return answers(t, (&far{url: p.url}).chat(t, `{"model":"x","max_tokens":1,"temperature":0,"messages":[`+
				asksForStory+more+`}`)[0])[0]
		},
		"generate API": func(p *plugged, _ string) string {
			text, _ := piece(t, p.url, one("story", "Once upon a time", 1, ""))
			return text
		},
	}
	plain := openChat(t, nil)
	said, secrets := map[string][]string{}, map[string]string{}
	var list []any
	for name, ask := range ways {
		text := ""
		for range pieces {
			said[name] = append(said[name], text)
			text += ask(plain, text)
		}
		if len(text) < 40 {
			t.Fatalf("%s: too short: %q", name, text)
		}
		secrets[name] = text[10:30]
		list = append(list, secrets[name])
	}
	p := openChat(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "house", Source: config.Builtin + "redact",
			Apply: config.ApplyAlways, OnError: config.OnErrorFail,
			Config: config.Table{"strings": list, "locked": true}})
	})
	for name, ask := range ways {
		known := ""
		for _, before := range said[name] {
			known += ask(p, before)
		}
		secret := secrets[name]
		if strings.Contains(known, secret[:len(secret)/2]) || !strings.Contains(known, "[redacted]") {
			t.Errorf("%s: of %q the client has %q", name, secret, known)
		}
	}
}
