package bridge

import (
	"context"
	"errors"
	"fmt"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
	"tgi/server/generate"
)

// FindProgram implements generate.ProgramCode.
func (u userCode) FindProgram(calls []generate.PluginCall) (name string, contexts int) {
	return u.set.FindProgram(calls)
}

// RunFailed implements generate.BoundProgram.
func (b *boundCode) RunFailed(err error) { b.program.Note("a run failed: " + err.Error()) }

// Calls implements generate.BoundProgram.
func (b *boundCode) Calls() []generate.PluginCall { return b.set.InnerCalls(b.calls) }

// BindRun implements generate.BoundProgram.
func (b *boundCode) BindRun(calls []generate.PluginCall) generate.BoundCode {
	return &boundCode{set: b.set, encode: b.encode, jump: b.jump, source: b.source, calls: calls, request: b}
}

// RunProgram implements generate.BoundProgram.
func (b *boundCode) RunProgram(ctx context.Context, seed uint64, request []byte, h *generate.Contexts) error {
	if b.program == nil {
		return fmt.Errorf("%w: the program is not there any more", llm.ErrPlugin)
	}
	err := b.program.Run(ctx, seed, request, h)
	var no *plugins.BindError
	if errors.As(err, &no) && no.Plugin == b.program.Name() { // else it is one of a run's
		if h.Idle() && errors.Is(err, plugins.ErrParams) {
			return bindError(err) // it refuses the request
		}
		if errors.Is(err, plugins.ErrParams) { // a fault is in the log already
			b.program.Note("gave up: " + no.Text)
			if h.TakenBack() {
				return nil
			}
		}
		return fmt.Errorf("%w: %w", llm.ErrPlugin, err)
	}
	return err
}

// Render implements generate.BoundProgram, by the request's template or else the model's.
func (b *boundCode) Render(ctx context.Context, request []byte) (generate.Rendered, int64, error) {
	if b.chat != nil {
		return b.chat.RenderMetered(ctx, request)
	}
	chat, _, err := b.set.BindChat(ctx, nil, *b.source.Current())
	if err != nil {
		return generate.Rendered{}, 0, bindError(err)
	}
	defer chat.Close()
	return chat.RenderMetered(ctx, request)
}

// GrammarPrefix implements generate.BoundProgram.
func (b *boundCode) GrammarPrefix(ctx context.Context, call *generate.Grammar, text []byte) (n int, work int64,
	err error) {
	if call == nil {
		return b.grammar.Prefix(ctx, text)
	}
	g, err := b.set.Compile(ctx, *call)
	if err != nil {
		return 0, 0, grammarError(err, call.Field)
	}
	defer g.Close()
	return g.Prefix(ctx, text)
}

// ReadCalls implements generate.BoundProgram.
func (b *boundCode) ReadCalls(ctx context.Context, tokens []llm.Token) (state, size int, err error) {
	if b.chat == nil {
		return abi.CallsNone, 0, nil
	}
	state, size, err = b.chat.ReadCalls(ctx, b.tools, tokens)
	return state, size + len(b.tools), err
}

// HoldsCalls implements generate.BoundProgram.
func (b *boundCode) HoldsCalls(ctx context.Context, tokens []llm.Token) bool {
	c, err := b.grammar.Sequence(ctx, 0)
	if err != nil {
		return false
	}
	defer c.Close()
	for _, t := range tokens {
		if c.Accept(t) != nil {
			return false
		}
	}
	return true
}
