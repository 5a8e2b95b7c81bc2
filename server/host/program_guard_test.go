package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/server/config"
)

// guardedRoutes are all routes that give texts, streamed and not, with %s for a program.
func guardedRoutes() (out [][2]string) {
	for _, r := range spokenRoutes() {
		if r.name == "chat, tools" {
			continue // calls are not held to their tools, a program writes them
		}
		more := "," + r.plugins
		out = append(out, [2]string{r.path, fmt.Sprintf(r.body, more)})
		if strings.HasPrefix(r.stream, "/") {
			out = append(out, [2]string{r.stream, fmt.Sprintf(r.body, more)})
		} else {
			out = append(out, [2]string{r.path, fmt.Sprintf(r.body, more+","+r.stream)})
		}
	}
	for _, stream := range []string{"false", "true"} {
		out = append(out,
			[2]string{"/api/generate", `{"model":"x","prompt":"Once upon a time","options":{"num_predict":40,"temperature":0},"plugins":%s,` +
				`"stream":` + stream + `}`},
			[2]string{"/api/chat", `{"model":"x","messages":[{"role":"user","content":"Tell me a story about a fox."}],` +
				`"options":{"num_predict":40,"temperature":0},"plugins":%s,"stream":` + stream + `}`})
	}
	return out // the routes below /api that have no `plugins` cannot name a program
}

// letters are the texts of a reply: all strings that hold more than a word's end, in one.
func letters(t *testing.T, reply string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.SplitSeq(reply, "\n") {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil {
			addTexts(&all, v, "")
		}
	}
	return all.String()
}

// addTexts collects the strings of texts below v.
func addTexts(out *strings.Builder, v any, key string) {
	switch v := v.(type) {
	case string:
		switch key {
		case "content", "text", "delta", "generated_text", "response", "token", "thinking":
			out.WriteString(v)
		}
	case []any:
		for _, x := range v {
			addTexts(out, x, key)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !strings.HasPrefix(k, "top_") && k != "logprobs" && k != "details" { // those are of the route's own form
				addTexts(out, v[k], k)
			}
		}
	}
}

// TestOperatorsGuardReadsPrograms: a guard that applies always reads what a program emits, on every route, streamed and
// not: no program that a client names gets a letter past it.
func TestOperatorsGuardReadsPrograms(t *testing.T) {
	for _, program := range []string{do("plain"), do("stream")} {
		p := programming(t, func(c *config.Config) {
			c.Server.Ollama = true
			c.Plugin = append(c.Plugin, config.Plugin{Name: "redact", Source: config.Builtin + "redact",
				OnError: config.OnErrorFail, Apply: config.ApplyAlways,
				Config: map[string]any{"strings": []any{"e"}, "with": "#", "locked": true}})
		})
		for _, r := range guardedRoutes() {
			status, got := p.call(t, http.MethodPost, r[0], fmt.Appendf(nil, r[1], program))
			text := letters(t, got)
			if status != http.StatusOK || !strings.Contains(text, "#") || strings.Contains(text, "e") {
				t.Errorf("%s, %s: %d %q\n%s", r[0], program, status, text, got)
			}
			_, plain := p.call(t, http.MethodPost, r[0], fmt.Appendf(nil, r[1], "[]"))
			if a, b := joined(tell(t, got)), joined(tell(t, plain)); a != b || a == "" {
				t.Errorf("%s, %s: %q, without the program %q", r[0], program, a, b)
			}
		}
		p.settled(t)
	}
}

// TestGuardTakesAnEmissionBack: a program whose emission a guard takes back is told so, and may emit another; what it
// lets out by the run ends; one that never finds anything else ends as a plain text does.
func TestGuardTakesAnEmissionBack(t *testing.T) {
	p := programming(t, nil)
	const body = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":%d,"details":true,"plugins":[` +
		`{"name":"hostile","params":{"do":%q}},{"name":"banned-strings","params":{"strings":[%q]}}]}}`
	for _, c := range []struct{ do, banned, want, also string }{
		{"texts", "secret", "nothing to see, and more", "eos_token"},
		{"texts", "the", "nothing to see, and more", "eos_token"}, // the first word
		{"texts", "word", "nothing to see, and more", "eos_token"},
		{"texts", "see, and", "", "stop_sequence"}, // of two emissions, the first is gone: the second is refused
		{"emit", "more", "", "stop_sequence"},
	} {
		status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, 40, c.do, c.banned))
		var reply struct {
			Text string `json:"generated_text"`
		}
		_ = json.Unmarshal([]byte(got), &reply)
		if status == http.StatusOK && strings.Contains(reply.Text, c.banned) || c.want != "" && (reply.Text != c.want ||
			!strings.Contains(got, c.also)) {
			t.Errorf("%s without %s: %d %s", c.do, c.banned, status, got)
		}
	}
}

