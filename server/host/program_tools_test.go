package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/generate"
)

// builtinPrograms are the built-in programs as members of a list of plugins, so that each does what is its own.
var builtinPrograms = []string{`{"name":"vote","params":{"n":2}}`, `{"name":"best-of-judge","params":{"n":2}}`,
	`{"name":"json-repair"}`, `{"name":"json-repair","params":{"tries":0}}`, `{"name":"budget-then-answer"}`,
	`{"name":"budget-then-answer","params":{"budget":8,"end":"</think>"}}`}

// TestProgramsKeepForcedCalls: what a built-in program emits is the call that the request demands, on each API that can
// demand one, streamed and whole.
func TestProgramsKeepForcedCalls(t *testing.T) {
	p := programming(t, nil)
	for _, program := range builtinPrograms {
		for _, r := range cutCallRoutes {
			if r.forced == "" {
				continue
			}
			for _, stream := range []bool{false, true} {
				objects := p.weather(t, r.name, r.forced+`"plugins":[`+program+`],`, 60, stream)
				calls, reason := r.calls(!stream, objects)
				called := slices.Contains([]string{"tool_calls", "tool_use", "completed", "eos_token"}, reason)
				text := contentOf(!stream, objects)
				if len(calls) != 1 || calls[0].Name != "get_weather" || !called || text != "" {
					t.Errorf("%s, %s, streamed %v: %+v, %q, %s", r.name, program, stream, calls, text, reason)
					continue
				}
				var args struct{ City *string }
				if err := json.Unmarshal([]byte(calls[0].Arguments), &args); err != nil || args.City == nil {
					t.Errorf("%s, %s, streamed %v: %s: %v", r.name, program, stream, calls[0].Arguments, err)
				}
			}
		}
	}
	p.settled(t)
}

// strictTools is a tool whose schema the model would not keep by itself.
const strictTools = `,"tools":[{"type":"function","function":{"name":"get_weather","strict":true,"parameters":` +
	`{"type":"object","properties":{"city":{"type":"string","enum":["Oslo","Bergen"]},"unit":{"type":"integer"}},` +
	`"required":["city","unit"],"additionalProperties":false}}}]`

