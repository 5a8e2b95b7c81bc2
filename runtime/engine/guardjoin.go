package engine

import (
	"bytes"
	"unicode/utf8"

	"tgi/runtime/llm"
)

// join makes one replacement of those that guards want of the same tokens at once: what none of them changes of the
// text stays, and what any of them changes is gone. It reports false where there is but one, or another guard holds
// some of the tokens.
func (h *holdback) join(t *pickTask, replace *guardian, whole int) bool {
	position := replace.v.Position
	var all []*guardian
	for i := range h.guards {
		g := &h.guards[i]
		switch {
		case g.v.Kind == llm.VerdictReplace && g.v.Position == position:
			all = append(all, g)
		case g.v.Kind == llm.VerdictReplace && g.lets(len(h.output)) < position, min(g.v.Position, whole) < position:
			return false
		}
	}
	if len(all) < 2 || whole < position {
		return false
	}
	text := t.q.text.visible[h.seen:h.held[position-h.released()-1].end]
	from, to := len(text), 0
	for _, g := range all {
		a, b := edited(text, g.v.Text)
		from, to = min(from, a), max(to, b)
	}
	to = max(from, to)
	joined, tokens := string(text[:from])+string(text[to:]), []llm.Token(nil)
	for _, g := range all { // the first that does not quote what another changes
		a, b := edited(text, g.v.Text)
		own := g.v.Text[a : len(g.v.Text)-(len(text)-b)]
		if quotes(own, text[from:to]) {
			continue
		}
		if joined = string(text[:from]) + own + string(text[to:]); joined == g.v.Text {
			tokens = g.v.Tokens
		}
		break
	}
	replace.v.Text, replace.v.Tokens = joined, tokens
	return true
}

// edited returns which bytes of a text another one has not, all between the first and the last of them, in whole
// characters.
func edited(text []byte, other string) (from, to int) {
	most := min(len(text), len(other))
	for from < most && text[from] == other[from] {
		from++
	}
	inside := func(s string, i int) bool { return i < len(s) && !utf8.RuneStart(s[i]) }
	for from > 0 && (inside(string(text), from) || inside(other, from)) {
		from--
	}
	to = len(text)
	for n := len(other); to > from && n > from && text[to-1] == other[n-1]; n-- {
		to--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return from, to
}

// quoted is how many bytes in a row make a quotation.
const quoted = 3

// quotes reports whether a text has a part of another in it, or all of a short one.
func quotes(text string, other []byte) bool {
	n := min(quoted, len(other))
	for i := 0; n > 0 && i+n <= len(other); i++ {
		if bytes.Contains([]byte(text), other[i:i+n]) {
			return true
		}
	}
	return false
}
