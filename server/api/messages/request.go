package messages

import (
	"fmt"
	"slices"
	"strconv"

	"tgi/server/api/deltas"
	"tgi/server/api/toolset"
	"tgi/server/dispatch"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// maxToolName is the greatest length of a tool's name, as Anthropic has it.
const maxToolName = 128

// call is one request, decoded.
type call struct {
	id    string
	named string          // the model that the body names
	model *dispatch.Model // what runs it
	draft generate.Draft
	// stream: the reply is events.
	stream bool
	shown  deltas.Settings
	// budget bounds the tokens of thinking; 0 is none.
	budget uint32

	conversation generate.Conversation
	tools        toolset.Set
	// wants are the MCP servers whose tools the request asks for; loop is what it uses of them, nil for none.
	wants []mcp.Want
	loop  *mcp.Loop
}

// body is a request while it is read.
type body struct {
	call
	system   *generate.Message
	alone    bool // one call at most
	called   map[string]string
	thinking thinking
}

// thinking is the member of that name.
type thinking struct {
	kind, display string
	budget        *uint32
}

// decode reads a body of POST /v1/messages where it generates, and else of /v1/messages/count_tokens.
func decode(text []byte, generates bool) (*call, error) {
	b := &body{call: call{tools: toolset.Set{MaxName: maxToolName}}, called: map[string]string{}}
	list := b.fields(generates)
	err := fields.Decode(text, "struct MessagesRequest", list, &b.draft)
	if err != nil {
		return nil, err
	}
	return b.finish()
}

// finish brings together what several members say.
func (b *body) finish() (*call, error) {
	c := &b.conversation
	if len(c.Messages) == 0 {
		return nil, &generate.Invalid{Field: "messages", Msg: "`messages` must hold at least one message"}
	}
	if b.system != nil {
		c.Messages = append([]generate.Message{*b.system}, c.Messages...)
	}
	c.Parallel = !b.alone
	if err := b.think(); err != nil {
		return nil, err
	}
	b.draft.Rules, b.draft.Stream, b.draft.Clip = generate.OpenAI, b.stream, true
	b.draft.LengthField, b.draft.Conversation = "max_tokens", c
	return &b.call, nil
}

// offer tells the model of the tools, once all are known.
func (c *call) offer() error {
	v := &c.conversation
	if err := c.tools.Apply(v); err != nil {
		return err
	}
	if g := c.draft.Grammar; g != nil && len(v.ToolNames) > 0 && v.ToolChoice.Mode != generate.ChooseNone {
		if g.Plugin != "" {
			return generate.AnswerOrCalls(g.Field)
		}
		v.Answer = g
	}
	return nil
}

// think tells the template whether the model thinks, and bounds how long.
func (b *body) think() error {
	t := &b.thinking
	switch t.kind {
	case "enabled", "adaptive":
		fields.SetVariable(&b.conversation, "enable_thinking", []byte("true"))
	case "disabled":
		fields.SetVariable(&b.conversation, "enable_thinking", []byte("false"))
	}
	b.shown.HideReasoning = t.display == "omitted"
	most := b.draft.MaxNewTokens
	switch {
	case t.kind == "enabled" && t.budget == nil:
		return &generate.Invalid{Field: "thinking", Msg: "`thinking.budget_tokens` is missing"}
	case t.budget == nil || t.kind != "enabled":
		return nil
	case *t.budget == 0 || most != nil && *t.budget >= *most:
		bound := "positive"
		if most != nil {
			bound = fmt.Sprintf("positive and less than `max_tokens` (%d)", *most)
		}
		return &generate.Invalid{Field: "thinking", Msg: fmt.Sprintf("`thinking.budget_tokens` must be %s. Given: %d",
			bound, *t.budget)}
	}
	b.budget = *t.budget
	return nil
}

// budgetPlugin is the built-in plugin that bounds thinking, where it is installed.
const budgetPlugin = "thinking-budget"

// bind gives the call to the model that is to run it.
func (c *call) bind(m *dispatch.Model) {
	c.model = m
	if c.budget == 0 || m.Plugins == nil ||
		slices.ContainsFunc(c.draft.Plugins, func(p generate.PluginCall) bool { return p.Name == budgetPlugin }) {
		return
	}
	for _, p := range m.Plugins() {
		if p.Name == budgetPlugin {
			c.draft.Plugins = append(c.draft.Plugins, generate.PluginCall{Name: budgetPlugin,
				Params: append(wire.AppendInt([]byte{'{'}, "budget", int(c.budget)), '}')})
			return
		}
	}
}

// fields are those of a request: Anthropic's, and those that this server has beside them.
func (b *body) fields(generates bool) []wire.Field {
	d := &b.draft
	list := slices.DeleteFunc(fields.Sampling(d), func(f wire.Field) bool { return f.Name == "stop" })
	list = append(append(list, fields.Guided(&d.Grammar)...), fields.Template(&b.conversation)...)
	list = append(list, []wire.Field{
		{Name: "model", Required: true, Read: fields.Text(&b.named)},
		{Name: "messages", Required: true, Read: b.messages},
		{Name: "system", Read: b.readSystem},
		{Name: "max_tokens", Required: generates, Read: wire.Optional(&d.MaxNewTokens, (*wire.Reader).Positive32)},
		{Name: "stop_sequences", Read: fields.Stops(&d.Stop)},
		{Name: "stream", Read: fields.Flag(&b.stream)},
		{Name: "tools", Read: b.readTools},
		{Name: "tool_choice", Read: b.toolChoice},
		{Name: "thinking", Read: b.readThinking},
		{Name: "output_config", Read: b.outputConfig},
		{Name: "output_format", Read: func(r *wire.Reader) error { return b.format(r, "output_format") }},
		{Name: "metadata", Read: metadata},
		{Name: "cache_control", Read: cacheControl},
		fields.Explain(&d.Explain), fields.Prediction(d),
	}...)
	list = append(list, fields.Guidance(&d.Guidance, otherMessages)...)
	return append(list, wire.Field{Name: "container", Read: fields.Unset("container")},
		wire.Field{Name: "mcp_servers", Read: mcpServers})
}

// metadata reads an object with a user_id, or null. It changes nothing.
func metadata(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	var user string
	return r.Object("struct Metadata", []wire.Field{{Name: "user_id", Read: fields.Text(&user)}})
}

// cacheControl reads what says that a prefix is to be kept, or null: all are.
func cacheControl(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Object("struct CacheControl", []wire.Field{
		{Name: "type", Required: true, Read: fields.Given(new(string), "ephemeral")},
		{Name: "ttl", Read: fields.Word(new(string), "5m", "1h")},
	})
}

// readThinking reads whether the model is to think.
func (b *body) readThinking(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	t := &b.thinking
	return r.Object("struct Thinking", []wire.Field{
		{Name: "type", Required: true, Read: fields.Given(&t.kind, "enabled", "disabled", "adaptive", "between_tools")},
		{Name: "budget_tokens", Read: wire.Optional(&t.budget, (*wire.Reader).Uint32)},
		{Name: "display", Read: fields.Word(&t.display, "summarized", "omitted")},
	})
}

// outputConfig reads the format of the reply and the effort, which is the template's.
func (b *body) outputConfig(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	effort := ""
	err := r.Object("struct OutputConfig", []wire.Field{
		{Name: "format", Read: func(r *wire.Reader) error { return b.format(r, "output_config.format") }},
		{Name: "effort", Read: fields.Text(&effort)},
	})
	if err == nil && effort != "" {
		fields.SetVariable(&b.conversation, "reasoning_effort", wire.AppendString(nil, effort))
	}
	return err
}

// format reads what the reply is held to, or null: {"type":"json_schema","schema":{…}}.
func (b *body) format(r *wire.Reader, name string) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	g := &generate.Grammar{Language: generate.JSONSchema}
	err := r.Object("struct OutputFormat", []wire.Field{
		{Name: "type", Required: true, Read: fields.Given(new(string), "json_schema")},
		{Name: "schema", Required: true, Read: wire.Into(&g.Source, (*wire.Reader).RawObject)},
	})
	if err != nil {
		return err
	}
	return fields.Hold(&b.draft.Grammar, g, name)
}