// strictCall says what is wrong with a call of strictTools.
func strictCall(arguments string) error {
	var args struct {
		City string
		Unit *int
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	d.DisallowUnknownFields()
	if err := d.Decode(&args); err != nil {
		return err
	}
	if args.Unit == nil || args.City != "Oslo" && args.City != "Bergen" {
		return fmt.Errorf("%s", arguments)
	}
	return nil
}

// TestProgramsKeepStrictTools: a program's calls are as strict tools say, whether they are demanded, come of the
// model's own accord or beside a response_format, of which an answer is held.
func TestProgramsKeepStrictTools(t *testing.T) {
	p := programming(t, nil)
	format := `,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` +
		`{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"],"additionalProperties":false}}}`
	calls := map[string]int{}
	for what, more := range map[string]string{"demanded": `,"tool_choice":"required"`, "free": "", "beside": format} {
		for _, program := range builtinPrograms {
			for seed := range 3 {
				status, text := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"messages":[`+
					`{"role":"user","content":"What is the weather in Paris?"}],"max_tokens":120,"temperature":0.8,`+
					`"seed":%d,"plugins":[%s]%s%s}`, seed, program, strictTools, more))
				var r toolReply
				err := json.Unmarshal([]byte(text), &r)
				if err != nil || status != http.StatusOK || len(r.Dropped) > 0 {
					t.Errorf("%s, %s: %d %s", what, program, status, text)
					continue
				}
				c := r.Choices[0]
				for _, call := range c.Message.ToolCalls {
					calls[what]++
					if err := strictCall(call.Function.Arguments); err != nil && c.FinishReason != "length" {
						t.Errorf("%s, %s: %v", what, program, err)
					}
				}
				said := c.Message.Content
				var answer struct{ Sure *bool }
				switch {
				case c.FinishReason == "length" || what == "free":
				case what == "demanded" && (len(c.Message.ToolCalls) == 0 || said != nil):
					t.Errorf("%s, %s: %s", what, program, text)
				case len(c.Message.ToolCalls) == 0 && (said == nil || json.Unmarshal([]byte(*said), &answer) != nil ||
					answer.Sure == nil):
					t.Errorf("%s, %s: %s", what, program, text)
				}
			}
		}
	}
	if calls["demanded"] < 6 || calls["free"] == 0 || calls["beside"] == 0 {
		t.Errorf("calls: %v", calls)
	}
	p.settled(t)
}

// TestProgramsFinishCalls: wherever a budget for thoughts ends in a text that turns out to be a call, the call is
// whole, and nothing else is said, streamed and whole; strict tools are kept.
func TestProgramsFinishCalls(t *testing.T) {
	p := programming(t, nil)
	for _, budget := range []int{1, 2, 3, 5, 8, 12, 17, 20, 22, 23, 24, 25, 26, 30} {
		for _, strict := range []bool{false, true} {
			var replies [2]string
			for i, stream := range []bool{false, true} {
				status, text := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"messages":[%s],`+
					`"max_tokens":80,"temperature":0,"stream":%v,"plugins":[{"name":"budget-then-answer","params":`+
					`{"budget":%d,"end":"</think>"}}]%s}`, askWeather, stream, budget,
					strings.Replace(strictTools, "true", fmt.Sprint(strict), 1)))
				objects := objectsOf(text)
				calls, reason := chatCalls(!stream, objects)
				replies[i] = fmt.Sprintf("%+v %q %s", calls, contentOf(!stream, objects), reason)
				var args struct{ City string }
				switch {
				case status != http.StatusOK || strings.Contains(text, "grammar_dropped") || len(calls) != 1:
					t.Errorf("budget %d, strict %v, streamed %v: %d %s", budget, strict, stream, status, text)
				case strict:
					if err := strictCall(calls[0].Arguments); err != nil {
						t.Errorf("budget %d: %v", budget, err)
					}
				case json.Unmarshal([]byte(calls[0].Arguments), &args) != nil || args.City == "":
					t.Errorf("budget %d: %s", budget, calls[0].Arguments)
				}
			}
			if replies[0] != replies[1] || !strings.Contains(replies[0], `"" tool_calls`) {
				t.Errorf("budget %d, strict %v: whole %s, streamed %s", budget, strict, replies[0], replies[1])
			}
		}
	}
	p.settled(t)
}

// TestProgramsKeepStrictToolsBesideGuards: where a guard takes back a piece of a call, the call goes on as its tool
// says, or the text ends as the guard ends it, and nothing is lost.
func TestProgramsKeepStrictToolsBesideGuards(t *testing.T) {
	p := programming(t, nil)
	ended := 0
	for _, program := range builtinPrograms {
		for _, banned := range []string{"city", "unit", "Oslo", "get_weather"} {
			for _, stream := range []bool{false, true} {
				status, text := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"messages":[%s],`+
					`"max_tokens":80,"temperature":0,"stream":%v,"plugins":[%s,{"name":"banned-strings","params":`+
					`{"strings":[%q]}}]%s}`, askWeather, stream, program, banned, strictTools))
				objects := objectsOf(text)
				calls, reason := chatCalls(!stream, objects)
				if status != http.StatusOK || strings.Contains(text, "grammar_dropped") || reason == "" {
					t.Errorf("%s, %s, streamed %v: %d %s", program, banned, stream, status, text)
				}
				if reason == "content_filter" {
					ended++
				}
				for _, call := range calls {
					if err := strictCall(call.Arguments); reason == "tool_calls" && err != nil {
						t.Errorf("%s, %s, streamed %v: %v", program, banned, stream, err)
					}
				}
			}
		}
	}
	if ended == 0 {
		t.Error("no text ended where the guard lets no call pass")
	}
	p.settled(t)
}

// TestProgramsThatLoseCalls: the reply names all that a program's text is not held to, streamed and whole.
func TestProgramsThatLoseCalls(t *testing.T) {
	p := programming(t, nil)
	format := `,"response_format":{"type":"json_object"}`
	for more, want := range map[string][]string{
		`,"tool_choice":"required"`: {"tool_choice", "strict"},
		"":                          nil, // the text has no call
		format:                      {"strict", generate.JSONObject},
	} {
		for _, stream := range []bool{false, true} {
			status, text := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"messages":[%s],`+
				`"max_tokens":20,"stream":%v,"plugins":%s%s%s}`, askWeather, stream, do("emit"), strictTools, more))
			var got []string
			for line := range strings.SplitSeq(text, "\n") {
				var r toolReply
				if json.Unmarshal([]byte(strings.TrimPrefix(line, "data:")), &r) != nil {
					continue
				}
				for _, d := range r.Dropped {
					if got = append(got, d.Keyword); !strings.Contains(d.Reason, "program hostile") {
						t.Errorf("%s: %+v", more, d)
					}
				}
			}
			if status != http.StatusOK || !slices.Equal(got, want) {
				t.Errorf("%s, streamed %v: dropped %v, want %v: %d %s", more, stream, got, want, status, text)
			}
		}
	}
	p.settled(t)
}

