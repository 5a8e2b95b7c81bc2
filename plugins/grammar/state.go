package grammar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Key identifies a state: in one process, two states with the same key have the same mask and admit the same
// continuations. (Two states that admit the same may have different keys.)
type Key [16]byte

// State is a position in a text of a grammar. It is one pointer and a persistent list of what was accepted, so the cost
// of a clone does not depend on the position.
//
// A State is used by one goroutine at a time; clones are independent. An error leaves it unchanged. After one that
// wraps ErrLimit or ErrStuck the text can't be completed under the grammar: abandon it.
type State struct {
	g    *Grammar
	at   *set
	past *past
}

// past is what was accepted last, and the state before it. Clones share it.
type past struct {
	before *past
	from   atomic.Pointer[set] // nil: dropped; replay finds it again from the start
	token  uint32              // noToken: text
	text   string
	n      int // length of the list
}

// remembered is for how many steps back states are kept; further back only tokens are, because states may be large.
const remembered = 32

// ended is the set after the token that ends a text.
var ended = &set{h: hashOf([]byte{tagSet, 0xFF})}

// Start is the state before any token.
func (g *Grammar) Start() *State { return &State{g: g, at: g.start} }

// Clone returns an independent state at the same position.
func (s *State) Clone() *State {
	c := *s
	return &c
}

// Words is the length of the grammar's masks, in words of 32 tokens.
func (g *Grammar) Words() int { return g.v.words }

// Len is the number of accepted tokens and calls of AcceptBytes.
func (s *State) Len() int {
	if s.past == nil {
		return 0
	}
	return s.past.n
}

// Key returns the state's key.
func (s *State) Key() Key { return s.at.h.bytes() }

// CanEnd reports whether the text so far is complete. It stays true after the token that ended it.
func (s *State) CanEnd() bool { return s.at.accept || s.at == ended }

// Ended reports whether a token ended the text.
func (s *State) Ended() bool { return s.at == ended }

// Mask sets bits [Words] to the tokens that may come next: bit t%32 of word t/32 for token t. Tokens that end a text
// are set exactly if it may end here, special ones only where the grammar names them. All words are overwritten. The
// error wraps ErrStuck or ErrLimit; the bits are then undefined.
func (s *State) Mask(bits []uint32) error { return s.MaskWith(context.Background(), Effort{}, bits) }

// MaskWith is Mask with the given effort. It ends with ctx's error soon after ctx ends.
func (s *State) MaskWith(ctx context.Context, e Effort, bits []uint32) error {
	v := s.g.v
	if len(bits) != v.words {
		return fmt.Errorf("mask: want %d words, got %d", v.words, len(bits))
	}
	if s.at == ended {
		clear(bits)
		v.addEnds(bits)
		return nil
	}
	w := s.workWith(ctx, e)
	m := w.mask(s.at)
	if w.err != nil {
		clear(bits)
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
	} else if m.none {
		return ErrStuck
	}
	return nil
}

func (s *State) work() *work { return s.workWith(context.Background(), Effort{}) }

func (s *State) workWith(ctx context.Context, e Effort) *work {
	w := s.g.m.work(s.g.v, s.g.m.limits.StepWork)
	w.ctx, w.yield = ctx, e.Yield
	if e.Time > 0 {
		w.time, w.until = e.Time, time.Now().Add(e.Time)
	}
	return w
}

// Accept advances by a token. If the token is not allowed here the error wraps ErrRejected; it may also wrap ErrLimit.
func (s *State) Accept(token uint32) error {
	return s.AcceptWith(context.Background(), Effort{}, token)
}

// AcceptWith is Accept with the given effort. It ends with ctx's error soon after ctx ends.
func (s *State) AcceptWith(ctx context.Context, e Effort, token uint32) error {
	to, err := s.after(ctx, e, token)
	if err == nil {
		s.move(to, token, "")
	}
	return err
}

// Admits reports whether a token may come next, without a mask.
func (s *State) Admits(token uint32) bool {
	_, err := s.after(context.Background(), Effort{}, token)
	return err == nil
}

