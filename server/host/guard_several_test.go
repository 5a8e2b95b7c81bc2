package host

import (
	"fmt"
	"math/rand/v2"
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

// TestGuardsThatOverlap: what two guards replace goes, whatever they share of it, and nothing else: the client gets
// what one guard with the strings of both would give.
func TestGuardsThatOverlap(t *testing.T) {
	p := guarding(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "second", Source: config.Builtin + "redact"})
	})
	const text = "Once upon a time there was a hungry fox who lived at the school."
	words := strings.SplitAfter(text, " ")
	r := rand.New(rand.NewPCG(1, 29))
	ask := func(seed int, plugins string) string {
		status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"model":"x",`+
			`"max_tokens":90,"temperature":%d,"seed":%d,"messages":[{"role":"user","content":"Hi"}],`+
			`"response_format":{"type":"choice","value":[%q]},"plugins":[%s]}`, seed%2, seed, text, plugins))
		if status != 200 {
			t.Fatalf("%d: %s", status, reply)
		}
		return textOf(string(reply))
	}
	replaced := 0
	for seed := range 60 {
		var parts [2]string
		from := r.IntN(len(words) - 5)
		for i := range parts {
			if seed%3 > 0 {
				parts[i] = strings.TrimSpace(strings.Join(words[from:from+1+r.IntN(4)], ""))
				from += r.IntN(3)
			} else {
				at := 10 + r.IntN(8)
				parts[i] = text[at : at+2+r.IntN(6)]
			}
		}
		list := []string{fmt.Sprintf(`{"name":"redact","params":{"strings":[%q]}}`, parts[0]),
			fmt.Sprintf(`{"name":"second","params":{"strings":[%q]}}`, parts[1])}
		r.Shuffle(2, func(i, j int) { list[i], list[j] = list[j], list[i] })
		got := ask(seed, list[0]+","+list[1])
		want := ask(seed, fmt.Sprintf(`{"name":"redact","params":{"strings":[%q,%q]}}`, parts[0], parts[1]))
		if got != want {
			t.Errorf("%d: %q is %q, want %q", seed, parts, got, want)
		}
		if got != text {
			replaced++
		}
	}
	if replaced < 50 {
		t.Errorf("%d texts had something replaced", replaced)
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
