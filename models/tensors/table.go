package tensors

// Table is what the 4-bit codes of a matrix stand for: signed bytes, which a block's scale multiplies. The operators of
// runtime/ort know tables by these numbers.
type Table uint8

// The tables. NoTable has codes stand for themselves.
const (
	NoTable Table = iota
	// TableIQ4 is that of GGUF's types IQ4.
	TableIQ4
	// TableMXFP4 has twice the numbers of MXFP4, which have halves.
	TableMXFP4
	// TableNF4 has 127 times those of bitsandbytes' nf4, rounded.
	TableNF4
)

var tables = [...][16]int8{
	TableIQ4:   {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
	TableMXFP4: {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
	TableNF4:   {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127},
}

// Rounded reports whether the numbers are not quite those that codes stand for.
func (t Table) Rounded() bool { return t == TableNF4 }

// Number returns what a code of 4 bits stands for.
func (t Table) Number(code byte) int8 { return tables[t][code] }
