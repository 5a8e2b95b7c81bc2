package openai

import (
	"fmt"
	"maps"
	"slices"

	"tgi/server/config"
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
	c := &b.conversation.ToolChoice
	return either(r, func(r *wire.Reader) error {
		word, err := r.String()
		b.word = true
		b.choose(word)
		return err
	}, func(r *wire.Reader) error {
		b.word = false
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

// noTool is about a name that no tool has. A word of tool_choice may have been meant for
// one that says how tools are chosen.
func (b *chatBody) noTool(name string, word bool) error {
	known := slices.Sorted(maps.Keys(b.offered))
	if word {
		known = append(known, "auto", "none", "required")
	}
	near := ""
	if len(name) > 2 && len(name) <= maxToolName { // one letter is near every other
		near = config.Suggest(name, known)
	}
	return toolFault("Tool with name %.64s not found%s", name, near)
}

// choose takes the word of a choice; any other is a tool's name.
func (b *chatBody) choose(word string) {
	c := &b.conversation.ToolChoice
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
}

// allow reads which of the tools may be called, and whether one must.
func (b *chatBody) allow(r *wire.Reader) error {
	b.allowed = map[string]bool{}
	return r.Object("struct AllowedTools", []wire.Field{
		{Name: "mode", Required: true, Read: func(r *wire.Reader) error {
			mode, err := r.String()
			if err == nil && mode != "auto" && mode != "required" {
				return r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected `auto` or `required`", mode))
			}
			b.choose(mode)
			return err
		}},
		{Name: "tools", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error {
				name := ""
				err := r.Object("struct AllowedTool", append(b.named(&name), wire.Field{Name: "type", Read: text}))
				if err == nil && name == "" {
					return r.Refuse("missing field `function`")
				}
				b.allowed[name] = true
				return err
			})
		}},
	})
}

// checkTools checks the choice against the tools, and tells the model of those that
// it may call, and of the request's own words about them. One that it may not call is
// kept from it: a tool that it reads of is one that it calls.
func (b *chatBody) checkTools() error {
	c := &b.conversation
	if err := b.checkOlder(); err != nil {
		return err
	}
	if c.ToolChoice.Mode == generate.ChooseNamed && !b.offered[c.ToolChoice.Name] {
		return b.noTool(c.ToolChoice.Name, b.word)
	}
	for name := range b.allowed {
		if !b.offered[name] {
			return b.noTool(name, false)
		}
	}
	out := []byte{'['}
	for _, o := range b.offers {
		if b.allowed != nil && !b.allowed[o.name] {
			continue
		}
		out = append(comma(out, len(c.ToolNames)), o.raw...)
		c.ToolNames, c.ToolPlaces = append(c.ToolNames, o.name), append(c.ToolPlaces, o.place)
		c.Strict = c.Strict || o.strict
		if o.notEnforced != "" {
			c.NotEnforced = append(c.NotEnforced, generate.Dropped{Pointer: o.place + "/format", Keyword: "grammar",
				Reason: o.notEnforced})
		}
	}
	if len(c.ToolNames) > 0 {
		c.Tools = append(out, ']')
	} else if c.ToolChoice.Mode == generate.ChooseRequired {
		return toolFault("`tool_choice` \"required\" needs `tools`")
	}
	if b.toolPrompt != nil && *b.toolPrompt != "" && len(c.Tools) > 0 && c.ToolChoice.Mode != generate.ChooseNone {
		b.addToolPrompt(*b.toolPrompt)
	}
	return nil
}
