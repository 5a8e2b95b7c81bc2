// Package logits is the host's side of the plugin kinds "logits" and "sampler": what happens at each step of a
// sequence.
//
// It owns the step struct in the guest's memory, the selection of the view, the copying of the row and of candidates,
// the modes in which a guest answers, the queue of forced tokens, and the rules that every answer is held to. An answer
// that breaks a rule changes nothing: the row is then as it was before the call.
package logits

import "math"

// Effect is what a guest wants beside its change of the logits. See None for the effect that is none.
type Effect struct {
	Temperature float32 // of this step; NaN leaves the request's
	Force       int64   // the token that must come next; -1: any
	Stop        bool    // the sequence ends at this position
}

// None is the effect of a guest that wants nothing.
func None() Effect { return Effect{Temperature: nan, Force: -1} }

var (
	nan    = float32(math.NaN())
	negInf = float32(math.Inf(-1))
)
