package responses

import (
	"fmt"
	"strconv"

	"tgi/server/api/mcptools"
	"tgi/server/api/toolset"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/wire"
)

// readTools reads the tools that are offered, or null.
func (b *body) readTools(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	start := *r
	err := r.Array(func(i int) error { return b.tool(r, i) })
	b.shown.tools = r.Since(start)
	return err
}

// tool reads the i-th tool. Those that OpenAI's servers run are refused by name.
func (b *body) tool(r *wire.Reader, i int) error {
	o := toolset.Offer{Place: "#/tools/" + strconv.Itoa(i)}
	kind, description := "", ""
	var format toolset.Format
	var parameters []byte
	probe := *r
	err := probe.Object("struct Tool", []wire.Field{{Name: "type", Required: true, Read: wire.Into(&kind,
		(*wire.Reader).String)}})
	if err != nil {
		return err
	}
	if kind == mcptools.Kind {
		w, err := mcptools.Read(r, fmt.Sprintf("tools[%d]", i))
		b.wants = append(b.wants, w)
		return err
	}
	if kind == "namespace" && b.space == "" {
		return b.namespace(r, i)
	}
	if kind != "function" && kind != "custom" {
		return &generate.Invalid{Field: "tools",
			Msg: fmt.Sprintf("`tools[%d]`: tools of type `%.48s` are not supported: "+
				"this server runs no tools of its own; these are: function, custom, mcp", i, kind)}
	}
	err = r.Object("struct Tool", []wire.Field{
		{Name: "name", Required: true, Read: func(r *wire.Reader) error { return b.tools.ReadName(r, &o.Name) }},
		{Name: "description", Read: fields.Text(&description)},
		{Name: "parameters", Read: func(r *wire.Reader) (err error) {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			parameters, err = r.RawObject()
			return err
		}},
		{Name: "strict", Read: fields.Flag(&o.Strict)},
		{Name: "format", Read: func(r *wire.Reader) error { return customFormat(r, &format) }},
	})
	if err != nil {
		return err
	}
	if kind == "custom" {
		o.SetCustom(description, format)
	} else {
		o.SetFunction(description, parameters)
	}
	b.tools.Offers = append(b.tools.Offers, o)
	if b.space != "" {
		if b.spaces == nil {
			b.spaces = map[string]string{}
		}
		b.spaces[o.Name] = b.space
	}
	return nil
}

// namespace reads tools under a name of their own, as Codex offers some. Models know them by their own names, and
// calls say which namespace they are of.
func (b *body) namespace(r *wire.Reader, i int) error {
	defer func() { b.space = "" }()
	probe := *r // the name comes before what it holds, wherever it stands
	err := probe.Object("struct Namespace", []wire.Field{
		{Name: "name", Required: true, Read: wire.Into(&b.space, (*wire.Reader).String)}})
	switch {
	case err != nil:
		return err
	case !fields.IsName(b.space, fields.MaxName):
		return r.Refuse(fmt.Sprintf("invalid value: string %.80q, expected the name of a namespace", b.space))
	}
	return r.Object("struct Namespace", []wire.Field{
		{Name: "tools", Required: true, Read: func(r *wire.Reader) error {
			return r.Array(func(int) error { return b.tool(r, i) })
		}}})
}

// customFormat reads what a custom tool's input is, or null.
func customFormat(r *wire.Reader, f *toolset.Format) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	kind := ""
	err := r.Object("struct CustomToolFormat", append(f.Fields(false),
		wire.Field{Name: "type", Required: true, Read: fields.Given(&kind, "text", "grammar")}))
	switch {
	case err == nil && kind == "grammar" && (f.Syntax == "" || f.Definition == ""):
		return r.Refuse("missing field `syntax` or `definition`")
	case kind == "text":
		*f = toolset.Format{}
	}
	return err
}

// toolChoice reads what is demanded of the tools: a word, a tool, or which tools are allowed.
func (b *body) toolChoice(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	start := *r
	defer func() { b.shown.choice = r.Since(start) }()
	return fields.Either(r, func(r *wire.Reader) error {
		word := ""
		err := fields.Word(&word, "auto", "none", "required")(r)
		if err == nil {
			b.tools.Choose(word)
		}
		return err
	}, func(r *wire.Reader) error {
		kind, name, mode := "", "", ""
		var allowed []string
		err := r.Object("struct ToolChoice", []wire.Field{
			{Name: "type", Required: true, Read: wire.Into(&kind, (*wire.Reader).String)},
			{Name: "name", Read: fields.Text(&name)},
			{Name: "mode", Read: fields.Word(&mode, "auto", "required")},
			{Name: "tools", Read: func(r *wire.Reader) error {
				return r.Array(func(int) error {
					one := ""
					err := r.Object("struct AllowedTool", []wire.Field{{Name: "name", Required: true,
						Read: wire.Into(&one, (*wire.Reader).String)}})
					allowed = append(allowed, one)
					return err
				})
			}},
		})
		switch {
		case err != nil:
			return err
		case kind == "allowed_tools" && mode != "":
			b.tools.Choose(mode)
			b.tools.Allow(allowed...)
		case (kind == "function" || kind == "custom") && name != "":
			b.tools.Choice = generate.ToolChoice{Mode: generate.ChooseNamed, Name: name}
		case kind == "allowed_tools":
			return r.Refuse("missing field `mode`")
		case kind == "function" || kind == "custom":
			return r.Refuse("missing field `name`")
		default:
			return &generate.Invalid{Field: "tool_choice", Msg: fmt.Sprintf("`tool_choice` of type `%.48s` is not "+
				"supported: this server runs no tools of its own; these are: function, custom, allowed_tools", kind)}
		}
		return nil
	})
}
