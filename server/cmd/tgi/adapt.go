package main

import (
	"iter"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/token"
	"tgi/server/generate"
)

// backend is the paged model as the engine wants it.
type backend struct{ *ort.Paged }

func (b backend) Shape() engine.Shape {
	return engine.Shape{Vocab: b.Vocab(), BlockSize: b.BlockSize(), Blocks: b.Blocks(), MaxLen: b.MaxLen()}
}

// codec is a tokenizer as the engine wants it.
type codec struct {
	*token.Tokenizer
	eos []llm.Token
}

func (c codec) Stream(prompt []llm.Token) engine.Detokenizer { return c.Tokenizer.Stream(prompt) }
func (c codec) Special(id llm.Token) bool                    { return c.IsSpecial(id) }
func (c codec) Text(id llm.Token) string                     { return c.Decode([]llm.Token{id}, false) }
func (c codec) EOS() []llm.Token                             { return c.eos }

// encoder is a tokenizer as requests want it.
type encoder struct{ *token.Tokenizer }

// Pieces implements generate.Tokenizer.
func (e encoder) Pieces(text string, special bool) iter.Seq[generate.Piece] {
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
