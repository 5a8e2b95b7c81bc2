package engine

import (
	"bytes"
	"cmp"
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

// undecided has guards whose replacements are to be made together asked again where others change what they have not
// decided yet: a part of something that they would replace may begin there. It reports whether there are any, and
// whether they are asked at once, as at the end of the text, or at the next token. One that holds more than it may
// decides no more before its own replacement is made, and where more is held than one guard may hold they may never
// agree. Where all have decided enough, what is behind that all have is left for later.
func (h *holdback) undecided(t *pickTask, all []*guardian) (any, atOnce bool) {
	if len(all) == 1 {
		return false, false
	}
	changed, position := 0, len(h.output)
	for _, g := range all {
		_, edits := h.edits(t, g)
		to := 0
		for _, e := range edits {
			to = max(to, e.to)
		}
		changed, position = max(changed, h.seen+to), min(position, g.v.Position)
	}
	end := func(position int) int { return h.held[position-h.released()-1].end }
	atOnce = h.view.Reason != llm.FinishNone
	for _, g := range all {
		behind := !g.done && end(g.v.Position) < changed && len(h.held) <= llm.MaxHold
		if atOnce {
			behind = behind && g.saw < len(h.output)
		} else {
			behind = behind && len(h.output)-g.v.Position <= g.rules.Hold
		}
		g.waits, any = !behind, any || behind
	}
	if any || end(position) < changed {
		return any, atOnce
	}
	for _, g := range all { // what is behind that all have decided is not changed, and is decided again
		if rest := end(g.v.Position) - end(position); rest > 0 {
			g.v.Text, g.v.Tokens = g.v.Text[:len(g.v.Text)-rest], nil
		}
		g.v.Position = position
	}
	return false, false
}

// edits are what a guard replaces, and of which text of the model. Where it does not say that, it is found by what is
// left of the text.
func (h *holdback) edits(t *pickTask, g *guardian) (text []byte, list []edit) {
	text = t.q.text.visible[h.seen:h.held[g.v.Position-h.released()-1].end]
	if g.v.Edits != nil {
		for _, e := range g.v.Edits {
			list = append(list, edit{by: g.by.By, from: e.From, begin: e.From, end: e.To, to: e.To, words: e.Words,
				exact: true})
		}
		return text, list
	}
	begin, end := edited(text, g.v.Text)
	words := g.v.Text[begin : len(g.v.Text)-(len(text)-end)]
	if begin < end || words != "" {
		from, to := unsure(text, begin, end)
		list = append(list, edit{by: g.by.By, from: from, begin: begin, end: end, to: to, words: words})
	}
	return text, list
}

// unchanged is the position before which a guard that replaces changes nothing.
func (h *holdback) unchanged(t *pickTask, g *guardian) int {
	text, edits := h.edits(t, g)
	n, from := 0, len(text)
	if len(edits) > 0 {
		from = edits[0].from
	}
	for n < len(h.held) && h.held[n].end <= h.seen+from {
		n++
	}
	if len(edits) > 0 && from == len(text) { // words behind all of it go out with its last token
		n = min(n, g.v.Position-h.released()-1)
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
	var edits []edit
	for _, g := range all {
		_, list := h.edits(t, g)
		edits = append(edits, list...)
		if g.v.Position < position { // what it changes of the rest it has not said
			said := h.held[g.v.Position-h.released()-1].end - h.seen
			edits = append(edits, edit{by: g.by.By, from: said, begin: said, end: len(whole), to: len(whole),
				unsaid: true})
		}
	}
	text, tokens := joinedText(string(whole), edits), []llm.Token(nil)
	for _, g := range all {
		if g.v.Text == text {
			tokens = g.v.Tokens
			break
		}
	}
	v := &all[0].v
	v.Position, v.Text, v.Tokens, v.Edits = position, text, tokens, nil
}

// edit says that a guard has the bytes from begin to end of a text become words, or that it has not said what they
// become. Where it is not exact, it may as well have been other ones, from from to to.
type edit struct {
	by                   int // the guard's place
	from, begin, end, to int
	words                string
	unsaid, exact        bool
}

// does reports whether an edit makes of a text what another one makes of it.
func (e edit) does(other edit) bool {
	return !e.unsaid && e.begin == other.begin && e.end == other.end && e.words == other.words
}

// masked stands for what guards change together where neither's words may.
const masked = "***"

// joinedText is a text with all edits made. Those that overlap are one, and so are those that touch, unless both are
// exact. Where all of these are the same, it is that: what the client gets is what each guard alone would give it.
func joinedText(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { // words in front of a byte before what takes it
		return cmp.Or(a.from-b.from, min(a.to-a.from, 1)-min(b.to-b.from, 1))
	})
	var out strings.Builder
	done := 0
	for len(edits) > 0 {
		first, n := edits[0], 1
		from, to, same := first.begin, first.end, !first.unsaid
		reach, exact := first.to, first.exact
		for ; n < len(edits); n++ {
			if next := edits[n]; next.from > reach || next.from == reach && exact && next.exact {
				break
			}
			reach, exact = max(reach, edits[n].to), exact && edits[n].exact
			if same = same && edits[n].does(first); !same {
				from, to = first.from, reach
			}
		}
		out.WriteString(text[done:from])
		if same {
			out.WriteString(first.words)
		} else {
			out.WriteString(joinedWords(text, edits[:n]))
		}
		edits, done = edits[n:], to
	}
	return out.String() + text[done:]
}

// joinedWords returns what stands for what several edits change together: the words of one with which those of all
// others begin, or those of the first guard, if they have no character of what another changes. Words may quote that
// from between two replacements of a guard's own, which a client may choose to see just that.
func joinedWords(text string, edits []edit) string {
	said := slices.DeleteFunc(slices.Clone(edits), func(e edit) bool { return e.unsaid })
	if len(said) == 0 {
		return masked
	}
	shortest := slices.MinFunc(said, func(a, b edit) int { return len(a.words) - len(b.words) }).words
	differs := func(e edit) bool { return !strings.HasPrefix(e.words, shortest) }
	of := func(words string) func(edit) bool {
		return func(e edit) bool { return strings.ContainsAny(words, text[e.from:e.to]) }
	}
	if !slices.ContainsFunc(said, differs) {
		exact := !slices.ContainsFunc(edits, func(e edit) bool { return !e.exact })
		if !exact && doubled(shortest) && slices.ContainsFunc(edits, of(shortest)) {
			return masked // such as "#e#": each may have kept another "e"
		}
		return shortest
	}
	first := slices.MinFunc(said, func(a, b edit) int { return a.by - b.by })
	others := slices.DeleteFunc(slices.Clone(edits), func(e edit) bool { return e.by == first.by })
	if slices.ContainsFunc(others, of(first.words)) {
		return masked
	}
	return first.words
}

// doubled reports whether a text begins as it ends, with something between or not.
func doubled(text string) bool {
	for n := 1; n < len(text); n++ {
		if strings.HasSuffix(text, text[:n]) {
			return true
		}
	}
	return false
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

// unsure returns what of a text may have been edited where the bytes from to to seem to be: of those around them that
// have equal ones among them, in the same order, either may have gone, as of "aab" that became "a#" either "a".
func unsure(text []byte, from, to int) (int, int) {
	first, last := from, to
	for end := to; from > 0; from-- {
		if end = bytes.LastIndexByte(text[:end], text[from-1]); end == from-1 {
			break
		}
	}
	for begin := first; to < len(text); to++ {
		at := begin + bytes.IndexByte(text[begin:], text[to])
		if begin = at + 1; at == to {
			break
		}
	}
	if first == last { // nothing of it is gone
		return first, last
	}
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return from, to
}
