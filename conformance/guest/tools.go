package guest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// piece is what a parser is fed with.
type piece struct {
	text    string
	special bool
}

// String writes the text, with a star where it is a special token.
func (p piece) String() string {
	if p.special {
		return fmt.Sprintf("%q*", p.text)
	}
	return fmt.Sprintf("%q", p.text)
}

// pieces makes one piece of a text, or, with special, one of each marker in it
// and one of each text between them.
func pieces(text string, special bool) (out []piece) {
	for text != "" {
		at, size := marker(text)
		if !special || at < 0 {
			return append(out, piece{text, false})
		}
		if at > 0 {
			out = append(out, piece{text[:at], false})
		}
		out = append(out, piece{text[at : at+size], true})
		text = text[at+size:]
	}
	return out
}

// marker finds what looks like a special token: <word> or [WORD].
func marker(text string) (at, size int) {
	for i := range text {
		closing := byte('>')
		if text[i] == '[' {
			closing = ']'
		} else if text[i] != '<' {
			continue
		}
		end := strings.IndexByte(text[i:], closing)
		if end < 2 {
			continue
		}
		word := text[i+1 : i+end]
		if !strings.ContainsAny(word, " <>[](){}\"'\n=,") && (closing == '>' || strings.ToUpper(word) == word) {
			return i, end + 1
		}
	}
	return -1, 0
}

// cut makes pieces of others: texts are cut behind as many characters as next
// says, special tokens stay whole.
func cut(list []piece, next func() int) (out []piece) {
	for _, p := range list {
		for text := p.text; text != ""; {
			n := 0
			for left := next(); n < len(text) && (left > 0 || p.special); left-- {
				_, size := utf8.DecodeRuneInString(text[n:])
				n += size
			}
			out = append(out, piece{text[:n], p.special})
			text = text[n:]
		}
	}
	return out
}

// writing is a text that a model writes after an offer.
type writing struct {
	offer  string
	pieces []piece
	reason uint64
}

// writings are all texts after the first offer and some after each of the
// others, with markers as text and as special tokens.
func (c *Case) writings() (out []writing) {
	for i, offer := range offers {
		offer = withMember(offer, "params", c.Params)
		for j, text := range append(texts[:len(texts):len(texts)], c.Texts...) {
			if i > 0 && j%len(offers) != i {
				continue
			}
			reason := uint64(abi.FinishEnd)
			if (i+j)%3 == 2 {
				reason = abi.FinishCut
			}
			out = append(out, writing{offer, pieces(text, false), reason})
			if list := pieces(text, true); len(list) > 1 {
				out = append(out, writing{offer, list, reason})
			}
		}
	}
	return out
}

// parses has the guest parse all texts, each in an instance of its own.
func (p *prepared) parses() (answers []Answer, ok bool) {
	if p.run.now.Refused {
		return nil, true
	}
	for i, w := range p.run.now.writings() {
		w.pieces = cut(w.pieces, func() int { return 3 })
		events, ok := p.parse(w, i%4 == 0)
		if !ok {
			return nil, false
		}
		answers = append(answers, Answer{Kind: abi.KindTools, Events: merge(events)})
	}
	if !p.run.has("tgi_tools_constraint") {
		return answers, true
	}
	for _, offer := range constrained {
		a, ok := p.constraint(withMember(offer, "params", p.run.now.Params))
		if !ok {
			return nil, false
		}
		answers = append(answers, a)
	}
	return answers, true
}

// splits cuts each text in several ways, which must not matter.
func (p *prepared) splits() {
	random := rand.New(rand.NewPCG(1, 2))
	for _, w := range p.run.now.writings() {
		whole, ok := p.parse(w, false)
		if !ok {
			return
		}
		for _, next := range []func() int{
			func() int { return 1 }, func() int { return 1 + random.IntN(12) },
		} {
			split := w
			split.pieces = cut(w.pieces, next)
			got, ok := p.parse(split, false)
			if !ok {
				return
			}
			if a, b := fmt.Sprint(merge(whole)), fmt.Sprint(merge(got)); a != b {
				p.run.report("split", "%v gives %s, as %v %s", w.pieces, a, split.pieces, b)
				return
			}
		}
	}
}

