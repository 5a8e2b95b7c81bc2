package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tgi/server/config"
)

// guarding opens a server with the built-in guards. TGI_VERIFY's checks run after each step.
func guarding(t *testing.T, change func(*config.Config)) *plugged {
	return openChat(t, func(c *config.Config) {
		c.Runtime.Verify = true
		c.Limits.MaxBestOf = 3
		for _, name := range []string{"banned-strings", "redact", "loop-breaker", "dry", "mirostat"} {
			c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		}
		if change != nil {
			change(c)
		}
	})
}

// spokenRoute is a route that gives a text.
type spokenRoute struct {
	name, path, body string // body with %s for more members, in braces
	stream           string // member that makes it a stream, or another path
	plugins          string // member of the plugins, with %s for the list
}

// spokenRoutes are all that give texts.
func spokenRoutes() []spokenRoute {
	return []spokenRoute{
		{"TGI", "/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":40,"details":true%s}}`,
			"/generate_stream", `"plugins":%s`},
		{"TGI, drawn", "/generate",
			`{"inputs":"Once upon a time","parameters":{"max_new_tokens":40,"seed":5,"temperature":0.8,"top_n_tokens":3,` +
				`"details":true%s}}`, "/generate_stream", `"plugins":%s`},
		{"TGI, stop", "/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":60,"stop":["day","Sl"]%s}}`,
			"/generate_stream", `"plugins":%s`},
		{"completions", "/v1/completions", `{"model":"x","prompt":"Once upon a time","max_tokens":40,"seed":3,"n":2%s}`,
			`"stream":true`, `"plugins":%s`},
		{"chat", "/v1/chat/completions", `{"model":"x","max_tokens":60,"seed":4,"logprobs":true,"top_logprobs":2,` + story +
			`%s}`, `"stream":true`, `"plugins":%s`},
		{"chat, stop and n", "/v1/chat/completions", `{"model":"x","max_tokens":60,"seed":4,"n":3,"stop":["fox"],` + story +
			`%s}`, `"stream":true`, `"plugins":%s`},
		{"chat, tools", "/v1/chat/completions", `{"model":"x","max_tokens":80,"temperature":0,"tools":[{"type":"function",` +
			`"function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},` +
			`"required":["city"]}}}],"tool_choice":"required","messages":[{"role":"user","content":"Weather in Paris?"}]%s}`,
			`"stream":true`, `"plugins":%s`},
		{"responses", "/v1/responses", `{"model":"x","input":"Tell me a story about a fox.","max_output_tokens":60,"temperature":0%s}`,
			`"stream":true`, `"plugins":%s`},
		{"messages", "/v1/messages", `{"model":"x","max_tokens":60,"temperature":0,` + story + `%s}`, `"stream":true`, `"plugins":%s`},
	}
}

// told is what a client has of a reply: the texts of each choice, in order, and all strings that stand for them.
type told struct {
	texts map[string]string
}

// tell reads a reply, or the events of a stream.
func tell(t *testing.T, reply string) told {
	t.Helper()
	out := told{texts: map[string]string{}}
	for line := range strings.SplitSeq(reply, "\n") {
		line = strings.TrimPrefix(line, "data:")
		var v any
		if json.Unmarshal([]byte(line), &v) == nil {
			out.read(v, "", "")
		}
	}
	return out
}

// read collects texts below v by where they are.
func (o told) read(v any, at, choice string) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			o.read(x, at, choice)
		}
	case map[string]any:
		if i, ok := v["index"].(float64); ok && strings.Contains(at, "choices") {
			choice = fmt.Sprint(i)
		}
		kind, _ := v["type"].(string)
		for key, x := range v {
			s, isText := x.(string)
			switch {
			case strings.HasPrefix(kind, "response.") && !strings.HasSuffix(kind, ".delta"):
			case slices.Contains([]string{"content", "text", "delta", "arguments", "generated_text", "partial_json",
				"token", "response"}, key) && isText && !strings.Contains(at, "top") && s != "assistant":
				o.texts[key+choice+at] += s
			default:
				o.read(x, at+"/"+key, choice)
			}
		}
	}
}

