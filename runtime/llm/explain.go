package llm

import "math"

// Explain says how much is told of how tokens were chosen. The zero value tells nothing and costs nothing.
type Explain struct {
	// Top is how many of the likeliest tokens are told of, of the model's and of the changed distribution each.
	Top int
	// Tokens is how many tokens of a sequence are explained, from the first; 0 is none.
	Tokens int
}

// Bounds of Explain.
const (
	MaxExplainTop    = 20
	MaxExplainTokens = 1024
)

// Explanation is what happened at one position of a sequence: who changed what before its token was chosen.
// Log-probabilities are -Inf where something rules a token out.
type Explanation struct {
	// Token is the picked one, Text its own.
	Token Token
	Text  string
	// Raw is the token's log-probability in the model's own distribution, Final that in the one it was picked from.
	Raw, Final float32
	// Rank is the token's place in the model's own distribution, 0 for the likeliest.
	Rank int
	// Changes are those of the distribution, in the order in which they were made. Who changed nothing is left out.
	Changes []Change
	// Candidates are the likeliest tokens of both distributions and the picked one, by falling Final, then Raw.
	Candidates []ExplainedToken
	// Pick is how the token was picked, By who picked it, where that was a plugin.
	Pick Picked
	By   string
	// Draft is the guess that stood at this position, nil for none.
	Draft *ExplainedDraft
	// Rewound is what was taken back in front of this position, the earliest first. Replaced is what has other text:
	// that which begins here, or none in front of this position.
	Rewound, Replaced []Rewound
}

// Picked is how a token was picked.
type Picked uint8

const (
	// PickedBest: it was the likeliest.
	PickedBest Picked = iota
	// PickedDraw: it was drawn.
	PickedDraw
	// PickedSampler: a plugin of kind sampler chose it.
	PickedSampler
	// PickedForced: a processor forced it.
	PickedForced
	// PickedStop: a processor ended the sequence.
	PickedStop
	// PickedProgram: a program wrote it, and no run of it picked it.
	PickedProgram
	// PickedGuard: it is of a text that a guard gives instead of what was picked.
	PickedGuard
)

// String returns the name that replies have for it.
func (p Picked) String() string {
	return [...]string{"best", "draw", "sampler", "forced", "stop", "program", "guard"}[p]
}

// ChangeKind says what changes a distribution.
type ChangeKind uint8

const (
	// ChangeSetting: a setting of the request, such as a penalty.
	ChangeSetting ChangeKind = iota
	// ChangeMask: what the text is held to.
	ChangeMask
	// ChangePlugin: a plugin of kind logits.
	ChangePlugin
	// ChangeWarp: temperature, top_k and their like.
	ChangeWarp
	// ChangeGuard: what a guard forbids here, having taken tokens back, or inserts.
	ChangeGuard
	// ChangeProgram: what a program denies its run.
	ChangeProgram
)

// String returns the name that replies have for it.
func (k ChangeKind) String() string {
	return [...]string{"setting", "mask", "plugin", "sampling", "guard", "program"}[k]
}

// Change is what one of those that change a distribution did to it.
type Change struct {
	Kind ChangeKind
	// Name of the setting or of the plugin.
	Name string
	// Allowed is how many tokens are possible after it, Forbidden the share of the probability before it of those that
	// it ruled out.
	Allowed   int
	Forbidden float32
	// Before and After are the log-probabilities of the picked token.
	Before, After float32
	// Best is the likeliest token after it, Overtook whether that was another before.
	Best     ExplainedToken
	Overtook bool
	// Moved are those of the likeliest tokens, before and after it, whose logit changed, with what was added, at most
	// as many as are told of; Count is how many of all tokens' did.
	Moved []MovedToken
	Count int
	// Temperature that a processor set, NaN for none.
	Temperature float32
	// Forced is the token that a processor forced, negative for none; Stop says that it ended the sequence.
	Forced int64
	Stop   bool
}

// ExplainedToken is a token with its log-probabilities.
type ExplainedToken struct {
	Token Token
	// Text is the token's own.
	Text       string
	Raw, Final float32
}

// MovedToken is a token whose logit changed.
type MovedToken struct {
	Token Token
	Text  string
	// By is the difference: -Inf for one that was ruled out.
	By float32
}

// ExplainedDraft is a guess that was computed ahead.
type ExplainedDraft struct {
	// Source is where it comes from, Token the guess.
	Source string
	Token  Token
	Text   string
	// Accepted says that it was picked.
	Accepted bool
}

// Rewound is what was taken back, or replaced, before anybody saw it. It has no text: that is what nobody may see.
type Rewound struct {
	// By names the guard, Tokens counts what it took back or replaced.
	By     string
	Tokens int
}

// PickAlone returns an explanation that tells how a token was picked, and nothing of what it was picked from.
func PickAlone(t Token, text string, pick Picked, by string) *Explanation {
	none := float32(math.Inf(-1))
	return &Explanation{Token: t, Text: text, Raw: none, Final: none, Pick: pick, By: by}
}

// Bare returns what e tells of the pick alone, and of what guards did in front of it. e does not change.
func (e *Explanation) Bare() *Explanation {
	x := PickAlone(e.Token, e.Text, e.Pick, e.By)
	x.Rewound, x.Replaced = e.Rewound, e.Replaced
	return x
}

// SetTexts gives each token its text.
func (e *Explanation) SetTexts(text func(Token) string) {
	e.Text = text(e.Token)
	for i := range e.Candidates {
		e.Candidates[i].Text = text(e.Candidates[i].Token)
	}
	for i := range e.Changes {
		c := &e.Changes[i]
		c.Best.Text = text(c.Best.Token)
		for j := range c.Moved {
			c.Moved[j].Text = text(c.Moved[j].Token)
		}
	}
	if e.Draft != nil {
		e.Draft.Text = text(e.Draft.Token)
	}
}
