package engine

import (
	"math"
	"slices"

	"tgi/runtime/llm"
)

// A guard releases tokens by what it saw behind them. Another may take that back, and with what comes then the first
// one would not release them. So a token goes out only where all guards release it by tokens that none of them takes
// back any more: which those are they say by what they release themselves.

// freed is what a guard released, and by what: in order, both numbers grow.
type freed []release

// release says that a guard who had seen the first seen output tokens released those before to.
type release struct{ seen, to int }

// add notes a release, which replaces those of more.
func (f *freed) add(seen, to int) {
	list := *f
	for len(list) > 0 && list[len(list)-1].to >= to { // so much of it the guard released then, and does still
		seen = list[len(list)-1].seen
		list = list[:len(list)-1]
	}
	*f = append(list, release{seen, to})
}

// upTo is the position before which tokens are released by no more than the first seen output tokens.
func (f freed) upTo(seen int) int {
	for i := len(f) - 1; i >= 0; i-- {
		if f[i].seen <= seen {
			return f[i].to
		}
	}
	return 0
}

// by is how many output tokens it took to release those before position.
func (f freed) by(position int) int {
	for _, x := range f {
		if x.to >= position {
			return x.seen
		}
	}
	return 0
}

// forget drops what more than the first n output tokens are needed for, and what only the first out of them go out by.
func (f *freed) forget(n, out int) {
	list := *f
	for len(list) > 0 && list[len(list)-1].seen > n {
		list = list[:len(list)-1]
	}
	i := 0
	for i < len(list) && list[i].to <= out {
		i++
	}
	*f = list[:copy(list, list[i:])]
}

// forget has the guards forget what they said since the first n output tokens. Who took the others back knows what it
// had released by them.
func (h *holdback) forget(n int) {
	for i := range h.guards {
		g := &h.guards[i]
		if g.freed.forget(n, h.released()); g.done && g.at > n && !g.waits {
			g.done = false
		}
		g.rests = slices.DeleteFunc(g.rests, func(seen int) bool { return seen > n || seen <= h.released() })
	}
}

// lets is the position before which a guard lets tokens go by the first seen output tokens. What it replaces it does
// not let go, even if that is the last that it says.
func (g *guardian) lets(seen int) int {
	if g.done && g.at <= seen && g.v.Kind != llm.VerdictReplace {
		return math.MaxInt
	}
	return g.freed.upTo(seen)
}

// needs is how many output tokens it took a guard to let those before position go.
func (g *guardian) needs(position int) int {
	if n := len(g.freed); g.done && (n == 0 || g.freed[n-1].to < position) {
		return g.at
	}
	return g.freed.by(position)
}

// agree returns the positions before which each guard lets tokens go by what none of the others takes back: the
// greatest that agree with each other. An emission that goes on may be taken back as a whole.
func (h *holdback) agree(whole int) []int {
	h.lets = h.lets[:0]
	for range h.guards {
		h.lets = append(h.lets, whole)
	}
	for again := true; again; {
		again = false
		for i := range h.guards {
			seen := whole
			for j, x := range h.lets {
				if j != i && h.guards[j].cuts() {
					seen = min(seen, x)
				}
			}
			if x := h.border(h.guards[i].lets(seen)); x < h.lets[i] {
				h.lets[i], again = x, true
			}
		}
	}
	return h.lets
}

// cuts reports whether a guard may take back what it has not released.
func (g *guardian) cuts() bool { return g.rules.Rewinds || g.rules.Stops }

// border is the last position up to position, of those that may go out, behind which no character goes on.
func (h *holdback) border(position int) int {
	position = max(min(position, len(h.output)), h.released())
	if h.goesOn(position) {
		return h.boundary(position)
	}
	return position
}

// free returns how many of the first whole output tokens may go out, and the guard that holds the next.
func (h *holdback) free(whole int) (int, *guardian) {
	free, by := whole, &h.guards[0]
	for i, x := range h.agree(whole) {
		if x < free {
			free, by = x, &h.guards[i]
		}
	}
	return h.border(free), by
}

// rely notes by what the guards release the tokens before position: each that may take something back releases what the
// others need for it, too.
func (h *holdback) rely(position int) {
	if position == h.released() {
		return
	}
	needs := h.lets[:0]
	for range h.guards {
		needs = append(needs, 0)
	}
	for again := true; again; {
		again = false
		for i := range h.guards {
			g, keeps := &h.guards[i], position
			for j, seen := range needs {
				if j != i && g.cuts() {
					keeps = max(keeps, seen)
				}
			}
			if seen := h.closed(g.needs(keeps)); seen > needs[i] {
				needs[i], again = seen, true
			}
		}
	}
	for i, seen := range needs {
		h.guards[i].relies(seen)
	}
}

// relies notes that what a guard lets go rests on the first seen output tokens.
func (g *guardian) relies(seen int) {
	if n := len(g.rests); n == 0 || g.rests[n-1] < seen {
		g.rests = append(g.rests, seen)
	}
}

// closed is the first position from the given one on behind which no character goes on.
func (h *holdback) closed(position int) int {
	for position > h.released() && position < len(h.output) && h.held[position-1-h.released()].open {
		position++
	}
	return position
}

// bound is the position before which a guard takes nothing back any more: it released that, and by that the others
// released what went out.
func (h *holdback) bound(g *guardian) (position int) {
	for i := range h.guards {
		if x := &h.guards[i]; x != g && g.cuts() && len(x.rests) > 0 {
			position = max(position, x.rests[len(x.rests)-1])
		}
	}
	return position
}

// bounded is a verdict without what a guard may not take back any more. Where nothing is left of it the text ends.
func (h *holdback) bounded(g *guardian, v llm.Verdict) llm.Verdict {
	bound := h.bound(g)
	if v.Position >= bound || v.Kind != llm.VerdictRewind && v.Kind != llm.VerdictInsert {
		return v
	}
	if v.Position, v.Biases = bound, nil; v.Position == len(h.output) {
		return llm.Verdict{Kind: llm.VerdictStop, Position: v.Position, Why: "it takes back what it had released"}
	}
	return v
}
