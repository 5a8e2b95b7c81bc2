package hf

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"tgi/models/tensors"
)

// intParts are the tensors that gptq and awq have in common.
func intParts(l layerTensors) (codes, zeros, scales *tensors.Tensor, err error) {
	if codes, err = l.get(".qweight", false, "I32"); err == nil {
		if zeros, err = l.get(".qzeros", false, "I32"); err == nil {
			scales, err = l.get(".scales", false, floatTypes...)
		}
	}
	return codes, zeros, scales, err
}

// packedGPTQ: qweight [in*bits/32, out] has the codes of neighbouring inputs in a word, the first in its lowest bits;
// qzeros [groups, out*bits/32] those of neighbouring outputs; scales are [groups, out], g_idx [in] the groups of
// inputs.
func packedGPTQ(p Packing, l layerTensors) (tensors.Computed, []int64, error) {
	codes, zeros, scales, err := intParts(l)
	if err != nil {
		return nil, nil, err
	}
	words, n, err := matrixOf(codes)
	if err != nil {
		return nil, nil, err
	}
	per, groups, k := 32/p.Bits, 0, words*32/p.Bits
	if groups, _, err = matrixOf(scales); err != nil {
		return nil, nil, err
	}
	if want := []int64{int64(groups), int64(n)}; !slices.Equal(scales.Shape, want) || k%groups != 0 || n%per != 0 {
		return nil, nil, wrong(scales, "groups of", k, "inputs of", n, "outputs")
	}
	if want := []int64{int64(groups), int64(n / per)}; !slices.Equal(zeros.Shape, want) {
		return nil, nil, wrong(zeros, want)
	}
	s, err := scalesOf(scales)
	if err != nil {
		return nil, nil, err
	}
	mask, less := uint32(1)<<p.Bits-1, 0
	if p.ZerosAreLess {
		less = 1
	}
	g := &grouped{n: n, k: k, group: k / groups, bits: p.Bits,
		code: func(row, c int) int { return int(word(codes, c/per*n+row) >> (c % per * p.Bits) & mask) },
		zero: func(row, in int) int {
			return (int(word(zeros, in*(n/per)+row/per)>>(row%per*p.Bits)&mask) + less) & int(mask)
		},
		scale: func(row, in int) float32 { return s[in*n+row] },
	}
	order, err := l.get(".g_idx", true, "I32")
	if err != nil {
		return nil, nil, err
	}
	if order != nil {
		if g.groups, err = groupsOf(order, k, groups, g.group); err != nil {
			return nil, nil, err
		}
	}
	g.symmetric = g.isSymmetric(groups)
	return g, []int64{int64(n), int64(k)}, nil
}

// groupsOf reads which group each of k columns belongs to; nil if they are in order.
func groupsOf(t *tensors.Tensor, k, groups, group int) ([]int32, error) {
	if t.Len() != k {
		return nil, wrong(t, k)
	}
	out, ordered := make([]int32, k), true
	for i := range out {
		out[i] = int32(word(t, i))
		if out[i] < 0 || int(out[i]) >= groups {
			return nil, fmt.Errorf("%s: %w: tensor %q: column %d is of group %d, there are %d", t.File, tensors.ErrFormat,
				t.Name, i, out[i], groups)
		}
		ordered = ordered && int(out[i]) == i/group
	}
	if ordered {
		return nil, nil
	}
	return out, nil
}

// awqShift is where the code of an output is among the eight of a word.
var awqShift = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

// packedAWQ: qweight [in, out/8] and qzeros [groups, out/8] have the codes of eight outputs in a word, in an order of
// their own; scales are [groups, out].
func packedAWQ(p Packing, l layerTensors) (tensors.Computed, []int64, error) {
	codes, zeros, scales, err := intParts(l)
	if err != nil {
		return nil, nil, err
	}
	k, words, err := matrixOf(codes)
	if err != nil {
		return nil, nil, err
	}
	groups, n, err := matrixOf(scales)
	if err != nil {
		return nil, nil, err
	}
	if n != 8*words || k%groups != 0 {
		return nil, nil, wrong(scales, "groups of", k, "inputs of", 8*words, "outputs")
	}
	if want := []int64{int64(groups), int64(words)}; !slices.Equal(zeros.Shape, want) {
		return nil, nil, wrong(zeros, want)
	}
	s, err := scalesOf(scales)
	if err != nil {
		return nil, nil, err
	}
	at := func(t *tensors.Tensor, line, row int) int {
		return int(word(t, line*words+row/8) >> awqShift[row%8] & 15)
	}
	g := &grouped{n: n, k: k, group: k / groups, bits: p.Bits,
		code:  func(row, c int) int { return at(codes, c, row) },
		zero:  func(row, in int) int { return at(zeros, in, row) },
		scale: func(row, in int) float32 { return s[in*n+row] },
	}
	g.symmetric = g.isSymmetric(groups)
	return g, []int64{int64(n), int64(k)}, nil
}

