package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tgi/server/api/toolset"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// custom reads a custom tool.
func (b *chatBody) custom(r *wire.Reader, o *toolset.Offer) error {
	var description string
	var format toolset.Format
	err := r.Object("struct CustomTool", []wire.Field{
		{Name: "name", Required: true, Read: func(r *wire.Reader) error { return b.tools.ReadName(r, &o.Name) }},
		{Name: "description", Read: fields.Text(&description)},
		{Name: "format", Read: func(r *wire.Reader) error {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			return customFormat(r, &format)
		}},
	})
	if err == nil {
		o.SetCustom(description, format)
	}
	return err
}

// customFormat reads what a custom tool's input is: text, or text of a grammar.
func customFormat(r *wire.Reader, f *toolset.Format) error {
	kind, given := "", false
	err := r.Object("struct CustomToolFormat", []wire.Field{
		{Name: "type", Required: true, Read: func(r *wire.Reader) (err error) {
			kind, err = r.String()
			if err == nil && kind != "text" && kind != "grammar" {
				return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `text` or `grammar`", kind))
			}
			return err
		}},
		{Name: "grammar", Read: func(r *wire.Reader) error {
			given = true
			return r.Object("struct CustomToolGrammar", f.Fields(true))
		}},
	})
	switch {
	case err == nil && kind == "grammar" && !given:
		return r.Refuse("missing field `grammar`")
	case kind == "text":
		*f = toolset.Format{}
	}
	return err
}

// functions reads OpenAI's older form of tools, or null.
func (b *chatBody) functions(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(i int) error {
		b.older = true
		start := *r
		o := toolset.Offer{Place: "#/functions/" + strconv.Itoa(i)}
		older, err := b.function(r, &o)
		if err != nil {
			return err
		}
		raw := r.Since(start)
		if older {
			raw = wire.AppendMembers(nil, wire.Renamed(wire.Members(raw), "arguments", "parameters"))
		}
		o.Raw = append(append([]byte(`{"type":"function","function":`), raw...), '}')
		b.tools.Offers = append(b.tools.Offers, o)
		return nil
	})
}

// functionCall reads the older form of tool_choice, or null: auto, none, or an object
// with a function's name.
func (b *chatBody) functionCall(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	b.olderChoice = true
	c := &b.tools.Choice
	return fields.Either(r, func(r *wire.Reader) error {
		word, err := r.String()
		if err == nil && word != "auto" && word != "none" {
			return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `auto`, `none` or an object with a name",
				word))
		}
		b.tools.Choose(word)
		return err
	}, func(r *wire.Reader) error {
		c.Mode = generate.ChooseNamed
		return r.Object("struct FunctionName", []wire.Field{{Name: "name", Required: true,
			Read: wire.Into(&c.Name, (*wire.Reader).String)}})
	})
}

// checkOlder refuses requests that mix the older form of tools with the newer one.
func (b *chatBody) checkOlder() error {
	if b.olderChoice && b.newerChoice {
		return &generate.Invalid{Msg: "`function_call` and `tool_choice` are both given", Field: "function_call"}
	}
	for _, o := range b.tools.Offers {
		if b.older && !strings.HasPrefix(o.Place, "#/functions/") {
			return &generate.Invalid{Msg: "`functions` and `tools` are both given", Field: "functions"}
		}
	}
	return nil
}

// newerCall puts the function_call of an assistant's message where its tool_calls are.
func newerCall(list []wire.Member, id string) []wire.Member {
	call := *wire.Find(list, "function_call")
	list = slices.DeleteFunc(list, func(m wire.Member) bool {
		return m.Name == "function_call" || m.Name == "tool_calls"
	})
	b := wire.AppendString([]byte(`[{"id":`), id)
	b = append(append(append(b, `,"type":"function","function":`...), call.Value...), `}]`...)
	return append(list, wire.Member{Name: "tool_calls", Value: b})
}

// functionOf makes the call of a custom tool one of the function that it is for models.
func functionOf(call []wire.Member, custom *wire.Member) []wire.Member {
	in := wire.Members(custom.Value)
	b := append([]byte(`{"name":`), wire.Find(in, "name").Value...)
	b = append(toolset.AppendArguments(append(b, `,"arguments":`...), wire.Find(in, "input").Value), '}')
	call = slices.DeleteFunc(call, func(m wire.Member) bool { return m.Name == "custom" || m.Name == "function" })
	return append(wire.SetMember(call, "type", json.RawMessage(`"function"`)), wire.Member{Name: "function", Value: b})
}
