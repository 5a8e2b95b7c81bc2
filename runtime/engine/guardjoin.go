package engine

import (
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/runtime/llm"
)

// together returns a replacement and those others that are made with it: of guards that have not let go all that it
// takes.
func (h *holdback) together(replace *guardian) []*guardian {
	all := []*guardian{replace}
	for again := true; again; {
		again = false
		position, _ := h.joined(all)
		for i := range h.guards {
			g := &h.guards[i]
			if g.v.Kind == llm.VerdictReplace && g.lets(len(h.output)) < position && !slices.Contains(all, g) {
				all, again = append(all, g), true
			}
		}
	}
	return all
}

// joined is the position before which replacements are made together, and how many output tokens their guards saw.
func (h *holdback) joined(all []*guardian) (position, saw int) {
	for _, g := range all {
		position, saw = max(position, g.v.Position), max(saw, g.saw)
	}
	return position, saw
}

// undecided has guards whose replacements are to be made together asked again at the next token where others change
// what they have not decided yet: a part of something that they would replace may begin there. It reports whether there
// are any. One that holds more than it may decides no more before its own replacement is made, and where more is held
// than one guard may hold they may never agree. Where all have decided enough, what is behind that all have is left for
// later.
func (h *holdback) undecided(t *pickTask, all []*guardian) (any bool) {
	if len(all) == 1 {
		return false
	}
	changed, position := 0, len(h.output)
	for _, g := range all {
		_, _, to := h.span(t, g)
		changed, position = max(changed, h.seen+to), min(position, g.v.Position)
	}
	end := func(position int) int { return h.held[position-h.released()-1].end }
	for _, g := range all {
		behind := !g.done && end(g.v.Position) < changed && len(h.output)-g.v.Position <= g.rules.Hold &&
			len(h.held) <= llm.MaxHold && h.view.Reason == llm.FinishNone
		g.waits, any = !behind, any || behind
	}
	if any || end(position) < changed {
		return any
	}
	for _, g := range all { // what is behind that all have decided is not changed, and is decided again
		if rest := end(g.v.Position) - end(position); rest > 0 {
			g.v.Text, g.v.Tokens = g.v.Text[:len(g.v.Text)-rest], nil
		}
		g.v.Position = position
	}
	return false
}

// span is what a guard replaces: the text as the model has it, and which bytes of it the guard changes.
func (h *holdback) span(t *pickTask, g *guardian) (text []byte, from, to int) {
	text = t.q.text.visible[h.seen:h.held[g.v.Position-h.released()-1].end]
	from, to = edited(text, g.v.Text)
	return text, from, to
}

// unchanged is the position before which a guard that replaces changes nothing.
func (h *holdback) unchanged(t *pickTask, g *guardian) int {
	_, from, _ := h.span(t, g)
	n := 0
	for n < len(h.held) && h.held[n].end <= h.seen+from {
		n++
	}
	return h.released() + n
}

// join makes one replacement, the first, of several: what none of them changes of the text stays, and what any of them
// changes is gone. Behind that stays only what all of them have seen to the end.
func (h *holdback) join(t *pickTask, all []*guardian) {
	if len(all) == 1 {
		return
	}
	position, _ := h.joined(all)
	whole := t.q.text.visible[h.seen:h.held[position-h.released()-1].end]
	from, to := len(whole), 0
	for _, g := range all {
		_, a, b := h.span(t, g)
		if from, to = min(from, a), max(to, b); g.v.Position < position {
			to = len(whole)
		}
	}
	to = max(from, to)
	own, tokens := h.words(t, all), []llm.Token(nil)
	text := string(whole[:from]) + own + string(whole[to:])
	for _, g := range all {
		if g.v.Text == text {
			tokens = g.v.Tokens
			break
		}
	}
	v := &all[0].v
	v.Position, v.Text, v.Tokens = position, text, tokens
}

// words returns what stands for what several guards change: the words of one with which those of all others begin, or
// of the first that have no byte of what another changes, or nothing. Others may quote what another replaces: that
// between two replacements of their own, which a client may choose to see just that.
func (h *holdback) words(t *pickTask, all []*guardian) string {
	var own, changed []string
	for _, g := range all {
		text, from, to := h.span(t, g)
		if words := g.v.Text[from : len(g.v.Text)-(len(text)-to)]; words != "" || from < to {
			own = append(own, words)
			changed = append(changed, string(text[from:to]))
		}
	}
	if len(own) == 0 {
		return ""
	}
	first := slices.MinFunc(own, func(a, b string) int { return len(a) - len(b) })
	differs := func(words string) bool { return !strings.HasPrefix(words, first) }
	if !slices.ContainsFunc(own, differs) {
		return first
	}
	for i, words := range own {
		quotes := false
		for k, text := range changed {
			for _, b := range []byte(words) {
				quotes = quotes || k != i && strings.IndexByte(text, b) >= 0
			}
		}
		if !quotes {
			return words
		}
	}
	return ""
}

// edited returns which bytes of a text another one has not, all between the first and the last of them, in whole
// characters. Where it can't be told which of equal bytes those are, as of "aa" without an "a", it returns all of them.
func edited(text []byte, other string) (from, to int) {
	most := min(len(text), len(other))
	same, end := 0, 0 // at the beginning and at the end
	for same < most && text[same] == other[same] {
		same++
	}
	for end < most && text[len(text)-1-end] == other[len(other)-1-end] {
		end++
	}
	from, to = min(same, len(other)-end), len(text)-min(end, len(other)-same)
	inside := func(s string, i int) bool { return i < len(s) && !utf8.RuneStart(s[i]) }
	for from > 0 && (inside(string(text), from) || inside(other, from)) {
		from--
	}
	to = max(from, to)
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return from, to
}
