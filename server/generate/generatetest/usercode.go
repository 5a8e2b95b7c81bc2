package generatetest

import (
	"context"
	"time"

	"tgi/runtime/sample"
	"tgi/server/generate"
)

// UserCode is scripted user code of its parts, each of which may be nil.
type UserCode struct {
	Chat     *Chat
	Grammars *Grammars
	// Loop takes calls of plugins, and gives each sequence its user code; nil knows no plugin.
	Loop func(calls []generate.PluginCall) (func(i int) sample.Plugins, error)
	// Skips are the plugins that were passed over once the sequences began.
	Skips []generate.Skip
}

// On gives a service the user code. Without Grammars it refuses them.
func (u UserCode) On(s *generate.Service) *generate.Service {
	if s.WithUserCode(u); u.Grammars == nil {
		s.WithoutGrammars()
	}
	return s
}

// Bind implements generate.UserCode.
func (u UserCode) Bind(ctx context.Context, calls []generate.PluginCall, c *generate.Conversation, now time.Time) (
	generate.BoundCode, generate.Rendered, error) {
	b := &boundCode{UserCode: u, calls: calls, conversation: c}
	if c == nil {
		return b, generate.Rendered{}, nil
	}
	if u.Chat == nil {
		return nil, generate.Rendered{}, generate.ErrNoTemplate
	}
	rest, err := u.Chat.bind(calls)
	if err != nil {
		return nil, generate.Rendered{}, err
	}
	r, err := u.Chat.render(ctx, c, now)
	if err != nil {
		b.Close()
		return nil, generate.Rendered{}, err
	}
	b.calls, b.prompt = rest, r.Text
	return b, r, nil
}

// boundCode is the user code of one request.
type boundCode struct {
	UserCode
	calls        []generate.PluginCall
	conversation *generate.Conversation
	prompt       string
	parsers      []*Parser
	grammar      bool // compiled
	begun        bool
}

// Begin implements generate.BoundCode.
func (b *boundCode) Begin(_ context.Context, w *generate.Wanted) (out generate.Begun, err error) {
	if b.Loop == nil && len(b.calls) > 0 {
		return out, &generate.Invalid{Msg: "plugin `" + b.calls[0].Name + "` is not installed", Field: "plugins"}
	}
	if b.Loop != nil {
		if out.Sequence, err = b.Loop(b.calls); err != nil {
			return out, err
		}
	}
	var tools []byte
	if b.conversation != nil {
		tools = b.conversation.ToolsRequest(b.prompt)
	}
	if w.HoldCalls {
		if out.Dropped, err = b.Chat.hold(b.conversation, tools); err != nil {
			return out, err
		}
	}
	if w.Grammar != nil {
		if err := b.Grammars.compile(w.Grammar, w.Seed, w.N); err != nil {
			return out, err
		}
		b.grammar = true
		if b.Grammars.RefuseBegin != nil {
			return out, b.Grammars.RefuseBegin
		}
		out.Dropped, out.Sequence = b.Grammars.Drops, b.masked(out.Sequence)
	}
	for range w.Parsers {
		p, err := b.Chat.parser(tools)
		if err != nil {
			return out, err
		}
		if p != nil {
			b.parsers, out.Parsers = append(b.parsers, p), append(out.Parsers, p)
		}
	}
	b.begun = true
	return out, nil
}

// masked adds the grammar to the user code of each sequence.
func (b *boundCode) masked(first func(int) sample.Plugins) func(int) sample.Plugins {
	return func(i int) sample.Plugins {
		if first == nil {
			return b.Grammars.sequence()
		}
		return sample.Join(first(i), b.Grammars.sequence())
	}
}

// Skipped implements generate.BoundCode.
func (b *boundCode) Skipped() []generate.Skip {
	if !b.begun {
		return nil
	}
	return b.Skips
}

// Close implements generate.BoundCode.
func (b *boundCode) Close() {
	for _, p := range b.parsers {
		p.close()
	}
	if b.conversation != nil {
		b.Chat.note(-1, 0, nil)
	}
	if b.grammar {
		b.Grammars.count(-1, 0)
	}
}
