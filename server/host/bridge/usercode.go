package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
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

// Turns has the work of the host take turns with guests'.
func Turns(t *plugins.Turns) generate.Turns { return turns{t} }

// turns implements generate.Turns.
type turns struct{ *plugins.Turns }

// Begin implements generate.Turns.
func (t turns) Begin(client string) generate.Turn { return t.Turns.Begin(client) }

// Encode returns the tokens of a text, none added.
type Encode func(text string) []llm.Token

// UserCode returns the plugins of set as requests want them; source names those of conversations. encode, if not nil,
// is the model's tokenizer: it makes tokens of what grammars leave no choice about. jump says that those come, however
// the model would cut the same text.
func UserCode(set *plugins.Set, source ChatSource, encode Encode, jump bool) generate.UserCode {
	return userCode{set, source, encode, jump}
}

// userCode implements generate.UserCode.
type userCode struct {
	set    *plugins.Set
	source ChatSource
	encode Encode
	jump   bool
}

// Bind implements generate.UserCode.
func (u userCode) Bind(ctx context.Context, calls []generate.PluginCall, c *generate.Conversation, now time.Time) (
	generate.BoundCode, generate.Rendered, error) {
	b := &boundCode{set: u.set, encode: u.encode, jump: u.jump, source: u.source, conversation: c}
	var err error
	if b.program, b.calls, err = u.set.BindProgram(ctx, calls); err != nil {
		return nil, generate.Rendered{}, bindError(err)
	}
	if c == nil {
		return b, generate.Rendered{}, nil
	}
	if err := u.bindChat(ctx, b); err != nil {
		b.Close()
		return nil, generate.Rendered{}, err
	}
	r, err := b.chat.Render(ctx, c.TemplateRequest(now))
	if err != nil {
		b.Close()
		return nil, generate.Rendered{}, renderError(err, c)
	}
	b.prompt = r.Text
	return b, r, nil
}

// bindChat picks the template and the parser; the other calls are left for the token loop.
func (u userCode) bindChat(ctx context.Context, b *boundCode) error {
	u.source.Refresh(ctx)
	for {
		seen := u.source.Current()
		chat, rest, err := u.set.BindChat(ctx, b.calls, *seen)
		if err == nil {
			b.chat, b.calls = chat, rest
			b.templateSum = seen.TemplateSum
			return nil
		}
		// A reload may just have put others in their place.
		if !errors.Is(err, plugins.ErrUnknown) || u.source.Settled() == seen {
			return bindError(err)
		}
	}
}

// renderError says what an error of a template means to a request with c.
func renderError(err error, c *generate.Conversation) error {
	var no *plugins.RenderRefusal
	switch {
	case errors.Is(err, plugins.ErrNoTemplate):
		return generate.ErrNoTemplate
	case errors.As(err, &no):
		return &generate.TemplateError{Msg: no.Text, Field: blamed(no.Text, c)}
	}
	return conversationError(err, c)
}

