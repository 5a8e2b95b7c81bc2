package generate

import (
	"context"
	"slices"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// What a request says of plugins, and what they say of it.
type (
	// PluginCall asks for a plugin in one request.
	PluginCall = llm.PluginCall
	// Skip is a plugin that failed and without which the request went on.
	Skip = llm.Skip
	// Dropped is something that a grammar asks for and that the reply is not held to.
	Dropped = llm.Dropped
	// Span is a part of a text, from the byte Start up to the byte End.
	Span = llm.Span
	// Rendered is the prompt that a conversation becomes, with the parts that came from the request.
	Rendered = llm.Rendered
)

// UserCode is the plugins of a model, as requests use them: one call before the prompt is tokenized, one after it. It
// is safe for concurrent use.
//
// Its errors, and those of BoundCode: what the request may not ask for is an *Invalid; what a template can't render
// wraps ErrTemplate, as a *TemplateError where the reason is known; what is wrong with tools is a *ToolError. A plugin
// that is out of order fails with an error that wraps llm.ErrPlugin, and one without a free instance with
// llm.ErrOverloaded. When ctx ends, so does guest code that runs, then or at a later step.
type UserCode interface {
	// Bind begins a request; the caller closes the BoundCode. For a conversation it picks the template and the parser,
	// those that calls name or else the model's, and renders the prompt. c is nil for a text, and has at least one
	// message. now is the time of the request.
	Bind(ctx context.Context, calls []PluginCall, c *Conversation, now time.Time) (BoundCode, Rendered, error)
}

// BoundCode is the user code of one request, at the versions that were current when it was bound. It belongs to one
// goroutine, but for Skipped.
type BoundCode interface {
	// Begin begins the user code of all sequences: the plugins that the request calls in its order, behind those that
	// the operator applies to all; the grammar; the parsers. Compiling a grammar may take a second, in which other
	// requests go on. It is called at most once.
	Begin(ctx context.Context, w *Wanted) (Begun, error)
	// Skipped returns the plugins that failed and were passed over since, those of all sequences. It may be called at
	// any time.
	Skipped() []Skip
	// Close gives back what Bind and Begin took, parsers too; sequences that the engine still runs keep theirs until
	// it is through with them.
	Close()
}

// Wanted is what a checked request wants of its user code.
type Wanted struct {
	// Prompt is what the model reads, MaxNew the most tokens that a sequence may get.
	Prompt []llm.Token
	MaxNew int
	// Healed are the tokens that the client's prompt has behind Prompt: the texts begin with them again, and guards
	// judge what comes behind both.
	Healed []llm.Token
	// N sequences begin; the seed of sequence i is llm.SeedFor(Seed, i).
	N int
	// Outer says that a program writes the sequences, so that nothing but guards begins; Inner that they are runs of a
	// program, whose plugins are no guards.
	Outer, Inner bool
	Seed         uint64
	// Grammar of each text; nil for none. It has read the last Read tokens of the prompt.
	Grammar *Grammar
	Read    int
	// HoldCalls constrains the texts by the grammar of the conversation's parser, so that every call is valid, and by
	// Conversation.Answer where a text is no call. A run of a program is held to what its request is.
	HoldCalls bool
	// Afresh says that no reasoning that the prompt began goes on in the texts: their grammar has them from their first
	// character on.
	Afresh bool
	// Parsers is the number of parsers to open: one for each sequence of the reply, 0 for a text.
	Parsers int
}

// Begun is user code that has begun.
type Begun struct {
	// Sequence returns the user code of sequence i, once for each; the engine closes it. nil for none.
	Sequence func(i int) sample.Plugins
	// Parsers are as many as were wanted, or none where the text is the answer as it is.
	Parsers []Parser
	// Held says that the texts have a grammar: a parser may have none for its calls.
	Held bool
	// Guarded says that guards read the texts before clients do.
	Guarded bool
	// Reasoning comes before what the grammar demands; nil for none.
	Reasoning *Reasoning
	// Dropped is what the request asks for and its grammar does not enforce.
	Dropped []Dropped
	// Used is which user code that is, for receipts.
	Used Used
}

// Used is the user code of a request.
type Used struct {
	// Plugins are those that take part.
	Plugins []llm.UsedPlugin
	// Template is the checksum of the template's text; empty where it is part of its plugin, or there is none.
	Template string
}

// Parser tells content, reasoning and tool calls in the text of one sequence
// apart. It belongs to one goroutine. Errors wrap llm.ErrPlugin; after one it is of
// no use. The deltas are the caller's until the next call.
type Parser interface {
	// Feed takes the next piece of the text; special says that it is the text of
	// one special token.
	Feed(piece string, special bool) ([]Delta, error)
	// Finish ends the text; cut says that the length limit did. The last call.
	Finish(cut bool) ([]Delta, error)
}

// WithUserCode gives requests c. It is called before the first request.
func (s *Service) WithUserCode(c UserCode) *Service {
	s.code, s.grammars = c, true
	return s
}

// WithoutGrammars refuses requests with grammars. It is called behind WithUserCode.
func (s *Service) WithoutGrammars() *Service {
	s.grammars = false
	return s
}

// bind binds the user code of d, and renders its conversation into its inputs.
func (s *Service) bind(ctx context.Context, d *Draft, now time.Time) (BoundCode, error) {
	c := d.Conversation
	if c != nil && len(c.Messages) == 0 {
		return nil, &TemplateError{Msg: "`messages` must hold at least one message"}
	}
	if err := s.allowImages(d, c.images()); err != nil { // before a template that has no place for them
		return nil, err
	}
	// The plugins share the processors by client: a render in one of our workers would keep them from everybody's
	// encoding.
	code, r, err := s.code.Bind(ctx, d.Plugins, c, now)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return code, nil
	}
	if err := takeRoom(ctx, &r); err != nil {
		code.Close()
		return nil, err
	}
	d.Inputs, d.Data, d.RawPrompt = r.Text, r.Data, true
	return code, nil
}

