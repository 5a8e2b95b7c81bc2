package bridge

import (
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/token"
)

// Backend runs the steps of a model on one device; see engine.Model for what its methods promise.
type Backend interface {
	// Forward computes a step and returns the logits of its LogitRows.
	Forward(*llm.Step) ([]float32, error)
	// CopyBlocks copies whole cache blocks.
	CopyBlocks([]llm.BlockCopy) error
	// Vocab is the number of logits of a row, MaxLen the maximum length of a sequence. OriginalLen is that beyond which
	// all of its tokens have other keys and values; 0: there is none.
	Vocab() int
	MaxLen() int
	OriginalLen() int
	// BlockSize is how many tokens a cache block holds, Blocks how many blocks there are.
	BlockSize() int
	// Width is that of the vectors that it takes in place of tokens; 0: it takes none.
	Width() int
	Blocks() int
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