// words lists some words of a text.
var wordPattern = regexp.MustCompile(`[A-Za-z]{3,}`)

// TestNoClientSeesWhatWasTakenBack: on every route, streamed and not, with log-probabilities, several choices, stop
// strings and tool calls, no text holds what a guard took back or replaced, whatever word of the text that is; what a
// stream said is what the whole reply says.
func TestNoClientSeesWhatWasTakenBack(t *testing.T) {
	s := guarding(t, nil)
	seen := 0
	for _, r := range spokenRoutes() {
		_, plain := s.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, ""))
		var all strings.Builder
		for _, text := range tell(t, plain).texts {
			all.WriteString(text + " ")
		}
		list := wordPattern.FindAllString(all.String(), -1)
		slices.Sort(list)
		list = slices.Compact(list)
		if len(list) == 0 {
			t.Fatalf("%s: no text in %s", r.name, plain)
		}
		for i, word := range list {
			if i%max(len(list)/2, 1) != 1 || word == "get" || word == "weather" || word == "city" {
				continue
			}
			for _, guard := range []string{
				fmt.Sprintf(`[{"name":"banned-strings","params":{"strings":[%q],"depth":1}},{"name":"dry"}]`, word),
				fmt.Sprintf(`[{"name":"redact","params":{"strings":[%q],"ignore_case":true,"with":"#"}}]`, word),
				fmt.Sprintf(`[{"name":"redact","params":{"strings":[%q],"ignore_case":true,"with":"#"}},{"name":"dry"},`+
					`{"name":"banned-strings","params":{"strings":["fox"]}}]`, word),
			} {
				more := "," + fmt.Sprintf(r.plugins, guard)
				status, whole := s.call(t, http.MethodPost, r.path, fmt.Appendf(nil, r.body, more))
				path := r.path
				if strings.HasPrefix(r.stream, "/") {
					path = r.stream
				} else {
					more += "," + r.stream
				}
				streamed, pieces := s.call(t, http.MethodPost, path, fmt.Appendf(nil, r.body, more))
				if status != http.StatusOK || streamed != http.StatusOK {
					t.Fatalf("%s: %d %s, %d %s", r.name, status, whole, streamed, pieces)
				}
				seen++
				for _, reply := range []string{whole, pieces} {
					for at, text := range tell(t, reply).texts {
						if strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
							t.Errorf("%s: %s in %s: %q\n%s", r.name, word, at, text, reply)
						}
					}
				}
				if a, b := joined(tell(t, whole)), joined(tell(t, pieces)); a != b {
					t.Errorf("%s, %s: whole %q, streamed %q", r.name, guard, a, b)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("%d requests", seen)
	}
	lines := strings.Join(s.lines(t, "tgi_guard_verdicts_total"), "\n")
	for _, want := range []string{`plugin="banned-strings",verdict="rewind"} `, `plugin="redact",verdict="replace"} `} {
		if i := strings.Index(lines, want); i < 0 || strings.HasPrefix(lines[i+len(want):], "0") {
			t.Errorf("no %s in\n%s", want, lines)
		}
	}
}

// joined are the texts that both a stream and a whole reply have.
func joined(o told) string {
	best := ""
	for _, text := range o.texts {
		if len(text) > len(best) || len(text) == len(best) && text > best {
			best = text
		}
	}
	return best
}

// vowels are what no text of the demo model can do without.
const vowels = `[{"name":"banned-strings","params":{"strings":["a","e","i","o","u"]}}]`

