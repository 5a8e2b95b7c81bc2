package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/server/config"
	"tgi/server/generate"
)

// These tests let the demo model write calls so hot that nothing but the grammar makes them right.

// heldTools are two strict tools and one that is not, and what their arguments must then be, written down a second time
// in Go.
const heldTools = `,"tools":[
{"type":"function","function":{"name":"get_weather","strict":true,"parameters":{"type":"object","properties":{"place":{"type":"string","maxLength":12},
 "unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":1,"maximum":7}},"required":["place","unit","days"],"additionalProperties":false}}},
{"type":"function","function":{"name":"now","strict":true}},
{"type":"function","function":{"name":"book","parameters":{"type":"object","properties":{"code":{"type":"string","pattern":"^[A-Z]{2}-[0-9]{3}$"},
 "seats":{"type":"array","items":{"type":"integer"},"maxItems":3}},"required":["code"],"additionalProperties":false}}}]`

var heldCalls = map[string]func(v any) bool{
	"get_weather": func(v any) bool {
		m := object(v, []string{"place", "unit", "days"}, nil)
		place, ok := m["place"].(string)
		return ok && len([]rune(place)) <= 12 && (m["unit"] == "celsius" || m["unit"] == "fahrenheit") &&
			whole(m["days"]) && m["days"].(float64) >= 1 && m["days"].(float64) <= 7
	},
	"now": func(v any) bool { m, ok := v.(map[string]any); return ok && len(m) == 0 },
	"book": func(v any) bool {
		m := object(v, []string{"code"}, []string{"seats"})
		code, _ := m["code"].(string)
		seats, _ := m["seats"].([]any)
		return regexp.MustCompile(`^[A-Z]{2}-[0-9]{3}$`).MatchString(code) && len(seats) <= 3 &&
			!slices.ContainsFunc(seats, func(x any) bool { return !whole(x) })
	},
}

const askWeather = `{"role":"user","content":"What is the weather in Oslo?"}`

// toolReply is what these tests look at of a reply.
type toolReply struct {
	Choices []struct {
		Message      written
		FinishReason string `json:"finish_reason"`
	}
	Dropped []generate.Dropped `json:"grammar_dropped"`
	Error   struct{ Message string }
}

func (p *plugged) tools(t testing.TB, want int, more string) (r toolReply) {
	t.Helper()
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
		[]byte(`{"messages":[`+askWeather+`],"temperature":1.5,"max_tokens":150`+more+`}`))
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != want {
		t.Fatalf("%s: %d %s, want %d", more, status, text, want)
	}
	return r
}

// right checks that all calls of a reply are, that there are as many as there may be, and nothing but calls. It counts
// the replies that were not cut.
func (r *toolReply) right(t testing.TB, most int) (ended int) {
	t.Helper()
	for _, c := range r.Choices {
		n := len(c.Message.ToolCalls)
		for _, call := range c.Message.ToolCalls {
			var v any
			valid := heldCalls[call.Function.Name]
			if err := json.Unmarshal([]byte(call.Function.Arguments), &v); err != nil || valid == nil || !valid(v) {
				t.Errorf("%s(%s): %v", call.Function.Name, call.Function.Arguments, err)
			}
		}
		switch {
		case c.FinishReason == "length":
			continue
		case c.FinishReason != "tool_calls" || n == 0 || n > most:
			t.Errorf("%d calls, at most %d are allowed; ends by %s: %s", n, most, c.FinishReason, c.Message)
		case c.Message.Content != nil && strings.TrimSpace(*c.Message.Content) != "":
			t.Errorf("says %q beside its calls", *c.Message.Content)
		}
		ended++
	}
	return ended
}

// TestRequiredCalls: 60 replies to a request that demands a call are complete calls whose arguments fit, or were cut.
func TestRequiredCalls(t *testing.T) {
	p := openChat(t, nil)
	ended := 0
	for seed := range 15 {
		r := p.tools(t, http.StatusOK, fmt.Sprintf(`,"seed":%d,"n":4,"tool_choice":"required"%s`, seed+1, heldTools))
		ended += r.right(t, 100)
	}
	t.Logf("%d of 60 ended by themselves; %+v", ended, p.defaultModel().control.set.GrammarStats())
	if ended < 40 {
		t.Errorf("%d of 60 replies ended", ended)
	}
	if st := p.defaultModel().control.set.GrammarStats(); st.Compiled != 1 {
		t.Errorf("the same tools were compiled %d times", st.Compiled)
	}
}

