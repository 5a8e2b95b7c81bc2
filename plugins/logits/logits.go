// Package logits is the host's side of the plugin kinds "logits" and "sampler": what happens at each step of a
// sequence.
//
// It owns the step struct in the guest's memory, the selection of the view, the copying of the row and of candidates,
// the modes of a guest's answer, the queue of forced tokens, and the validation of every answer. An answer that breaks
// a rule changes nothing: the row is then as it was before the call.
package logits

import "math"

// Effect is what a guest requests in addition to its change of the logits. None is the empty effect.
type Effect struct {
	Temperature float32 // of this step; NaN leaves the request's
	Force       int64   // the token that must come next; -1: any
	Stop        bool    // the sequence ends at this position
}

// None returns the empty effect.
func None() Effect { return Effect{Temperature: nan, Force: -1} }

var (
	nan    = float32(math.NaN())
	negInf = float32(math.Inf(-1))
)
