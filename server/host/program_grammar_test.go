package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"tgi/server/config"
)

// heldRoutes are routes with a grammar in a request: the body has a place for it, and one for the list of plugins.
var heldRoutes = []struct{ name, path, body, regex, schema string }{
	{"chat", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Who is in the mill?"}],"max_tokens":60,"temperature":0,` +
			`%s"plugins":[%s]}`,
		`"response_format":{"type":"regex","value":%q},`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}},`},
	{"completions", "/v1/completions", `{"prompt":"Once upon a time","max_tokens":60,"temperature":0,%s"plugins":[%s]}`,
		`"response_format":{"type":"regex","value":%q},`,
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}},`},
	{"generate", "/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":60,%s"plugins":[%s]}}`,
		`"grammar":{"type":"regex","value":%q},`, `"grammar":{"type":"json","value":%s},`},
	{"messages", "/v1/messages",
		`{"model":"m","messages":[{"role":"user","content":"Who is in the mill?"}],"max_tokens":60,"temperature":0,` +
			`%s"plugins":[%s]}`,
		"", `"output_config":{"format":{"type":"json_schema","schema":%s}},`},
}

// answerOf is the text of a reply of one of heldRoutes, and why it ended.
func answerOf(t *testing.T, status int, text string) (answer, reason string) {
	t.Helper()
	var r struct {
		Generated string `json:"generated_text"`
		Choices   []struct {
			Text    string
			Message struct{ Content string }
			Reason  string `json:"finish_reason"`
		}
		Content []struct{ Text string }
		Stop    string `json:"stop_reason"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	answer, reason = r.Generated, r.Stop
	for _, c := range r.Choices {
		answer, reason = answer+c.Text+c.Message.Content, c.Reason
	}
	for _, c := range r.Content {
		answer += c.Text
	}
	return answer, reason
}

// TestProgramsKeepGrammars: what a built-in program emits is what the request's grammar says, on each route.
func TestProgramsKeepGrammars(t *testing.T) {
	p := programming(t, nil)
	const schema = `{"type":"object","required":["age"],"additionalProperties":false,` +
		`"properties":{"age":{"type":"integer","minimum":0,"maximum":120}}}`
	digits, object := regexp.MustCompile(`^[0-9]{3}$`), regexp.MustCompile(`^\{\s*"age"\s*:\s*[0-9]{1,3}\s*\}$`)
	for _, program := range []string{`{"name":"vote","params":{"n":2}}`, `{"name":"best-of-judge","params":{"n":2}}`,
		`{"name":"json-repair"}`, `{"name":"json-repair","params":{"tries":0}}`, `{"name":"budget-then-answer"}`,
		`{"name":"budget-then-answer","params":{"budget":8,"end":"</think>"}}`,
		`{"name":"budget-then-answer","params":{"end":"."}}`} {
		for _, r := range heldRoutes {
			for want, held := range map[*regexp.Regexp]string{digits: r.regex, object: r.schema} {
				if held == "" {
					continue
				}
				held = fmt.Sprintf(held, map[*regexp.Regexp]any{digits: "[0-9]{3}", object: schema}[want])
				status, text := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, held, program))
				if got, _ := answerOf(t, status, text); !want.MatchString(got) {
					t.Errorf("%s, %s: %q is not %v", r.name, program, got, want)
				}
			}
		}
	}
	p.settled(t)
}

// TestExampleKeepsGrammars: the SDKs' example of a program thinks freely, and answers as the request's grammar says.
// Without one the client sees the thoughts too.
func TestExampleKeepsGrammars(t *testing.T) {
	names := []string{"c", "rust", "assemblyscript", "go"}
	p := programming(t, func(c *config.Config) {
		for _, language := range names {
			source := "../../sdk/testdata/guests/" + language + "/think-then-answer.wasm"
			if language == "go" {
				source = builtGo(t, "../../sdk/go/examples/thinkthenanswer")
			}
			c.Plugin = append(c.Plugin, config.Plugin{Name: language, Source: source, OnError: config.OnErrorFail,
				Apply: config.ApplyRequest})
		}
	})
	digits := regexp.MustCompile(`^[0-9]{3}$`)
	for _, name := range names {
		for _, end := range []string{"", `,"end":"."`} {
			program := fmt.Sprintf(`{"name":%q,"params":{"budget":8%s}}`, name, end)
			for _, r := range heldRoutes {
				if r.regex == "" {
					continue
				}
				held := fmt.Sprintf(r.regex, "[0-9]{3}")
				status, text := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, held, program))
				if got, _ := answerOf(t, status, text); !digits.MatchString(got) {
					t.Errorf("%s, %s: %q is not %v", r.name, program, got, digits)
				}
			}
		}
		status, text := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, heldRoutes[2].body, "",
			fmt.Sprintf(`{"name":%q,"params":{"budget":4,"end":"</think>"}}`, name)))
		if got, _ := answerOf(t, status, text); !strings.Contains(got, "\nTime is up.\n") {
			t.Errorf("%s: %q shows no thoughts that were ended", name, got)
		}
	}
	p.settled(t)
}

