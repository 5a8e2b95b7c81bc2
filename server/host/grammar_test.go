package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/server/config"
	"tgi/server/generate"
)

// grammarReply is what the tests look at of a reply with a grammar.
type grammarReply struct {
	Text    string `json:"generated_text"`
	Details struct {
		Reason  string `json:"finish_reason"`
		Dropped []struct{ Pointer, Keyword, Reason string }
		Best    []struct {
			Text   string `json:"generated_text"`
			Reason string `json:"finish_reason"`
		} `json:"best_of_sequences"`
	}
	Error string
	Kind  string `json:"error_type"`
}

// held generates a text that is held to a grammar, hot enough to leave it at once if nothing held it.
func (p *plugged) held(t testing.TB, want int, seed int, grammar, more string) (r grammarReply) {
	t.Helper()
	status, text := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
		`{"inputs":"<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n","parameters":{"max_new_tokens":120,"details":true,"temperature":1.5,"seed":%d,"grammar":%s%s}}`, seed, grammar, more))
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != want {
		t.Fatalf("%s: %d %s, want %d", grammar, status, text, want)
	}
	return r
}

// object decodes an object and holds its names against those that it may and must have.
func object(v any, must, may []string) map[string]any {
	m, _ := v.(map[string]any)
	for _, name := range must {
		if _, ok := m[name]; !ok {
			return nil
		}
	}
	for name := range m {
		if !slices.Contains(must, name) && !slices.Contains(may, name) {
			return nil
		}
	}
	return m
}

func whole(v any) bool {
	f, ok := v.(float64)
	return ok && f == float64(int64(f))
}

// schemas are held against what a generated text must then be, written down a second time in Go.
var schemas = []struct {
	schema string
	valid  func(any) bool
}{
	{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"}},"required":["a"],"additionalProperties":false}`, func(v any) bool {
		m := object(v, []string{"a"}, []string{"b"})
		_, flag := m["b"].(bool)
		return m != nil && whole(m["a"]) && (flag || m["b"] == nil && len(m) == 1)
	}},
	{`{"type":"array","items":{"enum":["red","green",7,null]},"minItems":2,"maxItems":4}`, func(v any) bool {
		list, _ := v.([]any)
		for _, x := range list {
			if x != "red" && x != "green" && x != 7.0 && x != nil {
				return false
			}
		}
		return len(list) >= 2 && len(list) <= 4
	}},
	{`{"type":"object","properties":{"n":{"type":"integer","minimum":-3,"maximum":12},"s":{"type":"string","minLength":2,"maxLength":5}},"required":["n","s"],"additionalProperties":false}`, func(v any) bool {
		m := object(v, []string{"n", "s"}, nil)
		s, ok := m["s"].(string)
		n := len([]rune(s))
		return ok && n >= 2 && n <= 5 && whole(m["n"]) && m["n"].(float64) >= -3 && m["n"].(float64) <= 12
	}},
	{`{"$defs":{"t":{"type":"object","properties":{"v":{"const":1},"l":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["v","l"],"additionalProperties":false}},"$ref":"#/$defs/t"}`, chained},
	{`{"type":"object","properties":{"d":{"type":"string","format":"date"},"p":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{3}$"}},"required":["d","p"],"additionalProperties":false}`, func(v any) bool {
		m := object(v, []string{"d", "p"}, nil)
		d, _ := m["d"].(string)
		p, _ := m["p"].(string)
		return regexp.MustCompile(`^\d{4}-\d\d-\d\d$`).MatchString(d) &&
			regexp.MustCompile(`^[A-Z]{2}-[0-9]{3}$`).MatchString(p)
	}},
}

// chained is the recursive one of schemas.
func chained(v any) bool {
	for v != nil {
		m := object(v, []string{"v", "l"}, nil)
		if m == nil || m["v"] != 1.0 {
			return false
		}
		v = m["l"]
	}
	return true
}

