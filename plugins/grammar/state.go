package grammar

import (
	"fmt"
)

// Key names a state: two states with the same key, of one process, have the same
// mask and admit the same continuations. (Of two states that admit the same the
// keys may differ.)
type Key [16]byte

// State is a place in a text of a grammar. It is one pointer and a persistent list
// of what was accepted, so that a clone costs the same wherever it is made.
//
// A State is used by one goroutine at a time; clones are independent. An error that
// wraps ErrLimit leaves the state as it was: whoever calls should give the text up.
type State struct {
	g    *Grammar
	at   *set
	past *past
}

// past is what was accepted last, and where the state was before.
type past struct {
	before *past
	from   *set
	token  uint32 // noToken: bytes
	n      int    // how many there are
}

// ended is behind the token that ends a text.
var ended = &set{h: hashOf([]byte{tagSet, 0xFF})}

// Start is the state before any token.
func (g *Grammar) Start() *State { return &State{g: g, at: g.start} }

// Clone is a second state at the same place.
func (s *State) Clone() *State {
	c := *s
	return &c
}

// Words is the length of the grammar's masks, in words of 32 tokens.
func (g *Grammar) Words() int { return g.v.words }

// Len is how many tokens, and calls of AcceptBytes, led here.
func (s *State) Len() int {
	if s.past == nil {
		return 0
	}
	return s.past.n
}

// Key names the state.
func (s *State) Key() Key { return s.at.h.bytes() }

// CanEnd reports whether the text so far is a text of the grammar. It stays so
// after the token that ended it.
func (s *State) CanEnd() bool { return s.at.accept || s.at == ended }

// Ended reports whether the text was ended by a token.
func (s *State) Ended() bool { return s.at == ended }

// Mask sets bits [Words] to the tokens that may come next: bit t%32 of word t/32
// for token t. Tokens that end a text are among them exactly when it may end here;
// special ones only where the grammar names them. All words are overwritten. The
// error wraps ErrStuck or ErrLimit.
func (s *State) Mask(bits []uint32) error {
	v := s.g.v
	if len(bits) != v.words {
		return fmt.Errorf("mask: want %d words, got %d", v.words, len(bits))
	}
	if s.at == ended {
		clear(bits)
		v.addEnds(bits)
		return nil
	}
	w := s.g.m.work(v)
	m := w.mask(s.at)
	if w.err != nil {
		return w.err
	}
	if m.words != nil {
		copy(bits, m.words)
	} else {
		clear(bits)
	}
	for _, id := range m.ids {
		setBit(bits, id)
	}
	if s.at.accept {
		v.addEnds(bits)
	} else if m.words == nil && len(m.ids) == 0 {
		return ErrStuck
	}
	return nil
}

func (p *Vocab) addEnds(bits []uint32) {
	for _, id := range p.ends {
		setBit(bits, id)
	}
}

// Accept moves on by a token. Where it may not come here the state stays and the
// error wraps ErrRejected.
func (s *State) Accept(token uint32) error {
	to, err := s.after(token)
	if err == nil {
		s.move(to, token)
	}
	return err
}

// Admits reports whether a token may come next, without a mask.
func (s *State) Admits(token uint32) bool {
	_, err := s.after(token)
	return err == nil
}

func (s *State) after(token uint32) (*set, error) {
	v := s.g.v
	if !v.exists(token) {
		return nil, fmt.Errorf("%w: there is no token %d", ErrRejected, token)
	}
	if s.at != ended {
		w := s.g.m.work(v)
		to := w.take(s.at, token, v.spell[token])
		if w.err != nil {
			return nil, w.err
		}
		if to != dead {
			return to, nil
		}
	}
	if s.CanEnd() && v.isEnd(token) {
		return ended, nil
	}
	return nil, fmt.Errorf("%w: token %d, %q", ErrRejected, token, v.spell[token])
}

func (p *Vocab) isEnd(token uint32) bool {
	for _, e := range p.ends {
		if e == token {
			return true
		}
	}
	return false
}

// AcceptBytes moves on by text that is not cut into tokens: all of it or, with an
// error, none.
func (s *State) AcceptBytes(text []byte) error {
	w := s.g.m.work(s.g.v)
	to := s.at
	for i, b := range text {
		to = w.step(to, b)
		if w.err != nil {
			return w.err
		}
		if to == dead {
			return fmt.Errorf("%w: byte %d of %d, 0x%02x", ErrRejected, i, len(text), b)
		}
	}
	s.move(to, noToken)
	return nil
}

func (s *State) move(to *set, token uint32) {
	s.past = &past{before: s.past, from: s.at, token: token, n: s.Len() + 1}
	s.at = to
}

// Rollback takes back the last n tokens or calls of AcceptBytes.
func (s *State) Rollback(n int) error {
	if n < 0 || n > s.Len() {
		return fmt.Errorf("rollback: want 0 to %d, got %d", s.Len(), n)
	}
	for range n {
		s.at, s.past = s.past.from, s.past.before
	}
	return nil
}

// Admits reports whether text, as a whole, belongs to the grammar. Single tokens
// that the grammar names are never part of such a text. The error wraps ErrLimit.
func (g *Grammar) Admits(text []byte) (bool, error) {
	w := g.m.work(g.v)
	at := g.start
	for _, b := range text {
		w.left = w.m.limits.Work
		if at = w.step(at, b); w.err != nil || at == dead {
			return false, w.err
		}
	}
	return at.accept, nil
}