// TestExamplesEndBehindGuards: a program that knows of no guards, and returns why it could not emit as its error, ends
// its text as the guard's stop does.
func TestExamplesEndBehindGuards(t *testing.T) {
	names := []string{"c", "rust", "assemblyscript"}
	p := programming(t, func(c *config.Config) {
		for _, language := range names {
			c.Plugin = append(c.Plugin, config.Plugin{Name: language, OnError: config.OnErrorFail,
				Source: "../../sdk/testdata/guests/" + language + "/think-then-answer.wasm",
				Apply:  config.ApplyRequest})
		}
	})
	for _, name := range names {
		for _, budget := range []int{2, 40} { // refused in its answer, and in its thoughts
			for _, stream := range []bool{false, true} {
				status, text := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"messages":[`+
					`{"role":"user","content":"What is three plus four?"}],"temperature":0,"stream":%v,"plugins":[`+
					`{"name":%q,"params":{"budget":%d,"end":"</think>"}},{"name":"banned-strings","params":`+
					`{"strings":["plus"," 7"]}}]}`, stream, name, budget))
				if status != http.StatusOK || !strings.Contains(text, `"finish_reason":"content_filter"`) ||
					!strings.Contains(text, `"stop_reason":"plugin:banned-strings"`) {
					t.Errorf("%s, budget %d, streamed %v: %d %s", name, budget, stream, status, text)
				}
			}
		}
	}
	p.settled(t)
}

// TestRepairOfStepwiseGrammar: json-repair holds a reply also to a grammar that cannot say how much of a text is right.
func TestRepairOfStepwiseGrammar(t *testing.T) {
	p := programming(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "equal-runs", Source: builtGo(t, "../../examples/equal-runs"),
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	status, text := p.call(t, http.MethodPost, "/generate", []byte(`{"inputs":"Once upon a time","parameters":`+
		`{"max_new_tokens":60,"grammar":{"type":"grammar","language":"equal-runs","value":"abc","params":{"most":3}},`+
		`"plugins":[{"name":"json-repair"}]}}`))
	got, _ := answerOf(t, status, text)
	if n := len(got) / 3; n == 0 || got != strings.Repeat("a", n)+strings.Repeat("b", n)+strings.Repeat("c", n) {
		t.Errorf("%q", got)
	}
}

// TestRepairIgnoresEOS: with `ignore_eos` what a program writes freely goes on behind the model's end, also where a
// grammar is to hold for it then, but a run under a grammar ends with its text, and the reply with that.
func TestRepairIgnoresEOS(t *testing.T) {
	p := programming(t, nil)
	const repair = `{"name":"json-repair","params":{"tries":%d,"schema":%s}}`
	for _, r := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":%q}],"max_tokens":90,"temperature":0,%s"plugins":[%s]}`},
		{"/generate", `{"inputs":%q,"parameters":{"max_new_tokens":90,%s"plugins":[%s]}}`},
	} {
		for _, prompt := range []string{"Who are you?", "Who is in the mill?", "What is three plus four?", "Hello!"} {
			for _, schema := range []string{`{"type":"string"}`, `{"type":"object","additionalProperties":false}`} {
				for _, tries := range []int{0, 4} {
					program := fmt.Sprintf(repair, tries, schema)
					status, text := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, prompt,
						`"ignore_eos":true,`, program))
					got, reason := answerOf(t, status, text)
					if strings.Contains(text, `"finish_reason":"stop"`) && !json.Valid([]byte(got)) {
						t.Errorf("%s, %q, %s: %q", r.path, prompt, program, got)
					}
					if tries > 0 {
						continue
					}
					// No run is without the grammar, so that nothing of the reply changes.
					status, text = p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, prompt, "", program))
					if want, why := answerOf(t, status, text); got != want || reason != why {
						t.Errorf("%s, %q, %s: %q (%s), want %q (%s)", r.path, prompt, program, got, reason, want, why)
					}
				}
			}
		}
	}
	_, text := p.call(t, http.MethodPost, "/v1/completions", []byte(`{"prompt":"Once upon a time","max_tokens":200,`+
		`"temperature":0,"ignore_eos":true,"plugins":[{"name":"vote"}]}`))
	if !strings.Contains(text, `"completion_tokens":200`) {
		t.Errorf("a run without a grammar: %s", text)
	}
	p.settled(t)
}

