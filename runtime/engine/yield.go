package engine

import (
	"math/bits"
	"time"

	"tgi/runtime/sched"
)

// yield chooses how many tokens of requests beneath others a step computes, so that these hardly wait longer for their
// next token: of the time while others generate, those beneath may take a quarter. Only the step goroutine uses it.
//
// What steps take longer than without those beneath is theirs, whatever the reason: a row costs time outside of its
// step, too. What they may take adds up from step to step until a token can be paid for with it, and no further: one
// that costs more than its part of a step is in few steps. They may have the places of parked rows besides: the step is
// no longer than with these.
type yield struct {
	// alone is what steps take that have nothing of those beneath, after one that had nothing either.
	alone rowTimes
	// token is what a token beneath adds to a step, in seconds; 0 is unknown.
	token float64
	// credit is what those beneath may take, in seconds; below 0 they took too much.
	credit float64
	// decode is how many rows of others the step computes a token for, and parked how many more run.
	decode, parked int
	// beside counts steps since alone has learned, and rests those that are still to be without, so that it does.
	beside, rests int
	// shared says that the last step had something of those beneath.
	shared bool
}

const (
	// beneathPart is what those beneath may add to a step, as a part of what it takes without them: a quarter of all.
	beneathPart = 1.0 / 3
	// mostBeneath bounds the tokens where they cost next to nothing.
	mostBeneath = 256
)

// tokens implements sched.Yield.
func (y *yield) tokens(decode, running int) int {
	y.decode, y.parked = decode, running-decode
	part := beneathPart * y.without()
	y.credit = min(y.credit+part, part)
	y.beside++
	if y.beside > remeasure || y.beside > again && y.alone[bits.Len(uint(decode))] == 0 {
		y.beside, y.rests = 0, 2
	}
	switch {
	case y.rests > 0 && y.parked == 0:
		y.rests--
		return 0
	case y.credit < 0:
		return y.parked
	case y.token == 0:
		return y.parked + 1
	}
	return y.parked + int(min(max(y.credit/y.token, 1), mostBeneath))
}

// without is what the step takes without those beneath, and with all that is parked.
func (y *yield) without() float64 { return y.alone.of(max(y.decode+y.parked, 1)) }

// learnLow learns from a step. One that was fast counts more than one that was slow: other work on the machine makes
// steps slow now and then, and is no reason to take more of them.
func (t *rowTimes) learnLow(rows int, seconds float64) {
	switch at := &t[bits.Len(uint(rows))]; {
	case *at == 0:
		*at = seconds
	case seconds < *at:
		*at += recent * (seconds - *at)
	default:
		*at += recent / 4 * (min(seconds, outlier**at) - *at)
	}
}

// observe learns from a step.
func (y *yield) observe(plan *sched.Plan, took time.Duration) {
	shared, without, s := y.shared, y.without(), took.Seconds()
	y.shared = plan.Beneath > 0
	switch {
	case plan.PrefillTokens > 0: // how long these take is another matter
		if plan.Yielded {
			y.credit -= y.token * float64(plan.Beneath)
		}
	case plan.DecodeRows == 0:
	case !shared && !y.shared:
		y.alone.learnLow(plan.DecodeRows, s)
		y.beside = 0
	case plan.Yielded && without > 0:
		y.credit -= min(s, outlier*without) - without
		if y.shared && y.decode > 0 {
			correct(&y.token, without, float64(plan.Beneath), s)
		}
	}
}
