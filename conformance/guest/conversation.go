package guest

import (
	"encoding/json"
	"strings"
)

// model is what the kit says of the model: special tokens as in [World], and a
// template that a guest for Jinja can render.
const model = `{"name":"kit","tokens":{"bos_token":"<s>","eos_token":"</s>"},"templates":{"default":` +
	`"{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"}}`

// WithModel adds the model of the kit's world to a configuration that says
// nothing of one, as a server does for kinds template and tools.
func WithModel(config string) string { return withMember(config, "model", model) }

// withMember adds a member to a JSON object that lacks it; what is no object
// stays as it is.
func withMember(object, name, value string) string {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(object), &members); err != nil || members[name] != nil {
		return object
	}
	members[name] = json.RawMessage(value)
	return encode(members)
}

// encode writes JSON as it is read best: "<" stays "<".
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// tool is the one that the kit's conversations offer.
const tool = `{"type":"function","function":{"name":"get_time","description":"The time at a place.","parameters":` +
	`{"type":"object","properties":{"place":{"type":"string"},"n":{"type":"array"}},"required":["place"]}}}`

// conversation makes a request for a template.
func conversation(messages, more string) string {
	return `{"messages":[` + messages +
		`],"add_generation_prompt":true,"continue_final_message":false,"now":"2024-01-31T12:00:00+01:00"` + more + `}`
}

// said is a conversation of one message.
func said(text string) string {
	return conversation(`{"role":"user","content":`+encode(text)+`}`, "")
}

// conversations are the requests that a template is given: usual ones, and what
// a client may send that a template may well refuse.
var conversations = []string{
	said("Hi"),
	said("Grüße 😀 \u0000 {{ x }} {% endif %} </s>"),
	conversation(`{"role":"system","content":"Be brief."},{"role":"user","content":"What time is it?"},`+
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get_time","arguments":{"place":"here"}}}]},`+
		`{"role":"tool","tool_call_id":"c1","content":"12:00"}`, `,"tools":[`+tool+
		`],"documents":[{"title":"t","text":"x"}]`),
	conversation(`{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"data:,"}}]}`, `,"kwargs":{"enable_thinking":false},"template":"default"`),
	strings.Replace(strings.Replace(conversation(`{"role":"user","content":"Count."},{"role":"assistant","content":"1, 2"}`, ""),
		`prompt":true`, `prompt":false`, 1), `message":false`, `message":true`, 1),
	conversation("", ""),
	conversation(`{}`, ""),
	conversation(`{"role":"user"},{"role":"user","content":7}`, `,"tools":[{}],"kwargs":{"deep":`+strings.Repeat("[",
		200)+strings.Repeat("]", 200)+`}`),
}

// offers are the requests that a parser is given.
var offers = []string{
	`{"tools":[` + tool + `],"tool_choice":"auto","parallel_tool_calls":true,"prompt_end":"<|assistant|>"}`,
	`{"tools":[` + tool + `],"tool_choice":{"name":"get_time"},"parallel_tool_calls":false,"prompt_end":""}`,
	`{"tool_choice":"none","parallel_tool_calls":true,"prompt_end":"<think>\n"}`,
}

// constrained are the requests that a guest is asked about that says what texts
// are held to.
var constrained = []string{
	offers[0], offers[1],
	`{"tools":[` + strings.Replace(tool, `"name"`, `"strict":true,"name"`, 1) +
		`],"tool_choice":"auto","parallel_tool_calls":false,"prompt_end":"<think>\n"}`,
	`{"tools":[` + tool +
		`,{"type":"function","function":{"name":"stop","strict":true}}],"tool_choice":"required","parallel_tool_calls":true,"prompt_end":""}`,
	`{"tools":[{"type":"function","function":{"name":"odd","strict":true,"parameters":{"anyOf":[{"$ref":"#/nowhere"},false]}}}],"tool_choice":"required","parallel_tool_calls":true,"prompt_end":""}`,
}

// texts are what a model may write, in the formats of many models, well and
// not so well.
var texts = []string{
	"Hello, wörld 😀! {\"no\": \"call\"} [1] <b>bold</b> < > [ ]\n\nEnd.",
	"<think>\nLet me see ...\n</think>\n\nThe answer is 42.",
	"Wait.\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"place\": \"Zürich\", \"n\": [1, -2.5e3, null, {}]}}\n</tool_call>\n" +
		"<tool_call>\n{\"name\": \"get_time\", \"arguments\": {\"place\": \"\\u00e9 </tool_call>\"}}\n</tool_call>",
	`[TOOL_CALLS][{"name": "get_time", "arguments": {"place": "a\"b\\c"}}]`,
	`{"name": "get_time", "parameters": {"place": "here"}}`,
	`[get_time(place="here"), get_time(place='there', n=[1, True])]`,
	`{"function": {"_name": "get_time", "place": "here"}}`,
	"<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{\"place\":\"here\"}<|call|>",
	"<tool_call>\n<function=get_time>\n<parameter=place>\nhere\n</parameter>\n</function>\n</tool_call>",
	"<tool_call>{\"name\": \"get_time\", \"arguments\": {\"place\"",
	"<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call> done",
	"<tool_call>no JSON</tool_call><tool_call>{\"name\": \"get_time\", \"arguments\": 7}</tool_call>",
}
