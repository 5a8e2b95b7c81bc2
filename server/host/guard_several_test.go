package host

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestSeveralGuards: what one guard replaces does not go out in parts because another one takes back what came behind
// the first of them: "aa" is let out because of " was there" behind it, which is banned, and goes on with "b" then.
func TestSeveralGuards(t *testing.T) {
	p := guarding(t, nil)
	redact := `{"name":"redact","params":{"strings":["aab","island","4111 1111 1111 1111"]}}`
	banned := `{"name":"banned-strings","params":{"strings":[" was there"]}}`
	for _, c := range []struct{ regex, secret string }{
		{"x aa( was there|b) z", "aab"},
		{"my isl( was there|and) z", "island"},
		{"4111 1111 1111 111( was there|1) ok", "4111 1111 1111 1111"},
	} {
		for _, plugins := range []string{redact + "," + banned, banned + "," + redact} {
			for _, r := range []struct{ path, body string }{
				{"/generate", `{"inputs":"Hi","parameters":{"max_new_tokens":60,"details":true,"logit_bias":{%s},` +
					`"grammar":{"type":"regex","value":%q},"plugins":[%s]}}`},
				{"/generate_stream", `{"inputs":"Hi","parameters":{"max_new_tokens":60,"logit_bias":{%s},` +
					`"grammar":{"type":"regex","value":%q},"plugins":[%s]}}`},
				{"/v1/chat/completions", `{"model":"x","max_tokens":60,"temperature":0,"logit_bias":{%s},` +
					`"messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"regex","value":%q},` +
					`"plugins":[%s]}`},
				{"/v1/chat/completions", `{"model":"x","max_tokens":60,"temperature":0,"stream":true,` +
					`"logit_bias":{%s},"messages":[{"role":"user","content":"Hi"}],` +
					`"response_format":{"type":"regex","value":%q},"plugins":[%s]}`},
			} {
				was := fmt.Sprintf(`"%d":90`, p.defaultModel().tokenizer.Encode(" was", false)[0])
				status, reply := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, was, c.regex, plugins))
				text := textOf(string(reply))
				if status != 200 || strings.Contains(text, c.secret) || !strings.Contains(text, "[redacted]") {
					t.Errorf("%s %s, %s: %d %q: %s", r.path, c.regex, plugins, status, text, reply)
				}
			}
		}
	}
}

// TestGuardsOfTheSame: what two guards replace both is replaced once, and the text goes on: one of the operator's
// beside one that a client names.
func TestGuardsOfTheSame(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "privacy", Source: config.Builtin + "redact",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways})
	})
	status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(`{"model":"x","max_tokens":60,`+
		`"temperature":0,"messages":[{"role":"user","content":"Write to me"}],"response_format":{"type":"regex",`+
		`"value":"Write to bob@example\\.com and say hello\\."},"plugins":[{"name":"redact"}]}`))
	if text := textOf(string(reply)); status != 200 || text != "Write to [redacted] and say hello." {
		t.Errorf("%d %q: %s", status, text, reply)
	}
}

// TestStringsBesideTheOperators: strings that a client adds to the operator's keep nothing of theirs, and nothing of a
// pattern, from being found, and cut nothing of it, whole and streamed.
func TestStringsBesideTheOperators(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "privacy", Source: config.Builtin + "redact",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways,
			Config: map[string]any{"strings": []any{"SECRETWORD", "abcd", "cdef", "xx"}}})
	})
	for _, c := range []struct{ text, mine, want string }{
		{"the SECRETWORD is here", "e S", "th[redacted] is here"},
		{"the SECRETWORD is here", "D i", "the [redacted]s here"},
		{"mail bob@example.com now", "l bob", "mai[redacted] now"},
		{"card 4111 1111 1111 1111 ok", "d 4111", "car[redacted] ok"},
		{"my AKIAIOSFODNN7EXAMPLE ok", "y AK", "m[redacted] ok"},
		{"an abcdefgh", "none", "an [redacted]gh"},
		{"an xxxxxxxxxxxxxxxxxxxxxxxxx is", "none", "an [redacted] is"},
		{"a@" + strings.Repeat("b", 122) + ".com is", "none", "[redacted] is"},
	} {
		for _, stream := range []string{"false", "true"} {
			status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"model":"x",`+
				`"max_tokens":250,"temperature":0,"stream":%s,"messages":[{"role":"user","content":"Hi"}],`+
				`"response_format":{"type":"choice","value":[%q]},`+
				`"plugins":[{"name":"privacy","params":{"strings":[%q]}}]}`, stream, c.text, c.mine))
			if text := textOf(string(reply)); status != 200 || text != c.want {
				t.Errorf("%q beside %q, stream %s: %d %q, want %q", c.text, c.mine, stream, status, text, c.want)
			}
		}
	}
}
