package tensors

import "fmt"

// Tensor is one tensor of an open checkpoint.
type Tensor struct {
	// Name is that of the file.
	Name string
	// DType of the elements.
	DType DType
	// Shape, outermost dimension first; empty for a scalar.
	Shape []int64
	// File is the base name of the file that holds the tensor.
	File string
	data []byte
	// scales of MXFP4, one for each block.
	scales []byte
	// coding, if set, is that of blocks of elements.
	coding *Coding
	// order, if set, returns which row of data is row i.
	order func(i int) int
	// computed, if set, are the elements.
	computed Computed
}

// Computed is a matrix whose rows are computed of other tensors.
type Computed interface {
	// Row returns row i, as long as dst is.
	Row(dst []float32, i int)
	// Form says in which integers it can be given, and Integers gives block b of row i, see Coding.
	Form() Form
	Integers(codes []int8, i, b int) (scale, offset float32)
}

// NewComputed returns a matrix that is computed.
func NewComputed(name string, d DType, shape []int64, file string, c Computed) *Tensor {
	return &Tensor{Name: name, DType: d, Shape: shape, File: file, computed: c}
}

// Coding is how blocks of elements are stored.
type Coding struct {
	// Name is the type of the tensors.
	Name DType
	// Elements of a row make a block of Bytes.
	Elements, Bytes int
	// Decode returns the values of the block at src: len(dst) is Elements, len(src) is Bytes.
	Decode func(dst []float32, src []byte)
	// Form says in which integers a block can be given, and Integers gives part k of it, of IntegerBlock elements:
	// each is its code times the scale, plus the offset.
	Form     Form
	Integers func(codes []int8, src []byte, k int) (scale, offset float32)
	// Factors gives a block of SixBits, of FactoredBlock elements: each is its code times the factor of its 16, times
	// the scale, which is a 16-bit float.
	Factors func(codes, factors []int8, src []byte) (scale float32)
	// Factored gives a block with Form.Factors, of FactoredBlock elements, exactly: part k of IntegerBlock elements has
	// the scale times scales[k], and the offset times offsets[k]. Both are 16-bit floats.
	Factored func(codes []int8, scales, offsets, src []byte) (scale, offset float32)
}

// Form is that of blocks of integers.
type Form struct {
	// Bits of a code, a signed integer; 0: there are no such integers. With SixBits there are factors, see Coding.
	Bits int
	// Offsets says that blocks have offsets. Codes of 4 bits are 0 to 15 then.
	Offsets bool
	// Factors says that Coding.Factored gives them exactly, where Integers' scales and offsets are no 16-bit floats.
	// There are Offsets then.
	Factors bool
	// Table says what Integers' codes, of 4 bits, 0 to 15, stand for.
	Table Table
}

// IntegerBlock is the number of elements of a row that share a scale, except with SixBits: there it is FactoredBlock,
// of which each FactorBlock have a factor.
const (
	IntegerBlock  = 32
	SixBits       = 6
	FactoredBlock = 256
	FactorBlock   = 16
)

// Form returns in which integers the tensor can be given.
func (t *Tensor) Form() Form {
	if t.computed != nil {
		return t.computed.Form()
	}
	if t.DType == MXFP4 && t.coding == nil {
		return Form{Bits: 4, Table: TableMXFP4}
	}
	if t.coding == nil {
		return Form{}
	}
	return t.coding.Form
}

// Integers returns block number b of row i of a matrix that has a Form: codes, a scale and an offset.
func (t *Tensor) Integers(codes []int8, i, b int) (scale, offset float32) {
	if t.computed != nil {
		return t.computed.Integers(codes, i, b)
	}
	if t.coding == nil {
		return t.integersMXFP4(codes, i, b), 0
	}
	c := t.coding
	perBlock := c.Elements / IntegerBlock
	return c.Integers(codes, t.Row(i)[b/perBlock*c.Bytes:][:c.Bytes], b%perBlock)
}

// Factors returns block number b of row i of a matrix with SixBits: codes, factors and a scale.
func (t *Tensor) Factors(codes, factors []int8, i, b int) (scale float32) {
	return t.coding.Factors(codes, factors, t.Row(i)[b*t.coding.Bytes:][:t.coding.Bytes])
}

// Factored returns block number b of row i of a matrix with Form.Factors, see Coding.
func (t *Tensor) Factored(codes []int8, scales, offsets []byte, i, b int) (scale, offset float32) {
	return t.coding.Factored(codes, scales, offsets, t.Row(i)[b*t.coding.Bytes:][:t.coding.Bytes])
}

// New returns a tensor of elements of the given type, which lie in row-major order in data.
func New(name string, d DType, shape []int64, file string, data []byte) *Tensor {
	return &Tensor{Name: name, DType: d, Shape: shape, File: file, data: data}
}