// TestGeneratedJSON: what is generated at a temperature where nothing else holds it is of the schema, in many streams
// at once, or was cut by the length limit. Each schema is compiled once.
func TestGeneratedJSON(t *testing.T) {
	p := openPlugged(t, nil)
	const each = 8
	var mu sync.Mutex
	ended := map[string]int{}
	var all sync.WaitGroup
	for _, s := range schemas {
		for i := range each {
			all.Go(func() {
				r := p.held(t, http.StatusOK, i+1, `{"type":"json","value":`+s.schema+`}`, "")
				mu.Lock()
				ended[r.Details.Reason]++
				mu.Unlock()
				if r.Details.Reason == "length" {
					return
				}
				var v any
				if err := json.Unmarshal([]byte(r.Text), &v); err != nil || !s.valid(v) {
					t.Errorf("%s: %v: %s", s.schema, err, r.Text)
				}
			})
		}
	}
	all.Wait()
	t.Logf("ended by %v, %+v", ended, p.defaultModel().control.set.GrammarStats())
	if ended["eos_token"] < each*len(schemas)/2 {
		t.Errorf("ended by %v", ended)
	}
	if st := p.defaultModel().control.set.GrammarStats(); st.Compiled != uint64(len(schemas)) ||
		st.Found+st.Shared != uint64((each-1)*len(schemas)) {
		t.Errorf("counted %+v", st)
	}
}

// TestGrammarsOfRoutes checks that every route enforces the grammar.
func TestGrammarsOfRoutes(t *testing.T) {
	p := sharedChat(t)
	fits := func(route, text, pattern string) {
		t.Helper()
		if !regexp.MustCompile(`^(` + pattern + `)$`).MatchString(text) {
			t.Errorf("%s: %q is not %s", route, text, pattern)
		}
	}
	const pattern = `[a-f]{3}-[0-9]{2}`
	r := p.held(t, http.StatusOK, 1, `{"type":"regex","value":"`+pattern+`"}`, "")
	fits("generate", r.Text, pattern)
	status, text := p.call(t, http.MethodPost, "/generate",
		[]byte(`{"inputs":"Once","parameters":{"best_of":2,"do_sample":true,"temperature":1.5,"details":true,"max_new_tokens":60,"grammar":{"type":"regex","value":"`+pattern+`"}}}`))
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Details.Best) != 1 {
		t.Fatalf("best_of: %d %s", status, text)
	}
	fits("best_of", r.Text, pattern)
	fits("best_of", r.Details.Best[0].Text, pattern)
	for _, c := range []struct{ path, body, pattern string }{
		{"/v1/chat/completions", `"messages":[` + hi +
			`],"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"boolean"}}}`, `true|false`},
		{"/v1/chat/completions", `"messages":[` + hi + `],"structured_outputs":{"choice":["yes","no"]}`, `yes|no`},
		{"/v1/completions", `"prompt":"Once","guided_regex":"` + pattern + `"`, pattern},
		{"/v1/completions", `"prompt":"Once","guided_grammar":"root ::= \"x\" [0-9]? \"y\""`, `x[0-9]?y`},
		{"/v1/completions", `"prompt":"Once","guided_grammar":"start: \"x\" /[0-9]/ \"y\""`, `x[0-9]y`},
		{"/v1/completions",
			`"prompt":"Once","grammar":{"type":"grammar","value":"[\"a\",\"b\"]","language":"choice","plugin":"grammar"}`, `a|b`},
	} {
		status, text := p.call(t, http.MethodPost, c.path,
			[]byte(`{`+c.body+`,"temperature":1.5,"seed":4,"n":3,"max_tokens":60}`))
		var reply struct {
			Choices []struct {
				Text    string
				Message struct{ Content string }
			}
		}
		if err := json.Unmarshal([]byte(text), &reply); err != nil || status != http.StatusOK ||
			len(reply.Choices) != 3 {
			t.Fatalf("%s: %d %s", c.body, status, text)
		}
		for _, x := range reply.Choices {
			fits(c.path, x.Text+x.Message.Content, c.pattern)
		}
	}
	beams := `{"prompt":"Once","guided_regex":"` + pattern + `","num_beams":4,"n":3,"max_tokens":60}`
	var found struct{ Choices []struct{ Text string } }
	if status, text := p.call(t, http.MethodPost, "/v1/completions", []byte(beams)); status != http.StatusOK ||
		json.Unmarshal([]byte(text), &found) != nil || len(found.Choices) != 3 {
		t.Fatalf("beams: %d %s", status, text)
	}
	for i, x := range found.Choices {
		fits("beams", x.Text, pattern)
		if i > 0 && x.Text == found.Choices[i-1].Text {
			t.Errorf("two beams came to %q", x.Text)
		}
	}
	if r := p.held(t, http.StatusOK, 1, `{"type":"regex","value":"a{500}"}`, ``); r.Details.Reason != "length" {
		t.Errorf("a text that was cut ended by %s", r.Details.Reason)
	}
}

