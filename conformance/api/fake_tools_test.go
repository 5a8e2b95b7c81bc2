package api

import (
	"encoding/json"
	"strings"
)

// tooled refuses tools that are none, and returns the tool that the fake calls: the
// first or the demanded one, and none where it may not.
func (c *fakeCall) tooled() (name string, refused bool) {
	v := value{c.body, true}
	if v.at("functions").there {
		c.refuse(422, "validation", validation+"`functions` and `tools` are both given")
		return "", true
	}
	var names []string
	for i, t := range v.at("tools").list() {
		f := t.at("function")
		field := ""
		switch name := f.at("name").text(); {
		case t.at("type").text() != "function":
			field = ".type"
		case !f.there:
		case strings.Contains(name, " "), len(names) > 0 && names[0] == name:
			field = ".function.name"
		case f.at("parameters").isText():
			field = ".function.parameters"
		default:
			names = append(names, name)
			continue
		}
		c.shape("tools[%d]%s: no", i, field)
		return "", true
	}
	choice := v.at("tool_choice").text()
	if n := v.at("tool_choice", "function", "name"); n.there {
		choice = n.text()
	}
	switch {
	case len(names) == 0 || choice == "none":
		return "", false
	case choice == "" || choice == "auto" || choice == "required":
		return names[0], false
	}
	for _, n := range names {
		if n == choice {
			return n, false
		}
	}
	c.refuse(422, "tool_error", "Tool error: Tool with name "+choice+" not found")
	return "", true
}

const fakeArguments = `{"zone":"CET"}`

// toolMessage is a whole reply's message that calls name.
func (c *fakeCall) toolMessage(name string) map[string]any {
	var object any
	_ = json.Unmarshal([]byte(fakeArguments), &object) // a constant
	if c.argumentsText {
		return map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"id": "call_00000001", "type": "function", "function": map[string]any{"name": name,
				"arguments": fakeArguments}}}}
	}
	return map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
		"id": "0", "type": "function", "function": map[string]any{"description": nil, "name": name,
			"arguments": object}}}}
}

// toolDeltas are those of a stream that calls name.
func (c *fakeCall) toolDeltas(name string) (deltas []map[string]any) {
	for i, text := range []string{"", fakeArguments[:5], fakeArguments[5:]} {
		function := map[string]any{"arguments": text}
		call := map[string]any{"index": 0, "function": function}
		if i == 0 {
			function["name"], call["id"], call["type"] = name, "call_00000001", "function"
		}
		if c.argumentsText {
			deltas = append(deltas, map[string]any{"tool_calls": []any{call}})
			continue
		}
		call["id"], call["type"] = "", "function"
		if i > 0 {
			function["name"] = nil
		}
		deltas = append(deltas, map[string]any{"role": "assistant", "tool_calls": call})
	}
	return deltas
}
