package openai

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// conversation returns what fields beside a message come to.
func conversation(t *testing.T, body string) *generate.Conversation {
	t.Helper()
	c, err := decodeChat([]byte(body), dialect.Default())
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return c.drafts[0].Conversation
}

func TestToolChoice(t *testing.T) {
	for text, want := range map[string]generate.ToolChoice{
		`null`: {}, `"auto"`: {}, `"none"`: {Mode: generate.ChooseNone}, `"required"`: {Mode: generate.ChooseRequired},
		`"g"`: {Mode: generate.ChooseNamed, Name: "g"},
		`{"type":"function","function":{"name":"g"}}`: {Mode: generate.ChooseNamed, Name: "g"},
		`{"function":{"name":"g","x":1}}`:             {Mode: generate.ChooseNamed, Name: "g"},
		`{"function":{"name":"none"}}`:                {Mode: generate.ChooseNamed, Name: "none"},
	} {
		tools := `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}},{"type":"function","function":{"name":"none"}}]`
		if got := conversation(t, `{`+hi+`,`+tools+`,"tool_choice":`+text+`}`).ToolChoice; got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{`"auto"`, `"none"`, `null`} {
		if c := conversation(t, `{`+hi+`,"tools":[],"tool_choice":`+text+`}`); c.Tools != nil || c.ToolNames != nil {
			t.Errorf("%s without tools: %+v", text, c)
		}
	}
}

// TestTools: what templates read of the tools that are offered.
func TestTools(t *testing.T) {
	long := strings.Repeat("x", 64)
	c := conversation(t, `{`+hi+`,"parallel_tool_calls":false,"tools":[ {"type":"function","function":{"name":"f","description":null,"parameters":{"type":"object", "$defs":{}},"strict":true}},
 {"function":{"arguments":{"a": 1},"name":"a.b-c_D9"},"type":"function","cache":1},{"type":"function","function":{"name":"`+long+`","arguments":{},"parameters":null}} ]}`)
	want := `[{"type":"function","function":{"name":"f","description":null,"parameters":{"type":"object", "$defs":{}},"strict":true}},` +
		`{"function":{"parameters":{"a": 1},"name":"a.b-c_D9"},"type":"function","cache":1},` +
		`{"type":"function","function":{"name":"` + long + `","parameters":{}}}]`
	if string(c.Tools) != want || !reflect.DeepEqual(c.ToolNames, []string{"f", "a.b-c_D9", long}) || c.Parallel {
		t.Errorf("got  %s, %q\nwant %s", c.Tools, c.ToolNames, want)
	}
	if c := conversation(t, `{`+hi+`}`); !c.Parallel || c.Tools != nil {
		t.Errorf("got %+v", c)
	}
}

func TestToolRefusals(t *testing.T) {
	const unfit = "Failed to deserialize the JSON body into the target type: "
	const fault, rule = "Tool error: ", "Input validation error: "
	const f = `"tools":[{"type":"function","function":{"name":"f"}}]`
	for fields, want := range map[string]string{
		`"tools":5`:                           unfit + "tools: invalid type: integer `5`, expected a sequence",
		`"tools":[1]`:                         unfit + "tools[0]: invalid type: integer `1`, expected struct Tool",
		`"tools":[{"function":{"name":"f"}}]`: unfit + "tools[0]: missing field `type`",
		`"tools":[{"type":"function"}]`:       unfit + "tools[0]: missing field `function`",
		`"tools":[{"type":"code_interpreter","function":{"name":"f"}}]`: unfit +
			"tools[0].type: unknown variant `code_interpreter`, expected `function` or `custom`",
		`"tools":[{"type":"function","function":{}}]`: unfit +
			"tools[0].function: missing field `name`",
		`"tools":[{"type":"function","function":{"name":""}}]`: unfit +
			"tools[0].function.name: invalid value: string \"\", expected 1 to 64 letters, digits, `_`, `-` and `.`",
		`"tools":[{"type":"function","function":{"name":"a b"}}]`: unfit +
			"tools[0].function.name: invalid value: string \"a b\", expected 1 to 64 letters, digits, `_`, `-` and `.`",
		`"tools":[{"type":"function","function":{"name":"` + strings.Repeat("x", 65) + `"}}]`: unfit +
			"tools[0].function.name: invalid value: string \"" + strings.Repeat("x", 65) +
			"\", expected 1 to 64 letters, digits, `_`, `-` and `.`",
		`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`: unfit +
			"tools[1].function.name: invalid value: string \"f\", expected a name that no other tool has",
		`"tools":[{"type":"function","function":{"name":"f","parameters":"{}"}}]`: unfit +
			"tools[0].function.parameters: invalid type: string \"{}\", expected a map",
		`"tools":[{"type":"function","function":{"name":"f","strict":1}}]`: unfit +
			"tools[0].function.strict: invalid type: integer `1`, expected a boolean",
		`"tool_choice":"f"`:            fault + "Tool with name f not found",
		`"tool_choice":"required"`:     fault + "`tool_choice` asks for a call of a tool, which needs `tools`",
		f + `,"tool_choice":"g"`:       fault + "Tool with name g not found",
		f + `,"tool_choice":"requird"`: fault + "Tool with name requird not found; did you mean required?",
		`"tools":[{"type":"function","function":{"name":"get_weather"}}],"tool_choice":{"type":"function","function":{"name":"get_wether"}}`: fault + "Tool with name get_wether not found; did you mean get_weather?",
		f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{}}`:                                                                     unfit + "tool_choice.allowed_tools: missing field `mode`",
		f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"none","tools":[]}}`:                                             unfit + "tool_choice.allowed_tools.mode: unknown variant `none`, expected `auto` or `required`",
		f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"g"}}]}}`:  fault + "Tool with name g not found",
		f + `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}`:                                         fault + "`tool_choice` asks for a call of a tool, which needs `tools`",
		f + `,"tool_choice":{"type":"allowed_tools"}`:                                                                                        unfit + "tool_choice: missing field `allowed_tools`",
		`"tools":[{"type":"custom"}]`: unfit + "tools[0]: missing field `custom`",
		`"tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar"}}}]`:                                              unfit + "tools[0].custom.format: missing field `grammar`",
		`"tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"definition":"a","syntax":"gbnf"}}}}]`: unfit + "tools[0].custom.format.grammar.syntax: unknown variant `gbnf`, expected `lark` or `regex`",
		f + `,"tool_choice":{"type":"function"}`:                                                                                     unfit + "tool_choice: missing field `function`",
		f + `,"tool_choice":5`:                                                                                                       unfit + "tool_choice: invalid type: integer `5`, expected a string",
		f + `,"functions":[{"name":"g"}]`:                                                                                            rule + "`functions` and `tools` are both given",
		f + `,"function_call":"auto","tool_choice":"auto"`:                                                                           rule + "`function_call` and `tool_choice` are both given",
		`"functions":[{"name":"f"}],"function_call":{"name":"g"}`:                                                                    fault + "Tool with name g not found",
		`"functions":[{"name":"f"}],"function_call":"f"`:                                                                             unfit + "function_call: unknown variant `f`, expected `auto`, `none` or an object with a name",
		`"parallel_tool_calls":"no"`:                                                                                                 unfit + "parallel_tool_calls: invalid type: string \"no\", expected a boolean",
		`"chat_template_kwargs":{"documents":["a"]}`:                                                                                 unfit + "chat_template_kwargs.documents[0]: invalid type: string \"a\", expected a map",
		`"documents":[{}],"chat_template_kwargs":{"documents":[{}]}`:                                                                 rule + "`documents` and `chat_template_kwargs.documents` must not both be given",
		`"documents":["a"]`: unfit +
			"documents[0]: invalid type: string \"a\", expected a map",
		`"chat_template":"{{ messages }}"`: rule +
			"`chat_template` takes the name of one of the model's templates; another template is " +
			"installed as a plugin of kind template. Given: \"{{ messages }}\"",
		`"add_generation_prompt":true,"continue_final_message":true`: rule +
			"`add_generation_prompt` and `continue_final_message` must not both be true",
		`"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}],"function_call":{"name":"f","arguments":"{}"}}]`: unfit + "messages[0]: `function_call` and `tool_calls` are both given, expected one of them",
		`"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]`:                                                              unfit + "messages[0].tool_calls[0]: missing field `function`",
		`"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":5}}]}]`:                                 unfit + "messages[0].tool_calls[0].function.arguments: invalid type: integer `5`, expected a string",
		`"messages":[{"role":"assistant","content":null,"tool_calls":[]}]`:                                                         unfit + "messages[0]: missing field `content`",
		`"messages":[{"role":"user","content":[{"type":"input_audio"}]}]`:                                                          rule + "`messages[0].content[0]`: parts of type `input_audio` are not supported, these are: text, image_url, refusal",
	} {
		body := `{` + hi + `,` + fields + `}`
		if strings.HasPrefix(fields, `"messages"`) {
			body = `{` + fields + `}`
		}
		rec := ask(newServer(&generatetest.Engine{}), chatPath, body)
		var reply struct{ Error struct{ Message string } }
		if err := json.Unmarshal(rec.Body.Bytes(), &reply); err != nil || rec.Code != 422 {
			t.Errorf("%s: status %d, %s", fields, rec.Code, rec.Body)
		}
		got, _, _ := strings.Cut(reply.Error.Message, " at line ")
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", fields, got, want)
		}
	}
}

