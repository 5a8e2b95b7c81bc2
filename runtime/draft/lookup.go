package draft

import (
	"math/bits"

	"tgi/runtime/llm"
)

// Lookup guesses that a sequence goes on as it did when its last three tokens, or else two, occurred before (prompt
// lookup decoding, Saxena 2023). It looks at each token once and keeps up to 64 bytes for each, up to a bound; it does
// not search.
type Lookup struct {
	three, two []int32 // by hash: where the last such tokens ended; 0 for none
	mask       uint64
	seen       int // tokens whose successors can be found
}

const (
	// leastPlaces and mostPlaces bound the places of a table, and so the memory of a sequence to 256 KiB. Tokens of a
	// longer sequence overwrite older ones.
	leastPlaces, mostPlaces = 1 << 12, 1 << 15
)

// Draft implements Drafter.
func (l *Lookup) Draft(h llm.History, ahead, room []llm.Token) int {
	known := len(h.Prompt) + len(h.Output)
	t := text{h, ahead}
	l.read(&t, known)
	end := known + len(ahead)
	at := l.find(&t, end)
	if at == 0 {
		return 0
	}
	for i := range room {
		if at+i < end {
			room[i] = t.at(at + i)
		} else {
			room[i] = room[at+i-end] // what repeats reaches to the end
		}
	}
	return len(room)
}

// read makes what comes before the last token findable.
func (l *Lookup) read(t *text, known int) {
	if l.three == nil || l.seen > int(l.mask)/4 && l.mask+1 < mostPlaces {
		places := leastPlaces
		for places < 8*known && places < mostPlaces {
			places *= 2
		}
		l.three, l.two, l.mask, l.seen = make([]int32, places), make([]int32, places), uint64(places-1), 0
	}
	l.seen = max(min(l.seen, known-1), known-1-2*mostPlaces, 0)
	for ; l.seen < known-1; l.seen++ {
		end := l.seen + 1
		if end >= 2 {
			l.two[l.place(t, end, 2)] = int32(end)
		}
		if end >= 3 {
			l.three[l.place(t, end, 3)] = int32(end)
		}
	}
}

// find returns where the last tokens before end ended before, 0 if nowhere.
func (l *Lookup) find(t *text, end int) int {
	for _, try := range []struct {
		table []int32
		n     int
	}{{l.three, 3}, {l.two, 2}} {
		if end <= try.n {
			continue
		}
		at := int(try.table[l.place(t, end, try.n)])
		if at > 0 && at < end && t.equal(at, end, try.n) {
			return at
		}
	}
	return 0
}

// place returns the place of the n tokens before end.
func (l *Lookup) place(t *text, end, n int) uint64 {
	h := uint64(n)
	for i := end - n; i < end; i++ {
		hi, lo := bits.Mul64(h^uint64(t.at(i)), 0x9e3779b97f4a7c15)
		h = hi ^ lo
	}
	return h & l.mask
}

// text is a history with guesses behind it.
type text struct {
	h     llm.History
	ahead []llm.Token
}

func (t *text) at(i int) llm.Token {
	if i < len(t.h.Prompt) {
		return t.h.Prompt[i]
	}
	if i -= len(t.h.Prompt); i < len(t.h.Output) {
		return t.h.Output[i]
	}
	return t.ahead[i-len(t.h.Output)]
}

// equal reports whether the n tokens before a and those before b are the same.
func (t *text) equal(a, b, n int) bool {
	if a < n || b < n {
		return false
	}
	for i := 1; i <= n; i++ {
		if t.at(a-i) != t.at(b-i) {
			return false
		}
	}
	return true
}

// Prediction guesses that a sequence follows a predicted text. Where it leaves it, the guesses go on where the
// sequence's last tokens come next in the prediction.
type Prediction struct {
	tokens []llm.Token
	next   int // of tokens, that should follow
	lost   bool
	seen   int // tokens of the output
}

// NewPrediction returns the drafter of a predicted text, which it keeps.
func NewPrediction(tokens []llm.Token) *Prediction { return &Prediction{tokens: tokens} }

// window is how far ahead the prediction is searched for where the sequence went.
const window = 512

// Draft implements Drafter.
func (p *Prediction) Draft(h llm.History, ahead, room []llm.Token) int {
	if len(h.Output) < p.seen { // truncated
		*p = Prediction{tokens: p.tokens}
	}
	for p.seen < len(h.Output) {
		p.seen++
		p.follow(&text{h: h}, len(h.Prompt)+p.seen, len(h.Prompt))
	}
	q := *p
	for i := range ahead {
		q.follow(&text{h, ahead}, len(h.Prompt)+len(h.Output)+i+1, len(h.Prompt))
	}
	if q.lost {
		return 0
	}
	return copy(room, q.tokens[q.next:])
}

// follow reads the last token before end; the output begins at start.
func (p *Prediction) follow(t *text, end, start int) {
	last := t.at(end - 1)
	if !p.lost && p.next < len(p.tokens) && p.tokens[p.next] == last {
		p.next++
		return
	}
	p.lost = true
	if end-start < 2 {
		return
	}
	before, behind := t.at(end-2), -1
	for i := max(p.next-window/4, 1); i < min(p.next+window, len(p.tokens)); i++ {
		if p.tokens[i] != last || p.tokens[i-1] != before {
			continue
		}
		if i >= p.next {
			p.next, p.lost = i+1, false
			return
		}
		behind = i
	}
	if behind >= 0 {
		p.next, p.lost = behind+1, false
	}
}