// TestProgramsLoseNothingByOthers: where a guard changes or ends a text, or the bound of its length cuts it, the
// program lost nothing, and the reply lists nothing, as it does without a program.
func TestProgramsLoseNothingByOthers(t *testing.T) {
	p := programming(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: "redact", Source: config.Builtin + "redact",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	const format = `,"response_format":{"type":"json_object"}`
	banned := func(what string) string {
		return fmt.Sprintf(`{"name":"banned-strings","params":{"strings":[%q]}}`, what)
	}
	redacted := `{"name":"redact","params":{"strings":["Oslo","Bergen","city"]}}`
	for _, c := range []struct {
		guard, more string
		tokens      int
		end         string
	}{
		{redacted, "", 80, ""},
		{redacted, `,"tool_choice":"required"`, 80, ""},
		{banned("city"), `,"tool_choice":"required"`, 80, "content_filter"},
		{banned("get_weather"), `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`, 80,
			"content_filter"},
		{banned("city"), format, 80, ""},
		{"", `,"tool_choice":"required"`, 20, "length"},
		{"", format, 5, "length"},
	} {
		for _, program := range append([]string{""}, builtinPrograms...) {
			list := strings.Trim(program+","+c.guard, ",")
			for _, stream := range []bool{false, true} {
				status, text := p.call(t, http.MethodPost, "/v1/chat/completions", fmt.Appendf(nil, `{"messages":[%s],`+
					`"max_tokens":%d,"temperature":0,"stream":%v,"plugins":[%s]%s%s}`, askWeather, c.tokens, stream,
					list, strictTools, c.more))
				_, end := chatCalls(!stream, objectsOf(text))
				if status != http.StatusOK || strings.Contains(text, "grammar_dropped") || c.end != "" && end != c.end {
					t.Errorf("%s%s, streamed %v: %d, ends by %s, want %q: %s", list, c.more, stream, status, end,
						c.end, text)
				}
			}
		}
	}
	p.settled(t)
}

// TestSchemaAndForcedCall: json-repair's own schema and a call that is demanded would both say what the reply is; that
// is refused before the model computes anything, and the error names both.
func TestSchemaAndForcedCall(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Server.Ollama = true })
	for _, r := range cutCallRoutes {
		if r.forced == "" {
			continue
		}
		for _, stream := range []bool{false, true} {
			body := fmt.Appendf(nil, r.body, 20, fmt.Sprintf(`%s"messages":[%s],"input":"Hi","tools":[%s],"stream":%v,`+
				`"plugins":[{"name":"json-repair","params":{"schema":{"type":"object"}}}]`, r.forced, askWeather, r.tool,
				stream))
			steps := p.defaultModel().engine.Stats().Steps
			status, text := p.call(t, http.MethodPost, r.path, body, dialect.Header, r.dialect)
			want := http.StatusUnprocessableEntity
			switch {
			case r.name == "messages" || r.name == "responses":
				want = http.StatusBadRequest // the word of these APIs for it
			case stream && r.dialect == "tgi-2.2":
				want = http.StatusOK // its errors are events
			}
			if status != want || !strings.Contains(text, "`schema`") || !strings.Contains(text, "tool_choice") ||
				p.defaultModel().engine.Stats().Steps != steps {
				t.Errorf("%s, streamed %v: %d %s", r.name, stream, status, text)
			}
		}
	}
}