// TestMessages: what templates read of a client's messages.
func TestMessages(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"user","content":"a","x":{"y": [1]}}`:                                                                                                      ``,
		`{"role":"user","content":[]}`:                                                                                                                      ``,
		`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`:                                                          `{"role":"assistant","content":null,"tool_calls":[{"id":"call00000","type":"function","function":{"name":"f","arguments":{"a":1},"arguments_text":"{\"a\":1}"}}]}`,
		`{"role":"function","name":"f","content":"7"}`:                                                                                                      `{"role":"tool","name":"f","content":"7","tool_call_id":"call00000"}`,
		`{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"f","input":"a\"b"}}]}`:                                               `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"input":"a\"b"}}}]}`,
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"\n\"b"}],"role":"user","name":"n"}`:                                                  ``,
		`{"role":"assistant","content":[{"type":"text","text":"a","x":1},{"type":"refusal","refusal":"no"}]}`:                                               `{"role":"assistant","content":[{"type":"text","text":"a","x":1},{"type":"text","text":"no"}]}`,
		`{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"5"}]}`:                                                                         ``,
		`{"role":"assistant","content":"a","reasoning_content":"r"}`:                                                                                        ``,
		`{"role":"assistant","content":"a","reasoning":"r"}`:                                                                                                `{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"r"}`,
		`{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"s"}`:                                                                        `{"role":"assistant","content":"a","reasoning":"r","reasoning_content":"s"}`,
		`{"role":"assistant","content":"a","reasoning":{"effort":1}}`:                                                                                       ``,
		`{"role":"assistant","content":"a","tool_calls":null,"function_call":null,"refusal":null,"audio":null,"annotations":[]}`:                            ``,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"b":1,"a":2}}}]}`:                 ``,
		`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":" {\"b\":1.0, \"a\":\"\u00e9\\n\"} "}}]}`:         `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"b":1.0, "a":"é\n"},"arguments_text":" {\"b\":1.0, \"a\":\"\u00e9\\n\"} "}}]}`,
		`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":""}},{"function":{"name":"g"}},{"function":{"name":"h","arguments":null}}]}`: `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}},{"function":{"name":"h","arguments":{}}}]}`,
		`{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}},{"function":{"name":"g","arguments":"{\"a\":"}}]}`:                   `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}},{"function":{"name":"g","arguments":"{\"a\":"}}]}`,
		`{"role":"assistant","tool_calls":[{"id":0,"function":{"name":"f","parameters":{"a":1}}}]}`:                                                         `!`,
		`{"role":"assistant","tool_calls":[{"id":"0","function":{"name":"f","parameters":{"a":1},"description":null}}]}`:                                    `{"role":"assistant","tool_calls":[{"id":"0","function":{"name":"f","arguments":{"a":1},"description":null}}]}`,
	} {
		c, err := decodeChat([]byte(`{"messages":[`+message+`]}`), dialect.Default())
		if want == `!` {
			if err == nil {
				t.Errorf("%s was taken", message)
			}
			continue
		}
		if want == "" {
			want = message
		}
		if err != nil || string(c.drafts[0].Conversation.Messages[0].JSON) != want {
			t.Errorf("%s, %v:\n got %s\nwant %s", message, err, c.drafts[0].Conversation.Messages[0].JSON, want)
		}
	}
}

