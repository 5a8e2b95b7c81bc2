package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"tgi/server/api/mcptools"
	"tgi/server/api/openaierror"
	"tgi/server/api/toolset"
	"tgi/server/fields"
	"tgi/server/wire"
)

// toolFault is a request whose tools cannot be used. The text begins as TGI's does.
func toolFault(format string, args ...any) error {
	return &openaierror.Refusal{Status: http.StatusUnprocessableEntity,
		Text: "Tool error: " + fmt.Sprintf(format, args...),
		Kind: "tool_error", Param: "tool_choice"}
}

// readTools reads the tools that are offered, or null.
func (b *chatBody) readTools(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(i int) error { return b.tool(r, i) })
}

// tool reads the i-th tool.
func (b *chatBody) tool(r *wire.Reader, i int) error {
	start := *r
	o := toolset.Offer{Place: "#/tools/" + strconv.Itoa(i) + "/function"}
	kind, older := "", false
	var function, custom bool
	probe := *r
	err := probe.Object("struct Tool", []wire.Field{{Name: "type", Read: fields.Text(&kind)}})
	if err == nil && kind == mcptools.Kind {
		w, err := mcptools.Read(r, "tools["+strconv.Itoa(i)+"]")
		b.wants = append(b.wants, w)
		return err
	}
	err = r.Object("struct Tool", []wire.Field{
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
			return b.custom(r, &o)
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
		o.Place = "#/tools/" + strconv.Itoa(i) + "/custom"
	default:
		o.Raw = r.Since(start)
	}
	if older {
		list := wire.Members(o.Raw)
		if f := wire.Find(list, "function"); f != nil {
			f.Value = wire.AppendMembers(nil, wire.Renamed(wire.Members(f.Value), "arguments", "parameters"))
		}
		o.Raw = wire.AppendMembers(nil, list)
	}
	b.tools.Offers = append(b.tools.Offers, o)
	return nil
}

// function reads what a function is. Templates read what it takes as parameters,
// where TGI also knew arguments: then it is older.
func (b *chatBody) function(r *wire.Reader, o *toolset.Offer) (older bool, err error) {
	parameters := func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		_, err := r.RawObject()
		return err
	}
	err = r.Object("struct FunctionDefinition", []wire.Field{
		{Name: "name", Required: true, Read: func(r *wire.Reader) error { return b.tools.ReadName(r, &o.Name) }},
		{Name: "description", Read: text},
		{Name: "parameters", Read: parameters},
		{Name: "arguments", Read: func(r *wire.Reader) error {
			older = true
			return parameters(r)
		}},
		{Name: "strict", Read: fields.Flag(&o.Strict)},
	})
	return older, err
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
	inner := wire.Members(m.JSON)
	if old := wire.Find(inner, "content"); old != nil && len(old.Value) > 0 && old.Value[0] == '[' {
		old.Value = withText(old.Value, more)
	} else {
		text := ""
		if old != nil {
			_ = json.Unmarshal(old.Value, &text) // a text or null: it was read before
		}
		inner = wire.SetMember(inner, "content", wire.AppendString(nil, text+more))
	}
	inner = wire.SetMember(inner, "tool_prompt", wire.AppendString(nil, words))
	m.JSON = wire.AppendMembers(nil, inner)
}

// withText adds text to the last part of content, or is a part where there is none.
func withText(parts json.RawMessage, more string) json.RawMessage {
	list := wire.Elements(parts)
	last := []wire.Member{{Name: "type", Value: json.RawMessage(`"text"`)},
		{Name: "text", Value: json.RawMessage(`""`)}}
	if n := len(list); n > 0 {
		list, last = list[:n-1], wire.Members(list[n-1])
	}
	var said string
	if m := wire.Find(last, "text"); m != nil {
		_ = json.Unmarshal(m.Value, &said) // it was read as a string before
	}
	last = wire.SetMember(last, "text", wire.AppendString(nil, said+more))
	b := []byte{'['}
	for i, part := range list {
		b = append(wire.Comma(b, i), part...)
	}
	return append(wire.AppendMembers(wire.Comma(b, len(list)), last), ']')
}
