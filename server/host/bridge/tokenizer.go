package bridge

import (
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/token"
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

// EOS implements engine.Codec.
func (c codec) EOS() []llm.Token { return c.eos }