// TestVariables: what templates read beside messages and tools.
func TestVariables(t *testing.T) {
	for fields, want := range map[string]string{
		`"reasoning_effort":"low"`:                                                    `"kwargs":{"reasoning_effort":"low"}`,
		`"reasoning_effort":"low","chat_template_kwargs":{"a": [1]}`:                  `"kwargs":{"a":[1],"reasoning_effort":"low"}`,
		`"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"}`: `"kwargs":{"reasoning_effort":"high"}`,
		`"chat_template_kwargs":{"enable_thinking": false}`:                           `"kwargs":{"enable_thinking": false}`,
		`"chat_template_kwargs":{"a":1,"documents":[{"text": "x"}]}`:                  `"documents":[{"text": "x"}],"add_generation_prompt":true,"continue_final_message":false,"kwargs":{"a":1}`,
		`"documents":null,"chat_template_kwargs":{"documents":[]}`:                    `"add_generation_prompt":true,"continue_final_message":false,"kwargs":{},"now":`,
		`"documents":[{"title":"t"},{"text": "x"}]`:                                   `"documents":[{"title":"t"},{"text": "x"}]`,
		`"chat_template":"tool_use"`:                                                  `"template":"tool_use"`,
		`"continue_final_message":true`:                                               `"add_generation_prompt":false,"continue_final_message":true`,
		`"add_generation_prompt":false`:                                               `"add_generation_prompt":false,"continue_final_message":false`,
		`"documents":[],"tools":[],"chat_template":null`:                              `{"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":true,"continue_final_message":false,"now":`,
	} {
		got := string(conversation(t, `{`+hi+`,`+fields+`}`).TemplateRequest(time.Time{}))
		want = strings.ReplaceAll(want, `"a": [1]`, `"a":[1]`)
		if !strings.Contains(strings.ReplaceAll(got, `"a": [1]`, `"a":[1]`), want) || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %s", fields, got)
		}
	}
}

