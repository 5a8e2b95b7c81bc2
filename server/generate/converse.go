package generate

import (
	"context"
	"time"

	"tgi/runtime/llm"
)

// Texts with the parts that came from the request, as the template gives them.
type (
	// Span is a part of a text, from the byte Start up to the byte End.
	Span = llm.Span
	// Rendered is the prompt that a conversation becomes.
	Rendered = llm.Rendered
)

// Chat is what turns conversations into prompts, and what the model writes into
// replies. It is safe for concurrent use.
type Chat interface {
	// Bind picks the template and the parser of a request: those that its calls
	// name, or else the model's. rest are the calls that are not for these, in
	// their order, for Plugins.Bind. Errors are as those of Plugins.Bind. The
	// result is not nil and must be closed. When ctx ends, running guest code does.
	Bind(ctx context.Context, calls []PluginCall) (chat BoundChat, rest []PluginCall, err error)
}

// BoundChat is the template and the parser of one request, at the versions that
// were current when it was bound. It belongs to one goroutine.
type BoundChat interface {
	// Render returns the prompt of c, which has at least one message. What c may
	// not hold, and a model without a template, fails with an error that wraps
	// ErrTemplate, best a *TemplateError; a plugin that is out of order with one
	// that wraps llm.ErrPlugin, and one without a free instance with
	// llm.ErrOverloaded. now is the time of the request.
	Render(ctx context.Context, c *Conversation, now time.Time) (Rendered, error)
	// Parser returns the parser of one sequence, which must be closed; nil where
	// the text is the answer as it is. tools is Conversation.ToolsRequest, which all
	// sequences share. Errors are as those of Plugins.Bind.
	Parser(ctx context.Context, tools []byte, seed uint64) (Parser, error)
	// Constraint says what the texts of a reply to c, which demands a call, offers a
	// strict tool or has an Answer, are held to, so that its calls are right as they
	// are written; nil for nothing.
	// tools is as for Parser. Calls that c demands and that can't be held to
	// fail with a *ToolError; other errors are as those of Plugins.Bind.
	Constraint(ctx context.Context, c *Conversation, tools []byte) (*ToolGrammar, error)
	// Close gives back what Bind took. Parsers that were returned go on.
	Close()
}

// Parser tells content, reasoning and tool calls in the text of one sequence
// apart. It belongs to one goroutine. Errors wrap llm.ErrPlugin; after one it can
// only be closed. The deltas are the caller's until the next call.
type Parser interface {
	// Feed takes the next piece of the text; special says that it is the text of
	// one special token.
	Feed(piece string, special bool) ([]Delta, error)
	// Finish ends the text; cut says that the length limit did. The last call.
	Finish(cut bool) ([]Delta, error)
	// Close gives the parser back.
	Close()
}

// What the plugins say of a reply, under the names that dialects use.
type (
	// Delta is what a piece of text adds to a reply.
	Delta = llm.Delta
	// DeltaKind says what a Delta adds.
	DeltaKind = llm.DeltaKind
	// CallFailure says why a call can't be used.
	CallFailure = llm.CallFailure
)

// The kinds of Delta.
const (
	DeltaContent   = llm.DeltaContent
	DeltaReasoning = llm.DeltaReasoning
	DeltaBegin     = llm.DeltaBegin
	DeltaArguments = llm.DeltaArguments
	DeltaEnd       = llm.DeltaEnd
	DeltaFailed    = llm.DeltaFailed
)

// The reasons of DeltaFailed.
const (
	FailedIncomplete = llm.FailedIncomplete
	FailedUnknown    = llm.FailedUnknown
	FailedMalformed  = llm.FailedMalformed
	FailedTooLong    = llm.FailedTooLong
	FailedTooMany    = llm.FailedTooMany
)
