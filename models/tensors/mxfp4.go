package tensors

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// MXFP4 is a type of tensors that two others make up, see Set.JoinMXFP4: 4-bit floats in blocks of 32 that share a
// power of two (Open Compute Project, Microscaling Formats 1.0). Floats widens them.
const MXFP4 DType = "MXFP4"

// mxBlock is the number of elements that share a scale.
const mxBlock = 32

// Ends of the names of the two tensors: bytes of two numbers each, the lower half first, and exponents.
const (
	mxCodes  = "_blocks"
	mxScales = "_scales"
)

// mxValues are the numbers that 4 bits stand for.
var mxValues = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// FloatOf4Bits returns the number that 4 bits stand for in MXFP4.
func FloatOf4Bits(code byte) float32 { return mxValues[code] }

// JoinMXFP4 makes one tensor NAME of each pair NAME_blocks [..., blocks, 16] and NAME_scales [..., blocks], of the
// shape [..., blocks*32]. It fails with ErrFormat for a pair that is none.
func (s *Set) JoinMXFP4() error {
	for _, codes := range slices.Clone(s.names) {
		name, ok := strings.CutSuffix(codes, mxCodes)
		if !ok {
			continue
		}
		a, b := s.byName[codes], s.byName[name+mxScales]
		if b == nil {
			return fmt.Errorf("%s: %w: tensor %q has no %q beside it", a.File, ErrFormat, codes, name+mxScales)
		}
		rank := len(a.Shape)
		if a.DType != "U8" || b.DType != "U8" || rank < 2 || a.Shape[rank-1] != mxBlock/2 ||
			!slices.Equal(a.Shape[:rank-1], b.Shape) {
			return fmt.Errorf("%s: %w: tensors %q %s %v and %q %s %v are no blocks of 4-bit floats and their scales", a.File,
				ErrFormat, codes, a.DType, a.Shape, b.Name, b.DType, b.Shape)
		}
		if s.Has(name) {
			return fmt.Errorf("%s: %w: tensor %q is there beside %q", a.File, ErrFormat, name, codes)
		}
		shape := slices.Clone(b.Shape)
		shape[len(shape)-1] *= mxBlock
		s.byName[name] = &Tensor{Name: name, DType: MXFP4, Shape: shape, File: a.File, data: a.data, scales: b.data}
		delete(s.byName, codes)
		delete(s.byName, name+mxScales)
		s.names = append(slices.DeleteFunc(s.names, func(n string) bool { return n == codes || n == name+mxScales }),
			name)
	}
	slices.Sort(s.names)
	return nil
}

// integersMXFP4 is Integers, by TableMXFP4: twice the numbers, which have halves, and half of the scale.
func (t *Tensor) integersMXFP4(codes []int8, i, b int) (scale float32) {
	block := i*int(t.Shape[1])/mxBlock + b
	for c := range codes {
		codes[c] = int8(t.data[block*mxBlock/2+c/2] >> (c % 2 * 4) & 15)
	}
	if t.scales[block] == 255 { // which stands for no number
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(t.scales[block])-128))
}

// widenMXFP4 is Floats for a range that was checked.
func (t *Tensor) widenMXFP4(dst []float32, at int) {
	for i := range dst {
		k := at + i
		code := t.data[k/2] >> (k % 2 * 4) & 15
		scale := t.scales[k/mxBlock]
		if scale == 255 { // which stands for no number
			dst[i] = float32(math.NaN())
			continue
		}
		dst[i] = float32(math.Ldexp(float64(mxValues[code]), int(scale)-127))
	}
}
