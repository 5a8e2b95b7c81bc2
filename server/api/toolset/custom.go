package toolset

import (
	"encoding/json"
	"fmt"

	"tgi/server/wire"
)

// customInput is the argument of a custom tool, which takes a text. Models know functions alone: for them it is one
// with an argument of that name.
const customInput = "input"

// Format is what a custom tool's input is: any text, or one of a grammar.
type Format struct {
	// Syntax is lark or regex, and empty for any text; Definition is the grammar.
	Syntax, Definition string
}

// Fields are the members of a grammar: definition and syntax.
func (f *Format) Fields(required bool) []wire.Field {
	return []wire.Field{
		{Name: "definition", Required: required, Read: wire.Into(&f.Definition, (*wire.Reader).String)},
		{Name: "syntax", Required: required, Read: func(r *wire.Reader) (err error) {
			f.Syntax, err = r.String()
			if err == nil && f.Syntax != "lark" && f.Syntax != "regex" {
				return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `lark` or `regex`", f.Syntax))
			}
			return err
		}},
	}
}

// SetFunction makes o, whose name is known, a function with a description, "" for none, and the schema of its
// arguments, nil for none.
func (o *Offer) SetFunction(description string, parameters []byte) {
	b := wire.AppendString([]byte(`{"type":"function","function":{"name":`), o.Name)
	if description != "" {
		b = wire.AppendString(append(b, `,"description":`...), description)
	}
	if parameters != nil {
		b = append(append(b, `,"parameters":`...), parameters...)
	}
	if o.Strict {
		b = append(b, `,"strict":true`...)
	}
	o.Raw = append(b, `}}`...)
}

// SetCustom makes o, whose name is known, the custom tool with a description and a format.
func (o *Offer) SetCustom(description string, f Format) {
	o.Custom = true
	out := wire.AppendString([]byte(`{"type":"function","function":{"name":`), o.Name)
	input := []byte(`{"type":"string"`)
	switch f.Syntax {
	case "regex":
		o.Strict = true
		input = wire.AppendString(append(input, `,"pattern":`...), "^(?:"+f.Definition+")$")
	case "lark":
		o.NotEnforced = "the input of a custom tool is not held to a grammar in Lark while it is written; a regex is"
		description += "\n\nThe input fits this Lark grammar:\n" + f.Definition
	}
	if description != "" {
		out = wire.AppendString(append(out, `,"description":`...), description)
	}
	out = append(append(append(out, `,"parameters":{"type":"object","properties":{"`+customInput+`":`...), input...),
		`}},"required":["`+customInput+`"],"additionalProperties":false}`...)
	if o.Strict {
		out = append(out, `,"strict":true`...)
	}
	o.Raw = append(out, `}}`...)
}

// Input returns the text that a custom tool is called with; arguments are a JSON
// object, which is the text itself where it is not what the tool asks for.
func Input(arguments string) string {
	var in map[string]json.RawMessage
	var s string
	if json.Unmarshal([]byte(arguments), &in) == nil && len(in) == 1 && json.Unmarshal(in[customInput], &s) == nil {
		return s
	}
	return arguments
}

// AppendArguments writes the arguments of the function that a custom tool is for models; input is JSON.
func AppendArguments(b []byte, input []byte) []byte {
	return append(append(append(b, `{"`+customInput+`":`...), input...), '}')
}
