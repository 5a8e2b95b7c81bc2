package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/runtime/token"
	"tgi/server/generate"
)

// conversations is the model's template and tool parser as requests want them. It
// implements generate.Chat.
type conversations struct{ control *control }

// Bind implements generate.Chat.
func (c conversations) Bind(ctx context.Context, calls []generate.PluginCall) (generate.BoundChat, []generate.PluginCall, error) {
	c.control.freshen(ctx)
	var b *plugins.BoundChat
	var rest []plugins.Call
	var err error
	for again := true; again; {
		seen := c.control.chat.Load()
		b, rest, err = c.control.set.BindChat(ctx, callsOf(calls), seen.use)
		// A reload may just have put others in their place.
		again = errors.Is(err, plugins.ErrUnknown) && c.control.settled() != seen
	}
	if err != nil {
		return nil, nil, bindError(err)
	}
	left := make([]generate.PluginCall, len(rest))
	for i, r := range rest {
		left[i] = generate.PluginCall{Name: r.Name, Params: r.Params}
	}
	return boundChat{b}, left, nil
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
		return generate.Rendered{}, bindError(err)
	}
	out := generate.Rendered{Text: r.Text, Data: make([]generate.Span, len(r.Data))}
	for i, s := range r.Data {
		out.Data[i] = generate.Span{Start: s.Start, End: s.End}
	}
	return out, nil
}

// Parser implements generate.BoundChat.
func (b boundChat) Parser(ctx context.Context, c *generate.Conversation, promptEnd string, seed uint64) (generate.Parser, error) {
	p, err := b.BoundChat.Parser(ctx, c.ToolsRequest(promptEnd), seed)
	switch {
	case err != nil:
		return nil, bindError(err)
	case p == nil:
		return nil, nil // a nil *plugins.Parser is no nil interface
	}
	return &parser{plugin: p}, nil
}

// Constraint implements generate.BoundChat.
func (b boundChat) Constraint(ctx context.Context, c *generate.Conversation, promptEnd string) (*generate.ToolGrammar, error) {
	g, err := b.BoundChat.Constraint(ctx, c.ConstraintRequest(promptEnd))
	var no *plugins.BindError
	switch {
	case errors.Is(err, plugins.ErrParams) && errors.As(err, &no):
		return nil, &generate.ToolError{Msg: no.Text}
	case err != nil:
		return nil, bindError(err)
	case g == nil:
		return nil, nil
	}
	out := &generate.ToolGrammar{Optional: g.Optional, Answer: g.Answer}
	for _, d := range g.Dropped {
		out.Dropped = append(out.Dropped, generate.Dropped{Pointer: d.Pointer, Keyword: d.Keyword, Reason: d.Reason})
	}
	if r := g.Reasoning; r != nil {
		out.Reasoning = &generate.Reasoning{Open: r.Open, Begin: r.Begin, End: r.End}
	}
	if g.Source != "" {
		out.Grammar = &generate.Grammar{Field: "tools", Language: g.Language, Source: []byte(g.Source), Params: g.Params, Client: g.Client}
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

// parser is a plugin's parser as requests want it.
type parser struct {
	plugin *plugins.Parser
	deltas []generate.Delta
}

// Feed implements generate.Parser.
func (p *parser) Feed(piece string, special bool) ([]generate.Delta, error) {
	return p.told(p.plugin.Feed(piece, special))
}

// Finish implements generate.Parser.
func (p *parser) Finish(cut bool) ([]generate.Delta, error) { return p.told(p.plugin.Finish(cut)) }

// Close implements generate.Parser.
func (p *parser) Close() { p.plugin.Close() }

// told turns a plugin's events into deltas: kinds and reasons have the contract's numbers on both sides.
func (p *parser) told(events []plugins.Event, err error) ([]generate.Delta, error) {
	if err != nil {
		return nil, bindError(err)
	}
	p.deltas = p.deltas[:0]
	for _, e := range events {
		p.deltas = append(p.deltas, generate.Delta{
			Kind: generate.DeltaKind(e.Kind), Index: e.Index, Text: e.Text, Name: e.Name, ID: e.ID,
			Failed: generate.CallFailure(e.Reason),
		})
	}
	return p.deltas, nil
}

// EncodeSpans implements generate.Tokenizer.
func (e encoder) EncodeSpans(text string, data []generate.Span) []llm.Token {
	return e.Tokenizer.EncodeSpans(text, spansOf(data))
}

// SpanPieces implements generate.Tokenizer.
func (e encoder) SpanPieces(text string, data []generate.Span) iter.Seq[generate.Piece] {
	return piecesOf(e.Tokenizer.SpanPieces(text, spansOf(data)))
}

func spansOf(data []generate.Span) []token.Span {
	out := make([]token.Span, len(data))
	for i, s := range data {
		out[i] = token.Span{Start: s.Start, End: s.End}
	}
	return out
}
