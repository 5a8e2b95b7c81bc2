package logits

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// entryFuel is the fuel charged for each entry of an array whose length the guest chooses: about the host's cost.
const entryFuel = 8

// scratch holds the buffers for applying one answer.
type scratch struct {
	old  []float32 // logits to restore after an error
	seen []uint64  // bits of ids; all 0 between uses
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// entries reads an array of {id u32, value f32}.
type entries []byte

func (e entries) len() int        { return len(e) / 8 }
func (e entries) id(i int) uint32 { return binary.LittleEndian.Uint32(e[8*i:]) }
func (e entries) value(i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(e[8*i+4:]))
}

// ids reads an array of u32 ids.
type ids []byte

func (d ids) len() int        { return len(d) / 4 }
func (d ids) id(i int) uint32 { return binary.LittleEndian.Uint32(d[4*i:]) }

// row is the logits that an answer is applied to.
type row struct {
	x         []float32
	alive     int      // a token that was allowed at the last check; a hint
	checkOnly bool     // check only: the row does not matter, because the token is known or the sequence ends
	tmp       *scratch // nil until needed
}

// apply validates the contents of the mode's array and applies them to the row. The error names the rule and the value
// that breaks it; the row is then unchanged.
func (r *row) apply(mode, flags uint32, out []byte) error {
	only := flags&abi.FlagOnly != 0
	switch mode {
	case abi.ModeAllow:
		return r.allow(out)
	case abi.ModeDeny:
		return r.deny(out)
	case abi.ModeSparse:
		return r.sparse(out, only)
	case abi.ModeBitmask:
		return r.mask(out)
	case abi.ModeView:
		return r.view(out, only)
	case abi.ModeRow:
		return r.replace(out)
	}
	return nil
}

// errDead is the error for an answer that leaves no token allowed.
func errDead(mode int) error {
	return fmt.Errorf("mode %s: %w", abi.ModeNames[mode], llm.ErrDeadEnd)
}

// narrowed reports whether a token of a row is forbidden.
func narrowed(x []float32) bool {
	return slices.ContainsFunc(x, func(v float32) bool { return !(v > negInf) })
}

func (r *row) errID(mode, i int, id uint32) error {
	return fmt.Errorf("mode %s: entry %d: token %d, the vocabulary has %d", abi.ModeNames[mode], i, id, len(r.x))
}

func errNumber(mode, i int, id uint32, v float32) error {
	return fmt.Errorf("mode %s: entry %d: %v for token %d: it must not be NaN or +Inf", abi.ModeNames[mode], i, v, id)
}

// usable is false for NaN and +Inf.
func usable(v float32) bool { return v <= math.MaxFloat32 }

// getScratch returns buffers for the logits that n entries name.
func (r *row) getScratch(n int) []float32 {
	r.tmp = scratches.Get().(*scratch)
	if cap(r.tmp.old) < n {
		r.tmp.old = make([]float32, n)
	}
	return r.tmp.old[:n]
}

func (r *row) putScratch() {
	if r.tmp != nil {
		scratches.Put(r.tmp)
		r.tmp = nil
	}
}

// hasCandidate reports whether any token is allowed.
func (r *row) hasCandidate() bool {
	if r.alive < len(r.x) && r.x[r.alive] > negInf {
		return true
	}
	for i, v := range r.x {
		if v > negInf {
			r.alive = i
			return true
		}
	}
	return false
}

// allow denies all tokens but those listed.
func (r *row) allow(list ids) error {
	old, some := r.getScratch(list.len()), false
	for i := range old {
		id := list.id(i)
		if uint64(id) >= uint64(len(r.x)) {
			return r.errID(abi.ModeAllow, i, id)
		}
		old[i] = r.x[id]
		some = some || old[i] > negInf
	}
	if r.checkOnly {
		return nil
	}
	if !some {
		return errDead(abi.ModeAllow)
	}
	forbid(r.x)
	for i, v := range old {
		r.x[list.id(i)] = v
	}
	return nil
}

// deny forbids the tokens listed.
func (r *row) deny(list ids) error {
	old := r.getScratch(list.len())
	for i := range old {
		id := list.id(i)
		if uint64(id) >= uint64(len(r.x)) {
			return r.errID(abi.ModeDeny, i, id)
		}
		old[i] = r.x[id]
	}
	if r.checkOnly {
		return nil
	}
	for i := range old {
		r.x[list.id(i)] = negInf
	}
	if r.hasCandidate() {
		return nil
	}
	for i, v := range old {
		r.x[list.id(i)] = v
	}
	return errDead(abi.ModeDeny)
}

