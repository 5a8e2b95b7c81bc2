package sandbox

import (
	"bytes"
	"slices"
)

// Modules that take a compiler very long. Each is within the limits of package rewrite, or refused by it.

func withSize(b []byte) []byte { return append(uleb(len(b)), b...) }

// times repeats code.
func times(n int, code ...byte) []byte { return bytes.Repeat(code, n) }

// types of functions: params and results are i32.
func funcType(params, results int) []byte {
	return slices.Concat([]byte{0x60}, uleb(params), times(params, 0x7f), uleb(results), times(results, 0x7f))
}

// moduleOf is a module with a memory and functions of one type.
func moduleOf(typ []byte, bodies ...[]byte) []byte {
	indices := make([][]byte, len(bodies))
	for i := range indices {
		indices[i] = []byte{0}
	}
	return wasmOf(section(1, typ), section(3, indices...), section(4, []byte{0x70, 0, 1}), section(5, []byte{0, 1}),
		section(10, bodies...))
}

// bodyOf is a function of code with so many i32 locals.
func bodyOf(locals int, code ...[]byte) []byte {
	head := []byte{0}
	if locals > 0 {
		head = slices.Concat([]byte{1}, uleb(locals), []byte{0x7f})
	}
	return withSize(slices.Concat(head, slices.Concat(code...), []byte{0x0b}))
}

// each emits for every local from 0 to n-1: before, op, the local, after.
func each(n int, before []byte, op byte, after []byte) (b []byte) {
	for i := range n {
		b = slices.Concat(b, before, []byte{op}, uleb(i), after)
	}
	return b
}

const (
	opNop, opBlock, opLoop, opIf, opElse, opEnd, opBr, opBrIf, opBrTable = 0x01, 0x02, 0x03, 0x04, 0x05, 0x0b, 0x0c,
		0x0d, 0x0e
	opDrop, opGet, opSet, opConst, opAdd, opVoid = 0x1a, 0x20, 0x21, 0x41, 0x6a, 0x40
)

// branchChain is one long chain of branches to the same label, where all parameters are read.
func branchChain(params, n int) []byte {
	return moduleOf(funcType(params, 0), bodyOf(0,
		[]byte{opBlock, opVoid, opGet, 0, opBrIf, 0}, each(params, []byte{opConst, 1}, opSet, nil),
		times(n, opGet, 0, opBrIf, 0), []byte{opEnd}, each(params, nil, opGet, []byte{opDrop})))
}

// bombs returns the modules by name. A scale above 1 makes them take longer.
func bombs(scale int) map[string][]byte {
	many := func(n int, body []byte) [][]byte { return slices.Repeat([][]byte{body}, n) }
	table := func(n int) []byte { // br_table with n labels, all the block around it
		return slices.Concat([]byte{opBlock, opVoid, opGet, 0, opBrTable}, uleb(n), make([]byte, n+1), []byte{opEnd})
	}
	segment := slices.Concat([]byte{0, opConst, 0, opEnd}, withSize(make([]byte, 100)))
	return map[string][]byte{
		"branches, 60 parameters": branchChain(60, 20_000*scale),
		"branches, one parameter": branchChain(1, 100_000*scale),
		"one br_table":            moduleOf(funcType(1, 0), bodyOf(0, table(500_000*scale))),
		"many br_tables":          moduleOf(funcType(1, 0), bodyOf(0, bytes.Repeat(table(100), 5_000*scale))),
		"nested blocks": moduleOf(funcType(1, 0), bodyOf(0, times(9_000, opBlock, opVoid),
			times(9_000, opGet, 0, opBrIf, 0, opEnd))),
		"nested loops": moduleOf(funcType(1, 0), bodyOf(0, times(9_000, opLoop, opVoid),
			times(9_000, opGet, 0, opBrIf, 0, opEnd))),
		"locals and blocks": moduleOf(funcType(1, 0),
			bodyOf(4_000, bytes.Repeat(slices.Concat([]byte{opGet, 0, opIf, opVoid}, each(4_000, []byte{opConst, 7},
				opSet, nil), []byte{opEnd}), min(40*scale, 80)), each(4_000, nil, opGet, []byte{opDrop}))),
		"ifs in a row": moduleOf(funcType(1, 0), bodyOf(0, times(60_000*scale, opGet, 0, opIf, opVoid,
			opConst, 1, opSet, 0, opElse, opConst, 2, opSet, 0, opEnd))),
		"one long expression": moduleOf(funcType(1, 0), bodyOf(0, []byte{opGet, 0}, times(200_000*scale, opGet, 0,
			opAdd), []byte{opDrop})),
		"deep expression": moduleOf(funcType(1, 0), bodyOf(0, times(150_000*scale, opGet, 0),
			times(150_000*scale-1, opAdd), []byte{opDrop})),
		"many constants": moduleOf(funcType(0, 0), bodyOf(0, times(250_000*scale, opConst, 3, opDrop))),
		"vectors": moduleOf(funcType(1, 0),
			bodyOf(0, bytes.Repeat(slices.Concat([]byte{0xfd, 12}, make([]byte, 16), []byte{0xfd, 12}, make([]byte, 16),
				[]byte{0xfd, 14, opDrop}), 20_000*scale))),
		"shuffles": moduleOf(funcType(1, 0),
			bodyOf(0, bytes.Repeat(slices.Concat([]byte{opGet, 0, 0xfd, 15, opGet, 0, 0xfd, 15, 0xfd, 13}, times(16, 3),
				[]byte{opDrop}), 20_000*scale))),
		"many functions": moduleOf(funcType(1, 0),
			many(19_000, bodyOf(0, times(20*scale, opGet, 0, opDrop)))...),
		"functions of locals": moduleOf(funcType(1, 0), many(1_000*scale, bodyOf(4_000))...),
		"many calls": moduleOf(funcType(60, 60), bodyOf(0, each(60, nil, opGet, nil),
			bytes.Repeat([]byte{0x10, 0}, 5_000*scale))),
		"data segments": slices.Concat(moduleOf(funcType(1, 0), bodyOf(0)),
			section(11, slices.Repeat([][]byte{segment}, 90_000)...)),
		"stores": moduleOf(funcType(1, 0), bodyOf(0, times(80_000*scale, opGet, 0, opConst, 1, 0x36, 2,
			0))),
		"traps": moduleOf(funcType(1, 0), bodyOf(0, times(80_000*scale, opGet, 0, opGet, 0, 0x6d,
			opDrop))),
		"blocks of many results": moduleOf(funcType(0, 60), bodyOf(0, times(60, opConst, 0),
			times(4_000*scale, opBlock, 0, opBr, 0, opEnd))),
	}
}
