package openai

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/server/generate"
)

// scored is a token with its likeliest alternatives.
type scored struct {
	generate.Token
	top []generate.Token
	// start is where its text begins, in bytes of the visible text; offset the
	// same in characters, of the whole text of the choice.
	start, offset int
}

// choice turns the events of one sequence into what a reply shows of it, piece by
// piece. It belongs to one goroutine.
type choice struct {
	index  int // in the reply
	call   *call
	reply  *generate.Reply
	opened bool

	waiting []scored // tokens whose text was not shown yet
	unsent  []scored // tokens that the next chunk of a stream reports
	seen    int      // bytes of visible text in all events so far
	chars   int      // characters in it and in the prompt that is echoed

	customs []int            // calls of tools that take a text
	input   *strings.Builder // of the last of them

	finish  *llm.Finish
	sum     float64 // of the log-probabilities
	counted int     // tokens in sum
}

// piece is what one event adds to a choice.
type piece struct {
	deltas []generate.Delta
	tokens []scored
}

// newChoice returns the choice that sequence i of run becomes.
func newChoice(c *call, index int, run *generate.Run, i int) *choice {
	return &choice{index: index, call: c, reply: run.Reply(i, c.keepStop, c.callID)}
}

// next takes the sequence's next event.
func (c *choice) next(e *generate.Event) (piece, error) {
	c.finish = e.Finish
	c.sum += float64(e.Logprob)
	c.counted++
	if c.call.scoreOnly {
		return piece{}, nil
	}
	// A client that scores prompts expects one entry for each token, and one for the
	// token that ended the text.
	if c.call.logprobs && (!e.Special || c.call.echo) {
		c.waiting = append(c.waiting, scored{generate.TokenOf(e), e.Top, c.seen, c.chars})
	}
	if !e.Special {
		c.seen += len(e.Text)
		c.chars += utf8.RuneCountInString(e.Text)
	}
	deltas, err := c.reply.Next(e)
	if c.call.hideReasoning {
		deltas = slices.DeleteFunc(deltas, func(d generate.Delta) bool { return d.Kind == generate.DeltaReasoning })
	}
	if len(c.call.customs) > 0 {
		deltas = c.customized(deltas)
	}
	return piece{deltas, c.release(e.Finish != nil)}, err
}

// release returns the waiting tokens of which the client has seen a byte: at the end
// all but those of the stop string.
func (c *choice) release(end bool) []scored {
	n := len(c.waiting)
	if !end || c.reply.Stopped() && !c.call.keepStop {
		for n = 0; n < len(c.waiting) && c.waiting[n].start < c.reply.Shown(); n++ {
		}
	}
	out := c.waiting[:n]
	c.waiting = c.waiting[n:]
	return out
}

// reason is the finish_reason of a sequence that ended.
func (c *choice) reason() string {
	d := c.call.dialect
	switch {
	case c.reply.Called() && c.call.functions:
		return "function_call"
	case c.reply.Called():
		return d.FinishTools
	case c.reply.Stopped():
		return d.FinishStop
	case c.finish.Reason == llm.FinishEOS:
		return d.FinishEOS
	}
	return c.finish.Reason.String()
}

// score is what sequences compete by: the mean of the log-probabilities. One
// with a NaN loses.
func (c *choice) score() float64 {
	if math.IsNaN(c.sum) || c.counted == 0 {
		return math.Inf(-1)
	}
	return c.sum / float64(c.counted)
}