// readTools reads the tools that are offered, or null.
func (b *body) readTools(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(i int) error { return b.tool(r, i) })
}

// tool reads the i-th tool. Those of Anthropic's own, which its models or its servers know by a type, are refused.
func (b *body) tool(r *wire.Reader, i int) error {
	o := toolset.Offer{Place: "#/tools/" + strconv.Itoa(i)}
	kind, description := "custom", ""
	schema := []byte(`{"type":"object","properties":{}}`)
	probe := *r
	if err := probe.Object("struct Tool", []wire.Field{{Name: "type", Read: fields.Text(&kind)}}); err != nil {
		return err
	}
	if kind == toolsetKind {
		return b.toolset(r, fmt.Sprintf("tools[%d]", i))
	}
	if kind != "custom" && kind != "" {
		return &generate.Invalid{Field: "tools",
			Msg: fmt.Sprintf("`tools[%d]`: tools of type `%.64s` are not supported: "+
				"this server runs no tools of its own, and its models know none; offer it with a name and an "+
				"`input_schema`", i, kind)}
	}
	err := r.Object("struct Tool", []wire.Field{
		{Name: "name", Required: true, Read: func(r *wire.Reader) error { return b.tools.ReadName(r, &o.Name) }},
		{Name: "description", Read: fields.Text(&description)},
		{Name: "input_schema", Required: true, Read: wire.Into(&schema, (*wire.Reader).RawObject)},
		{Name: "strict", Read: fields.Flag(&o.Strict)},
		{Name: "cache_control", Read: cacheControl},
	})
	if err != nil {
		return err
	}
	o.SetFunction(description, schema)
	b.tools.Offers = append(b.tools.Offers, o)
	return nil
}

// toolChoice reads what is demanded of the tools, in one of four forms, or null.
func (b *body) toolChoice(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	kind, name := "", ""
	err := r.Object("struct ToolChoice", []wire.Field{
		{Name: "type", Required: true, Read: fields.Given(&kind, "auto", "any", "tool", "none")},
		{Name: "name", Read: fields.Text(&name)},
		{Name: "disable_parallel_tool_use", Read: fields.Flag(&b.alone)},
	})
	switch {
	case err != nil:
		return err
	case kind == "tool" && name == "":
		return r.Refuse("missing field `name`")
	case kind == "tool":
		b.tools.Choice = generate.ToolChoice{Mode: generate.ChooseNamed, Name: name}
	case kind == "any":
		b.tools.Choose("required")
	default:
		b.tools.Choose(kind)
	}
	return nil
}
