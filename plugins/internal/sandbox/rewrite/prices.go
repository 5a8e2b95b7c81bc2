package rewrite

import "strings"

// What instructions cost. A unit is about a fifth of a nanosecond, a plain instruction costs one: BenchmarkPrices
// measures what a unit takes in each of them, one waiting for the other, and no code is to take more than about four
// times as long as a unit should. Where processors differ the price is for the slower ones (divisions).
//
// Prices do not follow what an operand is, or where an address leads: a load that misses all caches takes some 500
// units, the first touch of a page some 5,000, and to charge every load for that would make each innocent guest dearer
// by as much. The same holds for numbers that a processor computes slowly (denormal ones). What such code takes is
// bounded in time, by the host.
const (
	entryCost = 12 // of a function, beside its instructions
	// a function without calls, loops and sized operations up to this cost is charged by its callers
	leafCost         = 24
	indirectCallCost = leafCost + entryCost // a call_indirect may reach such a leaf
	memoryShift      = 2                    // memory.fill, copy and init: one unit for 4 bytes
	tableShift       = 0                    // table.fill, copy, init and grow: one unit for an element
	growShift        = 13                   // memory.grow: 8192 units for a page of 64 KiB, for the page faults to come
	// memory.fill and memory.copy run in pieces of this many bytes, a tick between them
	pieceBytes = 1 << 18
)

// costs are those of single instructions. The sized ones among them cost so much beside what their size costs.
var costs = map[string]int64{
	"i32.div_s": 10, "i32.div_u": 10, "i32.rem_s": 10, "i32.rem_u": 10,
	"i64.div_s": 16, "i64.div_u": 16, "i64.rem_s": 16, "i64.rem_u": 16,
	"f32.div": 12, "f64.div": 14, "f32x4.div": 14, "f64x2.div": 14,
	"f32.sqrt": 16, "f64.sqrt": 24, "f32x4.sqrt": 16, "f64x2.sqrt": 24,

	"i64x2.shr_s": 16, "i64x2.mul": 5, "f32x4.convert_i32x4_u": 14, // done element by element, or in several steps
	"f32x4.min": 5, "f32x4.max": 5, "f64x2.min": 5, "f64x2.max": 5,

	// These leave the compiled code for the engine.
	"ref.func": 300, "memory.grow": 200, "table.grow": 200,

	"memory.fill": 120, "memory.copy": 60, "memory.init": 24,
	"table.fill": 24, "table.copy": 32, "table.init": 40,
	"data.drop": 4, "elem.drop": 4,
}

// families are the costs of instructions by what is in their names behind the type; the first that fits counts.
var families = []struct {
	simd bool
	part string
	cost int64
}{
	{true, "trunc_sat", 12}, {true, "convert", 8}, {true, "_true", 8}, {true, "extmul", 6}, {true, "bitmask", 4},
	{true, "load", 5}, {true, "splat", 4}, {true, "extract_lane", 4}, {true, "", 2},
	{false, "trunc_", 6}, {false, "convert", 6}, {false, "reinterpret", 3}, {false, "demote", 3}, {false, "promote", 3},
	{false, "ceil", 3}, {false, "floor", 3}, {false, "trunc", 3}, {false, "nearest", 3},
}

// costOf returns the cost of an instruction by its name.
func costOf(name string) int64 {
	if c, ok := costs[name]; ok {
		return c
	}
	of, op, _ := strings.Cut(name, ".")
	simd := of == "v128" || strings.Contains(of, "x")
	for _, f := range families {
		if f.simd == simd && op != "" && strings.Contains(op, f.part) {
			return f.cost
		}
	}
	if (of == "f32" || of == "f64") && comparisons[op] {
		return 2
	}
	return 1
}

var comparisons = map[string]bool{"eq": true, "ne": true, "lt": true, "gt": true, "le": true, "ge": true}
