package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"tgi/server/wire"
)

// maxToolName is the greatest length of a tool's name, as OpenAI has it.
const maxToolName = 64

// toolFault is a request whose tools cannot be used. The text begins as TGI's does.
func toolFault(format string, args ...any) error {
	return &refusal{http.StatusUnprocessableEntity, "Tool error: " + fmt.Sprintf(format, args...), "tool_error",
		"tool_choice"}
}

// offer is a tool that a request offers.
type offer struct {
	name string
	// raw is the tool as templates read it: a function.
	raw []byte
	// place leads to it in the request.
	place          string
	strict, custom bool
	notEnforced    string // why its input is not held to its grammar
}

// tools reads the tools that are offered, or null.
func (b *chatBody) tools(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(i int) error { return b.tool(r, i) })
}

// tool reads the i-th tool.
func (b *chatBody) tool(r *wire.Reader, i int) error {
	start := *r
	o := offer{place: "#/tools/" + strconv.Itoa(i) + "/function"}
	kind, older := "", false
	var function, custom bool
	var input []byte
	err := r.Object("struct Tool", []wire.Field{
		{Name: "type", Required: true, Read: func(r *wire.Reader) (err error) {
			kind, err = r.String()
			if err == nil && kind != "function" && kind != "custom" {
				return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `function` or `custom`", kind))
			}
			return err
		}},
		{Name: "function", Read: func(r *wire.Reader) (err error) {
			function = true
			older, err = b.function(r, &o)
			return err
		}},
		{Name: "custom", Read: func(r *wire.Reader) (err error) {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			custom = true
			input, err = b.custom(r, &o)
			return err
		}},
	})
	switch {
	case err != nil:
		return err
	case kind == "custom" && !custom:
		return r.Refuse("missing field `custom`")
	case kind == "function" && !function:
		return r.Refuse("missing field `function`")
	case kind == "custom":
		o.custom, o.raw, o.place = true, input, "#/tools/"+strconv.Itoa(i)+"/custom"
	default:
		o.raw = r.Since(start)
	}
	if older {
		list := members(o.raw)
		if f := find(list, "function"); f != nil {
			f.value = appendMembers(nil, renamed(members(f.value), "arguments", "parameters"))
		}
		o.raw = appendMembers(nil, list)
	}
	b.offers = append(b.offers, o)
	return nil
}

// function reads what a function is. Templates read what it takes as parameters,
// where TGI also knew arguments: then it is older.
func (b *chatBody) function(r *wire.Reader, o *offer) (older bool, err error) {
	parameters := func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		_, err := r.RawObject()
		return err
	}
	err = r.Object("struct FunctionDefinition", []wire.Field{
		{Name: "name", Required: true, Read: func(r *wire.Reader) error { return b.toolName(r, &o.name) }},
		{Name: "description", Read: text},
		{Name: "parameters", Read: parameters},
		{Name: "arguments", Read: func(r *wire.Reader) error {
			older = true
			return parameters(r)
		}},
		{Name: "strict", Read: boolean(&o.strict)},
	})
	return older, err
}

// toolName reads a name that no tool before it has.
func (b *chatBody) toolName(r *wire.Reader, dst *string) error {
	name, err := r.String()
	switch {
	case err != nil:
		return err
	case !isName(name):
		return r.Refuse(fmt.Sprintf("invalid value: string %.80q, expected 1 to %d letters, digits, `_`, `-` and `.`",
			name,
			maxToolName))
	case b.offered[name]:
		return r.Refuse(fmt.Sprintf("invalid value: string %q, expected a name that no other tool has", name))
	}
	b.offered = setName(b.offered, name)
	*dst = name
	return nil
}

// isName reports whether s may name a tool.
func isName(s string) bool {
	for _, c := range s {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return s != "" && len(s) <= maxToolName
}

// addToolPrompt puts TGI's tool_prompt behind the last message that is no assistant's, as
// TGI does. It has no default here: the model's template says how tools are called,
// and a template plugin has words of its own for a template that says nothing. It
// finds those of the request beside the text, as the message's tool_prompt.
func (b *chatBody) addToolPrompt(words string) {
	list := b.conversation.Messages
	if len(list) == 0 {
		return
	}
	m := &list[len(list)-1]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Role != "assistant" {
			m = &list[i]
			break
		}
	}
	more := "\n---\n" + words
	m.HasText = true
	inner := members(m.JSON)
	if old := find(inner, "content"); old != nil && len(old.value) > 0 && old.value[0] == '[' {
		old.value = withText(old.value, more)
	} else {
		text := ""
		if old != nil {
			_ = json.Unmarshal(old.value, &text) // a text or null: it was read before
		}
		inner = setMember(inner, "content", wire.AppendString(nil, text+more))
	}
	inner = setMember(inner, "tool_prompt", wire.AppendString(nil, words))
	m.JSON = appendMembers(nil, inner)
}

// withText adds text to the last part of content, or is a part where there is none.
func withText(parts json.RawMessage, more string) json.RawMessage {
	list := elements(parts)
	last := []member{{"type", json.RawMessage(`"text"`)}, {"text", json.RawMessage(`""`)}}
	if n := len(list); n > 0 {
		list, last = list[:n-1], members(list[n-1])
	}
	var said string
	if m := find(last, "text"); m != nil {
		_ = json.Unmarshal(m.value, &said) // it was read as a string before
	}
	last = setMember(last, "text", wire.AppendString(nil, said+more))
	b := []byte{'['}
	for i, part := range list {
		b = append(comma(b, i), part...)
	}
	return append(appendMembers(comma(b, len(list)), last), ']')
}
