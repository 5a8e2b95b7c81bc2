package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tgi/plugins/internal/guest"
	"tgi/plugins/tools"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Event is one part of what the parser finds in a model's text: content, reasoning, or a part of a tool call.
type Event = tools.Event

// Parser is a plugin of kind "tools" in one sequence. It is used by one goroutine at a time. An error wraps
// llm.ErrPlugin and a [*BindError] that names export, rule and what the guest printed last, or is the context's cause;
// it comes again at every further call. Close it.
type Parser struct {
	// ctx is the request's context: a Parser is the state of one of the request's sequences. It is a field because it
	// also ends the calls of Feed and Finish, and all calls of a Parser have the same one.
	ctx context.Context

	bound   *BoundChat
	part    *part
	session *guest.Session // nil after Close
	inner   *tools.Parser
	err     error

	follower *follower // of a shadow; nil for none
}

// Parser begins a sequence's parser. request is the JSON object of abi.Tools without "params"; it is not kept. When ctx
// ends, so does a call that runs, then or later. nil without an error means that there is no plugin for it, and the
// text is the content. Errors are those of Bind. b is not closed yet.
func (b *BoundChat) Parser(ctx context.Context, request []byte, seed uint64) (*Parser, error) {
	p := b.tools
	if p == nil {
		return nil, nil
	}
	t := b.set.turns.begin(p.client)
	defer t.end()
	s, err := p.version.guest.OpenShared(p.seed(seed), ctx.Done(), guestTurn{t, ctx})
	if err != nil {
		return nil, p.chatError(ctx, b.set, err)
	}
	inner, err := tools.Begin(s, request, p.params)
	if err != nil {
		s.Close()
		if costly := p.tooCostlyRequest(err, "begin a text", request); costly != nil {
			return nil, costly
		}
		return nil, p.chatError(ctx, b.set, err)
	}
	s.EndTurn()
	b.open.Add(1)
	return &Parser{bound: b, ctx: ctx, part: p, session: s, inner: inner, follower: p.parsing(request, seed)}, nil
}

// probe is a text that no format of calls has a meaning for.
const probe = "\u00a4"

// ReadCalls returns what a text has of calls, as in abi.CallsNone, and how many bytes it is. request is that of Parser,
// whose errors are those of this.
func (b *BoundChat) ReadCalls(ctx context.Context, request []byte, tokens []uint32) (state, size int, err error) {
	p, err := b.Parser(ctx, request, 0)
	if p == nil || err != nil {
		return abi.CallsNone, 0, err
	}
	defer p.Close()
	events, size, err := p.feedAll(tokens)
	if err != nil {
		return 0, size, err
	}
	next, err := p.Feed(probe, false)
	switch {
	case err != nil:
	case !outside(next):
		state = abi.CallsOpen
	case slices.ContainsFunc(events, func(e Event) bool { return e.Kind == llm.DeltaEnd }):
		state = abi.CallsMade
	}
	return state, size, err
}

// outside reports whether the events that the probe brought are the probe as a part of the text, and nothing that was
// held back because it could have gone on as a marker, or as a call.
func outside(events []Event) bool {
	text := ""
	for _, e := range events {
		if e.Kind != llm.DeltaContent && e.Kind != llm.DeltaReasoning {
			return false
		}
		text += e.Text
	}
	return strings.TrimSpace(text) == probe
}

// feedAll feeds tokens, of so many bytes.
func (p *Parser) feedAll(tokens []uint32) (out []Event, size int, err error) {
	vocab, piece := p.session.Guest().Vocabulary(), []byte(nil)
	feed := func(text []byte, special bool) error {
		events, err := p.Feed(strings.ToValidUTF8(string(text), "\uFFFD"), special)
		out, size = append(out, events...), size+len(text)
		return err
	}
	for _, t := range tokens {
		if vocab.Flags(t)&abi.TokenSpecial == 0 {
			piece = append(piece, vocab.Bytes(t)...)
			continue
		}
		if err := feed(piece, false); err != nil {
			return out, size, err
		}
		piece = piece[:0]
		if err := feed(vocab.Bytes(t), true); err != nil {
			return out, size, err
		}
	}
	err = feed(piece, false)
	return out, size, err
}

// Feed hands over the next piece of the model's text, UTF-8, cut where the tokens are; special means that it is the
// text of one special token. The events and their texts are copies.
func (p *Parser) Feed(piece string, special bool) ([]Event, error) {
	if p.err != nil {
		return nil, p.err
	}
	events, err := p.inner.Feed(piece, special)
	if err == nil {
		p.follower.fed(piece, special, events)
	}
	return events, p.recordError(err)
}

// Finish ends the text and returns the last events; cut means that the length limit ended the text. It is the last call
// before Close.
func (p *Parser) Finish(cut bool) ([]Event, error) {
	if p.err != nil {
		return nil, p.err
	}
	events, err := p.inner.Finish(cut)
	if err == nil {
		p.follower.finished(cut, events)
	}
	return events, p.recordError(err)
}

// recordError turns an error of the guest into the request's error. It keeps the first one.
func (p *Parser) recordError(err error) error {
	if err == nil {
		return p.err
	}
	p.follower.leave()
	p.err = p.part.chatError(p.ctx, p.bound.set, err)
	if errors.As(p.err, new(*BindError)) {
		p.err = fmt.Errorf("%w: %w", llm.ErrPlugin, p.err)
	}
	return p.err
}

// Close returns the instance to its pool. Closing twice is fine.
func (p *Parser) Close() {
	if p.session == nil {
		return
	}
	p.session.Close()
	p.session = nil
	p.follower.close()
	if p.err == nil {
		p.part.recordSuccess(p.bound.set)
	}
	p.bound.unref()
}