// pieceRoom is the least room for a piece.
const pieceRoom = 4096

// parsing is one text under way.
type parsing struct {
	*prepared
	room  uint32
	order order
	left  int // bytes that the texts of events may still have
}

// open gets room for the pieces of a text.
func (s *parsing) open(w writing) (ok bool) {
	size := uint32(pieceRoom)
	for _, p := range w.pieces {
		size = max(size, uint32(len(p.text)))
	}
	if s.room, ok = s.alloc(size + guard); !ok {
		return false
	}
	s.guarded = append(s.guarded[:len(s.guarded):len(s.guarded)], span{s.room + size, guard})
	copy(s.Memory()[s.room+size:], strings.Repeat(string([]byte{guardByte}), guard))
	return true
}

// parse runs one text from its begin to its finish, and if asked compares how a
// copy goes on from the middle.
func (p *prepared) parse(w writing, clone bool) (events []Event, ok bool) {
	q, ok := p.begin()
	if !ok {
		return nil, false
	}
	defer q.Close()
	p.world.Seed = seed
	s := &parsing{prepared: q, left: abi.MaxEventText}
	fault, ok := s.handed("tgi_tools_begin", w.offer)
	if !ok {
		return nil, false
	}
	if fault != "" {
		p.run.report("begin", "tgi_tools_begin answers %q to %s", fault, w.offer)
		return nil, false
	}
	if !s.open(w) {
		return nil, false
	}
	half := len(w.pieces) / 2
	if events, ok = s.feed(w.pieces[:half], nil); !ok {
		return nil, false
	}
	var twin []Event
	if clone {
		if twin, ok = s.twin(w, half); !ok {
			return nil, false
		}
	}
	rest, ok := s.rest(w, half)
	if ok && clone && fmt.Sprint(twin) != fmt.Sprint(rest) {
		p.run.report("clone", "after %v: clone %v, original %v", w.pieces[:half], twin, rest)
	}
	return append(events, rest...), ok
}

// twin lets a copy parse the rest.
func (s *parsing) twin(w writing, from int) ([]Event, bool) {
	q, ok := s.begin()
	if !ok {
		return nil, false
	}
	defer q.Close()
	seed := s.world.Seed
	c := *s
	c.prepared = q
	events, ok := c.rest(w, from)
	s.world.Seed = seed
	return events, ok
}

// rest feeds all from a piece on, and finishes.
func (s *parsing) rest(w writing, from int) ([]Event, bool) {
	events, ok := s.feed(w.pieces[from:], nil)
	if !ok {
		return nil, false
	}
	v, ok := s.call("tgi_tools_finish", w.reason)
	if !ok {
		return nil, false
	}
	if events, ok = s.take("tgi_tools_finish", v, events); ok && s.order.open {
		s.run.report("event-order", "tgi_tools_finish: call %d is left open", s.order.begun-1)
		return nil, false
	}
	return events, ok
}

// feed hands over pieces, each in the room of the one before: what a guest kept
// there is lost, so that cuts matter to it.
func (s *parsing) feed(list []piece, events []Event) (out []Event, ok bool) {
	for _, piece := range list {
		s.left += abi.MaxEcho * len(piece.text)
		copy(s.Memory()[s.room:], piece.text)
		flags := uint64(0)
		if piece.special {
			flags = abi.PieceSpecial
		}
		v, ok := s.call("tgi_tools_feed", uint64(s.room), uint64(len(piece.text)), flags)
		if !ok {
			return nil, false
		}
		s.checkGuards("tgi_tools_feed")
		if events, ok = s.take("tgi_tools_feed", v, events); !ok {
			return nil, false
		}
	}
	return events, true
}
