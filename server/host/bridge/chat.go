package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tgi/plugins"
	"tgi/server/generate"
)

// ChatSource says which plugins conversations get.
type ChatSource interface {
	// Refresh takes over what was edited since it was last looked at.
	Refresh(ctx context.Context)
	// Current returns the plugins of now. Another pointer means that something changed.
	Current() *plugins.ChatPlugins
	// Settled is Current once a reload that is under way is over.
	Settled() *plugins.ChatPlugins
}

// Chat returns a model's template and tool parser, which source names and set has, as
// requests want them.
func Chat(set *plugins.Set, source ChatSource) generate.Chat { return chat{set, source} }

// chat implements generate.Chat.
type chat struct {
	set    *plugins.Set
	source ChatSource
}

// Bind implements generate.Chat.
func (c chat) Bind(ctx context.Context, calls []generate.PluginCall) (generate.BoundChat, []generate.PluginCall,
	error) {
	c.source.Refresh(ctx)
	var b *plugins.BoundChat
	var rest []generate.PluginCall
	var err error
	for again := true; again; {
		seen := c.source.Current()
		b, rest, err = c.set.BindChat(ctx, calls, *seen)
		// A reload may just have put others in their place.
		again = errors.Is(err, plugins.ErrUnknown) && c.source.Settled() != seen
	}
	if err != nil {
		return nil, nil, bindError(err)
	}
	return boundChat{b}, rest, nil
}

// boundChat is the template and the tool parser of one request.
type boundChat struct{ *plugins.BoundChat }

// Render implements generate.BoundChat.
func (b boundChat) Render(ctx context.Context, c *generate.Conversation, now time.Time) (generate.Rendered, error) {
	r, err := b.BoundChat.Render(ctx, c.TemplateRequest(now))
	var no *plugins.RenderRefusal
	switch {
	case errors.Is(err, plugins.ErrNoTemplate):
		return generate.Rendered{}, &generate.TemplateError{Msg: "template not found"}
	case errors.As(err, &no):
		return generate.Rendered{}, &generate.TemplateError{Msg: no.Text}
	case err != nil:
		return generate.Rendered{}, conversationError(err, c)
	}
	return r, nil
}

// conversationError is bindError of a conversation: it names the field that has most of what took too much.
func conversationError(err error, c *generate.Conversation) error {
	var costly *plugins.TooCostly
	if !errors.As(err, &costly) {
		return bindError(err)
	}
	messages := 0
	for i := range c.Messages {
		messages += len(c.Messages[i].JSON)
	}
	field, most := "messages", messages
	for name, size := range map[string]int{"tools": len(c.Tools), "documents": len(c.Documents),
		"chat_template_kwargs": len(c.Kwargs)} {
		if size > most {
			field, most = name, size
		}
	}
	return &generate.Invalid{Field: field, Msg: fmt.Sprintf("`%s` take more than %s = %s of plugin %s allows to %s. "+
		"Given: `messages` %d (%d bytes), `tools` %d (%d bytes), `documents` and `chat_template_kwargs` %d bytes", field,
		costly.Setting, costly.Bound, costly.Plugin, costly.Work, len(c.Messages), messages, len(c.ToolNames),
		len(c.Tools), len(c.Documents)+len(c.Kwargs))}
}

// Parser implements generate.BoundChat.
func (b boundChat) Parser(ctx context.Context, tools []byte, seed uint64) (generate.Parser, error) {
	p, err := b.BoundChat.Parser(ctx, tools, seed)
	switch {
	case errors.As(err, new(*plugins.TooCostly)):
		return nil, &generate.Invalid{Msg: "`tools`: " + err.Error(), Field: "tools"}
	case err != nil:
		return nil, bindError(err)
	case p == nil:
		return nil, nil // a nil *plugins.Parser is no nil interface
	}
	return p, nil
}

// Constraint implements generate.BoundChat.
func (b boundChat) Constraint(ctx context.Context, c *generate.Conversation, tools []byte) (*generate.ToolGrammar,
	error) {
	g, err := b.BoundChat.Constraint(ctx, c.ConstraintRequest(tools))
	var no *plugins.BindError
	switch {
	case errors.As(err, new(*plugins.TooCostly)):
		return nil, conversationError(err, c)
	case errors.Is(err, plugins.ErrParams) && errors.As(err, &no):
		return nil, &generate.ToolError{Msg: no.Text}
	case err != nil:
		return nil, bindError(err)
	case g == nil:
		return nil, nil
	}
	out := &generate.ToolGrammar{Optional: g.Optional, Answer: g.Answer, Dropped: g.Dropped}
	if r := g.Reasoning; r != nil {
		out.Reasoning = &generate.Reasoning{Open: r.Open, Begin: r.Begin, End: r.End}
	}
	if g.Source != "" {
		out.Grammar = &generate.Grammar{Field: "tools", Language: g.Language, Source: []byte(g.Source),
			Params: g.Params, Client: g.Client}
		if c.Answer != nil {
			out.Grammar.Client = withField(g.Client, c.Answer.Field)
		}
	}
	return out, nil
}

// withField says what is about the answer in the client's terms: field is where the client wrote what it is held to.
func withField(client func(string) (string, string), field string) func(string) (string, string) {
	return func(text string) (said, tool string) {
		said, tool = client(text)
		if rest, ok := strings.CutPrefix(said, "#/answer"); ok && tool == "" {
			said = "#/" + field + rest
		}
		return said, tool
	}
}