func (s *State) after(ctx context.Context, e Effort, token uint32) (*set, error) {
	v := s.g.v
	if !v.exists(token) {
		return nil, fmt.Errorf("%w: there is no token %d", ErrRejected, token)
	}
	if s.at != ended {
		w := s.workWith(ctx, e)
		to := w.take(s.at, token, v.texts[token])
		if w.err != nil {
			return nil, w.err
		}
		if to != dead {
			return to, nil
		}
	}
	if s.CanEnd() && slices.Contains(v.ends, token) {
		return ended, nil
	}
	return nil, fmt.Errorf("%w: token %d, %q", ErrRejected, token, v.texts[token])
}

// AcceptBytes advances by text that is not split into tokens: by all of it or, with an error, none. Errors are those of
// Accept.
func (s *State) AcceptBytes(text []byte) error {
	to, err := s.read(s.at, string(text))
	if err == nil {
		s.move(to, noToken, string(text))
	}
	return err
}

// read returns the set that text leads to.
func (s *State) read(at *set, text string) (*set, error) {
	for i := range len(text) {
		w := s.work()
		if at = w.step(at, text[i]); w.err != nil {
			return nil, w.err
		}
		if at == dead {
			return nil, fmt.Errorf("%w: byte %d of %d, 0x%02x", ErrRejected, i, len(text), text[i])
		}
	}
	return at, nil
}

// Follow advances by as much of text as may come next, and returns how many bytes that are and what it took, in units
// of about 1 ns. It ends before a byte that is not allowed, and before one that takes more than a call may, with the
// given effort, or in which ctx ends. It keeps nothing of what came before: Rollback does not go back behind it.
func (s *State) Follow(ctx context.Context, e Effort, text []byte) (n int, units int64) {
	s.past = nil
	for ; n < len(text); n++ {
		var to *set
		if tab := s.at.tab.Load(); tab != nil {
			to = tab.get(text[n])
		}
		if to == nil {
			w := s.workWith(ctx, e)
			to = w.step(s.at, text[n])
			if units += w.most - w.left; w.err != nil {
				break
			}
		}
		if to == dead {
			break
		}
		s.at = to
	}
	return n, units
}

func (s *State) move(to *set, token uint32, text string) {
	p := &past{before: s.past, token: token, text: text, n: s.Len() + 1}
	p.from.Store(s.at)
	s.at, s.past = to, p
	if p.n%remembered != 0 {
		return
	}
	for range remembered {
		p = p.before
		if p == nil {
			return
		}
	}
	for ; p != nil && p.from.Load() != nil; p = p.before {
		p.from.Store(nil)
	}
}

// Rollback undoes the last n tokens or calls of AcceptBytes. More than 32 need a replay from the start, which may fail
// with an error that wraps ErrLimit.
func (s *State) Rollback(n int) error {
	if n < 0 || n > s.Len() {
		return fmt.Errorf("rollback: want 0 to %d, got %d", s.Len(), n)
	}
	if n == 0 {
		return nil
	}
	p := s.past
	for range n - 1 {
		p = p.before
	}
	from := p.from.Load()
	if from == nil {
		again, err := s.replay(p.before)
		if err != nil {
			return fmt.Errorf("rollback: %w", err)
		}
		from = again
	}
	s.at, s.past = from, p.before
	return nil
}

// replay returns the set after p.
func (s *State) replay(p *past) (*set, error) {
	var way []*past
	for ; p != nil; p = p.before {
		way = append(way, p)
	}
	again := s.g.Start()
	for _, p := range slices.Backward(way) {
		to, err := again.read(again.at, p.text)
		if p.token != noToken {
			to, err = again.after(context.Background(), Effort{}, p.token)
		}
		if err != nil {
			return nil, err
		}
		again.at = to
	}
	return again.at, nil
}

// Admits reports whether the whole text belongs to the grammar. Tokens that the grammar names are never part of such a
// text. The error wraps ErrLimit.
func (g *Grammar) Admits(text []byte) (bool, error) {
	s := g.Start()
	switch err := s.AcceptBytes(text); {
	case errors.Is(err, ErrRejected):
		return false, nil
	case err != nil:
		return false, err
	}
	return s.CanEnd(), nil
}

func (p *Vocab) addEnds(bits []uint32) {
	for _, id := range p.ends {
		setBit(bits, id)
	}
}

// Bytes is about how much memory the states built so far take; it drops to almost nothing when it reaches the limit.
func (g *Grammar) Bytes() int64 {
	g.m.mu.Lock()
	defer g.m.mu.Unlock()
	return g.m.bytes
}
