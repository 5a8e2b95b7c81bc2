// Package lowrank adds low-rank adapters (LoRA) to products on a CUDA device, where rows of one step may have different
// adapters, or none.
//
// Matrix.Add is the definition in Go. lowrank.cu does the same on a device, and also compiles as C for the tests: both
// give the same bits, because every operation that rounds is written down. So a row's result depends on nothing but the
// row and its adapter. On the CPU adapters are added by an operator of runtime/ort, in 32 bits.
//
// The package starts no goroutines and has no state.
//
// The reasons behind it: docs/rationale/gpu.md.
package lowrank

import (
	_ "embed" // the kernels
	"encoding/binary"
	"fmt"
	"math"
)

// Matrix is what an adapter adds to one matrix of the model: Scale * B(A x). Rank is 0 where the adapter leaves the
// matrix alone; its sizes are set all the same.
type Matrix struct {
	// In and Out are the sizes of the matrix. Its results are columns Offset to Offset+Out of the product that
	// computes it, which may stack several matrices.
	In, Out, Offset int
	Rank            int
	Scale           float32
	// BFloat16 says that A and B hold bfloat16 numbers, not 32-bit floats; little-endian.
	BFloat16 bool
	// A [Rank, In] and B [Rank, Out], which is transposed.
	A, B []byte
}

// MaxRank is the highest rank of an adapter.
const MaxRank = 1024

// ElementBytes returns the bytes of a number of A and B.
func (m *Matrix) ElementBytes() int {
	if m.BFloat16 {
		return 2
	}
	return 4
}

// Check returns an error for the first value that is out of range.
func (m *Matrix) Check() error {
	size := m.ElementBytes()
	switch {
	case m.Rank == 0:
		return nil
	case m.Rank < 0 || m.Rank > MaxRank:
		return fmt.Errorf("rank %d, must be between 0 and %d", m.Rank, MaxRank)
	case m.In < 1 || m.Out < 1 || m.Offset < 0:
		return fmt.Errorf("a matrix of %d by %d at column %d", m.Out, m.In, m.Offset)
	case len(m.A) != m.Rank*m.In*size || len(m.B) != m.Rank*m.Out*size:
		return fmt.Errorf("%d and %d bytes, a rank of %d takes %d and %d", len(m.A), len(m.B), m.Rank, m.Rank*m.In*size,
			m.Rank*m.Out*size)
	}
	return nil
}

// The kernels for CUDA devices of compute capability 8.0 and above, as PTX, which the driver compiles. The parameters
// of Shrink are the addresses of x [tokens, in], of the products [tokens, ProductBytes], and of each token's adapter
// [tokens], which is the address of its image or 0; then tokens, in, the first of the node's matrices and how many
// they are, 1 for fp16 and 0 for bf16, and the tile, a power of two up to MaxTile, all of 4 bytes. Those of Expand
// begin with y [tokens, width] instead of x, and have width instead of in. The grid is tokens by any number of blocks
// for Shrink, and by the tiles of Threads columns for Expand. Neighbours of a tile with the same adapter share its
// numbers.
//
//go:embed lowrank.ptx
var Kernel string

// Functions of Kernel, and their sizes.
const (
	Shrink, Expand = "tgi_lora_shrink", "tgi_lora_expand"
	Threads        = 256
	MaxTile        = 8
	ProductBytes   = 3 * MaxRank * 4
)

// Layout of lowrank.cu.
const (
	siteBytes = 40
	chunk     = 8  // columns
	lanes     = 32 // threads that share a row of A
	alignment = 256
)

func align(n int) int { return (n + alignment - 1) &^ (alignment - 1) }

// roundUp returns the columns of A on the device.
func roundUp(columns int) int { return (columns + chunk - 1) / chunk * chunk }

// Bytes returns the size of an adapter's image.
func Bytes(list []Matrix) int64 {
	n := int64(align(len(list) * siteBytes))
	for i := range list {
		m := &list[i]
		n += int64(align(m.Rank*roundUp(m.In)*m.ElementBytes()) + align(m.Rank*m.Out*m.ElementBytes()))
	}
	return n
}

// Image writes the image of an adapter, whose matrices were checked, to memory of Bytes bytes, which are zeros. It is
// for the address at.
func Image(to []byte, list []Matrix, at uint64) {
	next := align(len(list) * siteBytes)
	for i := range list {
		m := &list[i]
		size := m.ElementBytes()
		a, row := next, m.In*size
		for r := range m.Rank {
			copy(to[a+r*roundUp(m.In)*size:], m.A[r*row:][:row])
		}
		b := a + align(m.Rank*roundUp(m.In)*size)
		copy(to[b:], m.B)
		next = b + align(len(m.B))
		site := to[i*siteBytes:]
		binary.LittleEndian.PutUint64(site, at+uint64(a))
		binary.LittleEndian.PutUint64(site[8:], at+uint64(b))
		flag := uint32(0)
		if m.BFloat16 {
			flag = 1
		}
		for j, v := range []uint32{uint32(m.In), uint32(m.Out), uint32(m.Offset), uint32(m.Rank),
			math.Float32bits(m.Scale), flag} {
			binary.LittleEndian.PutUint32(site[16+4*j:], v)
		}
	}
}

// Add returns what the kernels add to the columns of a token's product that are the matrix's, [Out], for x [In]. It is
// the definition. Conversions to float32 keep products from being fused with sums.
func (m *Matrix) Add(x []float32) []float32 {
	out := make([]float32, m.Out)
	for r := range m.Rank {
		var part [lanes]float32
		for l := range part {
			for c := l * chunk; c < m.In; c += lanes * chunk {
				for j := c; j < min(c+chunk, m.In); j++ {
					part[l] += float32(x[j] * m.element(m.A, r*m.In+j))
				}
			}
		}
		var sum [4]float32
		for l, v := range part {
			sum[l%4] += v
		}
		h := float32(sum[0]+sum[1]) + float32(sum[2]+sum[3])
		h *= m.Scale
		for o := range out {
			out[o] += float32(h * m.element(m.B, r*m.Out+o))
		}
	}
	return out
}

// element returns number i of A or B.
func (m *Matrix) element(data []byte, i int) float32 {
	if m.BFloat16 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}
