package sample

import (
	"tgi/runtime/draft"
	"tgi/runtime/llm"
)

// What a plugin gets and gives at one position, under the names that samplers use.
type (
	// History is what a sequence consists of so far.
	History = llm.History
	// Step is one position of a sequence, and what may be changed there.
	Step = llm.Position
	// Candidate is a token that survived the warpers.
	Candidate = llm.Candidate
)

// NoChoice is what a Sampler returns to leave the pick to the chain.
const NoChoice = llm.NoChoice

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
// caller orders them. An error that wraps llm.ErrInvalid says that the request is at fault, and
// reaches the client as it is; any other is the masker's failure.
type Masker interface {
	// Mask sets bits [ceil(vocab/32)]: bit t%32 of word t/32 is 1 if token t is allowed. It
	// overwrites every word. If it returns false, the bits are meaningless and every token
	// is allowed.
	Mask(bits []uint32) (constrained bool, err error)
	// Accept advances by the picked token.
	Accept(t llm.Token) error
}

// PromptMasker is a Masker whose Accept may put its work off to the next Mask, and its error with it.
type PromptMasker interface {
	Masker
	// AcceptNow is Accept that puts nothing off.
	AcceptNow(t llm.Token) error
}

// AcceptNow has a masker accept a token that no Mask of it was asked for, and may be wrong: the error comes at once.
func AcceptNow(m Masker, t llm.Token) error {
	if p, ok := m.(PromptMasker); ok {
		return p.AcceptNow(t)
	}
	return m.Accept(t)
}

// QuickMasker is a Masker that knows which of its masks take long.
type QuickMasker interface {
	Masker
	// TryMask is Mask where that takes about a millisecond at most. Otherwise done is false, and Mask is to be called,
	// where nobody else waits for it: it may take long, also because others have the processors first.
	TryMask(bits []uint32) (constrained, done bool, err error)
}

// Forcer is a Masker or a Processor that knows tokens which have to come next.
type Forcer interface {
	// Forced fills room with tokens that come after h, as far as they are known, and returns their number. The state
	// does not change, and it takes a fraction of a millisecond: all sequences wait for it. They need not be right:
	// each is picked all the same.
	Forced(h History, room []llm.Token) int
}

// JumpingMasker is a Masker that decides some tokens itself.
type JumpingMasker interface {
	Masker
	// Forces returns the token that comes next, behind a Mask, whatever the logits are; ok is false if they decide.
	Forces() (t llm.Token, ok bool)
}

// WalkingMasker is a Masker that can look ahead.
type WalkingMasker interface {
	Masker
	// Admits returns how many of the first tokens it would accept one after the other, or fewer if that takes more than
	// a fraction of a millisecond. The state does not change.
	Admits(tokens []llm.Token) int
}

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

// Guard decides which of the picked tokens go out. It is asked behind a pick, and never during another call of the
// sequence's user code. An error ends the sequence.
type Guard interface {
	// Rules are constant.
	Rules() llm.GuardRules
	// Check says what becomes of the tokens that are held back. The result is valid until the next call.
	Check(v *llm.GuardView) (llm.Verdict, error)
	// Applied says that a verdict was applied, and to how many tokens: those released, taken back, inserted or
	// replaced. Where OnFull or OnExhausted decided it is another one than Check returned. It returns at once.
	Applied(kind llm.VerdictKind, tokens int)
}

// Proposer is a drafter in the code of a guest.
type Proposer struct {
	// Name is the guest's, as in Plugins.Guests.
	Name string
	draft.Drafter
}

// Plugins is the user code of one sequence. The zero value has none.
type Plugins struct {
	// Processors run in order after the built-in penalties and the mask.
	Processors []Processor
	// Masker, when not nil, constrains every token.
	Masker Masker
	// Sampler, when not nil, replaces the built-in pick.
	Sampler Sampler
	// Drafter, when not nil, guesses tokens, so that a step may give several. It changes none. Forks have none.
	Drafter draft.Drafter
	// Proposers guess tokens too, in code that may be slow: in order, until one has a guess, on the workers of guests
	// and beside steps. Forks have none. Close is called when none of their code runs.
	Proposers []Proposer
	// Guards decide in order which tokens go out. Beam search refuses them. Beside one that rewinds processors,
	// sampler and masker have to be Rewinders.
	Guards []Guard
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
