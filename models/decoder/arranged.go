package decoder

import (
	"fmt"
	"slices"

	"tgi/models/hf"
	"tgi/models/tensors"
)

// arranged is the matrix of one expert as an operator of CUDA wants it: with zeros behind the numbers of each row, and
// rows of zeros behind those of gates and of ups, where it takes whole steps. A hidden number that a zero gate and a
// zero up make is 0, whatever the activation, so nothing is added to what the model computes.
type arranged struct {
	b *builder
	// parts are the expert's own, stacked, of k columns.
	parts []hf.Slice
	k     int
	// Of each rows in turn wide ones are made. With turns the first of each come first, then the second ones.
	each, wide int
	turns      bool
	// sources are tensors with the parts' rows, those of one expert.
	sources map[string]*tensors.Tensor
}

// Form says that it is floats.
func (a *arranged) Form() tensors.Form { return tensors.Form{} }

// Integers is not called for a matrix of floats.
func (a *arranged) Integers([]int8, int, int) (scale, offset float32) {
	panic("BUG: decoder: an arranged matrix has no integers")
}

// Row returns a row with its zeros.
func (a *arranged) Row(dst []float32, i int) {
	clear(dst)
	block, row := i/a.wide, i%a.wide
	if blocks := a.rows() / a.wide; a.turns {
		block, row = i%blocks, i/blocks
	}
	if row < a.each {
		a.read(dst[:a.k], block*a.each+row)
	}
	if i == a.rows()-1 {
		a.sources = nil // copies, where they were transposed
	}
}

// rows counts those of the matrix.
func (a *arranged) rows() int { return height(a.parts) / a.each * a.wide }

// read returns a row of the stacked parts.
func (a *arranged) read(dst []float32, row int) {
	part := 0
	for row >= a.parts[part].Height() {
		row -= a.parts[part].Height()
		part++
	}
	s := a.parts[part]
	t := a.sources[s.Tensor]
	if t == nil {
		if t = a.b.tensor(s.Tensor); t == nil {
			return // the builder has the error
		}
		if s.Outer > 0 {
			t = t.Part(s.Part)
		}
		if s.Transposed {
			t = t.Transposed()
		}
		if a.sources == nil {
			a.sources = map[string]*tensors.Tensor{}
		}
		a.sources[s.Tensor] = t
	}
	row = row/s.Rows*s.Stride + s.Offset + row%s.Rows
	if err := t.Floats(dst, row*a.k); err != nil {
		a.b.fail(err)
	}
}

// arranged returns the matrices of all experts, whose parts have k columns: of each rows in turn wide ones of so many
// columns are made, with zeros behind; turns says that those of the parts take turns. Tensors have their full names.
// done forgets them.
func (b *builder) arranged(parts []hf.Slice, k, each, wide, columns int, turns bool) (all []hf.Slice, done func()) {
	if each == wide && k == columns && !turns {
		return parts, func() {}
	}
	var names []string
	for own := range slices.Chunk(parts, len(parts)/b.cfg.Experts.N) {
		a := &arranged{b: b, parts: own, k: k, each: each, wide: wide, turns: turns}
		name := fmt.Sprintf("%s, arranged %d", own[0].Tensor, len(names))
		names = append(names, name)
		b.src.set.Put(name, tensors.NewComputed(name, tensors.F32, []int64{int64(a.rows()), int64(columns)}, "", a))
		all = append(all, hf.Slice{Tensor: name, Groups: 1, Stride: a.rows(), Rows: a.rows(), Bare: true})
	}
	return all, func() { b.src.set.Remove(names...) }
}

// upTo rounds up to whole steps.
func upTo(n, step int) int { return (n + step - 1) / step * step }