// begin begins the user code of the checked request.
func (r *Run) begin(ctx context.Context, d *Draft) error {
	q, c := &r.Request, r.conversation
	w := Wanted{Prompt: q.Prompt, MaxNew: q.Params.MaxNewTokens, N: q.begun(), Seed: q.Params.Seed}
	w.Outer = q.contexts > 0
	if q.healed != nil {
		w.Healed = q.healed.Tokens
	}
	if c != nil {
		w.Parsers = q.Sequences
	}
	if d.Grammar != nil && (c == nil || c.Answer == nil || !c.offers()) {
		w.Grammar, w.Afresh = d.Grammar, true
	} else if c != nil && c.offers() {
		r.dropped = append(r.dropped, c.NotEnforced...)
		if c.Strict && !r.service.grammars {
			r.dropped = append(r.dropped, Dropped{Pointer: "#/tools", Keyword: "strict",
				Reason: "grammar is not supported"})
		}
		w.HoldCalls = (c.heldBy() != "" || c.Answer != nil) && r.service.grammars
		w.Afresh = w.HoldCalls && q.contexts > 0 && c.heldWhole()
	}
	begun, err := r.code.Begin(ctx, &w)
	if err != nil {
		return err
	}
	if c != nil && len(begun.Parsers) == 0 && c.ToolChoice.Demands() {
		return &ToolError{Msg: "the model has no parser of tool calls, `tool_choice` cannot demand one"}
	}
	r.parsers, r.dropped = begun.Parsers, append(r.dropped, begun.Dropped...)
	r.sequence, r.used, r.guarded = begun.Sequence, begun.Used, begun.Guarded
	if w.Outer {
		r.holdRuns(w.HoldCalls && begun.Held)
		return nil
	}
	if q.healed != nil {
		r.sequence = r.healed(r.sequence)
	}
	if q.CountPenalty != 0 {
		r.sequence = penalized(r.sequence, q.CountPenalty)
	}
	if begun.Reasoning != nil {
		r.sequence = r.service.bounded(r.sequence, begun.Reasoning, q.Params.MaxNewTokens)
	}
	return nil
}

// Skipped returns the plugins that failed and were passed over up to now, each once: one that is switched off is passed
// over by the request and by each run of its program.
func (r *Run) Skipped() []Skip {
	r.skipMu.Lock()
	defer r.skipMu.Unlock()
	list := addSkips(r.code.Skipped(), r.programSkips)
	for i := range list {
		if r.guarded {
			list[i].Reason = list[i].Outline
		}
	}
	return list
}

// Unknown returns the members of the request that mean nothing here.
func (r *Run) Unknown() []string { return r.unknown }

// Dropped returns what the grammar of the request, or of its tools, is not held
// to.
func (r *Run) Dropped() []Dropped {
	r.skipMu.Lock()
	defer r.skipMu.Unlock()
	return slices.Clip(r.dropped)
}

// noCode is the user code of a service that was given none.
type noCode struct{}

// Bind implements UserCode.
func (noCode) Bind(_ context.Context, calls []PluginCall, c *Conversation, _ time.Time) (BoundCode, Rendered, error) {
	if c != nil {
		return nil, Rendered{}, ErrNoTemplate
	}
	return boundNone{calls}, Rendered{}, nil
}

// boundNone is that of one request.
type boundNone struct{ calls []PluginCall }

// Begin implements BoundCode.
func (b boundNone) Begin(context.Context, *Wanted) (Begun, error) {
	if len(b.calls) > 0 {
		return Begun{}, invalid("plugins", "plugin `%.64s` is not installed", b.calls[0].Name)
	}
	return Begun{}, nil
}

// Skipped implements BoundCode.
func (boundNone) Skipped() []Skip { return nil }

// Close implements BoundCode.
func (boundNone) Close() {}
