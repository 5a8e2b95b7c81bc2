package sample

import "tgi/runtime/llm"

// History is a sequence so far. Both slices are views: they are valid during the call that
// received them and must not be changed.
type History struct {
	// Prompt holds the tokens of the prompt.
	Prompt []llm.Token
	// Output holds the tokens generated so far.
	Output []llm.Token
}

// Step is one position of a sequence, as processors see and change it.
type Step struct {
	// Logits [vocab] are edited in place. A forbidden token has -Inf.
	Logits []float32
	// Temperature, if not NaN, replaces the request's at this step: 0 takes the likeliest
	// token, a positive and finite value draws.
	Temperature float32
	// Force, if not negative, is the token to pick. It overrides the logits, the
	// temperature and the sequence's sampler; the sequence fails if a mask forbids it.
	// Plugins use it; speculative decoding will too.
	Force int64
	// Stop ends the sequence here, whatever else is set.
	Stop bool
	// StoppedBy names the first processor that set Stop.
	StoppedBy string
}

// Processor edits one row of logits before it is turned into a distribution.
//
// One Processor serves one sequence and is never called concurrently with
// itself. An error ends the sequence, not the batch.
type Processor interface {
	// Process changes s, which holds what the processors before it have set. It must not
	// keep s or its logits.
	Process(h History, s *Step) error
}

// Preparer is a Processor that can do part of its work before the logits are known.
type Preparer interface {
	Processor
	// Prepare is called before each Process, with the same history. It may run during the
	// step's forward pass, on another goroutine than Process; the caller orders them.
	Prepare(h History) error
}

// Masker decides which tokens may come next, for example by a grammar.
//
// Calls alternate: Mask, then Accept with the picked token. Mask depends on accepted tokens
// only, so it may run during the step's forward pass, on another goroutine than Accept; the
// caller orders them.
type Masker interface {
	// Mask sets bits [ceil(vocab/32)]: bit t%32 of word t/32 is 1 if token t is allowed. It
	// overwrites every word. If it returns false, the bits are meaningless and every token
	// is allowed.
	Mask(bits []uint32) (constrained bool, err error)
	// Accept advances by the picked token.
	Accept(t llm.Token) error
}

// Candidate is a token that survived the warpers.
type Candidate struct {
	Token llm.Token
	// Logit is the processed logit; Logprob its log-softmax over all survivors, also those
	// that are not shown.
	Logit, Logprob float32
}

// NoChoice is what a Sampler returns to leave the pick to the chain.
const NoChoice = -1

// Sampler replaces the built-in pick.
type Sampler interface {
	// Candidates is the maximum number of candidates for Sample; at least 1 and constant.
	Candidates() int
	// Sample returns the index of the chosen candidate, or NoChoice, after which
	// the token is picked as if there were no sampler. The candidates are
	// sorted by descending logit, ties by ascending token, and there is at
	// least one. The slice may not be kept.
	Sample(h History, c []Candidate) (int, error)
}

// Plugins is the user code of one sequence. The zero value has none.
type Plugins struct {
	// Processors run in order after the built-in penalties and the mask.
	Processors []Processor
	// Masker, when not nil, constrains every token.
	Masker Masker
	// Sampler, when not nil, replaces the built-in pick.
	Sampler Sampler
	// Guests names the plugins whose code this is, if it may be slow: the engine waits for
	// it for a limited time, and guests of equal name share workers. Empty means that the
	// code is the server's own and fast.
	Guests []string
	// Close, if not nil, is called once, after the last use of the others.
	Close func()
	// Fork, if not nil, returns a copy of the user code in its present state, which shares
	// nothing with it and has its own Close and Fork. Beam search calls it if several
	// beams continue one, and refuses requests that have processors but no Fork. It is
	// called between two steps, on any goroutine, and concurrently for different beams of
	// a request, but never during another call of the same user code. The copy's Masker
	// replaces the original's; if it has none, a ForkingMasker forks itself. A Sampler is
	// ignored: beam search has none. An error ends the request.
	Fork func() (Plugins, error)
}
