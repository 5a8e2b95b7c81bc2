package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tgi/server/config"
)

// boundedTools have arguments of which the longest text is short: what the grammar allows fits into the tokens of
// TestEveryDemandedCall, whatever the model draws.
const boundedTools = `,"tools":[
{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"enum":["Oslo","Paris"]}},"required":["city"],"additionalProperties":false}}},
{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{},"additionalProperties":false}}}]`

// demanded asks eight times a seed for a call and checks that each reply is one.
func demanded(t *testing.T, p *plugged, choice string, name string, reasons bool, seeds int, temperatures ...string) {
	t.Helper()
	for _, temperature := range temperatures {
		for seed := range seeds {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Who lives in the old mill?"}],"temperature":%s,"seed":%d,"n":8,"max_tokens":500,"tool_choice":%s%s}`,
				temperature, seed, choice, boundedTools)
			status, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(body))
			var r toolReply
			if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Choices) != 8 {
				t.Fatalf("%d %s", status, text)
			}
			for _, c := range r.Choices {
				m := c.Message
				if c.FinishReason != "tool_calls" || len(m.ToolCalls) != 1 || name != "" &&
					m.ToolCalls[0].Function.Name != name || m.Content != nil || (m.Reasoning != "") != reasons {
					t.Errorf("tool_choice %s, temperature %s, seed %d: %s, %s", choice, temperature, seed,
						c.FinishReason, m)
				}
			}
		}
	}
}

// TestEveryDemandedCall checks that a model without reasoning calls at once, at any temperature.
func TestEveryDemandedCall(t *testing.T) {
	p := sharedChat(t)
	demanded(t, p, `"required","parallel_tool_calls":false`, "", false, 5, "0.7", "1", "1.5")
	// parallel calls are allowed, and it is one
	demanded(t, p, `{"type":"function","function":{"name":"get_weather"}}`, "get_weather", false, 5, "0.7", "1", "1.5")
}

// TestReasoningLeavesRoom checks that reasoning begun by a template is ended after half of the tokens, and the call
// follows. The demo model does not know the marks: by itself it ends none.
func TestReasoningLeavesRoom(t *testing.T) {
	demanded(t, openThinking(t), `"required","parallel_tool_calls":false`, "", true, 1, "0.7", "1.5")
}

// openThinking opens a server with a template that ends inside reasoning.
func openThinking(t *testing.T) *plugged {
	t.Helper()
	path := filepath.Join(t.TempDir(), "thinks.jinja")
	template := `{% for m in messages %}<|im_start|>{{ m.role }}` + "\n" + `{{ m.content }}<|im_end|>` + "\n" +
		`{% endfor %}{{ (tools or []) | length }} <tool_call> <|im_start|>assistant` + "\n" + `<think>` + "\n"
	if err := os.WriteFile(path, []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	return openPlugged(t, func(c *config.Config) { c.Model.Template = path })
}

// TestGrammarIsNoReasoning: a text that a grammar holds from its first character is content, also where the template
// began reasoning.
func TestGrammarIsNoReasoning(t *testing.T) {
	p := openThinking(t)
	said := func(more string) (content, reasoning string) {
		t.Helper()
		status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
			[]byte(`{"messages":[`+askWeather+`],"max_tokens":20`+more+`}`))
		var r toolReply
		if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Choices) != 1 {
			t.Fatalf("%d %s", status, text)
		}
		m := r.Choices[0].Message
		if m.Content != nil {
			content = *m.Content
		}
		return content, m.Reasoning
	}
	const choice = `,"response_format":{"type":"choice","value":["yes"]}`
	for _, more := range []string{choice, choice + `,"tool_choice":"none"` + boundedTools} {
		if content, reasoning := said(more); content != "yes" || reasoning != "" {
			t.Errorf("%s: content %q, reasoning %q", more, content, reasoning)
		}
	}
}

// TestOtherAnswersOrCalls checks that patterns, grammars and choices can be combined with tools as JSON schemas can: a
// reply is a call or matches them, at any temperature.
func TestOtherAnswersOrCalls(t *testing.T) {
	p := sharedChat(t)
	unlikely := fmt.Sprintf(`,"logit_bias":{"%d":-100}`, p.defaultModel().tokenizer.Encode("<tool_call>", false)[0])
	for format, fits := range map[string]string{
		`{"type":"regex","value":"^(yes|no)[!?]$"}`:                                   `^(yes|no)[!?]$`,
		`{"type":"grammar","value":"root ::= \"<\" [0-9]+ \">\""}`:                    `^<[0-9]+>$`,
		`{"type":"grammar","language":"lark","value":"start: \"a\" B\nB: /[bc]{2}/"}`: `^a[bc]{2}$`,
		`{"type":"choice","value":["left","right"]}`:                                  `^(left|right)$`,
	} {
		for _, tools := range []string{`"auto"` + unlikely + boundedTools, `"required","parallel_tool_calls":false` +
			boundedTools} {
			r := p.tools(t, http.StatusOK, `,"seed":1,"n":8,"response_format":`+format+`,"tool_choice":`+tools)
			answers := 0
			for _, c := range r.Choices {
				if len(c.Message.ToolCalls) > 0 || c.FinishReason == "length" {
					continue
				}
				answers++
				if c.Message.Content == nil || !regexp.MustCompile(fits).MatchString(*c.Message.Content) {
					t.Errorf("%s: %s", format, c.Message)
				}
			}
			if demand := tools[1] == 'r'; demand != (answers == 0) {
				t.Errorf("%s, tool_choice %.10s: %d answers of 8", format, tools, answers)
			}
		}
	}
	r := p.tools(t, http.StatusUnprocessableEntity, `,"response_format":{"type":"regex","value":"(a"}`+boundedTools)
	if want := "Tool error: #/response_format: pattern: "; !strings.HasPrefix(r.Error.Message, want) {
		t.Errorf("got %s, want %s", r.Error.Message, want)
	}
}

// TestCustomTools checks that the input of a custom tool with a regex matches it, at any temperature, also in a stream.
func TestCustomTools(t *testing.T) {
	p := sharedChat(t)
	const tool = `,"tools":[{"type":"custom","custom":{"name":"pick","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"[A-Z]{2}-[0-9]{3}"}}}}],"tool_choice":{"type":"custom","custom":{"name":"pick"}}`
	for _, more := range []string{`,"n":8`, `,"stream":true`} {
		status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
			[]byte(`{"messages":[`+askWeather+`],"temperature":1.5,"seed":1,"max_tokens":300`+tool+more+`}`))
		inputs := regexp.MustCompile(`"custom":\{(?:"name":"pick",)?"input":"([^"]+)"\}`).FindAllStringSubmatch(text,
			-1)
		if status != http.StatusOK || len(inputs) != 8 && more[2] == 'n' || len(inputs) != 1 && more[2] == 's' {
			t.Fatalf("%s: %d inputs: %d %s", more, len(inputs), status, text)
		}
		for _, in := range inputs {
			if !regexp.MustCompile(`^[A-Z]{2}-[0-9]{3}$`).MatchString(in[1]) {
				t.Errorf("%s: %s", more, in[1])
			}
		}
	}
}
