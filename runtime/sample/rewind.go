package sample

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
)

// ErrBanned says that the biases of rewinds leave no token. It is wrapped together with ErrNoToken.
var ErrBanned = errors.New("all that may follow here was taken back before")

// Rewinder is a Masker, Processor or Sampler that can take tokens back.
type Rewinder interface {
	// Rewind brings the state to what it was when h was the history, which is a beginning of the latest one: later
	// calls go on from there, with other tokens. It is called between two picks.
	Rewind(h History) error
}

// RewindChecker is a Rewinder that knows whether it can.
type RewindChecker interface {
	Rewinder
	// CanRewind returns nil, or an error that names the reason.
	CanRewind() error
}

// CanRewind returns nil if the sequence's user code can take tokens back, otherwise an error that names
// the reason.
func (c *Chain) CanRewind() error {
	if _, ok := c.masker.(Rewinder); c.masker != nil && !ok {
		return errors.New("tokens cannot be taken back from a grammar that a plugin follows")
	}
	for _, p := range c.processors[c.builtins:] {
		if _, ok := p.(Rewinder); !ok {
			return errors.New("tokens cannot be taken back from a processor that keeps what it saw")
		}
	}
	if _, ok := c.sampler.(Rewinder); c.sampler != nil && !ok {
		return errors.New("tokens cannot be taken back from a sampler that keeps what it saw")
	}
	for _, x := range c.rewinders() {
		if x, ok := x.(RewindChecker); ok {
			if err := x.CanRewind(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rewind brings the chain to where it was when h was the history, a beginning of the latest one: the next Pick is that
// behind h. CanRewind must have returned nil. Errors are those of Pick, and come again at every further call.
func (c *Chain) Rewind(h History) error {
	if c.err != nil {
		return c.err
	}
	c.rewound.queue = nil
	// the counts of the penalties notice that the history is shorter
	c.prepared, c.hasMask, c.masked, c.reduction = false, false, false, reduction{}
	for _, x := range c.rewinders() {
		if err := x.Rewind(h); err != nil {
			c.err = fmt.Errorf("%w: take tokens back: %w", llm.ErrPlugin, err)
			return c.err
		}
	}
	return nil
}

// rewinders returns the user code that keeps a state.
func (c *Chain) rewinders() (list []Rewinder) {
	if x, ok := c.masker.(Rewinder); ok {
		list = append(list, x)
	}
	for _, p := range c.processors[c.builtins:] {
		if x, ok := p.(Rewinder); ok {
			list = append(list, x)
		}
	}
	if x, ok := c.sampler.(Rewinder); ok {
		list = append(list, x)
	}
	return list
}

// rewound is what a chain knows of what was taken back.
type rewound struct {
	bans   []ban
	queue  []llm.Token // that come next
	from   string      // who inserted them
	gone   TakenBack   // a cut for each call of Ban
	hidden []llm.Token // that were taken back at the pick under way, or are forbidden there: nobody is shown them
	taken  int         // how many of hidden were taken back
	lifted []int       // whose biases hold no more there, as they left no token
	banned bool        // biases that do not yield leave none
	by     int         // the first of those whose they are
	undo   []llm.Bias  // what the row was where biases changed it
	denied []llm.Token // at the first place: see Deny
}

// Banner is who has tokens banned.
type Banner struct {
	// By is a number of the caller's, Name what explanations call it.
	By   int
	Name string
	// Yields says that the biases do not hold at a place where they leave no token; Lifted tells of it. Otherwise the
	// pick fails there.
	Yields bool
}

// ban is what the rewinds to one place say of the next token there.
type ban struct {
	prefix []llm.Token // the whole output before it
	biases []bannedToken
}

type bannedToken struct {
	llm.Bias
	Banner
}

// TakenBack is what was taken back of an output: nobody is shown it, also where it is possible again.
type TakenBack struct{ cuts []cut }

// cut is an output whose tokens from a position on were taken back.
type cut struct {
	output []llm.Token
	from   int
}

// Add notes that the tokens behind output, which are copied, were taken back.
func (t *TakenBack) Add(output, gone []llm.Token) {
	t.cuts = append(t.cuts, cut{slices.Concat(output, gone), len(output)})
}

// Next appends to list the tokens that came right behind output and were taken back, each once.
func (t *TakenBack) Next(output, list []llm.Token) []llm.Token {
	n := len(output)
	for _, c := range t.cuts {
		if n >= c.from && n < len(c.output) && slices.Equal(c.output[:n], output) &&
			!slices.Contains(list, c.output[n]) {
			list = append(list, c.output[n])
		}
	}
	return list
}

// Ban is called behind a Rewind to output where what was picked from there on is unwanted: that pick and later ones
// draw afresh. gone are the tokens behind output that were taken back, which are copied: Pick.Top and explanations do
// not name them where the sequence comes there by the same tokens.
func (c *Chain) Ban(output, gone []llm.Token) {
	c.rewound.gone.Add(output, gone)
}

// Bias adds biases to the logits of the token that follows output, whenever the sequence comes there by the same
// tokens. They are copied, and there may be none.
func (c *Chain) Bias(output []llm.Token, biases []llm.Bias, by Banner) {
	if len(biases) == 0 {
		return
	}
	i := slices.IndexFunc(c.rewound.bans, func(b ban) bool { return slices.Equal(b.prefix, output) })
	if i < 0 {
		i = len(c.rewound.bans)
		c.rewound.bans = append(c.rewound.bans, ban{prefix: slices.Clone(output)})
	}
	for _, x := range biases {
		c.rewound.bans[i].biases = append(c.rewound.bans[i].biases, bannedToken{x, by})
	}
}

// Deny keeps tokens from being the first of the output, whatever the logits, the mask and user code say: one that a
// processor forces is not picked either. Where that leaves none the pick fails with ErrBanned, unless a processor ends
// the sequence. Pick.Top and explanations do not name the tokens, which are copied. by is who denies them.
func (c *Chain) Deny(tokens []llm.Token, by string) {
	biases := make([]llm.Bias, len(tokens))
	for i, t := range tokens {
		biases[i] = llm.Bias{Token: t, Add: negInf}
	}
	c.Bias(nil, biases, Banner{Name: by})
	c.rewound.denied = slices.Clone(tokens)
}

// Lifted returns whose biases did not hold at the last pick of all logits, since they left no token: a view that ends
// with the next.
func (c *Chain) Lifted() []int { return c.rewound.lifted }

// BannedBy returns whose biases left no token, where the last pick of all logits failed with ErrBanned.
func (c *Chain) BannedBy() int { return c.rewound.by }

// Hides reports whether a token was taken back at the place of the last pick, or is forbidden there: nobody is told of
// it, unless it was picked.
func (c *Chain) Hides(t llm.Token) bool { return slices.Contains(c.rewound.hidden, t) }

// Insert makes the next picks those tokens, whatever the logits are, until a Rewind. They are copied. A token that the
// mask forbids fails its pick. Explanations say that they come from name.
func (c *Chain) Insert(tokens []llm.Token, name string) {
	c.rewound.queue, c.rewound.from = slices.Clone(tokens), name
}

// draw is the random number of the pick behind h.
func (c *Chain) draw(h History) float64 { return uniform(c.seed, len(h.Output), c.try(len(h.Output))) }

// try returns how often Ban was called for n output tokens or fewer.
func (c *Chain) try(n int) (try int) {
	for _, x := range c.rewound.gone.cuts {
		if x.from <= n {
			try++
		}
	}
	return try
}

// edits reports whether the pick behind h is not the model's alone.
func (r *rewound) edits(h History) bool {
	return len(r.queue) > 0 || len(r.gone.Next(h.Output, nil)) > 0 ||
		slices.ContainsFunc(r.bans, func(b ban) bool { return slices.Equal(b.prefix, h.Output) })
}

// apply changes the logits of the pick behind h.
func (r *rewound) apply(h History, s *Step) {
	r.banned, r.lifted = false, r.lifted[:0]
	r.hidden = r.gone.Next(h.Output, r.hidden[:0])
	r.taken = len(r.hidden)
	if len(h.Output) == 0 && s.Force >= 0 && slices.Contains(r.denied, llm.Token(s.Force)) {
		s.Force = -1
	}
	decided := len(r.queue) > 0 || s.Force >= 0 || s.Stop
	for i := range r.bans {
		if b := &r.bans[i]; slices.Equal(b.prefix, h.Output) { // the only one
			r.forbid(b, s.Logits, decided)
		}
	}
}

// insert forces the token that is to be inserted: there is one.
func (r *rewound) insert(s *Step) {
	s.Force, s.ForcedBy, s.Stop = int64(r.queue[0]), "", false
}

// banners names those whose biases hold at the pick behind h, in the order of their first ones.
func (r *rewound) banners(h History) string {
	var names []string
	for i := range r.bans {
		if !slices.Equal(r.bans[i].prefix, h.Output) {
			continue
		}
		for _, x := range r.bans[i].biases {
			if !slices.Contains(r.lifted, x.By) && !slices.Contains(names, x.Name) {
				names = append(names, x.Name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// forbid adds the biases of a place to a row. Where they leave none of its tokens, those that yield do so one after the
// other, unless the pick is decided anyway.
func (r *rewound) forbid(b *ban, logits []float32, decided bool) {
	possible := 0
	for _, v := range logits {
		if v > negInf {
			possible++
		}
	}
	for r.bias(b, logits) == possible && possible > 0 && !decided {
		i := slices.IndexFunc(b.biases, func(x bannedToken) bool {
			return x.Yields && x.Add == negInf && !slices.Contains(r.lifted, x.By)
		})
		if i < 0 {
			i = slices.IndexFunc(b.biases, func(x bannedToken) bool { return x.Add == negInf && !x.Yields })
			r.banned, r.by = true, b.biases[max(i, 0)].By
			return
		}
		r.lifted = append(r.lifted, b.biases[i].By)
		for i := len(r.undo) - 1; i >= 0; i-- {
			logits[r.undo[i].Token] = r.undo[i].Add
		}
	}
}

// bias adds the biases that hold, and returns how many tokens they rule out.
func (r *rewound) bias(b *ban, logits []float32) (out int) {
	r.hidden, r.undo = r.hidden[:r.taken], r.undo[:0]
	for _, x := range b.biases {
		if slices.Contains(r.lifted, x.By) {
			continue
		}
		v := &logits[x.Token]
		r.undo = append(r.undo, llm.Bias{Token: x.Token, Add: *v})
		was := *v > negInf
		if *v += x.Add; was && !(*v > negInf) {
			out++
		}
		if x.Add == negInf && !slices.Contains(r.hidden, x.Token) {
			r.hidden = append(r.hidden, x.Token)
		}
	}
	return out
}

// next is called behind a pick.
func (r *rewound) next() {
	if len(r.queue) > 0 {
		r.queue = r.queue[1:]
	}
}

// Inserted returns what drafts the tokens of Insert.
func (c *Chain) Inserted() draft.Drafter { return ahead{c: c} }
