// Package attend computes the attention of steps that decode on a CUDA device: one new token for each sequence, whose
// keys and values lie in blocks of a cache. One kernel does all of it: it normalises and rotates the new heads,
// writes the new key and value to the cache, and attends. A block of threads computes all heads of queries that share
// a head of keys, so that keys and values are read once; where a step has few of these, the keys of each are split
// among blocks.
//
// attend.cu also compiles as C for the tests, which compare it with a definition in 64-bit floats. A sequence's result
// depends on itself and on the number of parts, which the caller chooses by sizes that the host knows.
//
// The package starts no goroutines and has no state.
//
// The reasons behind it: docs/rationale/gpu.md.
package attend

import (
	_ "embed" // the kernels
	"fmt"
	"strings"
)

// The kernels for CUDA devices of compute capability 8.0 and above, as PTX, which the driver compiles.
//
//go:embed attend.ptx
var text string

// headDims are the sizes of heads that there are kernels for.
var headDims = []int{16, 32, 64, 80, 96, 128, 256}

// Sizes of a launch: heads of queries that a block computes, for one head of keys; the fewest keys for which another
// part is worth its price, and the most parts.
const (
	Heads     = 16
	PartKeys  = 64
	MostParts = 32
)

// Threads returns the threads of a block: each warp takes so much memory, and that of large heads is for two.
func Threads(headDim int) int {
	if headDim > 128 {
		return 64
	}
	return 128
}

// PartBytes returns what a block keeps in the device's memory where a step has several parts.
func PartBytes(headDim int) int { return Heads * (headDim + 2) * 4 }

// Kernel returns the PTX of the kernel for heads of a size, of fp16 or else bf16 numbers, and its name; an empty text
// where there is none. Drivers compile all that they are given, so it is the one kernel.
//
// Its parameters are the addresses of: queries, keys and values of the new tokens; the result; the cache's keys and
// values; the table of blocks [sequences, width]; the tokens in the cache, and the new one's slot, negative for none,
// of each sequence; cosines and sines by position; weights of the norms of queries and keys; a score for each head
// that takes a share and gives nothing; memory of PartBytes for each block of the grid, and a word for each of its
// columns, which are 0 between launches. Absent ones are 0. Then, of 4 bytes each: the numbers from one token's
// queries to the next, and of its keys; the heads, and those of keys; the tokens of a block; the width; the numbers
// of a head that are rotated; 1 if pairs of these are neighbours; the window, 0 for none; the parts; as floats the
// scale, the bound of scores, 0 for none, and what is added to squares in norms. The grid is sequences by heads of
// keys by tiles of Heads of the queries' heads that share one; and by the parts.
func Kernel(headDim int, half bool) (ptx, name string) {
	name = fmt.Sprintf("tgi_attend_%d", headDim)
	if half {
		name += "_half"
	}
	const entry, end = ".visible .entry ", "\n}\n"
	head, _, _ := strings.Cut(text, entry)
	_, rest, found := strings.Cut(text, entry+name+"(")
	body, _, whole := strings.Cut(rest, end)
	if !found || !whole {
		return "", name
	}
	return head + entry + name + "(" + body + end, name
}
