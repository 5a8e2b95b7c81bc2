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
		position := h.joined(all)
		for i := range h.guards {
			g := &h.guards[i]
			if g.v.Kind == llm.VerdictReplace && g.lets(len(h.output)) < position && !slices.Contains(all, g) {
				all, again = append(all, g), true
			}
		}
	}
	return all
}

// joined is the position before which replacements are made together.
func (h *holdback) joined(all []*guardian) (position int) {
	for _, g := range all {
		position = max(position, g.v.Position)
	}
	return position
}

// join makes one replacement, the first, of several: what none of them changes of the text stays, and what any of them
// changes is gone. Behind that stays only what all of them have seen to the end.
func (h *holdback) join(t *pickTask, all []*guardian) {
	if len(all) == 1 {
		return
	}
	position := h.joined(all)
	span := func(g *guardian) (text []byte, from, to int) {
		text = t.q.text.visible[h.seen:h.held[g.v.Position-h.released()-1].end]
		from, to = edited(text, g.v.Text)
		return text, from, to
	}
	whole := t.q.text.visible[h.seen:h.held[position-h.released()-1].end]
	from, to := len(whole), 0
	for _, g := range all {
		_, a, b := span(g)
		if from, to = min(from, a), max(to, b); g.v.Position < position {
			to = len(whole)
		}
	}
	to = max(from, to)
	text, tokens := string(whole[:from])+string(whole[to:]), []llm.Token(nil)
	for _, g := range all { // the first that does not quote what another changes
		its, a, b := span(g)
		own := g.v.Text[a : len(g.v.Text)-(len(its)-b)]
		if slices.ContainsFunc(all, func(x *guardian) bool {
			its, _, _ := span(x)
			return x != g && quotes(own, its, x.v.Text)
		}) {
			continue
		}
		if text = string(whole[:from]) + own + string(whole[to:]); text == g.v.Text {
			tokens = g.v.Tokens
		}
		break
	}
	v := &all[0].v
	v.Position, v.Text, v.Tokens = position, text, tokens
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

const (
	// quoted is how many bytes in a row make a quotation.
	quoted = 3
	// mostCompared bounds the bytes of a text times those of another that are compared.
	mostCompared = 1 << 18
)

// quotes reports whether words have a part of what another guard changes of a text, or all of a short piece of it.
func quotes(words string, text []byte, other string) bool {
	pieces, ok := lost(text, other)
	for _, piece := range pieces {
		n := min(quoted, len(piece))
		for i := 0; i+n <= len(piece); i++ {
			if strings.Contains(words, string(piece[i:i+n])) {
				return true
			}
		}
	}
	return !ok
}

// lost returns the pieces of a text that another one has not: what is between the bytes of a longest common
// subsequence. It reports false where the two are too long for that.
func lost(text []byte, other string) (pieces [][]byte, ok bool) {
	from, to := edited(text, other)
	other = other[from : len(other)-(len(text)-to)]
	text = text[from:to]
	n, m := len(text), len(other)
	if n*m > mostCompared {
		return nil, false
	}
	// common[i*(m+1)+j] is the length for text[i:] and other[j:].
	common := make([]int32, (n+1)*(m+1))
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			at := i*(m+1) + j
			if text[i] == other[j] {
				common[at] = common[at+m+2] + 1
			} else {
				common[at] = max(common[at+1], common[at+m+1])
			}
		}
	}
	begin := 0
	for i, j := 0, 0; i <= n; {
		switch at := i*(m+1) + j; {
		case i < n && j < m && text[i] == other[j]:
			if begin < i {
				pieces = append(pieces, text[begin:i])
			}
			i, j = i+1, j+1
			begin = i
		case i < n && (j == m || common[at+m+1] >= common[at+1]):
			i++
		case j < m:
			j++
		default:
			if begin < n {
				pieces = append(pieces, text[begin:])
			}
			i++
		}
	}
	return pieces, true
}
