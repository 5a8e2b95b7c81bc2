// Package draft guesses the next tokens of sequences, and decides which guesses are worth computing. A guess is checked
// by the model before it counts (sched.Scheduler.Draft), so nothing here changes a text: a bad guess costs time only.
//
// Nothing here starts goroutines or is safe for concurrent use. The only caller is runtime/engine, on its step
// goroutine.
//
// The reasons behind it: docs/rationale/runtime.md.
package draft

import "tgi/runtime/llm"

// MaxTokens bounds the guesses of a sequence in a step.
const MaxTokens = 32

// Source is where a guess comes from.
type Source uint8

// Sources, in the order in which they are asked.
const (
	// Forced tokens are all that a grammar permits, but for white space.
	Forced Source = iota
	// Plugin is a drafter of the request's user code, or tokens that it forces in advance.
	Plugin
	// Predicted tokens are of the text that the request predicts.
	Predicted
	// Proposed tokens are those of the request's plugins of kind draft.
	Proposed
	// Repeated tokens followed when the sequence's last ones occurred before.
	Repeated
	// Modelled tokens are those that a second, smaller model finds likeliest.
	Modelled
	// Sources is their number.
	Sources
)

// String returns the source's name in settings and metrics.
func (s Source) String() string {
	return [...]string{"grammar", "plugin", "prediction", "draft", "prompt", "model"}[s]
}

// Drafter guesses the tokens that follow a sequence.
type Drafter interface {
	// Draft fills room with tokens that may follow h, as far as it has a guess, and returns their number. The history
	// is that of the last call or goes on from it; ahead are guesses behind it, which may be wrong.
	Draft(h llm.History, ahead, room []llm.Token) int
}

// Settings say what is guessed. The zero value guesses nothing.
type Settings struct {
	// Tokens are guessed for a sequence in a step at most; 0 turns everything off. At most MaxTokens.
	Tokens int
	// Off are the sources that are not asked.
	Off [Sources]bool
	// Always computes every guess, however much that costs.
	Always bool
}

// Sequence guesses for one sequence.
type Sequence struct {
	settings Settings
	drafters [Sources]Drafter // nil for none
	chances  [Sources]chances
	tokens   []llm.Token // of the last Guess
	sources  []Source    // of these
	expected []float64   // tokens that the first ones of these are worth
	// Accepted and Rejected count the guesses that were computed.
	Accepted, Rejected [Sources]int
}

// NewSequence returns a Sequence that asks the given drafters.
func NewSequence(s Settings, drafters [Sources]Drafter) *Sequence {
	q := &Sequence{settings: s}
	for i, d := range drafters {
		if d != nil && !s.Off[i] {
			q.drafters[i] = d
		}
		q.chances[i].start(Source(i))
	}
	return q
}

// Guess returns tokens that may follow h, at most so many, as a view that ends with the next call. It learns from h how
// good earlier guesses were, also those that nobody computed.
func (q *Sequence) Guess(h llm.History, most int) []llm.Token {
	for i := range q.chances {
		q.chances[i].observe(h.Output)
	}
	most = min(most, q.settings.Tokens)
	q.tokens, q.sources, q.expected = q.tokens[:0], q.sources[:0], q.expected[:0]
	var room [MaxTokens]llm.Token
	sum, chance := 0.0, 1.0
	for i, d := range q.drafters {
		if d == nil || len(q.tokens) >= most {
			continue
		}
		n := d.Draft(h, q.tokens, room[:most-len(q.tokens)])
		c := &q.chances[i]
		if len(q.tokens) == 0 && n > 0 {
			c.probe(len(h.Output), room[:n])
		}
		for j := range n {
			q.tokens, q.sources = append(q.tokens, room[j]), append(q.sources, Source(i))
			sum += chance * c.right[j]
			q.expected = append(q.expected, sum)
		}
		if n > 0 {
			chance *= c.right[n-1]
		}
	}
	return q.tokens
}

// Source returns where the i-th guess of the last call comes from.
func (q *Sequence) Source(i int) Source { return q.sources[i] }

// Worth returns how many tokens the first n guesses of the last call, n >= 1, are expected to save.
func (q *Sequence) Worth(n int) float64 { return q.expected[n-1] }

// Count records how many of the first n guesses of the last call were right after a step computed them, and returns it
// by source.
func (q *Sequence) Count(n, right int) (accepted, rejected [Sources]int) {
	for i, s := range q.sources[:n] {
		if i < right {
			accepted[s]++
		} else {
			rejected[s]++
		}
	}
	for s := range Sources {
		q.Accepted[s] += accepted[s]
		q.Rejected[s] += rejected[s]
	}
	return accepted, rejected
}

// chances are how likely the guesses of one source are right, learned from all of them, computed or not.
type chances struct {
	right [MaxTokens]float64 // that the first i+1 guesses are
	seen  int                // guesses that were compared
	// The guess that is being compared with what comes: at is where in the output it began.
	guess [MaxTokens]llm.Token
	n, at int
}

const (
	// slowest is the least weight of a comparison: the chances follow the text.
	slowest = 1.0 / 6
	// What is expected before the first comparison. What is forced is mostly cut into tokens as the tokenizer does. A
	// repetition has to be seen to go on once before a step computes any.
	forcedBefore, predictedBefore = 0.95, 0.8
)

func (c *chances) start(s Source) {
	before := map[Source]float64{Forced: forcedBefore, Plugin: predictedBefore, Predicted: predictedBefore}[s]
	chance := before
	for i := range c.right {
		c.right[i] = chance
		chance *= before
	}
}

// probe begins a comparison, unless one is under way.
func (c *chances) probe(at int, guess []llm.Token) {
	if c.n == 0 {
		c.n, c.at = copy(c.guess[:], guess), at
	}
}

// observe compares what came with the guess.
func (c *chances) observe(output []llm.Token) {
	if c.n == 0 {
		return
	}
	if len(output) < c.at { // the sequence was truncated
		c.n = 0
		return
	}
	came := output[c.at:]
	for i, t := range came[:min(len(came), c.n)] {
		if t != c.guess[i] {
			c.learn(i)
			return
		}
	}
	if len(came) >= c.n {
		c.learn(c.n)
	}
}

// learn records that the first `right` tokens of the guess were right.
func (c *chances) learn(right int) {
	weight := max(slowest, 1/float64(c.seen+2))
	c.seen++
	for i := range c.n {
		was := 0.0
		if i < right {
			was = 1
		}
		c.right[i] += weight * (was - c.right[i])
	}
	for i := c.n; i < MaxTokens; i++ { // of which nothing was seen
		c.right[i] = min(c.right[i], c.right[i-1])
	}
	c.n = 0
}
