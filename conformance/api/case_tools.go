package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const (
	ofTools     = "OpenAI's API reference, chat/create, tools; arguments and ids before: TGI 2.2, router/src/lib.rs"
	clockTool   = `{"type":"function","function":{"name":"get_time","description":"The time of day.","parameters":{"type":"object","properties":{"zone":{"type":"string"}}}}}`
	weatherTool = `{"type":"function","function":{"name":"get-weather.now","parameters":{"type":"object","properties":{}}}}`
)

// toolTalk is the body of a greedy conversation that offers two tools.
func (p *probe) toolTalk(fields string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":"What time is it?"}],"tools":[%s,%s],"temperature":0,"max_tokens":%d%s}`, clockTool, weatherTool, p.room(48), fields)
}

// called checks the calls of a message, and returns them as "name arguments".
func (p *probe) called(choice value) (calls []string) {
	var ids []string
	for i, c := range choice.at("message", "tool_calls").list() {
		id, f := c.at("id").text(), c.at("function")
		ids = append(ids, id)
		if want := fmt.Sprint(i); !p.form.uniqueIDs && id != want {
			p.fail("call %d has the id %q, want %q", i, id, want)
		}
		if id == "" || slices.Contains(ids[:i], id) {
			p.fail("call %d has the id %q, which is no name for it alone", i, id)
		}
		name := f.at("name").text()
		if name != "get_time" && name != "get-weather.now" {
			p.fail("%q was called and not offered", name)
		}
		calls = append(calls, name+" "+p.arguments(f))
	}
	content := choice.at("message", "content")
	switch {
	case len(calls) == 0 && !content.isText():
		p.fail("the message has no calls, and its content is %s", content)
	case len(calls) > 0 && p.form.argumentsText && !content.there:
		p.fail("the message has no member content beside its calls")
	case len(calls) > 0 && choice.at("finish_reason").text() != "length":
		p.equal("finish_reason", choice.at("finish_reason"), p.form.finishTools)
	}
	return calls
}

// arguments checks those of a call and returns their JSON.
func (p *probe) arguments(f value) string {
	a := f.at("arguments")
	if !p.form.argumentsText {
		if _, ok := a.any.(map[string]any); !ok {
			p.fail("arguments is %s, want an object", a)
		}
		return a.String()
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(a.text()), &object); err != nil || object == nil {
		p.fail("arguments is %s, want the JSON of an object in a string", a)
	}
	return value{object, true}.String()
}

