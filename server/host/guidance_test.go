package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestGuidanceByTheSamePrompt: a second prompt that is the first changes nothing, since a text is no likelier behind
// one than behind the other: with every plugin, example and language of grammars, with seeds and n. Only rounding may
// make another token the likeliest.
func TestGuidanceByTheSamePrompt(t *testing.T) {
	plain, guesses := guessing(t)
	texts := func(reply string) string {
		var r struct {
			Text    string `json:"generated_text"`
			Choices []struct{ Message struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(reply), &r); err != nil || r.Text == "" && len(r.Choices) == 0 {
			t.Fatalf("%v: %s", err, reply)
		}
		return fmt.Sprintf("%q", r)
	}
	list, different := everyKind(2), 0
	for _, a := range list {
		_, want := plain.call(t, http.MethodPost, a.route, []byte(a.body))
		guided := strings.Replace(a.body, `"parameters":{`, fmt.Sprintf(
			`"parameters":{"guidance_scale":3,"negative_prompt":%q,`, redHat), 1)
		if a.route != "/generate" {
			guided = strings.TrimSuffix(a.body, "}") +
				`,"guidance_scale":0.25,"negative_messages":[{"role":"user","content":"Tell me a story about a fox."}]}`
		}
		status, got := plain.call(t, http.MethodPost, a.route, []byte(guided))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", a.name, status, got)
		}
		if texts(got) != texts(want) {
			different++
			t.Logf("%s: got %s\nwant %s", a.name, texts(got), texts(want))
		}
		if _, again := guesses.call(t, http.MethodPost, a.route, []byte(guided)); steady(again) != steady(got) {
			t.Errorf("%s: where others are guessed for: %s\nwant %s", a.name, again, got)
		}
	}
	if different > len(list)/20 {
		t.Errorf("%d of %d texts are different", different, len(list))
	}
	if n := len(plain.lines(t, "tgi_guided_requests_total")); n != 2 {
		t.Errorf("%d lines of metrics", n)
	}
}