// TestBadGrammars checks that a grammar that can't be compiled, or is too costly, fails only its own request.
func TestBadGrammars(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Plugins.BreakerFaults = 3 })
	nb := p.watchNeighbours(t, 2)
	deep := strings.Repeat("(", 60_000) + strings.Repeat(")", 60_000)
	for _, c := range []struct{ grammar, says string }{
		{`{"type":"regex","value":"(a"}`, "grammar is not valid: line 1, column 1: the group is not closed"},
		{`{"type":"json","value":{"type":"strin"}}`, `grammar is not valid: #: type: "strin" is no type`},
		{`{"type":"json","value":{"properties":{"a":{"format":"idn-hostname"}}}}`,
			"grammar is not valid: #/properties/a: format: "},
		{`{"type":"json","value":{"$ref":"#/$defs/none"}}`, "grammar is not valid: #"},
		{`{"type":"json","value":"{"}`, "grammar is not valid: "},
		{`{"type":"choice","value":[]}`, "grammar is not valid: "},
		{`{"type":"json","value":false}`, "grammar is not valid: "},
		{`{"type":"grammar","value":"x","language":"gnbf"}`,
			`grammar is not valid: none of those installed knows grammars in the language "gnbf", but in ["choice" "gbnf" `},
		{`{"type":"regex","value":"a","plugin":"none"}`, "grammar is not valid: there is no plugin of this name"},
		{`{"type":"regex","value":"a","params":{"whitespace":"some"}}`, "grammar is not valid: whitespace"},
		{`{"type":"grammar","value":"root ::= ` + deep + `"}`, "grammar is not valid: "},
		{`{"type":"regex","value":"` + deep + `"}`, "grammar is not valid: "},
	} {
		r := p.held(t, http.StatusUnprocessableEntity, 1, c.grammar, "")
		if want := "Input validation error: " + c.says; !strings.HasPrefix(r.Error, want) || r.Kind != "validation" {
			t.Errorf("%.80s: got %.200s (%s), want %s", c.grammar, r.Error, r.Kind, want)
		}
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	if s, _ := p.defaultModel().control.Get(grammarPlugin); s.State != "ready" {
		t.Errorf("the plugin is %s: %s", s.State, s.Error)
	}
}

// TestGrammarSwitchedOff checks that the operator can switch grammars off; the error is TGI's.
func TestGrammarSwitchedOff(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Server.DisableGrammar = true })
	if r := p.held(t, http.StatusUnprocessableEntity, 1, `{"type":"regex","value":"a"}`,
		""); r.Error != "Input validation error: grammar is not supported" {
		t.Errorf("got %s", r.Error)
	}
}

// TestLenientGrammar checks that constraints left out are listed, controlled by OpenAI's strict.
func TestLenientGrammar(t *testing.T) {
	p := sharedChat(t)
	ask := func(strict string) (int, string) {
		return p.call(t, http.MethodPost, "/v1/chat/completions",
			[]byte(`{"messages":[`+hi+`],"max_tokens":60,"temperature":1.5,`+
				`"response_format":{"type":"json_schema","json_schema":{"name":"x"`+strict+
				`,"schema":{"type":"string","format":"idn-hostname","maxLength":3}}}}`))
	}
	for _, strict := range []string{"", `,"strict":true`} {
		if status, text := ask(strict); status != http.StatusUnprocessableEntity || !strings.Contains(text, "format") {
			t.Errorf("%s: %d %s", strict, status, text)
		}
	}
	status, text := ask(`,"strict":false`)
	var r struct {
		Choices []struct{ Message struct{ Content string } }
		Dropped []generate.Dropped `json:"grammar_dropped"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Dropped) != 1 ||
		r.Dropped[0].Keyword != "format" || r.Dropped[0].Pointer != "#" {
		t.Fatalf("%d %s", status, text)
	}
	var s string
	if err := json.Unmarshal([]byte(r.Choices[0].Message.Content), &s); err != nil || len([]rune(s)) > 3 {
		t.Errorf("got %q, %v", r.Choices[0].Message.Content, err)
	}
}

// TestGrammarDeclared: a plugin of that name in the settings takes the place of the built-in one, with its
// configuration.
func TestGrammarDeclared(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: grammarPlugin, Source: "builtin:grammar",
			Config: config.Table{"whitespace": "compact"}})
	})
	r := p.held(t, http.StatusOK, 2,
		`{"type":"json","value":{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"required":["a","b"],"additionalProperties":false}}`, "")
	if r.Text != `{"a":1,"b":2}` {
		t.Errorf("got %s", r.Text)
	}
}
