package plugins

import (
	"context"

	"tgi/plugins/tools"
)

// ToolGrammar is the grammar, for [Set.Compile], that the text of a request with tools must follow. Without a Source
// the text is free, and Dropped lists what is not enforced.
type ToolGrammar = tools.Constraint

// Constraint asks the parser's plugin for the grammar of a request's text, so that the model can only write valid
// calls. request is the JSON object of abi.Tools without "params"; it is not kept. nil means that the text is free and
// nothing was dropped. Errors are those of Bind; ErrParams if the request demands what no grammar can enforce. When ctx
// ends, the guest's call ends too. b is not closed yet.
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
		p.constrained(request, nil)
		return nil, nil
	}
	p.constrained(request, &c)
	return &c, nil
}
