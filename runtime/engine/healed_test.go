package engine

import (
	"bytes"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// beginsWith holds a text to begin with another one.
type beginsWith struct {
	text []byte
	done int
}

func (m *beginsWith) Mask(bits []uint32) (constrained bool, err error) {
	left := m.text[m.done:]
	clear(bits)
	for id, piece := range pieces {
		n := min(len(piece), len(left))
		if !(fakeCodec{}).Special(llm.Token(id)) && bytes.Equal([]byte(piece[:n]), left[:n]) {
			bits[id/32] |= 1 << (id % 32)
		}
	}
	return len(left) > 0, nil
}

func (m *beginsWith) Accept(id llm.Token) error {
	m.done = min(m.done+len(pieces[id]), len(m.text))
	return nil
}

func (m *beginsWith) Rewind(h sample.History) error {
	m.done = 0
	for _, id := range h.Output {
		_ = m.Accept(id)
	}
	return nil
}

// spell returns tokens of a text, each the longest.
func spell(text []byte) (out []llm.Token) {
	for len(text) > 0 {
		best := -1
		for id, piece := range pieces {
			if id > tokSP && strings.HasPrefix(string(text), piece) && (best < 0 || len(piece) > len(pieces[best])) {
				best = id
			}
		}
		if best < 0 {
			return nil
		}
		out, text = append(out, llm.Token(best)), text[len(pieces[best]):]
	}
	return out
}

// heal has the model write a text again with which the client's prompt ends.
func heal(r Request, text string) Request {
	r.Healed = &Healed{Tokens: spell([]byte(text)), Text: []byte(text), Spell: spell}
	plugins := r.Plugins
	r.Plugins = func(i int) (p sample.Plugins) {
		if plugins != nil {
			p = plugins(i)
		}
		for _, g := range p.Guards {
			g.(*whim).reads = true
		}
		p.Masker = &beginsWith{text: r.Healed.Text}
		return p
	}
	return r
}

// TestBeyond: of a token that begins in the client's prompt its text is what comes behind that.
func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		text, left, rest string
		within           bool
	}{
		{" time", "", " time", false}, {" time", " ti", "me", true}, {" ti", " ti", "", true}, {" ", " ti", "", true},
		{" a", " ti", " a", false}, {"", " ti", "", false},
	} {
		if rest, within := beyond(c.text, c.left); rest != c.rest || within != c.within {
			t.Errorf("%q behind %q: %q, %v", c.text, c.left, rest, within)
		}
	}
}
