package generate

import (
	"context"
	"errors"
	"slices"
)

// ToolGrammar is what the texts of a reply are held to so that its calls are right
// as they are written.
type ToolGrammar struct {
	// Grammar of all that the model writes; nil for none.
	Grammar *Grammar
	// Optional: the request continues without the grammar if it cannot be compiled.
	Optional bool
	// Answer: a text that is no call is held to Conversation.Answer.
	Answer bool
	// Reasoning may come first, and Grammar demands that it ends; nil for none.
	Reasoning *Reasoning
	// Dropped is what the request asks for and the grammar does not enforce.
	Dropped []Dropped
}

// errBoth is TGI's answer to a request with both, where the model's format of calls
// can't be told from an answer, or its parser's plugin knows no more than calls.
var errBoth = &ToolError{Msg: "Grammar and tools are mutually exclusive"}

// holdCalls compiles what the calls of d's conversation are held to, if calls are
// demanded or a tool is strict. Without grammars, and where no plugin knows the language, calls are
// checked when they are complete, as those of a plugin that says nothing.
func (r *Run) holdCalls(ctx context.Context, d *Draft) error {
	c := r.conversation
	if c != nil && c.offers() {
		r.dropped = slices.Clip(c.NotEnforced)
	}
	if c == nil || !c.offers() || !c.Strict && !c.ToolChoice.Demands() && c.Answer == nil ||
		r.service.grammars == nil ||
		d.IgnoreEOS {
		return nil
	}
	g, err := r.chat.Constraint(ctx, c, r.tools)
	switch {
	case err != nil:
		return err
	case c.Answer != nil && (g == nil || g.Grammar == nil || !g.Answer):
		return errBoth
	case g == nil:
		return nil
	}
	for _, d := range g.Dropped {
		d.Pointer = c.place(d.Pointer)
		r.dropped = append(r.dropped, d)
	}
	if g.Grammar == nil {
		return nil
	}
	if client := g.Grammar.Client; client != nil {
		g.Grammar.Client = func(text string) (said, tool string) {
			said, tool = client(text)
			return c.place(said), tool
		}
	}
	r.grammar, err = r.service.grammars.Compile(ctx, g.Grammar)
	if err == nil {
		r.reasoning = g.Reasoning
	}
	var no *ToolError
	if err != nil && c.Answer == nil && (errors.Is(err, ErrLanguage) || g.Optional && errors.As(err, &no)) {
		r.grammar = nil
		r.dropped = append(r.dropped[:len(r.dropped):len(r.dropped)],
			Dropped{Pointer: "#/tools", Keyword: "function", Reason: err.Error()})
		return nil
	}
	return err
}