// TestVoteTriesTheNext: where a guard refuses the answer that most give, vote sends another.
func TestVoteTriesTheNext(t *testing.T) {
	p := programming(t, nil)
	vote := func(more string) (int, string) {
		status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, `{"inputs":"Once upon a time","parameters":`+
			`{"max_new_tokens":12,"seed":7,"plugins":[{"name":"vote","params":{"n":4,"temperature":1.5}}%s]}}`, more))
		var reply struct {
			Text string `json:"generated_text"`
		}
		if err := json.Unmarshal([]byte(got), &reply); err != nil {
			t.Fatal(err)
		}
		return status, reply.Text
	}
	_, first := vote("")
	banned := strings.TrimSpace(first)
	status, next := vote(fmt.Sprintf(`,{"name":"banned-strings","params":{"strings":[%q]}}`, banned))
	if first == "" || status != http.StatusOK || next == "" || strings.Contains(next, banned) {
		t.Errorf("without %q: %d %q", first, status, next)
	}
}

// TestProgramTime: a program that goes on for longer than the settings allow is ended, and its client is told why.
func TestProgramTime(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Plugins.ProgramTime = config.Duration(50 * time.Millisecond) })
	status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
		`{"inputs":"Once upon a time","parameters":{"max_new_tokens":900,"plugins":%s}}`, do("look")))
	if status == http.StatusOK || !strings.Contains(got, "longer than plugins.program_time, 50ms") {
		t.Errorf("%d %s", status, got)
	}
	p.settled(t)
}

// TestProgramTokens: what the model computes for programs is counted: of a run the prompt and all tokens but one.
func TestProgramTokens(t *testing.T) {
	p := programming(t, nil)
	_, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, `{"inputs":"Once upon a time",`+
		`"parameters":{"max_new_tokens":8,"ignore_eos_token":true,"decoder_input_details":false,"plugins":%s}}`, do("plain")))
	_, text := p.call(t, http.MethodGet, "/metrics", nil)
	count := func(name string) (n int) {
		_, rest, _ := strings.Cut(text, "\n"+name+" ")
		_, _ = fmt.Sscan(rest, &n)
		return n
	}
	prompt := count("tgi_request_input_length_sum")
	if n := count("tgi_program_tokens_total"); prompt == 0 || n != prompt+8-1 {
		t.Errorf("%d tokens, want those of the prompt, %d, and 7: %s", n, prompt, got)
	}
}

// TestProgramsPayForAll: runs whose ends a program does not ask for are paid from its purse all the same.
func TestProgramsPayForAll(t *testing.T) {
	p := programming(t, nil)
	_, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
		`{"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"plugins":%s}}`, do("unpaid")))
	_, text := p.call(t, http.MethodGet, "/metrics", nil)
	_, rest, _ := strings.Cut(text, "\ntgi_program_tokens_total ")
	n, purse := 0, 8*12+4096
	if _, err := fmt.Sscan(rest, &n); err != nil || n < purse/2 || n > purse+200 {
		t.Errorf("%d tokens were computed for a purse of %d: %s", n, purse, got)
	}
	p.settled(t)
}

// TestGrammarOfAParameter: a schema that a client gives a program and that is none is the client's mistake, and the
// error names the parameter.
func TestGrammarOfAParameter(t *testing.T) {
	p := programming(t, nil)
	for _, params := range []string{`{"schema":{"type":"objekt"}}`, `{"tries":0, "schema": { "type" : "objekt" }}`} {
		for _, r := range [][2]string{
			{"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":20,"plugins":[%s]}}`},
			{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Hello"}],"max_tokens":20,"plugins":[%s]}`},
		} {
			status, got := p.call(t, http.MethodPost, r[0], fmt.Appendf(nil, r[1],
				`{"name":"json-repair","params":`+params+`}`))
			if status != http.StatusUnprocessableEntity || !strings.Contains(got, "json-repair") ||
				!strings.Contains(got, "`schema`") || !strings.Contains(got, "objekt") {
				t.Errorf("%s, %s: %d %s", r[0], params, status, got)
			}
		}
	}
	p.settled(t)
}

