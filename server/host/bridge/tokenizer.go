package bridge

import (
	"iter"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/token"
	"tgi/server/generate"
)

// Model returns the paged model as the engine wants it.
func Model(p *ort.Paged) engine.Model { return model{p} }

// model implements engine.Model.
type model struct{ *ort.Paged }

// Shape implements engine.Model.
func (b model) Shape() engine.Shape {
	return engine.Shape{Vocab: b.Vocab(), BlockSize: b.BlockSize(), Blocks: b.Blocks(), MaxLen: b.MaxLen()}
}

// Codec returns a tokenizer as the engine wants it. The tokens of eos end a sequence.
func Codec(tok *token.Tokenizer, eos []llm.Token) engine.Codec { return codec{tok, eos} }

// codec implements engine.Codec.
type codec struct {
	*token.Tokenizer
	eos []llm.Token
}

// Stream implements engine.Codec.
func (c codec) Stream(prompt []llm.Token) engine.Detokenizer { return c.Tokenizer.Stream(prompt) }

// Special implements engine.Codec.
func (c codec) Special(id llm.Token) bool { return c.IsSpecial(id) }

// Text implements engine.Codec.
func (c codec) Text(id llm.Token) string { return c.Decode([]llm.Token{id}, false) }

// EOS implements engine.Codec.
func (c codec) EOS() []llm.Token { return c.eos }

// Tokenizer returns a tokenizer as requests want it.
func Tokenizer(tok *token.Tokenizer) generate.Tokenizer { return tokenizer{tok} }

// tokenizer implements generate.Tokenizer.
type tokenizer struct{ *token.Tokenizer }

// Pieces implements generate.Tokenizer.
func (e tokenizer) Pieces(text string, special bool) iter.Seq[generate.Piece] {
	return piecesOf(e.Tokenizer.Pieces(text, special))
}

func piecesOf(pieces iter.Seq[token.Piece]) iter.Seq[generate.Piece] {
	return func(yield func(generate.Piece) bool) {
		for p := range pieces {
			if !yield(generate.Piece{ID: p.ID, Text: p.Text, Start: p.Start, End: p.End}) {
				return
			}
		}
	}
}

// EncodeSpans implements generate.Tokenizer.
func (e tokenizer) EncodeSpans(text string, data []generate.Span) []llm.Token {
	return e.Tokenizer.EncodeSpans(text, spansOf(data))
}

// SpanPieces implements generate.Tokenizer.
func (e tokenizer) SpanPieces(text string, data []generate.Span) iter.Seq[generate.Piece] {
	return piecesOf(e.Tokenizer.SpanPieces(text, spansOf(data)))
}

func spansOf(data []generate.Span) []token.Span {
	out := make([]token.Span, len(data))
	for i, s := range data {
		out[i] = token.Span{Start: s.Start, End: s.End}
	}
	return out
}
