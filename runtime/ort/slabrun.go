package ort

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"tgi/runtime/llm"
)

// typed is a buffer whose numbers have a type.
type typed struct {
	buffer
	kind element
}

func (t *typed) size() int { return t.kind.size() }

// slabRun is a set of bound tensors, and where the cache of it was bound.
type slabRun struct {
	*bound
	place, rows int // of the cache; rows is 0 if it is not bound yet
}

// slabRun returns an empty set of tensors.
func (s *session) slabRun() (*slabRun, error) {
	b, err := s.bindings()
	if err != nil {
		return nil, err
	}
	return &slabRun{bound: b}, nil
}

// run computes rows with equally many tokens, at least one row: ONNX Runtime's attention divides by their number. In
// place, they lie side by side in this order.
func (s *Slab) run(b *slabRun, rows []slabRow) error {
	if len(rows) == 0 {
		return errors.New("BUG: a run of no rows")
	}
	n, longest := len(rows[0].tokens), 0
	for _, r := range rows {
		longest = max(longest, r.past)
	}
	keep := s.kept(rows, n)
	err := errors.Join(s.bindTokens(b, rows, n, longest), s.bindLogits(b, len(rows), keep))
	if err != nil {
		return err
	}
	if s.o.InPlace {
		err = s.bindCache(b, s.place[rows[0].block], len(rows))
	} else {
		err = s.bindCopies(b, rows, n, longest)
	}
	if err == nil {
		err = b.run()
	}
	if err != nil {
		return err
	}
	if !s.o.InPlace {
		s.takeCopies(rows, n, longest)
	}
	for i, r := range rows {
		s.filled[r.block] = r.past + n
		for k := n - keep; k < n; k++ {
			if to := s.wanted[r.first+k]; to >= 0 {
				s.copyLogits(int(to), i*keep+k-(n-keep))
			}
		}
	}
	return s.checkKept(rows, n, keep)
}

// kept returns how many of the last positions of n get logits.
func (s *Slab) kept(rows []slabRow, n int) int {
	switch {
	case s.o.LastOnly:
		return 1
	case s.o.Keep == "":
		return n
	}
	for k := range n - 1 {
		for _, r := range rows {
			if s.wanted[r.first+k] >= 0 {
				return n - k
			}
		}
	}
	return 1
}

// checkKept returns an error if logits were wanted that the graph does not give.
func (s *Slab) checkKept(rows []slabRow, n, keep int) error {
	for _, r := range rows {
		for k := range n - keep {
			if s.wanted[r.first+k] >= 0 {
				return errors.New("BUG: logits of a position that is not the last: the graph does not compute such")
			}
		}
	}
	return nil
}

// bindTokens binds the inputs that describe a run.
func (s *Slab) bindTokens(b *slabRun, rows []slabRow, n, longest int) error {
	total := longest + n
	err := errors.Join(s.ids.reserve(len(rows)*n*8), s.positions.reserve(len(rows)*n*8),
		s.mask.reserve(len(rows)*total*8))
	if err != nil {
		return err
	}
	ids := unsafe.Slice((*int64)(s.ids.at), len(rows)*n)
	positions := unsafe.Slice((*int64)(s.positions.at), len(rows)*n)
	mask := unsafe.Slice((*int64)(s.mask.at), len(rows)*total)
	for i, r := range rows {
		for k, t := range r.tokens {
			ids[i*n+k], positions[i*n+k] = int64(t), int64(r.past+k)
		}
		pad := longest - r.past
		for k := range total {
			one := k >= pad // at the left
			if s.o.InPlace {
				one = k < total-pad
			}
			mask[i*total+k] = 0
			if one {
				mask[i*total+k] = 1
			}
		}
	}
	batch := int64(len(rows))
	err = errors.Join(
		b.bind(false, s.o.IDs, int64s, s.ids.at, batch, int64(n)),
		b.bind(false, s.o.Mask, int64s, s.mask.at, batch, int64(total)))
	if s.o.Positions != "" {
		err = errors.Join(err, b.bind(false, s.o.Positions, int64s, s.positions.at, batch, int64(n)))
	}
	return err
}