// sparse adds to the tokens listed. An id may be listed more than once.
func (r *row) sparse(list entries, only bool) error {
	old := r.getScratch(list.len())
	for i := range old {
		id, bias := list.id(i), list.value(i)
		if uint64(id) >= uint64(len(r.x)) {
			return r.errID(abi.ModeSparse, i, id)
		}
		if !usable(bias) {
			return errNumber(abi.ModeSparse, i, id, bias)
		}
	}
	if r.checkOnly {
		return nil
	}
	some, denied := false, false
	for i := range old {
		id, v := list.id(i), list.value(i)
		old[i] = r.x[id]
		if v > negInf { // otherwise it denies, also NaN and +Inf
			v += old[i]
		}
		if v > math.MaxFloat32 && old[i] <= math.MaxFloat32 {
			r.undo(list, old[:i])
			return fmt.Errorf("mode %s: entry %d: %v and %v make +Inf for token %d", abi.ModeNames[abi.ModeSparse], i,
				old[i], list.value(i), id)
		}
		r.x[id] = v
		denied = denied || v == negInf
	}
	for i := 0; only && !some && i < len(old); i++ {
		some = r.x[list.id(i)] > negInf
	}
	if only && !some || !only && denied && !r.hasCandidate() {
		r.undo(list, old)
		return errDead(abi.ModeSparse)
	}
	if only {
		for i := range old {
			old[i] = r.x[list.id(i)]
		}
		forbid(r.x)
		for i, v := range old {
			r.x[list.id(i)] = v
		}
	}
	return nil
}

// undo restores the logits of the first entries, in reverse order: an id may be listed more than once.
func (r *row) undo(list entries, old []float32) {
	for i := len(old) - 1; i >= 0; i-- {
		r.x[list.id(i)] = old[i]
	}
}

// view sets the tokens listed, each once.
func (r *row) view(list entries, only bool) error {
	old := r.getScratch(list.len())
	some, denied, err := r.checkView(list)
	if err != nil || r.checkOnly {
		return err
	}
	if only {
		if !some {
			return errDead(abi.ModeView)
		}
		forbid(r.x)
	}
	for i := range old {
		id := list.id(i)
		old[i], r.x[id] = r.x[id], list.value(i)
	}
	if denied && !only && !r.hasCandidate() {
		r.undo(list, old)
		return errDead(abi.ModeView)
	}
	return nil
}

// checkView checks the entries of a view, and reports whether some are allowed and some denied.
func (r *row) checkView(list entries) (some, denied bool, err error) {
	if words := (len(r.x) + 63) / 64; len(r.tmp.seen) < words {
		r.tmp.seen = make([]uint64, words)
	}
	seen, checked := r.tmp.seen, 0
	for i := range list.len() {
		id, v := list.id(i), list.value(i)
		if uint64(id) >= uint64(len(r.x)) {
			err = r.errID(abi.ModeView, i, id)
		} else if !usable(v) {
			err = errNumber(abi.ModeView, i, id, v)
		} else if seen[id/64]>>(id%64)&1 != 0 {
			err = fmt.Errorf("mode %s: entry %d: token %d is listed twice", abi.ModeNames[abi.ModeView], i, id)
		}
		if err != nil {
			break
		}
		seen[id/64] |= 1 << (id % 64)
		checked++
		some, denied = some || v > negInf, denied || v == negInf
	}
	for i := range checked {
		seen[list.id(i)/64] = 0
	}
	return some, denied, err
}

// mask denies the tokens whose bit is 0.
func (r *row) mask(words ids) error {
	if r.checkOnly {
		return nil
	}
	if !r.maskLives(words) {
		return errDead(abi.ModeBitmask)
	}
	for w := range words.len() {
		part := r.x[32*w : min(32*w+32, len(r.x))]
		allowed := words.id(w)
		if allowed == 0 {
			forbid(part)
			continue
		}
		for denied := ^allowed; denied != 0; denied &= denied - 1 {
			if i := bits.TrailingZeros32(denied); i < len(part) {
				part[i] = negInf
			}
		}
	}
	return nil
}

// maskLives reports whether a mask allows a token that is allowed.
func (r *row) maskLives(words ids) bool {
	if a := r.alive; a < len(r.x) && r.x[a] > negInf && words.id(a/32)>>(a%32)&1 != 0 {
		return true
	}
	for w := range words.len() {
		for allowed := words.id(w); allowed != 0; allowed &= allowed - 1 {
			i := 32*w + bits.TrailingZeros32(allowed)
			if i < len(r.x) && r.x[i] > negInf {
				r.alive = i
				return true
			}
		}
	}
	return false
}
