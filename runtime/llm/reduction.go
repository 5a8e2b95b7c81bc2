package llm

// A pick rarely needs a whole row of logits. A backend whose logits lie on a device can reduce a row there and return
// some kilobytes instead: Reduction says what is asked for, Reduced is the answer. Package reduce computes the one from
// the other in Go, and is the reference of every other implementation.

// MaxCandidates is how many of a row's best tokens a Reduced holds at most.
const MaxCandidates = 256

// NoDraw as a Reduction's Draw says that no token is to be drawn.
const NoDraw = -1

// Reduction asks for what a pick needs of one row. It reads the row and leaves it as it is, so several may ask for the
// same one. Like a Step it is a view: a backend must not keep its slices.
//
// The processed row is the row with Edits applied in their order, then Mask. NaN counts as -Inf. The row's distribution
// is softmax(processed * Scale). Operations are those of IEEE 754 with 32 bits, each rounded to nearest.
type Reduction struct {
	// Row is the index of the row among the step's LogitRows.
	Row int
	// Edits change logits of single tokens.
	Edits []Edits
	// Mask [ceil(vocab/32)] has the bit t%32 of word t/32 set for each token t that is allowed; the logits of the
	// others become -Inf. Bits past the vocabulary mean nothing. nil allows all.
	Mask []uint32
	// Scale is the reciprocal of the temperature, finite and > 0.
	Scale float32
	// Draw in [0,1) is the fraction of the distribution's mass, in order of token, at which a token is drawn; NoDraw
	// for none.
	Draw float64
	// Raw asks for the sum of the unprocessed row too.
	Raw bool
}

// EditKind says what Edits do to a logit.
type EditKind uint32

// The numbers are those that kernels read.
const (
	// EditAdd adds the value.
	EditAdd EditKind = iota
	// EditPenalize multiplies a logit below 0 by the value and divides others by it.
	EditPenalize
)

// Edits change the logits of single tokens, all in the same way.
type Edits struct {
	Kind EditKind
	// Pairs hold each token at most once, in any order; all are in the vocabulary.
	Pairs []Edit
}

// Edit is a token and the value that changes its logit.
type Edit struct {
	Token Token
	Value float32
}

// Reduced is what a pick needs of one row.
type Reduced struct {
	// Count is how many tokens have a processed logit above -Inf. Where it is 0 nothing else is of use.
	Count int
	// Top is the greatest processed logit. Where it is +Inf, or RawTop is, the sums and Drawn mean nothing.
	Top float32
	// Sum is that of e^((x-Top)*Scale) over the processed row, at least 1, with a relative error of at most
	// ReducedError. The log-sum-exp of the row is Top*Scale + log(Sum).
	Sum float64
	// RawTop and RawSum are those of the unprocessed row at a scale of 1, if Raw asked for them. RawTop is -Inf if no
	// token has a logit.
	RawTop float32
	RawSum float64
	// Candidates are the tokens with the greatest processed logits, best first, equals by ascending token (the two
	// zeros are equal): MaxCandidates of them, or all Count.
	Candidates []ReducedToken
	// Ties counts the tokens that are no candidates although their logit equals the last candidate's.
	Ties int
	// Drawn is the token at the fraction Draw of the mass, which is the same up to ReducedError.
	Drawn ReducedToken
}

// ReducedError bounds by how much, relative to the mass of a row, a Reduced may differ from exact arithmetic: in its
// sums, and in the mass in front of the drawn token.
const ReducedError = 3e-6

// ReducedToken is a token with its processed logit and the row's own.
type ReducedToken struct {
	Token      Token
	Logit, Raw float32
}
