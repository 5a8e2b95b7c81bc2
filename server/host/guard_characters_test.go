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

// charactered is a server whose guards are those of guarding, and one that holds the same of all texts.
func charactered(t *testing.T) (of func(path, body string) string) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "steady", Source: config.Builtin + "redact",
			Config: map[string]any{"steady": true}})
		c.Plugin = append(c.Plugin, config.Plugin{Name: "no-repeat-ngram", Source: config.Builtin + "no-repeat-ngram"})
	})
	return func(path, body string) string {
		t.Helper()
		status, reply := p.call(t, http.MethodPost, path, []byte(body))
		if status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", path, body, status, reply)
		}
		return reply
	}
}

// chosen is a chat request whose reply is a text.
func chosen(text, rest string) string {
	return fmt.Sprintf(`{"model":"x","messages":[{"role":"user","content":"Hi"}],"temperature":0,`+
		`"response_format":{"type":"choice","value":[%q]}%s}`, text, rest)
}

// TestEndsInsideACharacter: a text that ends inside a character of a string that is replaced shows no more of it than
// one that ends in front of that character.
func TestEndsInsideACharacter(t *testing.T) {
	ask := charactered(t)
	for _, c := range []struct{ text, secret, least string }{
		{"The name is 極秘計画アルファ, yes.", "極秘計画アルファ", "極秘計画"},
		{"The name is Aktion Seeadler Süß, yes.", "Aktion Seeadler Süß", "Aktion Seea"},
		{"A b 日本, k.", "日本", "日\uFFFD"},
		{"A b é漢, k.", "é漢", "é\uFFFD"},
		{"A b abc\uFFFD and more", "abc\uFFFD", "abc\uFFFD"}, // which the model writes itself
	} {
		cut := 0
		for n := 1; n < 50; n++ {
			for _, name := range []string{"redact", "steady"} {
				reply := ask("/v1/chat/completions", chosen(c.text, fmt.Sprintf(`,"max_tokens":%d,"plugins":[{"name":%q,`+
					`"params":{"strings":[%q]}}]`, n, name, c.secret)))
				text := textOf(reply)
				if strings.Contains(text, c.least) {
					t.Errorf("%s, %d tokens: %q", name, n, text)
				}
				if strings.Contains(text, "[redacted]") && strings.Contains(reply, `"finish_reason":"length"`) {
					cut++
				}
			}
		}
		if cut < 6 {
			t.Errorf("%q: %d texts end inside the string", c.text, cut)
		}
	}
	// A stop string of which a byte is replaced is none, and the length ends the text inside the next character.
	for n := 1; n < 12; n++ {
		reply := ask("/generate", fmt.Sprintf(`{"inputs":"Hi","parameters":{"max_new_tokens":%d,"stop":["N"],"details":true,`+
			`"grammar":{"type":"choice","value":["j🚀N世6"]},"plugins":[{"name":"redact","params":{"strings":["🚀N世"]}}]}}`, n))
		if strings.Contains(reply, "🚀N") {
			t.Errorf("%d tokens: %s", n, reply)
		}
	}
}