// TestTwoGrammars: json-repair is refused where its schema and the request's grammar would both say what the reply is,
// before the model computes anything, and the error names both.
func TestTwoGrammars(t *testing.T) {
	p := programming(t, nil)
	for _, r := range heldRoutes {
		for _, stream := range []string{"", `"stream":true,`} {
			held := fmt.Sprintf(r.schema, `{"type":"integer"}`)
			if r.name == "generate" && stream != "" {
				continue // it has no such member
			}
			body := strings.Replace(r.body, "{", "{"+stream, 1)
			steps := p.defaultModel().engine.Stats().Steps
			status, text := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, body, held,
				`{"name":"json-repair","params":{"schema":{"type":"object"}}}`))
			want := http.StatusUnprocessableEntity
			if r.name == "messages" {
				want = http.StatusBadRequest // that API's word for it
			}
			if status != want || !strings.Contains(text, "json-repair") || !strings.Contains(text, "`schema`") ||
				!strings.Contains(text, "response_format") || p.defaultModel().engine.Stats().Steps != steps {
				t.Errorf("%s %s: %d %s", r.name, stream, status, text)
			}
		}
	}
}

// TestNoMarkersNoThoughts: for a model without a token that ends thoughts budget-then-answer writes none, nor a hint,
// unless its client says what ends them.
func TestNoMarkersNoThoughts(t *testing.T) {
	p := programming(t, nil)
	for _, r := range heldRoutes {
		_, text := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, "", ""))
		want, reason := answerOf(t, http.StatusOK, text)
		status, text := p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, "",
			`{"name":"budget-then-answer","params":{"budget":3}}`))
		if got, why := answerOf(t, status, text); got != want || why != reason || got == "" {
			t.Errorf("%s: %q (%s), without the program %q (%s)", r.name, got, why, want, reason)
		}
		status, text = p.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, "",
			`{"name":"budget-then-answer","params":{"budget":3,"end":"</think>"}}`))
		if got, _ := answerOf(t, status, text); !strings.Contains(got, "Time is up.\n</think>\n") {
			t.Errorf("%s: %q", r.name, got)
		}
	}
}

// TestThoughtsLeaveRoom: thoughts that nobody sees leave the answer room, and one that is cut for lack of it says so.
func TestThoughtsLeaveRoom(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Limits.MaxInputTokens, c.Limits.MaxTotalTokens = 60, 100 })
	const budget = `{"name":"budget-then-answer","params":{"budget":1000000,"end":"</think>"}}`
	for held, want := range map[string]string{"[0-9]{3}": "stop", "[a-z ]{4000}": "length"} {
		status, text := p.call(t, http.MethodPost, "/v1/completions", fmt.Appendf(nil,
			`{"prompt":"Once upon a time","ignore_eos":false,"max_tokens":90,"temperature":0,"response_format":`+
				`{"type":"regex","value":%q},"plugins":[%s]}`, held, budget))
		got, reason := answerOf(t, status, text)
		if reason != want || !regexp.MustCompile(`^(`+strings.Replace(held, "4000", "1,", 1)+`)$`).MatchString(got) {
			t.Errorf("%s: %q, %s, want %s", held, got, reason, want)
		}
	}
	p.settled(t)
}

// TestRepairOfCostlySchema: a schema that takes too much only when a text is held to it is told of as the parameter
// that it is, like one that is wrong from the beginning.
func TestRepairOfCostlySchema(t *testing.T) {
	p := programming(t, nil)
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf(`{"type":"string","pattern":".*a.{%d}"}`, i))
	}
	status, reply := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"model":"x",`+
		`"max_tokens":20,"temperature":0,"messages":[{"role":"user","content":"Hi"}],`+
		`"plugins":[{"name":"json-repair","params":{"schema":{"oneOf":[%s]}}}]}`, strings.Join(all, ",")))
	text := string(reply)
	if status != http.StatusUnprocessableEntity || !strings.Contains(text, `"param":"plugins"`) ||
		!strings.Contains(text, "parameter `schema` of plugin json-repair: ") || !strings.Contains(text, "limit exceeded") {
		t.Errorf("%d %s", status, reply)
	}
}
