package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// maxToolName is the greatest length of a tool's name, as OpenAI has it.
const maxToolName = 64

// toolFault is a request whose tools cannot be used. The text begins as TGI's does.
func toolFault(format string, args ...any) error {
	return &refusal{http.StatusUnprocessableEntity, "Tool error: " + fmt.Sprintf(format, args...), "tool_error", "tool_choice"}
}

// tools reads the tools that are offered, or null.
func (b *chatBody) tools(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	c := &b.conversation
	out := []byte{'['}
	err := r.Array(func(i int) error {
		raw, err := b.tool(r)
		out = append(comma(out, i), raw...)
		return err
	})
	if len(c.ToolNames) > 0 {
		c.Tools = append(out, ']')
	}
	return err
}

// tool reads one tool and returns it as templates read it: what its function
// takes is called parameters, where TGI also knew arguments.
func (b *chatBody) tool(r *wire.Reader) ([]byte, error) {
	start := *r
	older := false
	parameters := func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		_, err := r.RawObject()
		return err
	}
	err := r.Object("struct Tool", []wire.Field{
		{Name: "type", Required: true, Read: func(r *wire.Reader) error {
			kind, err := r.String()
			if err == nil && kind != "function" {
				return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `function`", kind))
			}
			return err
		}},
		{Name: "function", Required: true, Read: func(r *wire.Reader) error {
			return r.Object("struct FunctionDefinition", []wire.Field{
				{Name: "name", Required: true, Read: b.toolName},
				{Name: "description", Read: text},
				{Name: "parameters", Read: parameters},
				{Name: "arguments", Read: func(r *wire.Reader) error {
					older = true
					return parameters(r)
				}},
				{Name: "strict", Read: func(r *wire.Reader) error {
					strict := false
					err := boolean(&strict)(r)
					b.conversation.Strict = b.conversation.Strict || strict
					return err
				}},
			})
		}},
	})
	if err != nil {
		return nil, err
	}
	raw, err := start.RawObject()
	if err != nil || !older {
		return raw, err
	}
	list := members(raw)
	if f := find(list, "function"); f != nil {
		f.value = appendMembers(nil, renamed(members(f.value), "arguments", "parameters"))
	}
	return appendMembers(nil, list), nil
}

// toolName reads a name that no tool before it has.
func (b *chatBody) toolName(r *wire.Reader) error {
	name, err := r.String()
	switch {
	case err != nil:
		return err
	case !isName(name):
		return r.Refuse(fmt.Sprintf("invalid value: string %.80q, expected 1 to %d letters, digits, `_`, `-` and `.`", name, maxToolName))
	case b.offered[name]:
		return r.Refuse(fmt.Sprintf("invalid value: string %q, expected a name that no other tool has", name))
	}
	if b.offered == nil {
		b.offered = map[string]bool{}
	}
	b.offered[name] = true
	b.conversation.ToolNames = append(b.conversation.ToolNames, name)
	return nil
}

// isName says whether s may name a tool.
func isName(s string) bool {
	for _, c := range s {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return s != "" && len(s) <= maxToolName
}

// choice reads tool_choice: a word, a tool's name, or an object that names a tool.
func (b *chatBody) choice(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	c := &b.conversation.ToolChoice
	return either(r, func(r *wire.Reader) error {
		word, err := r.String()
		switch word {
		case "auto":
			c.Mode = generate.ChooseAuto
		case "none":
			c.Mode = generate.ChooseNone
		case "required":
			c.Mode = generate.ChooseRequired
		default:
			c.Mode, c.Name = generate.ChooseNamed, word
		}
		return err
	}, func(r *wire.Reader) error {
		c.Mode = generate.ChooseNamed
		return r.Object("struct ToolChoice", []wire.Field{
			{Name: "type", Read: func(r *wire.Reader) error {
				kind, err := r.String()
				if err == nil && kind != "function" {
					return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `function`", kind))
				}
				return err
			}},
			{Name: "function", Required: true, Read: func(r *wire.Reader) error {
				return r.Object("struct FunctionName", []wire.Field{
					{Name: "name", Required: true, Read: wire.Into(&c.Name, (*wire.Reader).String)},
				})
			}},
		})
	})
}

// checkTools holds the choice against the tools, and tells the model of the
// request's own words about them.
func (b *chatBody) checkTools() error {
	c := &b.conversation
	switch {
	case c.ToolChoice.Mode == generate.ChooseNamed && !b.offered[c.ToolChoice.Name]:
		return toolFault("Tool with name %.64s not found", c.ToolChoice.Name)
	case c.ToolChoice.Mode == generate.ChooseRequired && len(c.ToolNames) == 0:
		return toolFault("`tool_choice` \"required\" needs `tools`")
	}
	if b.toolPrompt != nil && *b.toolPrompt != "" && len(c.Tools) > 0 && c.ToolChoice.Mode != generate.ChooseNone {
		b.prompt(*b.toolPrompt)
	}
	return nil
}

// prompt puts TGI's tool_prompt behind the last message that is no assistant's, as
// TGI does. It has no default here: the model's template says how tools are called,
// and a template plugin has words of its own for a template that says nothing. It
// finds those of the request beside the text, as the message's tool_prompt.
func (b *chatBody) prompt(words string) {
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
	m.Text += more
	inner := members(m.JSON)
	if old := find(inner, "content"); old != nil && len(old.value) > 0 && old.value[0] == '[' {
		old.value = withText(old.value, more)
	} else {
		inner = setMember(inner, "content", wire.AppendString(nil, m.Text))
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

// gone reads a field of OpenAI's older API, which another one replaced.
func gone(name, instead string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		err := unset(name)(r)
		var rule *generate.Invalid
		if !errors.As(err, &rule) {
			return err
		}
		field, _, _ := strings.Cut(name, "[")
		return &generate.Invalid{Msg: "`" + name + "` is not supported, use `" + instead + "`", Field: field}
	}
}
