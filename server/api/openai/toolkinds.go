package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// A custom tool takes a text. Models know functions alone: for them it is one with an
// argument of that name.
const customInput = "input"

// custom reads a custom tool and returns it as templates read it.
func (b *chatBody) custom(r *wire.Reader, o *offer) ([]byte, error) {
	var description *string
	syntax, definition := "", ""
	err := r.Object("struct CustomTool", []wire.Field{
		{Name: "name", Required: true, Read: func(r *wire.Reader) error { return b.toolName(r, &o.name) }},
		{Name: "description", Read: wire.Optional(&description, (*wire.Reader).String)},
		{Name: "format", Read: func(r *wire.Reader) error {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			return customFormat(r, &syntax, &definition)
		}},
	})
	if err != nil {
		return nil, err
	}
	out := wire.AppendString([]byte(`{"type":"function","function":{"name":`), o.name)
	told := ""
	if description != nil {
		told = *description
	}
	input := []byte(`{"type":"string"`)
	switch syntax {
	case "regex":
		o.strict = true
		input = wire.AppendString(append(input, `,"pattern":`...), "^(?:"+definition+")$")
	case "lark":
		o.notEnforced = "the input of a custom tool is not held to a grammar in Lark while it is written; a regex is"
		told += "\n\nThe input fits this Lark grammar:\n" + definition
	}
	if told != "" {
		out = wire.AppendString(append(out, `,"description":`...), told)
	}
	out = append(append(append(out, `,"parameters":{"type":"object","properties":{"`+customInput+`":`...), input...),
		`}},"required":["`+customInput+`"],"additionalProperties":false}`...)
	if o.strict {
		out = append(out, `,"strict":true`...)
	}
	return append(out, `}}`...), nil
}

// customFormat reads what a custom tool's input is: text, or text of a grammar.
func customFormat(r *wire.Reader, syntax, definition *string) error {
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
			return r.Object("struct CustomToolGrammar", []wire.Field{
				{Name: "definition", Required: true, Read: wire.Into(definition, (*wire.Reader).String)},
				{Name: "syntax", Required: true, Read: func(r *wire.Reader) (err error) {
					*syntax, err = r.String()
					if err == nil && *syntax != "lark" && *syntax != "regex" {
						return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `lark` or `regex`", *syntax))
					}
					return err
				}},
			})
		}},
	})
	switch {
	case err == nil && kind == "grammar" && !given:
		return r.Refuse("missing field `grammar`")
	case kind == "text":
		*syntax = ""
	}
	return err
}

// inputOf returns the text that a custom tool is called with; arguments are a JSON
// object, which is the text itself where it is not what the tool asks for.
func inputOf(arguments string) string {
	var in map[string]json.RawMessage
	var s string
	if json.Unmarshal([]byte(arguments), &in) == nil && len(in) == 1 && json.Unmarshal(in[customInput], &s) == nil {
		return s
	}
	return arguments
}

// functions reads OpenAI's older form of tools, or null.
func (b *chatBody) functions(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(i int) error {
		b.older = true
		start := *r
		o := offer{place: "#/functions/" + strconv.Itoa(i)}
		older, err := b.function(r, &o)
		if err != nil {
			return err
		}
		raw := r.Since(start)
		if older {
			raw = appendMembers(nil, renamed(members(raw), "arguments", "parameters"))
		}
		o.raw = append(append([]byte(`{"type":"function","function":`), raw...), '}')
		b.offers = append(b.offers, o)
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
	c := &b.conversation.ToolChoice
	return either(r, func(r *wire.Reader) error {
		word, err := r.String()
		if err == nil && word != "auto" && word != "none" {
			return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `auto`, `none` or an object with a name",
				word))
		}
		b.choose(word)
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
	for _, o := range b.offers {
		if b.older && !strings.HasPrefix(o.place, "#/functions/") {
			return &generate.Invalid{Msg: "`functions` and `tools` are both given", Field: "functions"}
		}
	}
	return nil
}

// customized makes what is told of calls of custom tools: the text that they are called
// with, as a whole, when the call is complete.
func (c *choice) customized(deltas []generate.Delta) []generate.Delta {
	out := deltas[:0]
	for _, d := range deltas {
		switch {
		case d.Kind == generate.DeltaBegin:
			if c.input = nil; c.call.customs[d.Name] {
				c.input = &strings.Builder{}
				c.customs = append(c.customs, d.Index)
			}
		case d.Kind == generate.DeltaArguments && c.custom(&d):
			c.input.WriteString(d.Text)
			if !json.Valid([]byte(c.input.String())) {
				continue
			}
			if d.Text = inputOf(c.input.String()); d.Text == "" {
				continue
			}
		}
		out = append(out, d)
	}
	return out
}

// custom reports whether d is about a call of a custom tool.
func (c *choice) custom(d *generate.Delta) bool {
	return d != nil && (d.Kind == generate.DeltaBegin || d.Kind == generate.DeltaArguments) &&
		slices.Contains(c.customs, d.Index)
}

// newerCall puts the function_call of an assistant's message where its tool_calls are.
func newerCall(list []member, id string) []member {
	call := *find(list, "function_call")
	list = slices.DeleteFunc(list, func(m member) bool { return m.name == "function_call" || m.name == "tool_calls" })
	b := wire.AppendString([]byte(`[{"id":`), id)
	b = append(append(append(b, `,"type":"function","function":`...), call.value...), `}]`...)
	return append(list, member{"tool_calls", b})
}

// functionOf makes the call of a custom tool one of the function that it is for models.
func functionOf(call []member, custom *member) []member {
	in := members(custom.value)
	b := append([]byte(`{"name":`), find(in, "name").value...)
	b = append(append(append(b, `,"arguments":{"`+customInput+`":`...), find(in, "input").value...), `}}`...)
	call = slices.DeleteFunc(call, func(m member) bool { return m.name == "custom" || m.name == "function" })
	return append(setMember(call, "type", json.RawMessage(`"function"`)), member{"function", b})
}