var toolCases = []Case{
	{ID: "tools",
		Rule:   "tools may be called: a call has an id, the name of a tool and JSON arguments, and ends the turn",
		Source: ofTools, This: true, run: func(p *probe) {
			v, _ := p.answer(p.post(chatPath, p.toolTalk("")), "Chat")
			p.choices(v, 1)
			p.called(v.at("choices", 0))
		}},
	{ID: "tools-stream", Rule: "a stream of calls, put together by index, is the whole reply's", Source: ofTools +
		"; peers' parsers", This: true, run: func(p *probe) {
		whole := p.ask(chatPath, p.toolTalk(""), "Chat").at("choices", 0)
		want := p.called(whole)
		all := p.stream(chatPath, p.toolTalk(`,"stream":true`))
		text, reasons := p.spoken(all, 1)
		p.equal("the streamed content", text[0], whole.at("message", "content").text())
		p.equal("finish_reason", reasons[0], whole.at("finish_reason"))
		if whole.at("finish_reason").text() == "length" {
			return // the stream has the beginning of a call that the whole reply leaves out
		}
		p.equal("the streamed calls", strings.Join(p.pieced(all), ", "), strings.Join(want, ", "))
	}},
	{ID: "tools-required", Rule: "a demanded call is made, or its absence is a tool_error", Source: ofServer,
		This: true, run: func(p *probe) {
			for _, choice := range []string{`"required"`, `"get_time"`,
				`{"type":"function","function":{"name":"get_time"}}`} {
				r := p.post(chatPath, p.toolTalk(`,"tool_choice":`+choice))
				if r.status != http.StatusOK {
					text, kind := p.refusedAs(r, http.StatusUnprocessableEntity)
					p.begins(text, "Tool error: ")
					p.equal("error_type", kind, "tool_error")
					continue
				}
				v, _ := p.answer(r, "Chat")
				calls := p.called(v.at("choices", 0))
				if len(calls) == 0 && v.at("choices", 0, "finish_reason").text() != "length" {
					p.fail("no tool was called")
				}
				for _, c := range calls {
					if choice != `"required"` && !strings.HasPrefix(c, "get_time ") {
						p.fail("get_time was demanded, %s was called", c)
					}
				}
			}
		}},
	{ID: "tools-none", Rule: "tool_choice none is a conversation without tools", Source: ofTools, This: true,
		run: func(p *probe) {
			none := p.ask(chatPath, p.toolTalk(`,"tool_choice":"none"`), "Chat")
			without := strings.Replace(p.toolTalk(""), `"tools":[`+clockTool+","+weatherTool+"],", "", 1)
			if none.at("choices", 0, "message", "tool_calls").there {
				p.fail("there are calls")
			}
			plain := p.ask(chatPath, without, "Chat")
			p.equal("the content", none.at("choices", 0, "message", "content"), plain.at("choices", 0, "message",
				"content"))
			p.equal("prompt_tokens", none.at("usage", "prompt_tokens"), plain.at("usage", "prompt_tokens"))
		}},
	{ID: "tools-unknown", Rule: "a demanded tool that was not offered is a tool_error",
		Source: "TGI 3.3, router/src/infer/tool_grammar.rs", This: true, run: func(p *probe) {
			for _, fields := range []string{`,"tool_choice":"no_such"`,
				`,"stream":true,"tool_choice":{"type":"function","function":{"name":"no_such"}}`} {
				r := p.post(chatPath, p.toolTalk(fields))
				if !p.form.eagerErrors && strings.Contains(fields, "stream") {
					p.status(r, http.StatusUnprocessableEntity)
				}
				p.refused(r, http.StatusUnprocessableEntity, "tool_error",
					"Tool error: Tool with name no_such not found")
			}
		}},
	{ID: "tools-refused", Rule: "tools that are none are refused, and the text names the field", Source: ofServer,
		This: true, run: func(p *probe) {
			for tool, field := range map[string]string{
				`{"type":"retrieval","function":{"name":"a"}}`:                         "tools[0].type: ",
				`{"type":"function"}`:                                                  "tools[0]: ",
				`{"type":"function","function":{"name":"a b"}}`:                        "tools[0].function.name: ",
				clockTool + "," + clockTool:                                            "tools[1].function.name: ",
				`{"type":"function","function":{"name":"a","parameters":"no object"}}`: "tools[0].function.parameters: ",
			} {
				p.begins(p.bodyRefused(p.post(chatPath, `{`+greeting+`,"tools":[`+tool+`]}`),
					http.StatusUnprocessableEntity, misshapen), field)
			}
			text, _ := p.refusedAs(p.post(chatPath, `{`+greeting+`,"tools":[`+clockTool+
				`],"functions":[{"name":"a"}]}`),
				http.StatusUnprocessableEntity)
			p.equal("the error's text", text, validation+"`functions` and `tools` are both given")
		}},
	{ID: "tools-results",
		Rule:   "earlier calls and their results are part of a conversation, arguments as text or object",
		Source: ofTools, This: true, run: func(p *probe) {
			var prompts []string
			// The text is written as templates write the object: one that prints text prints the client's.
			for _, arguments := range []string{`"{\"zone\": \"CET\"}"`, `{"zone":"CET"}`} {
				body := `{"messages":[{"role":"user","content":"What time is it?"},` +
					`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_time","arguments":` + arguments + `}}]},` +
					`{"role":"tool","tool_call_id":"call_1","content":"12:00"}],"tools":[` + clockTool +
					`],"temperature":0,"max_tokens":8}`
				prompts = append(prompts, p.ask(chatPath, body, "Chat").at("usage", "prompt_tokens").String())
			}
			p.equal("prompt_tokens", prompts[1], prompts[0])
		}},
}

// pieced puts the calls of a stream of one choice together, as clients do.
func (p *probe) pieced(all []value) (calls []string) {
	var names, arguments []string
	for _, e := range all {
		v := e.at("choices", 0, "delta", "tool_calls")
		list := v.list()
		if !p.form.argumentsText && v.there {
			list = []value{v}
		}
		for _, d := range list {
			f := d.at("function")
			name := f.at("name").text()
			switch i := int(d.at("index").number()); {
			case i == len(names) && name != "":
				names, arguments = append(names, name), append(arguments, "")
				if p.form.uniqueIDs && (d.at("id").text() == "" || d.at("type").text() != "function") {
					p.fail("a call begins with %s", d)
				}
			case i != len(names)-1 || name != "":
				p.fatal("a call goes on with %s", d)
			}
			arguments[len(arguments)-1] += f.at("arguments").text()
		}
	}
	for i := range names {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(arguments[i]), &object); err != nil {
			p.fail("the streamed arguments are %q, want JSON", arguments[i])
		}
		calls = append(calls, names[i]+" "+value{object, true}.String())
	}
	return calls
}
