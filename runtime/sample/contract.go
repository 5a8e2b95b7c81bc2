package sample

import "tgi/runtime/llm"

// History is what a sequence consists of so far. Both slices are views: they
// may be read during the call that received them and not kept.
type History struct {
	// Prompt holds the tokens of the prompt.
	Prompt []llm.Token
	// Output holds the tokens generated so far.
	Output []llm.Token
}

// Processor edits one row of logits before it is turned into a distribution.
//
// One Processor serves one sequence and is never called concurrently with
// itself. An error ends the sequence, not the batch.
type Processor interface {
	// Process edits logits [vocab] in place. The slice may not be kept.
	Process(h History, logits []float32) error
}

// Masker allows or forbids tokens by what the sequence may say next.
//
// Calls alternate: Mask, then Accept of the token that was picked. Mask
// depends on accepted tokens alone, so it may run while the forward pass of
// the same step runs, on another goroutine than Accept; the caller orders them.
type Masker interface {
	// Mask sets bits [ceil(vocab/32)]: bit t%32 of word t/32 is 1 when token t
	// is allowed. It overwrites every word. When it returns false the bits are
	// meaningless and every token is allowed.
	Mask(bits []uint32) (constrained bool, err error)
	// Accept moves on by the token that was picked.
	Accept(t llm.Token) error
}

// Candidate is a token that survived the warpers.
type Candidate struct {
	Token llm.Token
	// Logit is the processed logit; Logprob its log-softmax over the survivors.
	Logit, Logprob float32
}

// Sampler replaces the built-in pick.
type Sampler interface {
	// Sample returns the index of the chosen candidate. The candidates are
	// sorted by descending logit, ties by ascending token, and there is at
	// least one. The slice may not be kept.
	Sample(h History, c []Candidate) (int, error)
}

// Plugins is the user code of one sequence. The zero value has none.
type Plugins struct {
	// Processors run in order after the built-in penalties and before the mask.
	Processors []Processor
	// Masker, when not nil, constrains every token.
	Masker Masker
	// Sampler, when not nil, replaces the built-in pick.
	Sampler Sampler
}
