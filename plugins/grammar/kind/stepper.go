package kind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// The exports of a guest that computes masks itself.
const (
	begin  = "tgi_grammar_begin"
	accept = guest.Accept
	mask   = guest.Mask
	forced = guest.Forced
	key    = guest.Key
)

// ErrRejected: the token is not allowed here.
var ErrRejected = errors.New("not admitted by the grammar")

// Masks caches the masks of a grammar by the guest's keys. It is safe for concurrent use, and never changes a mask that
// it returned.
type Masks interface {
	// Get returns the mask of a state, nil if unknown. A mask of no words allows all tokens.
	Get(key uint64) []uint32
	// Put stores a mask and takes ownership of it.
	Put(key uint64, words []uint32)
}

// Stepper runs a guest of kind "grammar" that computes masks itself, for one sequence. It is used by one goroutine at a
// time. Errors other than ErrRejected are a *sandbox.Fault, which names plugin, export and the broken rule; every later
// call then fails with a fault that matches sandbox.ErrBroken. Closing the session ends it.
type Stepper struct {
	s                         *guest.Session
	masks                     Masks
	accept, mask, forced, key *guest.Entry
	ahead                     []uint32 // forced tokens not accepted yet
	asked                     bool     // whether ask was called in this state
}

// Begin begins a sequence in a session of guest.Open. It does not retain c. If the guest refuses the source the error
// is a *guest.Refusal with its text; other errors are a *sandbox.Fault or the pool's.
func Begin(s *guest.Session, c Call, masks Masks) (*Stepper, error) {
	request, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	if err := s.Begin(begin, request); err != nil {
		return nil, err
	}
	return &Stepper{s: s, masks: masks, accept: s.Entry(accept), mask: s.Entry(mask), forced: s.Entry(forced),
		key: s.Entry(key)}, nil
}

// Clone returns a stepper in the same state, for a clone of this one's session.
func (p *Stepper) Clone(s *guest.Session) *Stepper {
	return &Stepper{
		s: s, masks: p.masks, accept: p.accept.Clone(s), mask: p.mask.Clone(s), forced: p.forced.Clone(s),
		key:   p.key.Clone(s),
		ahead: slices.Clone(p.ahead), asked: p.asked,
	}
}

// Mask sets bits [abi.MaskWords] to the tokens that may come next; false means that all may, and the bits are
// undefined.
func (p *Stepper) Mask(bits []uint32) (constrained bool, err error) {
	if !p.asked {
		if err := p.ask(); err != nil {
			return false, err
		}
	}
	if len(p.ahead) > 0 {
		clear(bits)
		bits[p.ahead[0]/32] |= 1 << (p.ahead[0] % 32)
		return true, nil
	}
	p.key.Next()
	name, err := p.key.Call()
	if err != nil {
		return false, err
	}
	words := p.known(name)
	if words == nil {
		if words, err = p.compute(len(bits)); err != nil {
			return false, err
		}
		if name != 0 {
			p.masks.Put(name, words)
		}
	}
	copy(bits, words)
	return len(words) > 0, nil
}

func (p *Stepper) known(name uint64) []uint32 {
	if name == 0 {
		return nil
	}
	return p.masks.Get(name)
}

// Ahead fills room with forced tokens that are known and not accepted yet, and returns their number.
func (p *Stepper) Ahead(room []uint32) int { return copy(room, p.ahead) }

// ask asks the guest for forced tokens.
func (p *Stepper) ask() error {
	p.forced.Next()
	packed, err := p.forced.Call()
	if err != nil {
		return err
	}
	p.ahead, p.asked = p.ahead[:0], true
	at, n := abi.Unpack(packed)
	memory := p.s.Memory()
	switch {
	case n == 0:
		return nil
	case n > abi.MaxForced:
		return p.s.Break(forced, fmt.Sprintf("%d tokens, the limit is %d", n, abi.MaxForced))
	case at%4 != 0 || uint64(at)+4*uint64(n) > uint64(len(memory)):
		return p.s.Break(forced, fmt.Sprintf("%d tokens at 0x%x: they are to be aligned to 4, the memory has %d bytes",
			n, at, len(memory)))
	}
	for i := range n {
		t := binary.LittleEndian.Uint32(memory[at+4*i:])
		if uint64(t) >= uint64(p.s.Guest().Vocabulary().Size()) {
			return p.s.Break(forced, fmt.Sprintf("token %d, the vocabulary has %d", t, p.s.Guest().Vocabulary().Size()))
		}
		p.ahead = append(p.ahead, t)
	}
	return nil
}

// compute lets the guest write a mask of n words; no words mean that all tokens are allowed.
func (p *Stepper) compute(n int) ([]uint32, error) {
	at := p.s.Rooms().Mask
	p.mask.Next()
	status, err := p.mask.Call(uint64(at))
	if err != nil {
		return nil, err
	}
	switch uint32(status) {
	case abi.MaskAll:
		return []uint32{}, nil
	case abi.StatusOK:
	default:
		return nil, p.s.Break(mask, fmt.Sprintf("status %d", int32(status)))
	}
	words := make([]uint32, n)
	memory := p.s.Memory()[at:]
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(memory[4*i:])
	}
	if size := p.s.Guest().Vocabulary().Size(); size%32 != 0 {
		words[size/32] &= 1<<(size%32) - 1
	}
	if !slices.ContainsFunc(words, func(w uint32) bool { return w != 0 }) {
		return nil, p.s.Break(mask, "no token is allowed")
	}
	return words, nil
}

// Accept advances by tokens, in order.
func (p *Stepper) Accept(tokens ...uint32) error {
	for len(tokens) > 0 {
		n := min(len(tokens), guest.AcceptRoom)
		if err := p.move(tokens[:n]); err != nil {
			return err
		}
		tokens = tokens[n:]
	}
	return nil
}

func (p *Stepper) move(tokens []uint32) error {
	if !p.s.Closed() {
		memory := p.s.Memory()[p.s.Rooms().Accept:]
		for i, t := range tokens {
			binary.LittleEndian.PutUint32(memory[4*i:], t)
		}
	}
	p.accept.Next()
	status, err := p.accept.Call(uint64(p.s.Rooms().Accept), uint64(len(tokens)))
	if err != nil {
		return err
	}
	switch uint32(status) {
	case abi.StatusFailed:
		return fmt.Errorf("%w: %d", ErrRejected, tokens)
	case abi.StatusOK:
	default:
		return p.s.Break(accept, fmt.Sprintf("status %d is neither %d nor %d", int32(status), abi.StatusOK,
			abi.StatusFailed))
	}
	if len(tokens) == 1 && len(p.ahead) > 0 && p.ahead[0] == tokens[0] {
		p.ahead = p.ahead[1:]
		p.asked = len(p.ahead) > 0
		return nil
	}
	p.ahead, p.asked = p.ahead[:0], false
	return nil
}