// bindLogits binds the output of a run, and how many positions it has.
func (s *Slab) bindLogits(b *slabRun, rows, keep int) error {
	if err := s.logits.reserve(rows * keep * s.o.Vocab * s.logits.size()); err != nil {
		return err
	}
	err := b.bind(true, s.o.Logits, s.logits.kind, s.logits.at, int64(rows), int64(keep), int64(s.o.Vocab))
	if s.o.Keep != "" {
		err = errors.Join(err, fill[int64](&s.keep, []int64{int64(keep)}), b.bind(false, s.o.Keep, int64s, s.keep.at))
	}
	return err
}

// copyLogits copies row from of the run's logits to row to of the step's.
func (s *Slab) copyLogits(to, from int) {
	v := s.o.Vocab
	out := unsafe.Slice((*float32)(s.out.at), (to+1)*v)[to*v:]
	if s.logits.kind == float32s {
		copy(out, unsafe.Slice((*float32)(s.logits.at), (from+1)*v)[from*v:])
		return
	}
	for i, h := range unsafe.Slice((*uint16)(s.logits.at), (from+1)*v)[from*v:] {
		out[i] = halfToFloat(h)
	}
}

// halfToFloat converts a 16-bit float.
func halfToFloat(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exponent {
	case 0: // a multiple of 2^-24
		f := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// bindCache binds rows of the slab as past and as present.
func (s *Slab) bindCache(b *slabRun, place, rows int) error {
	if b.rows == rows && b.place == place {
		return nil
	}
	b.rows = 0
	shape := []int64{int64(rows), int64(s.o.KVHeads), int64(s.o.RowLen), int64(s.o.HeadDim)}
	for layer := range s.o.layers() {
		for half, names := range [2][2]string{{s.o.PastKey[layer], s.o.PresentKey[layer]},
			{s.o.PastValue[layer], s.o.PresentValue[layer]}} {
			at := s.at(layer, half, place)
			if err := errors.Join(b.bind(false, names[0], s.o.cacheType(), at, shape...),
				b.bind(true, names[1], s.o.cacheType(), at, shape...)); err != nil {
				return err
			}
		}
	}
	b.place, b.rows = place, rows
	return nil
}

// bindCopies binds a copy of the rows' cache, padded at the left to the longest, and room for a longer one.
func (s *Slab) bindCopies(b *slabRun, rows []slabRow, n, longest int) error {
	heads, token := s.o.KVHeads, s.tokenBytes(1)
	old, grown := len(rows)*heads*longest*token, len(rows)*heads*(longest+n)*token
	if err := errors.Join(s.past.reserve(2*s.o.layers()*old), s.present.reserve(2*s.o.layers()*grown)); err != nil {
		return err
	}
	shape := func(length int) []int64 {
		return []int64{int64(len(rows)), int64(heads), int64(length), int64(s.o.HeadDim)}
	}
	for layer := range s.o.layers() {
		for half, names := range [2][2]string{{s.o.PastKey[layer], s.o.PresentKey[layer]},
			{s.o.PastValue[layer], s.o.PresentValue[layer]}} {
			part := 2*layer + half
			to := unsafe.Slice((*byte)(unsafe.Add(s.past.at, part*old)), old)
			for _, r := range rows {
				pad, have := (longest-r.past)*token, r.past*token
				for h := range heads {
					clear(to[:pad]) // numbers that are not would spoil even what has no weight
					copy(to[pad:], s.head(layer, half, s.place[r.block], h)[:have])
					to = to[pad+have:]
				}
			}
			if err := errors.Join(
				b.bind(false, names[0], s.o.cacheType(), unsafe.Add(s.past.at, part*old), shape(longest)...),
				b.bind(true, names[1], s.o.cacheType(), unsafe.Add(s.present.at, part*grown), shape(longest+n)...),
			); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeCopies copies what a run added to the cache into its rows.
func (s *Slab) takeCopies(rows []slabRow, n, longest int) {
	heads, token := s.o.KVHeads, s.tokenBytes(1)
	grown := len(rows) * heads * (longest + n) * token
	for layer := range s.o.layers() {
		for half := range 2 {
			from := unsafe.Slice((*byte)(unsafe.Add(s.present.at, (2*layer+half)*grown)), grown)
			for _, r := range rows {
				for h := range heads {
					copy(s.head(layer, half, s.place[r.block], h)[r.past*token:], from[longest*token:][:n*token])
					from = from[(longest+n)*token:]
				}
			}
		}
	}
}

// try runs the graph on a few tokens: whole, in pieces and beside others, which must give the same logits but for
// rounding. It finds out whether the graph gives logits of all positions.
func (s *Slab) try() error {
	tokens := make([]llm.Token, min(6, s.o.RowLen))
	for i := range tokens {
		tokens[i] = llm.Token((7*i + 3) % s.o.Vocab)
	}
	compute := func(rows ...slabRow) ([]float32, error) {
		return s.Forward(s.tryStep(rows))
	}
	if len(tokens) < 6 {
		_, err := compute(slabRow{0, 0, tokens[:1], 0})
		return err
	}
	whole, err := compute(slabRow{0, 0, tokens[:5], 0})
	if err != nil && !s.o.LastOnly {
		s.o.LastOnly = true
		var second error
		if whole, second = compute(slabRow{0, 0, tokens[:5], 0}); second != nil {
			return err
		}
		s.notes = append(s.notes, lastOnlyNote)
	}
	if err != nil && whole == nil {
		return err
	}
	first := append([]float32(nil), whole...)
	for _, x := range first {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("it gives the logit %v for the tokens %v", x, tokens[:5])
		}
	}
	if _, err := compute(slabRow{0, 0, tokens[:2], 0}); err != nil {
		return err
	}
	if _, err := compute(slabRow{0, 2, tokens[2:4], 0}); err != nil {
		return err
	}
	pieces, err := compute(slabRow{0, 4, tokens[4:5], 0})
	if err != nil {
		return err
	}
	if d := distance(first, pieces); d > tryBound && !s.o.Alone {
		return fmt.Errorf("it gives other logits for a prompt in pieces than for the whole: they differ by %.0f %%", 100*d)
	}
	if s.o.Alone || s.o.Rows < 2 {
		return nil
	}
	if _, err := compute(slabRow{1, 0, tokens[:2], 0}); err != nil {
		return err
	}
	beside, err := compute(slabRow{1, 2, tokens[:1], 0}, slabRow{0, 4, tokens[4:5], 0})
	switch {
	case err != nil:
		s.notes = append(s.notes, fmt.Sprintf("The graph fails on sequences of different lengths (%v), so they do not "+
			"share runs.", err))
	case distance(first, beside[s.o.Vocab:]) <= tryBound:
		return nil
	default:
		s.notes = append(s.notes, fmt.Sprintf("The graph gives other logits for a sequence beside a shorter one: they "+
			"differ by %.0f %%, so sequences do not share runs.", 100*distance(first, beside[s.o.Vocab:])))
	}
	s.o.Alone = true
	return nil
}

// lastOnlyNote says what such a graph lacks.
const lastOnlyNote = "The graph gives logits of the last position alone, so there are no log-probabilities of prompts " +
	"(decoder_input_details, echo)."

// tryBound is how much logits may differ by rounding.
const tryBound = 0.2

// tryStep is a step of rows whose last tokens have logits.
func (s *Slab) tryStep(rows []slabRow) *llm.Step {
	st := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: 1}
	for _, r := range rows {
		st.Tokens = append(st.Tokens, r.tokens...)
		for i := range r.tokens {
			st.SlotMapping = append(st.SlotMapping, int32(r.block*s.o.RowLen+r.past+i))
		}
		st.CuSeqlens = append(st.CuSeqlens, int32(len(st.Tokens)))
		st.PastLens = append(st.PastLens, int32(r.past))
		st.BlockTable = append(st.BlockTable, int32(r.block))
		st.LogitRows = append(st.LogitRows, int32(len(st.Tokens)-1))
	}
	return st
}

// distance is that of b from a, relative to how a varies.
func distance(a, b []float32) float64 {
	mean, off, all := 0.0, 0.0, 0.0
	for _, x := range a {
		mean += float64(x) / float64(len(a))
	}
	for i, x := range a {
		off += math.Pow(float64(x-b[i]), 2)
		all += math.Pow(float64(x)-mean, 2)
	}
	if all == 0 {
		return math.Sqrt(off)
	}
	return math.Sqrt(off / all)
}
