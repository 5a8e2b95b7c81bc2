package generate

import (
	"context"
	"iter"
	"math"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
)

// Engine runs requests. On wraps a runtime engine; tests script their own.
type Engine interface {
	// Submit queues r and returns its events, or fails at once with
	// llm.ErrOverloaded, llm.ErrDraining, llm.ErrTooLong, llm.ErrInvalid or
	// llm.ErrClosed. When ctx ends, so do the request's sequences.
	Submit(ctx context.Context, r engine.Request) (Stream, error)
	// Healthy returns nil while the engine works.
	Healthy() error
}

// Stream is the events of one request, read by one goroutine.
type Stream interface {
	// Next waits for the next event, or for ctx, whose end loses no event. It
	// returns io.EOF after the last event of the last sequence.
	Next(ctx context.Context) (Event, error)
}

// What the engine says, under the names that dialects use.
type (
	// Event is one generated token.
	Event = engine.Event
	// Token is a token with its text and log-probability.
	Token = engine.TopToken
	// PromptToken is a token of the prompt; the first has no log-probability, NaN.
	PromptToken = engine.PromptToken
)

// On returns e as an Engine.
func On(e *engine.Engine) Engine { return adapter{e} }

type adapter struct{ *engine.Engine }

// Watch implements Sessions.
func (adapter) Watch(_ context.Context, _ engine.Request, s Stream) Stream { return s }

func (a adapter) Submit(ctx context.Context, r engine.Request) (Stream, error) {
	s, err := a.Engine.Submit(ctx, r)
	if err != nil {
		return nil, err // a nil *engine.Stream is no nil Stream
	}
	return s, nil
}

// Piece is a token with its place in the text: Start and End count characters.
type Piece = llm.Piece

// Tokenizer turns text into tokens. It is safe for concurrent use.
type Tokenizer interface {
	// EncodePrompt returns the tokens of a prompt. How much work that is follows from what
	// o wants of it, however long the text is. The errors are those of o.Pause.
	EncodePrompt(text string, o llm.Encoding) (llm.Encoded, error)
	// Pieces returns the tokens of text with their places, one after the other, and with the
	// special tokens that the model expects around a prompt when special is true: between two
	// it holds little beside the text.
	Pieces(text string, special bool) iter.Seq[Piece]
	// EncodeSpans returns the tokens of a text whose parts data came from a
	// request, none added. A special token is recognised only where it does not
	// touch data, so that a request cannot forge one.
	EncodeSpans(text string, data []Span) []llm.Token
	// SpanPieces is EncodeSpans with places, as Pieces has it.
	SpanPieces(text string, data []Span) iter.Seq[Piece]
	// Bytes returns what a token stands for in the middle of a text, which need not be
	// whole characters, and whether there is such a token.
	Bytes(t llm.Token) ([]byte, bool)
}

// meanLogprob is the score that ranks sequences of best_of; one without tokens, or with
// a NaN, ranks last.
func meanLogprob(tokens []Token) float64 {
	sum := 0.0
	for _, t := range tokens {
		sum += float64(t.Logprob)
	}
	if len(tokens) == 0 || math.IsNaN(sum) {
		return math.Inf(-1)
	}
	return sum / float64(len(tokens))
}
