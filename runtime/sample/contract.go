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

// Step is one position of a sequence, and what may be changed there.
type Step struct {
	// Logits [vocab] are edited in place. A forbidden token has -Inf.
	Logits []float32
	// Temperature, when not NaN, replaces the request's at this step: 0 takes the
	// most likely token, a positive and finite one draws.
	Temperature float32
	// Force, when not negative, is the token to pick. It wins over the logits,
	// the temperature and the sequence's sampler; where a mask forbids it the
	// sequence fails.
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
	// Process changes s, which holds what the processors before it have set. It
	// may not keep s or its logits.
	Process(h History, s *Step) error
}

// Preparer is a Processor that can do its work, or a part of it, before the
// logits are known.
type Preparer interface {
	Processor
	// Prepare comes before each Process, with the same history. It may run
	// while the forward pass of the step runs, on another goroutine than
	// Process; the caller orders them.
	Prepare(h History) error
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
	// Logit is the processed logit; Logprob its log-softmax over the survivors,
	// those included that are too many to be shown.
	Logit, Logprob float32
}

// NoChoice is what a Sampler returns to leave the pick to the chain.
const NoChoice = -1

// Sampler replaces the built-in pick.
type Sampler interface {
	// Candidates is how many of the most likely tokens Sample is shown at most,
	// at least 1 and always the same.
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
	// Guests names whose code the others run, where it may take long: the engine waits
	// for it only so long, on workers that equal names share. Empty says that it is the
	// host's own and quick.
	Guests []string
	// Close, when not nil, is called once, after the last use of the others.
	Close func()
	// Fork, when not nil, returns user code that is where this is: it has seen the
	// same steps and from now on shares nothing with this; its Close and Fork are its
	// own. Beam search calls it when several beams go on from one, and refuses
	// requests with processors without it: between two steps, on any goroutine, and
	// for different beams of a request at the same time, but never beside another
	// call of the same user code.
	// The Masker that it returns takes the place of the forked one's; where it
	// returns none, a ForkingMasker forks itself. A Sampler is not looked at: beam
	// search has none. An error ends the request.
	Fork func() (Plugins, error)
}