// packedCompressed is compressed-tensors' pack-quantized: weight_packed [out, in*bits/32] has the codes of neighbouring
// inputs in a word, weight_scale is [out, groups], and weight_zero_point, if there is one, [out*bits/32, groups].
func packedCompressed(_ Packing, l layerTensors) (tensors.Computed, []int64, error) {
	codes, err := l.get(".weight_packed", false, "I32")
	if err != nil {
		return nil, nil, err
	}
	scales, err := l.get(".weight_scale", false, floatTypes...)
	if err != nil {
		return nil, nil, err
	}
	shape, err := l.get(".weight_shape", false, "I64", "I32")
	if err != nil {
		return nil, nil, err
	}
	n, words, err := matrixOf(codes)
	if err != nil {
		return nil, nil, err
	}
	if shape.Len() != 2 {
		return nil, nil, wrong(shape, 2)
	}
	rows, k := shapeOf(shape)
	bits := 4
	if k > 0 && words*4 >= k { // as many words as 8 bits need
		bits = 8
	}
	per := 32 / bits
	if k < 1 || (k+per-1)/per != words || rows != n {
		return nil, nil, wrong(codes, "what weight_shape says")
	}
	rows, groups, err := matrixOf(scales)
	if err != nil {
		return nil, nil, err
	}
	if rows != n || k%groups != 0 {
		return nil, nil, wrong(scales, n, "groups of", k)
	}
	s, err := scalesOf(scales)
	if err != nil {
		return nil, nil, err
	}
	mask, middle := uint32(1)<<bits-1, 1<<(bits-1)
	g := &grouped{n: n, k: k, group: k / groups, bits: bits, symmetric: true,
		code:  func(row, c int) int { return int(word(codes, row*words+c/per) >> (c % per * bits) & mask) },
		zero:  func(int, int) int { return middle },
		scale: func(row, in int) float32 { return s[row*groups+in] },
	}
	zeros, err := l.get(".weight_zero_point", true, "I32")
	if err != nil {
		return nil, nil, err
	}
	if zeros != nil {
		if want := []int64{int64((n + per - 1) / per), int64(groups)}; !slices.Equal(zeros.Shape, want) {
			return nil, nil, wrong(zeros, want)
		}
		g.zero = func(row, in int) int { return int(word(zeros, row/per*groups+in) >> (row % per * bits) & mask) }
		g.symmetric = g.isSymmetric(groups)
	}
	order, err := l.get(".weight_g_idx", true, "I32")
	if err != nil {
		return nil, nil, err
	}
	if order != nil {
		if g.groups, err = groupsOf(order, k, groups, g.group); err != nil {
			return nil, nil, err
		}
	}
	return g, []int64{int64(n), int64(k)}, nil
}

// shapeOf reads a tensor of two integers of 32 or 64 bits.
func shapeOf(t *tensors.Tensor) (rows, columns int) {
	if b := t.Bytes(); t.DType.Size() == 8 {
		return int(int64(binary.LittleEndian.Uint64(b))), int(int64(binary.LittleEndian.Uint64(b[8:])))
	}
	return int(int32(word(t, 0))), int(int32(word(t, 1)))
}

// scaled is a matrix of 8-bit integers or floats, of which tiles of rows and columns share a scale.
type scaled struct {
	weight           *tensors.Tensor
	k, rows, columns int // of a tile
	tiles            int // in a row
	scales           []float32
	integers         bool
}

func (s *scaled) scale(row, column int) float32 { return s.scales[row/s.rows*s.tiles+column/s.columns] }

// Row implements tensors.Computed.
func (s *scaled) Row(dst []float32, i int) {
	for c, code := range s.weight.Bytes()[i*s.k:][:len(dst)] {
		value := float32(int8(code))
		if !s.integers {
			value = e4m3(code)
		}
		dst[c] = value * s.scale(i, c)
	}
}

// Form implements tensors.Computed.
func (s *scaled) Form() tensors.Form {
	if !s.integers || s.columns%tensors.IntegerBlock != 0 {
		return tensors.Form{}
	}
	return tensors.Form{Bits: 8}
}

