package deltas

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/server/api/toolset"
	"tgi/server/generate"
)

// Scored is a token with its likeliest alternatives.
type Scored struct {
	generate.Token
	// Top are the likeliest tokens in its place.
	Top []generate.Token
	// Offset is where its text begins, in characters of the whole text of the choice.
	Offset int
	start  int // the same in bytes of the visible text
}

// Best returns the n likeliest tokens; the engine adds all that tie with the last.
func (s *Scored) Best(n int) []generate.Token { return s.Top[:min(n, len(s.Top))] }

// Settings say what of a sequence is shown, and how.
type Settings struct {
	// Logprobs wants the tokens of the text.
	Logprobs bool
	// Echo wants one more token: that which ended the text.
	Echo bool
	// KeepStop leaves stop strings in the text.
	KeepStop bool
	// ScoreOnly hides the token that a call for none has to generate.
	ScoreOnly bool
	// HideReasoning leaves out what the model thinks.
	HideReasoning bool
	// Customs are the names of the tools that take a text; nil for none.
	Customs map[string]bool
	// CallID makes the ids of calls that the model gives none.
	CallID func() string
}

// Choice turns the events of one sequence into what a reply shows of it, piece by
// piece. It belongs to one goroutine.
type Choice struct {
	// Reply has the calls, and how the text ended.
	Reply *generate.Reply
	// Finish is how the sequence ended; nil before.
	Finish *llm.Finish
	// Chars counts the characters of the text so far, and of the prompt that is echoed.
	Chars int
	// Reasoned counts the tokens of reasoning so far.
	Reasoned int

	settings *Settings
	waiting  []Scored // tokens whose text was not shown yet
	seen     int      // bytes of visible text in all events so far

	customs []int            // calls of tools that take a text
	input   *strings.Builder // of the last of them

	explained []*llm.Explanation // of the tokens since Explained was called

	sum     float64 // of the log-probabilities
	counted int     // tokens in sum
	since   int     // tokens behind the latest delta
}

// Piece is what one event adds to a choice.
type Piece struct {
	Deltas []generate.Delta
	Tokens []Scored
}

// NewChoice returns the choice that sequence i of run becomes.
func NewChoice(s *Settings, run *generate.Run, i int) *Choice {
	return &Choice{settings: s, Reply: run.Reply(i, s.KeepStop, s.CallID)}
}

// Next takes the sequence's next event. Errors are those of generate.Reply.
func (c *Choice) Next(e *generate.Event) (Piece, error) {
	c.Finish = e.Finish
	if e.Explained != nil {
		c.explained = append(c.explained, e.Explained)
	}
	c.sum += float64(e.Logprob)
	c.counted++
	if c.settings.ScoreOnly {
		return Piece{}, nil
	}
	// A client that scores prompts expects one entry for each token, and one for the
	// token that ended the text.
	if c.settings.Logprobs && (!e.Special || c.settings.Echo) {
		c.waiting = append(c.waiting, Scored{generate.TokenOf(e), e.Top, c.Chars, c.seen})
	}
	if !e.Special {
		c.seen += len(e.Text)
		c.Chars += utf8.RuneCountInString(e.Text)
	}
	deltas, err := c.Reply.Next(e)
	c.countReasoning(deltas)
	if c.settings.HideReasoning {
		deltas = slices.DeleteFunc(deltas, func(d generate.Delta) bool { return d.Kind == generate.DeltaReasoning })
	}
	if len(c.settings.Customs) > 0 {
		deltas = c.customized(deltas)
	}
	return Piece{deltas, c.release(e.Finish != nil)}, err
}

// countReasoning counts an event that added deltas: tokens that showed nothing are of what comes next.
func (c *Choice) countReasoning(deltas []generate.Delta) {
	c.since++
	if len(deltas) == 0 {
		return
	}
	if deltas[0].Kind == generate.DeltaReasoning {
		c.Reasoned += c.since
	}
	c.since = 0
}

// release returns the waiting tokens of which the client has seen a byte: at the end
// all but those of the stop string.
func (c *Choice) release(end bool) []Scored {
	n := len(c.waiting)
	if !end || c.Reply.Stopped() && !c.settings.KeepStop {
		for n = 0; n < len(c.waiting) && c.waiting[n].start < c.Reply.Shown(); n++ {
		}
	}
	out := c.waiting[:n]
	c.waiting = c.waiting[n:]
	return out
}

// Explained returns how the tokens came to be that Next took since the last call, also those whose text is not shown.
func (c *Choice) Explained() []*llm.Explanation {
	list := c.explained
	c.explained = nil
	return list
}

// Score is what sequences compete by: the mean of the log-probabilities. One
// with a NaN loses.
func (c *Choice) Score() float64 {
	if math.IsNaN(c.sum) || c.counted == 0 {
		return math.Inf(-1)
	}
	return c.sum / float64(c.counted)
}

// customized makes what is told of calls of custom tools: the text that they are called
// with, as a whole, when the call is complete.
func (c *Choice) customized(deltas []generate.Delta) []generate.Delta {
	out := deltas[:0]
	for _, d := range deltas {
		switch {
		case d.Kind == generate.DeltaBegin:
			if c.input = nil; c.settings.Customs[d.Name] {
				c.input = &strings.Builder{}
				c.customs = append(c.customs, d.Index)
			}
		case d.Kind == generate.DeltaArguments && c.Custom(&d):
			c.input.WriteString(d.Text)
			if !json.Valid([]byte(c.input.String())) {
				continue
			}
			if d.Text = toolset.Input(c.input.String()); d.Text == "" {
				continue
			}
		}
		out = append(out, d)
	}
	return out
}

// Custom reports whether d is about a call of a custom tool.
func (c *Choice) Custom(d *generate.Delta) bool {
	return d != nil && (d.Kind == generate.DeltaBegin || d.Kind == generate.DeltaArguments) &&
		slices.Contains(c.customs, d.Index)
}
