package llm

// GuardView is what a guard sees of a sequence: what it holds back, and the end of what went out before. All of it is a
// view that ends with the call.
type GuardView struct {
	// Prompt and Output are the sequence's tokens. The first Released of Output went out, and are final. Where the
	// model writes the end of the client's prompt again, Prompt has that end, and the tokens of Output that repeat it
	// have no text but what is behind it.
	Prompt, Output []Token
	Released       int
	// New is how many tokens at the end of Output came since the guard was asked last: one that was taken back and came
	// again is new to it.
	New int
	// Text is the text of the tokens that are held back, without special tokens, behind the last Context bytes of that
	// of the released ones.
	Text    []byte
	Context int
	// Ends holds for each token that is held back where its text ends in Text.
	Ends []uint32
	// Reason says that the sequence is about to end, and why; FinishNone where it goes on. A guard that replaces
	// a part of a stop string is asked again, with FinishNone and the whole of the token that it cut.
	Reason Reason
}

// VerdictKind is what a guard wants.
type VerdictKind uint8

// Verdicts of guards. Position counts tokens of the output.
const (
	// VerdictRelease lets the tokens below Position go out; at GuardView.Released it holds them all back.
	VerdictRelease VerdictKind = iota
	// VerdictRewind takes back all tokens from Position on. Biases change the next choice there; none forbid the token
	// that was chosen.
	VerdictRewind
	// VerdictInsert takes back all tokens from Position on, and goes on with Tokens.
	VerdictInsert
	// VerdictReplace gives the client Text, whose tokens are Tokens, instead of the tokens below Position. The model
	// goes on from its own.
	VerdictReplace
	// VerdictStop lets the tokens below Position go out, and ends the sequence there.
	VerdictStop
	// Verdicts is their number.
	Verdicts
)

// String returns the verdict's name.
func (k VerdictKind) String() string {
	return [...]string{"release", "rewind", "insert", "replace", "stop"}[k]
}

// Verdict is what a guard says of a GuardView.
type Verdict struct {
	Kind     VerdictKind
	Position int
	Biases   []Bias     // of VerdictRewind; -Inf forbids
	Tokens   []Token    // of VerdictInsert and VerdictReplace
	Text     string     // of VerdictReplace
	Edits    []TextEdit // of VerdictReplace: what Text changes, in its order; nil where that is not known
	Why      string     // of VerdictStop, for the client
	// Done says that the guard is not to be asked again: what comes is released. Where what it saw is taken back, it is
	// asked after all.
	Done bool
}

// TextEdit says that Words stand instead of bytes of the text that is held back: of GuardView.Text behind Context.
type TextEdit struct {
	From, To int
	Words    string
}

// GuardEnd says what becomes of a sequence whose guard may hold back or take back no more.
type GuardEnd uint8

const (
	// GuardStops: the sequence ends with what went out.
	GuardStops GuardEnd = iota
	// GuardReleases: what is held back goes out.
	GuardReleases
)

// Bounds of guards. Beyond them GuardRules.OnFull and OnExhausted apply.
const (
	// MaxHold is the most tokens that a guard may hold back.
	MaxHold = 256
	// GuardContext is the most bytes of GuardView.Context.
	GuardContext = 4096
	// MaxRewinds is how often the guards of a sequence may rewind it.
	MaxRewinds = 32
	// MaxInserted is the most tokens that the guards of a sequence may insert.
	MaxInserted = 256
	// MaxBiases is the most biases that the rewinds of a sequence may leave.
	MaxBiases = 4096
	// MaxBias is the largest bias; -Inf forbids a token.
	MaxBias = 1e30
)

// MaxRewound returns how many tokens the guards of a sequence may take back, where maxNew is the most that it may have.
func MaxRewound(maxNew int) int { return 2*maxNew + 256 }

// GuardRules are what a guard is held to.
type GuardRules struct {
	// Name of the guard, for Finish.StoppedBy.
	Name string
	// Hold is how many tokens it may hold back, 1 to MaxHold. It is asked where the number of output tokens is
	// divisible by Every, 1 to Hold, and at the end.
	Hold, Every int
	// Rewinds says that it may take tokens back, so that all other user code has to be able to.
	Rewinds bool
	// Stops says that it may end the text before what it holds back.
	Stops               bool
	OnFull, OnExhausted GuardEnd
}
