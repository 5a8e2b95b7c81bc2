package openai

import (
	"fmt"

	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// named reads the name of a tool in an object of a kind, function or custom.
func (b *chatBody) named(dst *string) []wire.Field {
	var list []wire.Field
	for _, kind := range []string{"function", "custom"} {
		list = append(list, wire.Field{Name: kind, Read: func(r *wire.Reader) error {
			return r.Object("struct FunctionName", []wire.Field{{Name: "name", Required: true,
				Read: wire.Into(dst, (*wire.Reader).String)}})
		}})
	}
	return list
}

// choice reads tool_choice: a word, a tool's name, an object that names a tool, or
// one that says which tools are allowed.
func (b *chatBody) choice(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	b.newerChoice = true
	c := &b.tools.Choice
	return fields.Either(r, func(r *wire.Reader) error {
		word, err := r.String()
		b.tools.Word = true
		b.tools.Choose(word)
		return err
	}, func(r *wire.Reader) error {
		b.tools.Word = false
		kind, allowed := "function", false
		c.Mode, c.Name = generate.ChooseNamed, ""
		err := r.Object("struct ToolChoice", append(b.named(&c.Name),
			wire.Field{Name: "type", Read: func(r *wire.Reader) (err error) {
				kind, err = r.String()
				if err == nil && kind != "function" && kind != "custom" && kind != "allowed_tools" {
					return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `function`, `custom` or `allowed_tools`", kind))
				}
				return err
			}},
			wire.Field{Name: "allowed_tools", Read: func(r *wire.Reader) error {
				allowed = true
				return b.allow(r)
			}},
		))
		switch {
		case err != nil:
			return err
		case kind == "allowed_tools" && !allowed, kind != "allowed_tools" && c.Name == "":
			return r.Refuse("missing field `" + kind + "`")
		}
		return nil
	})
}

// allow reads which of the tools may be called, and whether one must.
func (b *chatBody) allow(r *wire.Reader) error {
	b.tools.Allow() // none yet
	return r.Object("struct AllowedTools", []wire.Field{
		{Name: "mode", Required: true, Read: func(r *wire.Reader) error {
			mode, err := r.String()
			if err == nil && mode != "auto" && mode != "required" {
				return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `auto` or `required`", mode))
			}
			b.tools.Choose(mode)
			return err
		}},
		{Name: "tools", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error {
				name := ""
				err := r.Object("struct AllowedTool", append(b.named(&name), wire.Field{Name: "type", Read: text}))
				if err == nil && name == "" {
					return r.Refuse("missing field `function`")
				}
				b.tools.Allow(name)
				return err
			})
		}},
	})
}

// checkTools tells the model of the tools that it may call, and of the request's own words about them.
func (b *chatBody) checkTools() error {
	c := &b.conversation
	if err := b.checkOlder(); err != nil {
		return err
	}
	if err := b.tools.Apply(c); err != nil {
		return toolFault("%s", err)
	}
	if b.toolPrompt != nil && *b.toolPrompt != "" && len(c.Tools) > 0 && c.ToolChoice.Mode != generate.ChooseNone {
		b.addToolPrompt(*b.toolPrompt)
		b.toolPrompt = nil // once
	}
	return nil
}