// TestGuardsEnd: a text that a guard took back as often as it may ends with what went out, and every API says so in its
// own words.
func TestGuardsEnd(t *testing.T) {
	s := guarding(t, nil)
	want := map[string]string{"TGI": "stop_sequence", "TGI, drawn": "stop_sequence", "TGI, stop": "",
		"completions": "content_filter", "chat": "content_filter", "chat, stop and n": "content_filter",
		"chat, tools": "content_filter", "responses": "content_filter", "messages": "refusal"}
	for _, r := range spokenRoutes() {
		for _, stream := range []bool{false, true} {
			path, more := r.path, ","+fmt.Sprintf(r.plugins, vowels)
			switch {
			case stream && strings.HasPrefix(r.stream, "/"):
				path = r.stream
			case stream:
				more += "," + r.stream
			}
			status, reply := s.call(t, http.MethodPost, path, fmt.Appendf(nil, r.body, more))
			if status != http.StatusOK || want[r.name] != "" && !strings.Contains(reply, strconv.Quote(want[r.name])) {
				t.Errorf("%s, stream %v: %d, want %s\n%s", r.name, stream, status, want[r.name], reply)
			}
		}
	}
	_, reply := s.call(t, http.MethodPost, "/generate",
		[]byte(`{"inputs":"Once upon a time","parameters":{"details":true,"max_new_tokens":20,"plugins":`+vowels+`}}`))
	if !strings.Contains(reply, `"stop_reason":"plugin:banned-strings","stop_detail":"`) {
		t.Errorf("no reason in %s", reply)
	}
}

// TestGuardsAreRefused: beside what cannot be taken back, with a text that says what and why.
func TestGuardsAreRefused(t *testing.T) {
	s := guarding(t, nil)
	s.upload(t, "rows", sdkGuest(t, "rust", "every-mode"))
	guard := `{"name":"banned-strings","params":{"strings":["x"]}}`
	for name, c := range map[string]struct{ body, want string }{
		"rows": {`"plugins":[` + guard + `,{"name":"rows"}]`, "plugin rows reads whole rows of logits"},
		"beams": {`"num_beams":2,"do_sample":false,"plugins":[` + guard + `]`,
			"cannot run beside guard banned-strings"},
		"parameters": {`"plugins":[{"name":"banned-strings","params":{"strings":[""]}}]`, "of 0 characters, the least is 1"},
	} {
		status, reply := s.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
			`{"inputs":"Hi","parameters":{"max_new_tokens":4,%s}}`, c.body))
		if status != http.StatusUnprocessableEntity || !strings.Contains(reply, c.want) {
			t.Errorf("%s: %d %s", name, status, reply)
		}
	}
}

// TestGuardsOfKeys: a guard that the operator applies holds for all requests of some keys, whatever these say, and for
// no others.
func TestGuardsOfKeys(t *testing.T) {
	s := guarding(t, func(c *config.Config) {
		c.Server.APIKeys = []string{"free"}
		c.Key = append(c.Key, config.Key{Name: "school", Key: "watched", Scopes: []string{config.ScopeGenerate}})
		c.Plugin = append(c.Plugin, config.Plugin{Name: "house", Source: config.Builtin + "redact",
			OnError: config.OnErrorFail, Apply: config.ApplyAlways, Keys: []string{"school"},
			Config: config.Table{"strings": []any{"time", "there", "lived", "a "}, "locked": true}})
	})
	ask := func(key, more string) (int, string) {
		return s.withKey(t, key, http.MethodPost, "/generate",
			`{"inputs":"Once upon a","parameters":{"max_new_tokens":20`+more+`}}`)
	}
	if status, reply := ask("watched", ""); status != http.StatusOK || !strings.Contains(reply, "[redacted]") {
		t.Errorf("watched: %d %s", status, reply)
	}
	if status, reply := ask("free", ""); status != http.StatusOK || strings.Contains(reply, "[redacted]") {
		t.Errorf("free: %d %s", status, reply)
	}
	status, reply := ask("watched", `,"plugins":[{"name":"house","params":{"patterns":[],"strings":[]}}]`)
	if status != http.StatusUnprocessableEntity || !strings.Contains(reply, "fixed the parameters") {
		t.Errorf("watched, other parameters: %d %s", status, reply)
	}
}

