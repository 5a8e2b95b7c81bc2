package plugins

import (
	"context"

	"tgi/plugins/tools"
)

// ToolGrammar is what the text of a request with tools is held to: a grammar for [Set.Compile]. Without a Source it is
// held to nothing, and Dropped says what it should have been.
type ToolGrammar = tools.Constraint

// Constraint asks the parser's plugin what the text of a request is held to, so that calls are right as they are
// written. request is the JSON object of abi.Tools without "params"; it is not kept. nil means that nothing is held to
// anything, and that nobody is to be told. That what the request demands can't be held to matches ErrParams; errors are
// those of Bind. When ctx ends, so does the guest. b is not closed yet.
func (b *BoundChat) Constraint(ctx context.Context, request []byte) (*ToolGrammar, error) {
	p := b.tools
	if p == nil || !tools.Constrains(p.version.guest) {
		return nil, nil
	}
	s, done, err := p.openShared(ctx, b.set)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := tools.Constrain(s, request, p.params)
	if costly := p.tooCostlyRequest(err, "make a grammar of", request); costly != nil {
		return nil, costly
	}
	if err != nil {
		return nil, p.chatError(ctx, b.set, err)
	}
	if c.Source == "" && len(c.Dropped) == 0 {
		return nil, nil
	}
	return &c, nil
}