// Integers implements tensors.Computed.
func (s *scaled) Integers(codes []int8, i, b int) (scale, offset float32) {
	at := b * tensors.IntegerBlock
	for c := range codes {
		codes[c] = int8(s.weight.Bytes()[i*s.k+at+c])
	}
	return s.scale(i, at), 0
}

// e4m3 widens an 8-bit float with 4 bits of exponent and 3 of fraction, which has no infinity (OCP 8-bit floating
// point).
func e4m3(code byte) float32 {
	sign, exponent, fraction := float32(1), int(code>>3&15), float64(code&7)
	if code>>7 == 1 {
		sign = -1
	}
	switch {
	case code&0x7f == 0x7f:
		return float32(math.NaN())
	case exponent == 0:
		return sign * float32(math.Ldexp(fraction, -9))
	}
	return sign * float32(math.Ldexp(8+fraction, exponent-10))
}

// packedScaled is compressed-tensors' int-quantized, float-quantized and naive-quantized: weight [out, in] of 8-bit
// integers or floats, weight_scale for all, for each row, or for groups of each row.
func packedScaled(_ Packing, l layerTensors) (tensors.Computed, []int64, error) {
	if !l.set.Has(l.name + ".weight") {
		return nil, nil, nil
	}
	weight, err := l.get(".weight", false, "I8", "F8_E4M3")
	if err != nil {
		return nil, nil, err
	}
	scales, err := l.get(".weight_scale", false, floatTypes...)
	if err != nil {
		return nil, nil, err
	}
	if zeros, err := l.get(".weight_zero_point", true, "I8", "F8_E4M3"); err != nil {
		return nil, nil, err
	} else if zeros != nil && slices.ContainsFunc(zeros.Bytes(), func(b byte) bool { return b != 0 }) {
		return nil, nil, fmt.Errorf("%s: %w: tensor %q has zero points other than 0, which are not supported for 8 bits",
			zeros.File, tensors.ErrFormat, zeros.Name)
	}
	return scaledBy(weight, scales, 0)
}

// packedFP8 is the format of DeepSeek's and Qwen's FP8 checkpoints: weight_scale_inv has the scale, in spite of its
// name, of tiles of 128 rows and columns.
func packedFP8(_ Packing, l layerTensors) (tensors.Computed, []int64, error) {
	weight, err := l.get(".weight", false, "F8_E4M3")
	if err != nil {
		return nil, nil, err
	}
	scales, err := l.get(".weight_scale_inv", false, floatTypes...)
	if err != nil {
		return nil, nil, err
	}
	return scaledBy(weight, scales, 128)
}

// scaledBy divides a matrix into as many tiles as there are scales; tile is their size, 0 for whole divisors.
func scaledBy(weight, scales *tensors.Tensor, tile int) (tensors.Computed, []int64, error) {
	n, k, err := matrixOf(weight)
	if err != nil {
		return nil, nil, err
	}
	down, across := 1, 1
	switch len(scales.Shape) {
	case 0:
	case 1:
		down = int(scales.Shape[0])
	case 2:
		down, across = int(scales.Shape[0]), int(scales.Shape[1])
	default:
		return nil, nil, wrong(scales, "at most two dimensions")
	}
	s := &scaled{weight: weight, k: k, rows: tile, columns: tile, tiles: across, integers: weight.DType == "I8"}
	if tile == 0 {
		if down < 1 || across < 1 || n%down != 0 || k%across != 0 {
			return nil, nil, wrong(scales, "divisors of", n, k)
		}
		s.rows, s.columns = n/down, k/across
	} else if down != (n+tile-1)/tile || across != (k+tile-1)/tile {
		return nil, nil, wrong(scales, (n+tile-1)/tile, (k+tile-1)/tile)
	}
	if s.scales, err = scalesOf(scales); err != nil {
		return nil, nil, err
	}
	return s, []int64{int64(n), int64(k)}, nil
}

// lookedUp is a matrix of 4-bit codes of numbers in a table, of which blocks share a scale. The first of two is in the
// upper half of a byte.
type lookedUp struct {
	codes  []byte
	k      int
	table  []float32
	scales []float32
	block  int
	nf4    bool
}

// Row implements tensors.Computed.
func (l *lookedUp) Row(dst []float32, i int) {
	for c := range dst {
		at := i*l.k + c
		dst[c] = l.table[l.codes[at/2]>>(4-at%2*4)&15] * l.scales[at/l.block]
	}
}

