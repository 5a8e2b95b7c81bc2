package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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
	ask := `"messages":[{"role":"user","content":"Tell me a story about a fox."}]`
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
		{"chat", "/v1/chat/completions", `{"model":"x","max_tokens":60,"seed":4,"logprobs":true,"top_logprobs":2,` + ask +
			`%s}`, `"stream":true`, `"plugins":%s`},
		{"chat, stop and n", "/v1/chat/completions", `{"model":"x","max_tokens":60,"seed":4,"n":3,"stop":["fox"],` + ask +
			`%s}`, `"stream":true`, `"plugins":%s`},
		{"chat, tools", "/v1/chat/completions", `{"model":"x","max_tokens":80,"temperature":0,"tools":[{"type":"function",` +
			`"function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},` +
			`"required":["city"]}}}],"tool_choice":"required","messages":[{"role":"user","content":"Weather in Paris?"}]%s}`,
			`"stream":true`, `"plugins":%s`},
		{"responses", "/v1/responses", `{"model":"x","input":"Tell me a story about a fox.","max_output_tokens":60,"temperature":0%s}`,
			`"stream":true`, `"plugins":%s`},
		{"messages", "/v1/messages", `{"model":"x","max_tokens":60,"temperature":0,` + ask + `%s}`, `"stream":true`, `"plugins":%s`},
	}
}

// told is what a client has of a reply: the texts of each choice, in order, and all strings that stand for them.
type told struct {
	texts   map[string]string
	reasons []string
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
func (o *told) read(v any, at, choice string) {
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
			case slices.Contains([]string{"finish_reason", "stop_reason", "reason"}, key) && isText:
				o.reasons = append(o.reasons, s)
			case strings.HasSuffix(kind, ".done") || strings.HasPrefix(kind, "response.") && !strings.HasSuffix(kind, ".delta"):
			case slices.Contains([]string{"content", "text", "delta", "arguments", "generated_text", "partial_json",
				"token"}, key) && isText && !strings.Contains(at, "top") && s != "assistant":
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
			if i%max(len(list)/4, 1) != 0 || word == "get" || word == "weather" || word == "city" {
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
	if seen < 60 {
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
