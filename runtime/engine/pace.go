package engine

import (
	"math"
	"math/bits"
	"time"
)

// pace chooses how many prompt tokens a step computes beside rows that decode, so that these do not wait long for
// their next token: a step may take stretch times as long as one without prompts. It learns from the steps how long
// they take on this machine. Only the step goroutine uses it.
//
// With a stretch of 2.5 almost three fifths of a step's time go to prompts, and two fifths at the worst: where no whole
// number of tokens takes just as long. One is computed however long it takes.
type pace struct {
	// stretch is how many times as long as one without prompts a step may take; 0 is any.
	stretch float64
	// step is what a step may take however long it is without prompts.
	step time.Duration
	// decode is what steps without prompts take.
	decode rowTimes
	// token is what a prompt token adds beside rows that decode, in seconds, and alone what one takes in a step of
	// prompts only, which computes many at a time; 0 is unknown.
	token, alone float64
	// beside counts steps with prompts since the last without. postponed says that prompts wait for a step without.
	beside    int
	postponed bool
}

// rowTimes are what steps take, in seconds, by the number of bits of their number of rows; 0 is unknown.
type rowTimes [32]float64

const (
	// aim is the part of the time for prompts that is planned: steps vary, and the slowest of a hundred are to hold the
	// bound too.
	aim = 0.9
	// crowded is how many times the prompts' part grows at most where more prompts wait than rows decode: in
	// proportion, since many wait for their first token then, and few for their next.
	crowded = 4
	// firstPrompt is computed as long as nothing is known.
	firstPrompt = 16
	// tile is how many tokens kernels compute together. Larger numbers are multiples of it.
	tile = 16
	// remeasure is after how many steps with prompts one without is taken to measure what that takes by now: rows have
	// grown longer, and the machine may be slower. It costs prompts about 1 % of their time, and 5 % where steps vary
	// so much that it is measured again and again.
	remeasure = 32
	// again is after how many it is measured again where it has changed by more than this part: that may be chance.
	again   = 8
	changed = 0.25
	// recent is the weight of the last step. What took longer than outlier times what was expected counts as that.
	recent  = 0.25
	outlier = 4
)

// learn updates an average.
func learn(average *float64, seconds float64) {
	if seconds <= 0 {
		return
	}
	if *average == 0 {
		*average = seconds
		return
	}
	*average += recent * (min(seconds, outlier**average) - *average)
}

// observe learns from a step.
func (p *pace) observe(decodeRows, promptTokens int, took time.Duration) {
	switch {
	case promptTokens == 0 && decodeRows > 0:
		was := p.decode.of(decodeRows)
		learn(&p.decode[bits.Len(uint(decodeRows))], took.Seconds())
		if p.beside = 0; math.Abs(took.Seconds()-was) > changed*was {
			p.beside = remeasure - again
		}
	case promptTokens > 0 && decodeRows > 0:
		p.beside++
		if p.token == 0 {
			p.token = p.alone
		}
		correct(&p.token, p.decode.of(decodeRows), float64(promptTokens), took.Seconds())
	case promptTokens > 0:
		learn(&p.alone, took.Seconds()/float64(promptTokens))
	}
}

// correct learns what a token adds from a step with so many, of prompts or others, that took so long, and would have
// taken so long without them. What was expected is corrected by the part of it that the step was off, and no more than
// by a bound: where other programs want the processors, a single step says little, and what is left of it for a few
// tokens says nothing.
func correct(token *float64, without, tokens, took float64) {
	if *token == 0 {
		*token = max(took-without, took/4) / tokens
		return
	}
	off := took/(without+tokens**token) - 1
	*token *= 1 + recent*min(max(off, -0.5), 1)
}

// of is how long a step of so many rows takes, 0 if that is not known. Of other numbers of rows the next smaller one
// that is known counts, or else the next larger one.
func (t *rowTimes) of(rows int) float64 {
	at := bits.Len(uint(rows))
	for i := at; i > 0; i-- {
		if t[i] > 0 {
			return t[i]
		}
	}
	for i := at + 1; i < len(t); i++ {
		if t[i] > 0 {
			return t[i]
		}
	}
	return 0
}

// perToken is what a prompt token costs where many are computed, 0 if that is not known.
func (p *pace) perToken() float64 {
	if p.alone > 0 {
		return p.alone
	}
	return p.token
}

// tokens returns how many prompt tokens a step computes beside rows that decode while so many prompts are to be
// computed: 0 now and then, but never twice in a row, so that the step shows what one without prompts takes. It
// implements sched.Pace.
func (p *pace) tokens(decodeRows, prompts int) int {
	unknown := p.decode[bits.Len(uint(decodeRows))] == 0
	p.postponed = !p.postponed && (unknown || p.beside >= remeasure)
	if p.postponed {
		return 0
	}
	token := p.token
	if token == 0 {
		token = p.alone
	}
	without := p.decode.of(decodeRows)
	if token == 0 || without == 0 {
		return firstPrompt
	}
	part := aim * (p.stretch - 1) * min(max(1, float64(prompts)/float64(decodeRows)), crowded)
	n := int(min(max(p.step.Seconds()-without, part*without)/token, math.MaxInt32))
	if n >= 2*tile {
		n -= n % tile
	}
	return max(n, 1)
}