// Form implements tensors.Computed: nf4 has a table, the numbers of fp4 are no multiples of one.
func (l *lookedUp) Form() tensors.Form {
	if !l.nf4 || l.k%tensors.IntegerBlock != 0 || l.block%tensors.IntegerBlock != 0 {
		return tensors.Form{}
	}
	return tensors.Form{Bits: 4, Table: tensors.TableNF4}
}

// Integers implements tensors.Computed.
func (l *lookedUp) Integers(codes []int8, i, b int) (scale, offset float32) {
	at := i*l.k + b*tensors.IntegerBlock
	for c := range codes {
		codes[c] = int8(l.codes[(at+c)/2] >> (4 - (at+c)%2*4) & 15)
	}
	return l.scales[at/l.block] / 127, 0
}

// isNF4 reports whether the numbers are those of tensors.TableNF4, but for its rounding.
func isNF4(table []float32) bool {
	for code, x := range table {
		if d := math.Abs(float64(127*x) - float64(tensors.TableNF4.Number(byte(code)))); !(d <= 0.5) { // nor is NaN one
			return false
		}
	}
	return true
}

// packedNF4 is bitsandbytes' nf4 and fp4: weight of codes, weight.quant_map of the 16 numbers, and weight.absmax of
// scales, which may themselves be 8-bit codes of nested_quant_map times nested_absmax.
func packedNF4(_ Packing, l layerTensors) (tensors.Computed, []int64, error) {
	var state *tensors.Tensor
	for _, kind := range []string{"nf4", "fp4"} {
		t, err := l.get(".weight.quant_state.bitsandbytes__"+kind, true, "U8")
		if err != nil {
			return nil, nil, err
		}
		if t != nil {
			state = t
		}
	}
	if state == nil {
		return nil, nil, fmt.Errorf("tensor %q has no quant_state.bitsandbytes__nf4 beside it: %w", l.name, tensors.ErrMissing)
	}
	var form struct {
		Shape        []int64 `json:"shape"`
		Block        int     `json:"blocksize"`
		NestedBlock  int     `json:"nested_blocksize"`
		NestedOffset float32 `json:"nested_offset"`
	}
	if err := json.Unmarshal(state.Bytes(), &form); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: tensor %q: %v", state.File, tensors.ErrFormat, state.Name, err)
	}
	if len(form.Shape) != 2 || form.Shape[0] < 1 || form.Shape[1] < 1 || form.Shape[0] > maxVocab ||
		form.Shape[1] > maxWidth || form.Block < 1 || form.Block > maxWidth || form.NestedBlock < 0 {
		return nil, nil, fmt.Errorf("%s: %w: tensor %q says shape %v in blocks of %d", state.File, tensors.ErrFormat,
			state.Name, form.Shape, form.Block)
	}
	weight, err := l.get(".weight", false, "U8")
	if err != nil {
		return nil, nil, err
	}
	n := int(form.Shape[0] * form.Shape[1])
	if weight.Len() != (n+1)/2 {
		return nil, nil, wrong(weight, (n+1)/2)
	}
	out := &lookedUp{codes: weight.Bytes(), k: int(form.Shape[1]), block: form.Block}
	if out.table, err = l.vector(".weight.quant_map", 16); err != nil {
		return nil, nil, err
	}
	out.nf4 = isNF4(out.table)
	blocks := (n + form.Block - 1) / form.Block
	if l.set.Has(l.name + ".weight.nested_absmax") {
		out.scales, err = l.nested(blocks, form.NestedBlock, form.NestedOffset)
	} else {
		out.scales, err = l.vector(".weight.absmax", blocks)
	}
	return out, form.Shape, err
}

// vector reads n floats.
func (l layerTensors) vector(end string, n int) ([]float32, error) {
	t, err := l.get(end, false, floatTypes...)
	if err != nil {
		return nil, err
	}
	if t.Len() != n {
		return nil, wrong(t, n)
	}
	return scalesOf(t)
}

// nested reads scales that are quantised themselves.
func (l layerTensors) nested(n, block int, offset float32) ([]float32, error) {
	codes, err := l.get(".weight.absmax", false, "U8")
	if err != nil {
		return nil, err
	}
	if codes.Len() != n || block < 1 {
		return nil, wrong(codes, n)
	}
	table, err := l.vector(".weight.nested_quant_map", 256)
	if err != nil {
		return nil, err
	}
	scales, err := l.vector(".weight.nested_absmax", (n+block-1)/block)
	if err != nil {
		return nil, err
	}
	out := make([]float32, n)
	for i, code := range codes.Bytes() {
		out[i] = float32(table[code]*scales[i/block]) + offset
	}
	return out, nil
}
