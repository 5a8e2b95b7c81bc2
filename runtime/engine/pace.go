package engine

import (
	"math/bits"
	"time"
)

// pace chooses how many prompt tokens a step computes beside rows that decode, so that these do not wait long for their
// next token: a step may take a given time, or stretch times as long as one without prompts. It learns from the steps
// how long they take on this machine. Only the step goroutine uses it.
type pace struct {
	step time.Duration // that a step may take; 0: no bound
	// decode is what steps without prompts take, in seconds, by the number of bits of their number of rows; 0 is
	// unknown.
	decode [32]float64
	// token is what a prompt token adds, in seconds; 0 is unknown.
	token float64
}

const (
	// stretch is how much longer a step may take for prompts. Where more prompts wait than rows decode, the prompts'
	// part grows in proportion, up to crowded times: many wait for their first token, few for their next.
	stretch = 2.5
	crowded = 4
	// leastPrompt is computed however long it takes, so that prompts end.
	leastPrompt = 16
	// firstPrompt is computed as long as nothing is known.
	firstPrompt = 64
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
		learn(&p.decode[bits.Len(uint(decodeRows))], took.Seconds())
	case promptTokens > 0:
		learn(&p.token, (took.Seconds()-p.alone(decodeRows))/float64(promptTokens))
	}
}

// alone is how long a step of so many rows takes without prompts, 0 if that is not known. Of other numbers of rows the
// next smaller one that is known counts, or else the next larger one.
func (p *pace) alone(rows int) float64 {
	if rows == 0 {
		return 0
	}
	at := bits.Len(uint(rows))
	for i := at; i > 0; i-- {
		if p.decode[i] > 0 {
			return p.decode[i]
		}
	}
	for i := at + 1; i < len(p.decode); i++ {
		if p.decode[i] > 0 {
			return p.decode[i]
		}
	}
	return 0
}

// tokens returns how many prompt tokens a step computes beside rows that decode while so many prompts are to be
// computed. It implements sched.Pace.
func (p *pace) tokens(decodeRows, prompts int) int {
	if p.token == 0 {
		return firstPrompt
	}
	alone := p.alone(decodeRows)
	part := (stretch - 1) * min(max(1, float64(prompts)/float64(decodeRows)), crowded)
	n := int(max(p.step.Seconds()-alone, part*alone) / p.token)
	if n >= 2*leastPrompt {
		n -= n % leastPrompt // which kernels compute together
	}
	return max(n, leastPrompt)
}