// TestGuessesChangeNothingBesideGuards: with a guard that takes tokens back, and each plugin and language of grammars
// beside it, a reply has the same bytes with guesses as without.
func TestGuessesChangeNothingBesideGuards(t *testing.T) {
	plain, guesses := guessing(t)
	guard := `{"name":"banned-strings","params":{"strings":["hat","fox","found","the "]}}`
	refused := 0
	list := everyKind(2)
	for _, a := range list {
		if before, after, ok := strings.Cut(a.body, `"plugins":[`); ok {
			a.body = before + `"plugins":[` + guard + `,` + after
		} else if i := strings.LastIndex(a.body, "}}"); a.route == "/generate" {
			a.body = a.body[:i] + `,"plugins":[` + guard + `]` + a.body[i:]
		} else {
			a.body = strings.TrimSuffix(a.body, "}") + `,"plugins":[` + guard + `]}`
		}
		status, want := plain.call(t, http.MethodPost, a.route, []byte(a.body))
		again, got := guesses.call(t, http.MethodPost, a.route, []byte(a.body))
		if steady(got) != steady(want) || again != status {
			t.Errorf("%s: got %d %s\nwant %d %s", a.name, again, got, status, want)
		}
		if status == http.StatusUnprocessableEntity {
			refused++
		}
	}
	if refused > len(list)/3 {
		t.Errorf("%d of %d requests are refused", refused, len(list))
	}
	rewound := func(p *plugged) string {
		return strings.Join(append(p.lines(t, "tgi_guard_verdicts_total"),
			p.lines(t, "tgi_guard_held_tokens_total")...), "\n")
	}
	if a, b := rewound(plain), rewound(guesses); a != b || !strings.Contains(a, `verdict="rewind"`) {
		t.Errorf("guards did\n%s\nand with guesses\n%s", a, b)
	}
}

// TestNothingElseMayFollow: where a guard took back all that may follow, its text ends with what went out or, if the
// operator says so, goes on without it: beside a grammar that leaves few ways, greedy and drawn, with guesses, and for
// what programs emit.
func TestNothingElseMayFollow(t *testing.T) {
	for _, guesses := range []config.Speculation{{}, {Kinds: config.SpeculationKinds, Tokens: 7, Always: true}} {
		s := guarding(t, func(c *config.Config) {
			c.Model.Speculation = guesses
			c.Plugin = append(c.Plugin, config.Plugin{Name: "lenient", Source: config.Builtin + "banned-strings",
				OnError: config.OnErrorFail, Apply: config.ApplyRequest, OnExhausted: config.GuardRelease},
				config.Plugin{Name: "hostile", Source: "testdata/hostile.wasm", OnError: config.OnErrorFail,
					Apply: config.ApplyRequest})
		})
		for _, drawn := range []string{"", `"do_sample":true,"seed":4,`} {
			for guard, want := range map[string]string{"lenient": `"finish_reason":"eos_token"`,
				"banned-strings": `"stop_reason":"plugin:banned-strings","stop_detail":"nothing else may follow"`} {
				status, reply := s.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, `{"inputs":"Mia found a ",`+
					`"parameters":{"max_new_tokens":20,"details":true,%s"grammar":{"type":"choice","value":["red hat","blue hat"]},`+
					`"plugins":[{"name":%q,"params":{"strings":["red","blue"],"depth":1}}]}}`, drawn, guard))
				text := tell(t, reply).texts["generated_text"]
				ok := text == "red hat" || text == "blue hat"
				ok = ok == (guard == "lenient") && (ok || text == "")
				if status != http.StatusOK || !strings.Contains(reply, want) || !ok {
					t.Errorf("%s, %s guesses %d: %d %s", guard, drawn, guesses.Tokens, status, reply)
				}
			}
		}
		status, reply := s.call(t, http.MethodPost, "/generate", []byte(`{"inputs":"Hi","parameters":{"max_new_tokens":20,`+
			`"plugins":[{"name":"lenient","params":{"strings":["more"]}},{"name":"hostile","params":{"do":"emit"}}]}}`))
		if status != http.StatusOK || !strings.Contains(tell(t, reply).texts["generated_text"], "more and more") {
			t.Errorf("what a program emits: %d %s", status, reply)
		}
	}
}