// blamed returns the field that a template's refusal is about, where that can be told: it quotes the name that the
// request has for it.
func blamed(refusal string, c *generate.Conversation) string {
	if c.Template != "" && strings.Contains(refusal, "template "+strconv.Quote(c.Template)) {
		return "chat_template"
	}
	return ""
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

// boundCode is the user code of one request. What it holds is nil where there is none.
type boundCode struct {
	set          *plugins.Set
	encode       Encode
	jump         bool
	source       ChatSource
	calls        []generate.PluginCall // for the token loop
	conversation *generate.Conversation
	prompt       string // that it became
	templateSum  string

	program *plugins.Program
	chat    *plugins.BoundChat
	loop    *plugins.Bound
	inner   *plugins.Bound   // plugins of a program's runs, which loop has not
	request *boundCode       // whose run this is; nil for a request
	held    held             // what the texts are held to
	grammar *plugins.Grammar // of held; nil for a run's that is its request's
	texts   *texts
	parsers []*plugins.Parser
	tools   []byte // that parsers begin with, where a program may ask for one
}

// Begin implements generate.BoundCode. The cheapest checks come first. The instances of the token loop are taken last,
// so that other requests can use them while a grammar is compiled.
func (b *boundCode) Begin(ctx context.Context, w *generate.Wanted) (out generate.Begun, err error) {
	switch {
	case w.Outer:
		if b.loop, b.inner, err = b.set.BindOuter(ctx, b.calls); err != nil {
			return out, bindError(err)
		}
	case w.Inner:
		b.loop, err = b.set.BindInner(ctx, b.calls, b.request.inner)
	default:
		b.loop, err = b.set.Bind(ctx, b.calls)
	}
	if err != nil {
		return out, bindError(err)
	}
	var tools []byte
	if b.conversation != nil {
		prompt := b.prompt
		if w.Afresh {
			prompt = ""
		}
		tools = b.conversation.ToolsRequest(prompt)
	}
	if b.held, err = b.hold(ctx, w, tools); err != nil {
		return out, err
	}
	out.Held, out.Reasoning, out.Dropped = b.held.grammar != nil, b.held.reasoning, b.held.dropped
	if !w.Inner || !w.HoldCalls {
		b.grammar = b.held.grammar
	}
	if out.Held && !w.Outer {
		if b.texts, err = beginTexts(ctx, b.held, w, b.encode, b.jump); err != nil {
			return out, err
		}
	}
	if w.HoldCalls && w.Afresh && !out.Held {
		tools = b.conversation.ToolsRequest(b.prompt)
	}
	if out.Parsers, err = b.parse(ctx, w, tools); err != nil {
		return out, err
	}
	if w.Outer {
		b.tools = tools
	}
	seeds := make([]uint64, w.N)
	for i := range seeds {
		seeds[i] = llm.SeedFor(w.Seed, i)
	}
	if b.loop != nil {
		b.loop.Heal(w.Healed)
		if err := b.loop.Begin(ctx, w.Prompt, w.MaxNew, seeds); err != nil {
			return out, bindError(err)
		}
	}
	out.Sequence, out.Guarded = b.sequences(seeds), b.loop.Guarded()
	out.Used = b.used()
	return out, nil
}

// parse begins the parsers of a conversation.
func (b *boundCode) parse(ctx context.Context, w *generate.Wanted, tools []byte) (out []generate.Parser, err error) {
	for i := range w.Parsers {
		p, err := b.chat.Parser(ctx, tools, llm.SeedFor(w.Seed, i))
		switch {
		case errors.As(err, new(*plugins.TooCostly)):
			return nil, &generate.Invalid{Msg: "`tools`: " + err.Error(), Field: "tools"}
		case err != nil:
			return nil, bindError(err)
		case p == nil:
			return nil, nil // no plugin reads replies
		}
		b.parsers, out = append(b.parsers, p), append(out, p)
	}
	return out, nil
}

// sequences returns the user code of each sequence in the order in which it runs, nil for none.
func (b *boundCode) sequences(seeds []uint64) func(int) sample.Plugins {
	loop, texts := b.loop, b.texts
	switch {
	case loop == nil && texts == nil:
		return nil
	case loop == nil:
		return texts.take
	case texts == nil:
		return func(i int) sample.Plugins { return pluginsOf(loop.Sequence(i), seeds[i]) }
	}
	return func(i int) sample.Plugins { return sample.Join(pluginsOf(loop.Sequence(i), seeds[i]), texts.take(i)) }
}

// used says which plugins take part.
func (b *boundCode) used() (u generate.Used) {
	if b.chat != nil {
		u.Plugins, u.Template = b.chat.Used(), b.templateSum
	}
	if b.program != nil {
		u.Plugins = append(u.Plugins, b.program.Used())
	}
	if b.grammar != nil {
		u.Plugins = append(u.Plugins, b.grammar.Used())
	}
	for _, x := range []*plugins.Bound{b.loop, b.inner} {
		if x != nil {
			u.Plugins = append(u.Plugins, x.Used()...)
		}
	}
	return u
}

// Skipped implements generate.BoundCode.
func (b *boundCode) Skipped() (out []generate.Skip) {
	for _, x := range []*plugins.Bound{b.loop, b.inner} {
		if x != nil {
			out = append(out, x.Skipped()...)
		}
	}
	return out
}

// Close implements generate.BoundCode.
func (b *boundCode) Close() {
	for _, p := range b.parsers {
		p.Close()
	}
	if b.chat != nil {
		b.chat.Close()
	}
	if b.texts != nil {
		b.texts.close()
	}
	if b.grammar != nil {
		b.grammar.Close()
	}
	for _, x := range []*plugins.Bound{b.loop, b.inner} {
		if x != nil {
			x.Close()
		}
	}
	if b.program != nil {
		b.program.Close()
	}
}
