package engine

import (
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// A text with guards ends at the first stop string in what goes out, wherever its bytes come from. What is held may
// become such a text: the sequence's transcript matches what the model wrote of what went out, and what is held behind
// it, and tells the guards of an end where it finds a stop string. Where one would replace a byte of that, it is no
// end, and they are asked again: a client can neither find out by stop strings what is replaced, nor get a part of it.
// A stop string that begins in a replacement ends the text once the rest of it goes out: whether the replacement has
// gone out when the model writes that depends on how the text is cut into tokens.

// stopsIn takes a token that goes out, and cuts it behind a stop string that ends in it, which ends the text. open says
// that the token ends inside a character, end is the token of what no token stands for.
func (h *holdback) stopsIn(x *picked, open bool, end llm.Token) bool {
	found, cut, bytes := h.stops.feed(x.text, !x.special)
	if found == "" || x.fin.Reason == llm.FinishLength || x.fin.Reason == llm.FinishEOS || // these are tested first
		x.fin.Reason == llm.FinishGuard && h.ended { // and what it ended before has been cut there
		return false
	}
	x.cut = !x.special && (x.cut || open || cut < len(x.text))
	if x.text = x.text[:cut]; x.cut { // what the token has behind the stop string is no part of what goes out
		x.pick, x.top, x.replaced = sample.Pick{Token: end}, nil, true
	}
	x.fin = llm.Finish{Reason: llm.FinishStop, Stop: found, StopBytes: bytes}
	h.over = true
	return true
}

// unmakes reports whether a replacement takes a byte of the stop string that ends the text.
func (h *holdback) unmakes(t *pickTask, g *guardian) bool {
	if h.held[len(h.held)-1].fin.Reason != llm.FinishStop {
		return false
	}
	find := h.own.clone()
	find.forget()
	found, _, _ := find.feed(h.behind(t, g), true)
	for _, x := range h.held[g.v.Position-h.released():] {
		if found == "" {
			found, _, _ = find.feed(x.text, !x.special)
		}
	}
	return found == ""
}

// behind returns what stays of the model's text behind what a guard replaces. Where equal bytes are next to that, and
// it does not say which it takes, they stay: what goes out ends with them, so a stop string in them is one for the
// client.
func (h *holdback) behind(t *pickTask, g *guardian) string {
	text := string(t.q.text.visible[h.seen:h.held[g.v.Position-h.released()-1].end])
	if n := len(g.v.Edits); n > 0 {
		return text[g.v.Edits[n-1].To:]
	}
	n := 0
	for n < min(len(text), len(g.v.Text)) && text[len(text)-1-n] == g.v.Text[len(g.v.Text)-1-n] {
		n++
	}
	for n > 0 && !utf8.RuneStart(text[len(text)-n]) {
		n--
	}
	return text[len(text)-n:]
}

// goOn takes the end at a stop string back: the text goes on behind it, up to the next stop string in the token.
func (h *holdback) goOn(q *sequence) {
	x, rest := &h.held[len(h.held)-1], q.text.rest
	h.followStops(q)
	stop, cut, bytes := q.text.find.feed(rest, !x.special)
	if stop == "" {
		cut = len(rest)
	}
	if q.text.rest = rest[cut:]; !x.special {
		q.text.visible = append(q.text.visible, rest[:cut]...)
	}
	x.text, x.end, x.fin, x.cut = x.text+rest[:cut], len(q.text.visible), llm.Finish{}, false
	if stop != "" {
		x.fin = llm.Finish{Reason: llm.FinishStop, Stop: stop, StopBytes: bytes, Text: string(q.text.visible),
			Generated: q.generated}
		x.cut = !x.special && (q.text.rest != "" || q.text.detok.Open())
	}
	h.anew = true
	n := len(h.output) - 1
	for i := range h.guards { // the token is another one than they saw, and so is what they replace of it
		g := &h.guards[i]
		g.kept, g.waits = min(g.kept, n), g.waits && g.done && g.at <= n // which says nothing more
	}
	h.forget(n) // what they said was about the end
}

// followStops has the transcript match what the model wrote: what went out behind the last replacement, and what is
// held.
func (h *holdback) followStops(q *sequence) {
	q.text.find = h.own.clone()
	for _, x := range h.held {
		q.text.find.pass(x.text, !x.special)
	}
}