// TestDemandedCalls: by name, only one, whatever the format, with beams, and streamed.
func TestDemandedCalls(t *testing.T) {
	p := sharedChat(t)
	for _, name := range []string{"book", "now", "get_weather"} {
		r := p.tools(t, http.StatusOK, `,"seed":3,"n":4,"tool_choice":{"type":"function","function":{"name":"`+name+
			`"}}`+heldTools)
		r.right(t, 100)
		for _, c := range r.Choices {
			for _, call := range c.Message.ToolCalls {
				if call.Function.Name != name {
					t.Errorf("%s was called, %s was demanded", call.Function.Name, name)
				}
			}
		}
	}
	for seed := range 4 {
		r := p.tools(t, http.StatusOK,
			fmt.Sprintf(`,"seed":%d,"n":4,"tool_choice":"required","parallel_tool_calls":false%s`, seed, heldTools))
		if r.right(t, 1) == 0 {
			t.Error("all replies were cut")
		}
	}
	for _, s := range p.says(t, askWeather, `,"temperature":1.5,"n":3,"tool_choice":"required"`+heldTools) {
		if !strings.HasPrefix(s, "calls ") {
			t.Errorf("streamed: %s", s)
		}
	}
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
		[]byte(`{"messages":[`+askWeather+
			`],"max_tokens":150,"num_beams":3,"n":2,"tool_choice":"required","parallel_tool_calls":false`+heldTools+
			`}`))
	var r toolReply
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Choices) != 2 {
		t.Fatalf("beams: %d %s", status, text)
	}
	r.right(t, 1)
}

