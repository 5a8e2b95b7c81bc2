package llm

// History is a sequence so far. Both slices are views: they are valid during the call that
// received them and must not be changed.
type History struct {
	// Prompt holds the tokens of the prompt.
	Prompt []Token
	// Output holds the tokens generated so far.
	Output []Token
}

// Position is one position of a sequence, as processors see and change it.
type Position struct {
	// Logits [vocab] are edited in place. A forbidden token has -Inf.
	Logits []float32
	// Temperature, if not NaN, replaces the request's at this step: 0 takes the likeliest
	// token, a positive and finite value draws.
	Temperature float32
	// Force, if not negative, is the token to pick. It overrides the logits, the
	// temperature and the sequence's sampler; the sequence fails if a mask forbids it.
	// Plugins use it; speculative decoding will too.
	Force int64
	// ForcedBy names the processor that set Force, where it is a plugin.
	ForcedBy string
	// Stop ends the sequence here, whatever else is set.
	Stop bool
	// StoppedBy names the first processor that set Stop.
	StoppedBy string
}

// Candidate is a token that survived the warpers.
type Candidate struct {
	Token Token
	// Logit is the processed logit; Logprob its log-softmax over all survivors, also those
	// that are not shown.
	Logit, Logprob float32
}

// NoChoice is what a Sampler returns to leave the pick to the chain.
const NoChoice = -1