// NewCoded returns a tensor of blocks. The last dimension is a multiple of their elements.
func NewCoded(name string, c *Coding, shape []int64, file string, data []byte) *Tensor {
	return &Tensor{Name: name, DType: c.Name, Shape: shape, File: file, data: data, coding: c}
}

// Bytes returns the tensor as it is stored, little-endian. The view is read-only (writing to it faults where the file
// is mapped) and ends with Close.
func (t *Tensor) Bytes() []byte { return t.data }

// InOrder reports whether Bytes are the elements in the order that Floats has.
func (t *Tensor) InOrder() bool { return t.order == nil && t.computed == nil }

// Row returns row i of a matrix as it is stored.
func (t *Tensor) Row(i int) []byte {
	if t.order != nil {
		i = t.order(i)
	}
	n := len(t.data) / int(t.Shape[0])
	return t.data[i*n : (i+1)*n]
}

// Reordered returns a matrix over the same bytes whose row i is row order(i) of this one.
func (t *Tensor) Reordered(order func(i int) int) *Tensor {
	out := *t
	out.order = order
	return &out
}

// Reshaped returns the same elements in another shape of as many.
func (t *Tensor) Reshaped(shape ...int64) *Tensor {
	out := *t
	out.Shape = shape
	return &out
}

// Transposed returns a copy of a matrix with rows and columns exchanged. Its elements have a type of whole bytes.
func (t *Tensor) Transposed() *Tensor {
	n, k, size := int(t.Shape[0]), int(t.Shape[1]), t.DType.Size()
	data := make([]byte, len(t.data))
	for i := range n {
		for j := range k {
			copy(data[(j*n+i)*size:][:size], t.data[(i*k+j)*size:])
		}
	}
	return New(t.Name, t.DType, []int64{t.Shape[1], t.Shape[0]}, t.File, data)
}

// Part returns element i of the outermost dimension, over the same bytes.
func (t *Tensor) Part(i int) *Tensor {
	n := int(t.Shape[0])
	own := func(all []byte) []byte { return all[i*len(all)/n : (i+1)*len(all)/n] }
	return &Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape[1:], File: t.File, data: own(t.data),
		scales: own(t.scales), coding: t.coding}
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= int(d)
	}
	return n
}

// Floats widens len(dst) elements, the first being number at of the tensor in row-major order. It fails for types
// without a value as a float, and for a range outside the tensor.
func (t *Tensor) Floats(dst []float32, at int) error {
	if t.coding == nil && t.computed == nil {
		switch t.DType {
		case F32, F16, BF16, MXFP4:
		default:
			return fmt.Errorf("%s: tensor %q has dtype %s, want F32, F16 or BF16", t.File, t.Name, t.DType)
		}
	}
	if n := t.Len(); at < 0 || at > n || len(dst) > n-at {
		return fmt.Errorf("%s: tensor %q has %d elements, want %d from index %d", t.File, t.Name, n, len(dst), at)
	}
	if t.order == nil {
		t.widen(dst, at)
		return nil
	}
	k := t.Len() / int(t.Shape[0])
	for len(dst) > 0 {
		n := min(k-at%k, len(dst))
		t.widen(dst[:n], t.order(at/k)*k+at%k)
		dst, at = dst[n:], at+n
	}
	return nil
}

// widen is Floats for a range of data that was checked.
func (t *Tensor) widen(dst []float32, at int) {
	switch {
	case t.computed != nil:
		t.compute(dst, at)
	case t.coding != nil:
		t.coding.widen(dst, t.data, at)
	case t.DType == MXFP4:
		t.widenMXFP4(dst, at)
	default:
		size := t.DType.Size()
		t.DType.widen(dst, t.data[at*size:(at+len(dst))*size])
	}
}

// compute is widen for a computed matrix.
func (t *Tensor) compute(dst []float32, at int) {
	k := int(t.Shape[1])
	var row []float32
	for len(dst) > 0 {
		i, skip := at/k, at%k
		n := min(k-skip, len(dst))
		if n == k {
			t.computed.Row(dst[:n], i)
		} else {
			if row == nil {
				row = make([]float32, k)
			}
			t.computed.Row(row, i)
			copy(dst, row[skip:skip+n])
		}
		dst, at = dst[n:], at+n
	}
}

// widen decodes len(dst) elements from number at on, which may begin and end inside a block.
func (c *Coding) widen(dst []float32, data []byte, at int) {
	var rest []float32
	for len(dst) > 0 {
		block, skip := at/c.Elements, at%c.Elements
		n := min(c.Elements-skip, len(dst))
		src := data[block*c.Bytes : (block+1)*c.Bytes]
		if n == c.Elements {
			c.Decode(dst[:n], src)
		} else {
			if rest == nil {
				rest = make([]float32, c.Elements)
			}
			c.Decode(rest, src)
			copy(dst, rest[skip:skip+n])
		}
		dst, at = dst[n:], at+n
	}
}