// TestCallsOfOlderDialects: TGI's own shapes of a reply have the same calls.
func TestCallsOfOlderDialects(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Server.Dialect = "tgi-2.2" })
	for seed := range 4 {
		status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
			fmt.Appendf(nil,
				`{"messages":[%s],"temperature":1.5,"max_tokens":150,"seed":%d,"tool_choice":"required"%s}`, askWeather,
				seed, heldTools))
		var r struct {
			Choices []struct {
				Message struct {
					Calls []struct {
						Function struct {
							Name      string
							Arguments any
						}
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Choices) != 1 {
			t.Fatalf("%d %s", status, text)
		}
		c := r.Choices[0]
		if c.FinishReason != "length" && len(c.Message.Calls) == 0 {
			t.Errorf("no call: %s", text)
		}
		for _, call := range c.Message.Calls {
			if valid := heldCalls[call.Function.Name]; valid == nil || !valid(call.Function.Arguments) {
				t.Errorf("%+v", call)
			}
		}
	}
}

// TestFormatsOfCalls: other formats hold their calls too.
func TestFormatsOfCalls(t *testing.T) {
	long.Test(t)
	for _, format := range []string{"mistral", "qwen3-coder", "llama3-json", "pythonic", "deepseek-v3.1"} {
		t.Run(format, func(t *testing.T) {
			p := openChat(t, func(c *config.Config) { c.Model.Tools = format })
			ended := 0
			for seed := range 3 {
				tools := heldTools
				r := p.tools(t, http.StatusOK,
					fmt.Sprintf(`,"seed":%d,"n":4,"tool_choice":"required","parallel_tool_calls":false%s`, seed, tools))
				ended += r.right(t, 1)
			}
			if ended == 0 {
				t.Error("all replies were cut")
			}
		})
	}
}

// TestCallsOfTheModelsOwnAccord: the text is free until a call begins, and from there on the call is held.
func TestCallsOfTheModelsOwnAccord(t *testing.T) {
	p := sharedChat(t)
	ids, err := json.Marshal(p.defaultModel().tokenizer.Encode("Well. <tool_call>\n{\"", false))
	if err != nil {
		t.Fatal(err)
	}
	begun := fmt.Sprintf(`,"plugins":[{"name":"force","params":{"force_at":0,"force":%s}}]`, ids)
	calls := 0
	for seed := range 8 {
		r := p.tools(t, http.StatusOK, fmt.Sprintf(`,"seed":%d,"n":4,"parallel_tool_calls":false%s%s`, seed, begun,
			heldTools))
		for _, c := range r.Choices {
			if c.FinishReason == "length" {
				continue
			}
			if calls++; c.Message.Content == nil || !strings.HasPrefix(*c.Message.Content, "Well.") {
				t.Errorf("%s", c.Message)
			}
			c.Message.Content = nil
		}
		for i := range r.Choices {
			r.Choices[i].Message.Content = nil
		}
		r.right(t, 1)
	}
	if calls == 0 {
		t.Error("all replies were cut")
	}
	for _, s := range p.says(t, askWeather, `,"temperature":1.5,"n":3`+begun+heldTools) {
		if !strings.Contains(s, "calls ") && !strings.HasSuffix(s, "length") {
			t.Errorf("streamed: %s", s)
		}
	}
	free := p.tools(t, http.StatusOK, `,"seed":1,"n":4`+heldTools)
	if !slices.ContainsFunc(free.Choices, func(c struct {
		Message      written
		FinishReason string `json:"finish_reason"`
	}) bool {
		return len(c.Message.ToolCalls) == 0
	}) {
		t.Error("a reply that nobody demanded a call of is always a call")
	}
}

// TestAnswerOrCalls: a reply is an answer in the response_format, or calls.
func TestAnswerOrCalls(t *testing.T) {
	p := sharedChat(t)
	const format = `,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"],"additionalProperties":false}}}`
	ids, err := json.Marshal(p.defaultModel().tokenizer.Encode("<tool_call>", false))
	if err != nil {
		t.Fatal(err)
	}
	for _, force := range []string{"", fmt.Sprintf(`,"plugins":[{"name":"force","params":{"force_at":0,"force":%s}}]`,
		ids)} {
		for seed := range 4 {
			r := p.tools(t, http.StatusOK, fmt.Sprintf(`,"seed":%d,"n":4%s%s%s`, seed, force, format, heldTools))
			for i := range r.Choices {
				c := &r.Choices[i]
				if said := c.Message.Content; len(c.Message.ToolCalls) == 0 && c.FinishReason == "stop" {
					var v any
					if force != "" || said == nil || json.Unmarshal([]byte(*said), &v) != nil ||
						object(v, []string{"sure"}, nil) == nil {
						t.Errorf("after %q: %s", force, c.Message)
					}
					c.FinishReason = "length" // no calls to look at
				}
			}
			r.right(t, 100)
		}
	}
	r := p.tools(t, http.StatusUnprocessableEntity, strings.Replace(format, `"boolean"`,
		`"string","format":"idn-hostname"`, 1)+heldTools)
	if want := "Tool error: #/response_format/properties/sure: format: "; !strings.HasPrefix(r.Error.Message, want) {
		t.Errorf("got %s, want %s", r.Error.Message, want)
	}
	other := openChat(t, func(c *config.Config) { c.Model.Tools = "tgi" })
	if r := other.tools(t, http.StatusUnprocessableEntity,
		format+heldTools); r.Error.Message != "Tool error: Grammar and tools are mutually exclusive" {
		t.Errorf("a format whose calls can't be told from an answer: %s", r.Error.Message)
	}
}

// unheld is a tool whose schema can't be enforced.
func unheld(strict string) string {
	return `,"tools":[{"type":"function","function":{"name":"odd"` + strict +
		`,"parameters":{"type":"object","properties":{"when":{"type":"string","format":"idn-hostname","maxLength":4}},"required":["when"],"additionalProperties":false}}}]`
}

// TestUnenforceableTools: what can't be enforced of a strict tool is refused by its name and place; of another it is
// left out and told.
func TestUnenforceableTools(t *testing.T) {
	p := sharedChat(t)
	want := "Tool error: tool `odd`: #/tools/0/function/parameters/properties/when: format: "
	for _, choice := range []string{"auto", "required"} {
		r := p.tools(t, http.StatusUnprocessableEntity, `,"tool_choice":"`+choice+`"`+unheld(`,"strict":true`))
		if !strings.HasPrefix(r.Error.Message, want) {
			t.Errorf("%s: got %s, want %s", choice, r.Error.Message, want)
		}
	}
	if r := p.tools(t, http.StatusOK, `,"seed":1`+unheld("")); len(r.Dropped) > 0 {
		t.Errorf("nobody asked for anything, and %+v is not enforced", r.Dropped)
	}
	r := p.tools(t, http.StatusOK, `,"seed":1,"tool_choice":"required"`+unheld(""))
	if len(r.Dropped) != 1 || r.Dropped[0].Pointer != "#/tools/0/function/parameters/properties/when" ||
		r.Dropped[0].Keyword != "format" {
		t.Errorf("dropped %+v", r.Dropped)
	}
	// A schema that is none: nobody insists on it, so the call is checked when it is complete.
	broken := `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"strin"}}}}}]`
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
		[]byte(`{"messages":[`+askWeather+`],"max_tokens":60,"temperature":0,"tool_choice":"required",`+broken+`}`))
	if status != http.StatusOK || !strings.Contains(text, `"grammar_dropped":[{"pointer":"#/tools"`) {
		t.Errorf("a schema that is none: %d %s", status, text)
	}
}

// TestToolsWithoutGrammars: where grammars are switched off, or no plugin knows the language, calls are checked when
// they are complete, and a client that says strict is served.
func TestToolsWithoutGrammars(t *testing.T) {
	off := openChat(t, func(c *config.Config) { c.Server.DisableGrammar = true })
	r := off.tools(t, http.StatusOK, `,"seed":1,"tool_choice":"auto"`+unheld(`,"strict":true`))
	if len(r.Dropped) != 1 || r.Dropped[0].Pointer != "#/tools" || r.Dropped[0].Reason != "grammar is not supported" {
		t.Errorf("switched off: dropped %+v", r.Dropped)
	}
	other := filepath.Join(t.TempDir(), "other.wasm")
	write(t, other, string(sdkGuest(t, "c", "every-mode")))
	none := openChat(t, func(c *config.Config) {
		c.Plugin = append(c.Plugin, config.Plugin{Name: grammarPlugin, Source: other})
	})
	r = none.tools(t, http.StatusOK, `,"seed":1,"tool_choice":"auto"`+unheld(`,"strict":true`))
	if len(r.Dropped) != 1 || !strings.Contains(r.Dropped[0].Reason, "knows grammars in the language") {
		t.Errorf("dropped %+v", r.Dropped)
	}
}