// TestToolPrompt: TGI's tool_prompt stands behind the last message that is no
// assistant's, where tools are offered.
func TestToolPrompt(t *testing.T) {
	const f = `,"tools":[{"type":"function","function":{"name":"f"}}],"tool_prompt":"Use\n\"tools\""`
	const told = `"tool_prompt":"Use\n\"tools\""`
	const calls = `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`
	for body, want := range map[string]string{
		`{` + hi + f + `}`:                      `{"role":"user","content":"Hi\n---\nUse\n\"tools\"",` + told + `}`,
		`{` + hi + f + `,"tool_choice":"none"}`: `{"role":"user","content":"Hi"}`,
		`{` + hi + `,"tool_prompt":"x"}`:        `{"role":"user","content":"Hi"}`,
		`{"messages":[` + calls + `]` + f +
			`}`: `{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{},"arguments_text":"{}"}}],"content":"\n---\nUse\n\"tools\"",` + told + `}`,
		`{"messages":[{"role":"user","content":"Hi","tool_prompt":1},` + calls + `]` + f +
			`}`: `{"role":"user","content":"Hi\n---\nUse\n\"tools\"",` + told + `}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]` + f +
			`}`: `{"role":"user","content":[{"type":"text","text":"Hi\n---\nUse\n\"tools\""}],` + told + `}`,
		`{"messages":[{"role":"user","content":[]}]` + f +
			`}`: `{"role":"user","content":[{"type":"text","text":"\n---\nUse\n\"tools\""}],` + told + `}`,
	} {
		if got := string(conversation(t, body).Messages[0].JSON); got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
	if c := conversation(t, `{"messages":[]`+f+`}`); len(c.Messages) != 0 {
		t.Errorf("got %+v", c.Messages)
	}
}

// TestToolFlow: the template is shown the tools, and those who draw several
// sequences parse each.
func TestToolFlow(t *testing.T) {
	chat := &generatetest.Chat{Parse: true}
	e := &generatetest.Engine{}
	s := newServer(e, func(l *generate.Limits, m *dispatch.Model) {
		l.MaxInput, l.MaxTotal = 1000, 2000
		m.Service = generatetest.UserCode{Chat: chat}.On(
			generate.New(e, generatetest.Words{}, *l, nil))
	})
	rec := ask(s, chatPath,
		`{`+hi+`,"tools":[{"type":"function","function":{"name":"f"}}],"n":2,"seed":1,"max_tokens":2,"tool_choice":"auto"}`)
	if rec.Code != 200 {
		t.Fatal(rec.Body)
	}
	r := chat.Requests()
	if len(r) != 3 || !strings.Contains(r[0], `"tools":[{"type":"function","function":{"name":"f"}}]`) ||
		!strings.Contains(r[1], `"prompt_end":"`) || r[2] != r[1] {
		t.Errorf("the chat was asked %q", r)
	}
	if bound, parsers := chat.Open(); bound+parsers != 0 {
		t.Errorf("%d chats and %d parsers are left open", bound, parsers)
	}
	if p := e.Requests()[0]; p.N != 2 || p.Params.Seed != 1 || llm.SeedFor(1, 0) != 1 {
		t.Errorf("got %+v", p)
	}
}

// TestStrict: whether some tool is strict.
func TestStrict(t *testing.T) {
	for strict, want := range map[string]bool{"true": true, "false": false, "null": false} {
		body := `{` + hi + `,"tools":[{"type":"function","function":{"name":"f","strict":` + strict +
			`}},{"type":"function","function":{"name":"g","strict":false}}]}`
		if c := conversation(t, body); c.Strict != want {
			t.Errorf("strict %s: got %v", strict, c.Strict)
		}
	}
	if _, err := decodeChat([]byte(`{`+hi+`,"tools":[{"type":"function","function":{"name":"f","strict":"yes"}}]}`),
		dialect.Default()); err == nil {
		t.Error("strict that is no boolean is accepted")
	}
}

// TestAnswerOrCalls: OpenAI's format of an answer may stand beside tools, in the dialect that is OpenAI's; other
// grammars, and older dialects, keep TGI's refusal.
func TestAnswerOrCalls(t *testing.T) {
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	const format = `,"response_format":{"type":"json_object"}`
	if c := conversation(t, `{`+hi+tools+format+`}`); c.Answer == nil || c.Answer.Language != generate.JSONObject {
		t.Errorf("got %+v", c.Answer)
	}
	if c := conversation(t, `{`+hi+tools+format+`,"tool_choice":"none"}`); c.Answer != nil {
		t.Errorf("no tool may be called, and the answer is %+v", c.Answer)
	}
	older, _ := dialect.Of(dialect.TGI22)
	for body, d := range map[string]*dialect.Dialect{
		tools + format:                                                   older,
		tools + `,"guided_json":{}`:                                      dialect.Default(),
		tools + `,"grammar":{"type":"json","value":{}}`:                  dialect.Default(),
		tools + `,"response_format":{"type":"json_object","plugin":"p"}`: dialect.Default(),
	} {
		if _, err := decodeChat([]byte(`{`+hi+body+`}`), d); err == nil ||
			!strings.Contains(err.Error(), "Grammar and tools are mutually exclusive") {
			t.Errorf("%s, %s: %v", d.Name(), body, err)
		}
	}
}

// TestHeldCalls: what the tools are not held to is told as that of a grammar is, and what can't be held to is a tool
// error.
func TestHeldCalls(t *testing.T) {
	const strict = `,"max_tokens":1,"tools":[{"type":"function","function":{"name":"f","strict":true}}]`
	chat := &generatetest.Chat{Parse: true,
		Drops: []generate.Dropped{{Pointer: "#/tools", Keyword: "k", Reason: "r"}}}
	serve := func(chat *generatetest.Chat) *server.Server {
		return newServer(nil, func(l *generate.Limits, m *dispatch.Model) {
			m.Service = generatetest.UserCode{Grammars: &generatetest.Grammars{}, Chat: chat}.On(
				generate.New(&generatetest.Engine{}, generatetest.Words{}, *l, nil))
		})
	}
	s := serve(chat)
	const told = `,"grammar_dropped":[{"pointer":"#/tools","keyword":"k","reason":"r"}]}`
	if rec := ask(s, chatPath, `{`+hi+strict+`}`); !strings.HasSuffix(rec.Body.String(), told) ||
		rec.Header().Get("X-Grammar-Dropped") != "1" {
		t.Errorf("got %s", rec.Body)
	}
	if rec := ask(s, chatPath, `{`+hi+strict+`,"stream":true}`); !strings.Contains(rec.Body.String(),
		told+"\n\ndata: [DONE]") {
		t.Errorf("got %s", rec.Body)
	}
	s = serve(&generatetest.Chat{Parse: true, RefuseHold: &generate.ToolError{Msg: "tool `f`: no"}})
	if rec := ask(s, chatPath, `{`+hi+strict+`}`); rec.Code != 422 ||
		!strings.Contains(rec.Body.String(), "Tool error: tool `f`: no") {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
}

// TestKindsOfTools: custom tools are functions of a text for templates, and the older functions are tools. Those that a
// request does not allow are not told of, and places lead into the request all the same.
func TestKindsOfTools(t *testing.T) {
	const f = `{"type":"function","function":{"name":"f"}}`
	const text = `{"type":"function","function":{"name":"c","description":"d","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}`
	const regex = `{"type":"function","function":{"name":"r","parameters":{"type":"object","properties":{"input":{"type":"string","pattern":"^(?:a|b)$"}},"required":["input"],"additionalProperties":false},"strict":true}}`
	for body, want := range map[string]generate.Conversation{
		`"tools":[` + f + `,{"type":"custom","custom":{"name":"c","description":"d"}}]`: {Tools: []byte(`[` + f + `,` +
			text + `]`), ToolNames: []string{"f", "c"}, ToolPlaces: []string{"#/tools/0/function", "#/tools/1/custom"},
			Parallel: true},
		`"tools":[` + f +
			`,{"type":"custom","custom":{"name":"c","description":"d","format":{"type":"text"}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"custom","custom":{"name":"c"}}]}}`: {Tools: []byte(`[` + text + `]`), ToolNames: []string{"c"}, ToolPlaces: []string{"#/tools/1/custom"}, Parallel: true, ToolChoice: generate.ToolChoice{Mode: generate.ChooseRequired}},
		`"tools":[{"type":"custom","custom":{"name":"r","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a|b"}}}}],"tool_choice":{"type":"custom","custom":{"name":"r"}}`: {Tools: []byte(`[` + regex + `]`), ToolNames: []string{"r"}, ToolPlaces: []string{"#/tools/0/custom"}, Parallel: true, Strict: true, ToolChoice: generate.ToolChoice{Mode: generate.ChooseNamed, Name: "r"}},
		`"functions":[{"name":"f"}],"function_call":{"name":"f"}`: {Tools: []byte(`[` + f + `]`),
			ToolNames: []string{"f"}, ToolPlaces: []string{"#/functions/0"},
			ToolChoice: generate.ToolChoice{Mode: generate.ChooseNamed, Name: "f"}},
		`"functions":[{"name":"f"}],"function_call":"none"`: {Tools: []byte(`[` + f + `]`),
			ToolNames: []string{"f"}, ToolPlaces: []string{"#/functions/0"},
			ToolChoice: generate.ToolChoice{Mode: generate.ChooseNone}},
	} {
		got := *conversation(t, `{`+hi+`,`+body+`}`)
		got.Messages = nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", body, got, want)
		}
	}
	lark := conversation(t,
		`{`+hi+`,"tools":[{"type":"custom","custom":{"name":"l","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"a\""}}}}]}`)
	if len(lark.NotEnforced) != 1 || lark.NotEnforced[0].Pointer != "#/tools/0/custom/format" ||
		!strings.Contains(string(lark.Tools), `fits this Lark grammar:\nstart: \"a\""`) {
		t.Errorf("%+v, %s", lark.NotEnforced, lark.Tools)
	}
}