// TestProgramGoesOn: what a guard takes back of a built-in program's text is written on from there, as the guard has a
// plain text do, under the grammar of the request, and the reply is none of the server's errors.
func TestProgramGoesOn(t *testing.T) {
	p := programming(t, nil)
	const regex = `,"response_format":{"type":"regex","value":"[ -~]{20,}"}`
	for _, program := range []string{`{"name":"vote"}`, `{"name":"best-of-judge"}`, `{"name":"vote","params":{"n":1}}`,
		`{"name":"budget-then-answer"}`, `{"name":"budget-then-answer","params":{"end":"fox","budget":5}}`,
		`{"name":"json-repair"}`} {
		for _, grammar := range []string{"", regex, `,"response_format":{"type":"json_object","value":` +
			`{"type":"object","properties":{"x":{"type":"string","minLength":12}},"required":["x"]}}`} {
			if strings.Contains(program, "json-repair") && grammar == "" {
				continue // which writes of no fox
			}
			for _, stream := range []string{"", `,"stream":true`} {
				status, got := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil,
					`{"messages":[{"role":"user","content":"Tell me a story about a fox."}],"max_tokens":60,"seed":3,`+
						`"temperature":0,"plugins":[%s,{"name":"banned-strings","params":{"strings":["fox","the"]}}]%s%s}`,
					program, grammar, stream))
				text, reason := saidInChat(t, got)
				for _, banned := range []string{"fox", "the"} {
					if strings.Contains(strings.ToLower(text), banned) {
						t.Errorf("%s%s%s: %q has %q", program, grammar, stream, text, banned)
					}
				}
				if status != http.StatusOK || len(text) < 20 && grammar != "" && reason == "stop" || text == "" {
					t.Errorf("%s%s%s: %d %q %s", program, grammar, stream, status, text, got)
				}
				if strings.Contains(grammar, "json") && reason == "stop" && !json.Valid([]byte(text)) {
					t.Errorf("%s%s%s: %q is no JSON", program, grammar, stream, text)
				}
				t.Logf("%s%s%s: %s %q", program, grammar, stream, reason, text)
			}
		}
	}
	p.settled(t)
}

// saidInChat returns the content of a chat's reply or of its stream, and why it ended.
func saidInChat(t *testing.T, got string) (text, reason string) {
	t.Helper()
	for line := range strings.Lines(got) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		if line == "" || line == "[DONE]" {
			continue
		}
		type said struct{ Content string }
		var reply struct {
			Choices []struct {
				Message, Delta said
				FinishReason   string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		for _, c := range reply.Choices {
			text, reason = text+c.Message.Content+c.Delta.Content, c.FinishReason
		}
	}
	return text, reason
}

// TestProgramEndsAsAPlainText: where the request's grammar demands what a guard bans, so that no token may go on, a
// program's text ends by the same words as a plain one, in every API, streamed and not.
func TestProgramEndsAsAPlainText(t *testing.T) {
	const schema = `{"type":"object","properties":{"fox":{"const":1}},"required":["fox"]}`
	p := programming(t, func(c *config.Config) {
		c.Server.Ollama = true
		c.Plugin = append(c.Plugin, config.Plugin{Name: "no-fox", Source: config.Builtin + "banned-strings",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways, Config: map[string]any{"strings": []any{"fox"}}})
	})
	const asked = `"model":"x","messages":[{"role":"user","content":"Say fox."}]`
	for _, r := range []struct{ path, body, stream, want string }{
		{"/generate", `{"inputs":"Say","parameters":{"max_new_tokens":40,"details":true,"grammar":{"type":"json","value":` +
			schema + `},"plugins":%s}}`, "/generate_stream", "stop_sequence"},
		{"/v1/chat/completions", `{` + asked + `,"max_tokens":40,"response_format":{"type":"json_object","value":` + schema +
			`},"plugins":%s}`, "", "content_filter"},
		{"/v1/responses", `{"model":"x","input":"Say fox.","max_output_tokens":40,"text":{"format":{"type":"json_schema",` +
			`"name":"x","schema":` + schema + `}},"plugins":%s}`, "", "content_filter"},
		{"/v1/messages", `{` + asked + `,"max_tokens":40,"output_config":{"format":{"type":"json_schema","schema":` + schema +
			`}},"plugins":%s}`, "", "refusal"},
		{"/api/chat", `{` + asked + `,"stream":false,"options":{"num_predict":40},"format":` + schema + `,"plugins":%s}`, "",
			"content_filter"},
	} {
		streamed := [2]string{r.stream, r.body}
		if r.stream == "" {
			body := strings.Replace(r.body, `"stream":false,`, "", 1)
			streamed = [2]string{r.path, strings.Replace(body, "{", `{"stream":true,`, 1)}
		}
		for _, of := range [][2]string{{r.path, r.body}, streamed} {
			for _, program := range []string{"[]", `[{"name":"vote"}]`, `[{"name":"best-of-judge"}]`,
				`[{"name":"budget-then-answer"}]`, `[{"name":"json-repair"}]`} {
				status, got := p.call(t, http.MethodPost, of[0], fmt.Appendf(nil, of[1], program))
				if end := saidEnd(got); status != http.StatusOK || end != r.want {
					t.Errorf("%s, %s: %d, ends by %q, not %q\n%s", of[0], program, status, end, r.want, got)
				}
			}
		}
	}
	p.settled(t)
}

// saidEnd returns the last word of a reply or stream on why its text ended.
func saidEnd(reply string) (why string) {
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				look(x)
			}
		case map[string]any:
			for _, k := range []string{"finish_reason", "stop_reason", "done_reason", "reason"} {
				if s, _ := v[k].(string); s != "" {
					why = s
					return
				}
			}
			for _, k := range slices.Sorted(maps.Keys(v)) {
				look(v[k])
			}
		}
	}
	for line := range strings.Lines(reply) {
		var v any
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &v) == nil {
			look(v)
		}
	}
	return why
}
