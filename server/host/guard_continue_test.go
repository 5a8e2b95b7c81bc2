package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestContinuedBehindReplacement: a text of the generate API goes on from what its client got, whatever guards replaced
// in it: with more tokens than the model's, with fewer, and with parts of
// characters.
func TestContinuedBehindReplacement(t *testing.T) {
	for _, with := range []string{"[all of this is withheld]", "~", "██"} {
		p := guarding(t, func(c *config.Config) {
			c.Plugin = append(c.Plugin, config.Plugin{Name: "privacy", Source: config.Builtin + "redact",
				Apply: config.ApplyAlways, OnError: config.OnErrorFail,
				Config: map[string]any{"patterns": []any{}, "with": with,
					"strings": []any{" happy girl", " the", " was"}}})
		})
		text, hidden := "Once upon a time", 0
		begin := `"prompt":` + quoted(text) + `,`
		for i, over := 0, false; i < 8 && !over; i++ {
			status, reply := p.call(t, http.MethodPost, "/api/generate-batch", fmt.Appendf(nil,
				`{"prompts":[{%s"request_id":"a"}],"only_new_tokens":false,`+
					`"generation_config":{"do_sample":false,"max_new_tokens":%d}}`, begin, 5+i))
			var r []struct{ Prompt, Response string }
			if err := json.Unmarshal([]byte(reply), &r); err != nil || status/100 != 2 || len(r) != 1 {
				t.Fatalf("%v: %d %s", err, status, reply)
			}
			over = status == http.StatusOK // 206 of what ended by its length
			if begin = ""; r[0].Prompt != text {
				t.Errorf("%q: request %d goes on from %q, its client has %q", with, i, r[0].Prompt, text)
			}
			text += r[0].Response
			if hidden += strings.Count(r[0].Response, with); strings.Contains(r[0].Response, " the") {
				t.Errorf("%q: not replaced in %q", with, r[0].Response)
			}
		}
		if hidden < 3 {
			t.Errorf("%q: replaced %d times in %q", with, hidden, text)
		}
	}
}