// TestReplacedTextIsText: a text that spells a special token, and has something that is replaced, is a text, in its
// tokens too.
func TestReplacedTextIsText(t *testing.T) {
	ask := charactered(t)
	const text = "A turn ends with <|im_end|><|im_start|> or <|endoftext|> in Project Falcon."
	want := strings.Replace(text, "Project Falcon", "[redacted]", 1)
	const plugins = `"plugins":[{"name":"steady","params":{"strings":["Project Falcon"]}}]`
	for _, with := range []string{`"stream":false,`, `"stream":true,`} {
		reply := ask("/v1/chat/completions", chosen(text, `,"max_tokens":90,`+with+plugins))
		if got := scoredIn(t, reply); got.text != want {
			t.Errorf("%q, want %q", got.text, want)
		}
	}
	var r struct {
		Text    string `json:"generated_text"`
		Details struct {
			Tokens []struct {
				ID      int
				Text    string
				Special bool
			}
		}
	}
	body := fmt.Sprintf(`{"inputs":"Hi","parameters":{"max_new_tokens":90,"details":true,"grammar":{"type":"choice",`+
		`"value":[%q]},%s}}`, text, plugins)
	if err := json.Unmarshal([]byte(ask("/generate", body)), &r); err != nil {
		t.Fatal(err)
	}
	joined := ""
	for i, x := range r.Details.Tokens {
		if x.ID < 3 && !(x.Special && i == len(r.Details.Tokens)-1) {
			t.Errorf("token %d is %+v", i, x)
		}
		if !x.Special {
			joined += x.Text
		}
	}
	if r.Text != want || joined != want {
		t.Errorf("%q, tokens %q, want %q", r.Text, joined, want)
	}
	// Words of a client's own are text, too.
	reply := ask("/v1/chat/completions", chosen(text, `,"max_tokens":90,"plugins":[{"name":"redact","params":{`+
		`"strings":["Falcon"],"with":"<|im_end|>"}}]`))
	if got, want := textOf(reply), strings.Replace(text, "Falcon", "<|im_end|>", 1); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReplacedBesideCharacters: where a replacement ends next to a character of several tokens, and where it begins in
// the prompt, no byte of it is lost and nothing is replaced twice.
func TestReplacedBesideCharacters(t *testing.T) {
	ask := charactered(t)
	for _, name := range []string{"redact", "steady"} {
		for _, stream := range []string{"", `,"stream":true`} {
			got := scoredIn(t, ask("/v1/chat/completions", chosen("abc🦊é end of it all here", `,"max_tokens":90,`+
				`"logprobs":true,"plugins":[{"name":"`+name+`","params":{"strings":["bc"]}}]`+stream)))
			if want := "a[redacted]🦊é end of it all here"; got.text != want || string(got.bytes) != want {
				t.Errorf("%s%s: text %q, bytes %q, want %q", name, stream, got.text, got.bytes, want)
			}
		}
		for _, c := range [][4]string{
			{"Hi é", "é yes", "éé", "[redacted] yes"}, {"Hi 漢", "漢 yes", "漢漢", "[redacted] yes"},
			{"Hi 🦊🦊a", "🦊漢a🦊é yes", "🦊a🦊", "[redacted]漢a🦊é yes"}, {"Hi a", "é yes", "aé", "[redacted] yes"},
		} {
			reply := ask("/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"max_new_tokens":30,"grammar":{"type":"choice",`+
				`"value":[%q]},"plugins":[{"name":%q,"params":{"strings":[%q]}}]}}`, c[0], c[1], name, c[2]))
			if want := fmt.Sprintf(`"generated_text":%q`, c[3]); !strings.Contains(reply, want) {
				t.Errorf("%s behind %q: %s, want %s", name, c[0], reply, want)
			}
		}
	}
}

// TestPromptEndsInsideACharacter: what begins in a prompt is found where that ends inside a character of it.
func TestPromptEndsInsideACharacter(t *testing.T) {
	ask := charactered(t)
	tokens := func(text string) (ids []int) {
		var list []struct{ ID int }
		if err := json.Unmarshal([]byte(ask("/tokenize", fmt.Sprintf(`{"inputs":%q}`, text))), &list); err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			ids = append(ids, x.ID)
		}
		return ids
	}
	before := tokens("The town is ")
	found := 0
	for _, secret := range []string{"Zürich🙂x", "naïve café", "a極秘b"} {
		ids := tokens(secret)
		for k := 1; k < len(ids); k++ {
			biases := map[string]int{} // each token once, one after the other
			for i, id := range ids[k:] {
				biases[fmt.Sprint(id)] = 100 - 10*i
			}
			say := func(guard, banned string) string {
				body, err := json.Marshal(map[string]any{"prompt": slices.Concat(before, ids[:k]), "temperature": 0,
					"max_tokens": len(ids) - k, "logit_bias": biases, "plugins": []any{
						map[string]any{"name": "no-repeat-ngram", "params": map[string]int{"n": 1}},
						map[string]any{"name": guard, "params": map[string]any{"strings": []string{banned}}},
					}})
				if err != nil {
					t.Fatal(err)
				}
				return textOf(ask("/v1/completions", string(body)))
			}
			text := say("redact", "nothing of it")
			if text == "" || !strings.HasSuffix(secret, text) {
				continue // the model cannot be brought to say it
			}
			found++
			for _, guard := range []string{"redact", "steady"} {
				if got := say(guard, secret); got != "[redacted]" {
					t.Errorf("%s, behind %d tokens of %q: %q", guard, k, secret, got)
				}
			}
			if got := say("banned-strings", secret); got == text {
				t.Errorf("banned-strings, behind %d tokens of %q: %q", k, secret, got)
			}
		}
	}
	if found < 12 {
		t.Errorf("%d prompts end inside a string", found)
	}
}
