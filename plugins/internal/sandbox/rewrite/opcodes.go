package rewrite

import "fmt"

// immediate says what follows an opcode.
type immediate byte

const (
	immNone immediate = iota
	immBlock
	immLabel
	immLabels // br_table
	immFunc
	immIndirect // type, table
	immLocal
	immGlobal
	immTable
	immMemory // a zero byte
	immMemArg
	immMemArgLane
	immI32
	immI64
	immF32
	immF64
	immRefType
	immTypes // select t*
	immLane
	imm16         // v128.const, i8x16.shuffle
	immData       // data.drop
	immDataMem    // memory.init
	immMemMem     // memory.copy
	immElem       // elem.drop
	immElemTable  // table.init
	immTableTable // table.copy
)

// instruction is one entry of the opcode tables. An entry without a name does not exist in core 2.0.
type instruction struct {
	name string
	imm  immediate
	cost int64
}

// Opcodes that the rewriter treats specially.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opRefNull      = 0xd0
	opRefFunc      = 0xd2
	prefixGC       = 0xfb
	prefixMisc     = 0xfc
	prefixSIMD     = 0xfd
	prefixThreads  = 0xfe

	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17

	simdV128Const = 12
)

// plain holds the one-byte opcodes.
var plain = func() (t [256]instruction) {
	set := func(from int, imm immediate, names ...string) {
		for i, n := range names {
			t[from+i] = instruction{n, imm, costOf(n)}
		}
	}
	set(0x00, immNone, "unreachable", "nop")
	set(0x02, immBlock, "block", "loop", "if")
	set(0x05, immNone, "else")
	set(0x0b, immNone, "end")
	set(0x0c, immLabel, "br", "br_if")
	set(0x0e, immLabels, "br_table")
	set(0x0f, immNone, "return")
	set(0x10, immFunc, "call")
	set(0x11, immIndirect, "call_indirect")
	set(0x1a, immNone, "drop", "select")
	set(0x1c, immTypes, "select")
	set(0x20, immLocal, "local.get", "local.set", "local.tee")
	set(0x23, immGlobal, "global.get", "global.set")
	set(0x25, immTable, "table.get", "table.set")
	set(0x28, immMemArg, "i32.load", "i64.load", "f32.load", "f64.load",
		"i32.load8_s", "i32.load8_u", "i32.load16_s", "i32.load16_u",
		"i64.load8_s", "i64.load8_u", "i64.load16_s", "i64.load16_u", "i64.load32_s", "i64.load32_u",
		"i32.store", "i64.store", "f32.store", "f64.store",
		"i32.store8", "i32.store16", "i64.store8", "i64.store16", "i64.store32")
	set(0x3f, immMemory, "memory.size", "memory.grow")
	set(0x41, immI32, "i32.const")
	set(0x42, immI64, "i64.const")
	set(0x43, immF32, "f32.const")
	set(0x44, immF64, "f64.const")
	set(0x45, immNone, "i32.eqz", "i32.eq", "i32.ne", "i32.lt_s", "i32.lt_u", "i32.gt_s", "i32.gt_u", "i32.le_s",
		"i32.le_u", "i32.ge_s", "i32.ge_u")
	set(0x50, immNone, "i64.eqz", "i64.eq", "i64.ne", "i64.lt_s", "i64.lt_u", "i64.gt_s", "i64.gt_u", "i64.le_s",
		"i64.le_u", "i64.ge_s", "i64.ge_u")
	set(0x5b, immNone, "f32.eq", "f32.ne", "f32.lt", "f32.gt", "f32.le", "f32.ge",
		"f64.eq", "f64.ne", "f64.lt", "f64.gt", "f64.le", "f64.ge")
	set(0x67, immNone, "i32.clz", "i32.ctz", "i32.popcnt", "i32.add", "i32.sub", "i32.mul", "i32.div_s", "i32.div_u",
		"i32.rem_s", "i32.rem_u", "i32.and", "i32.or", "i32.xor", "i32.shl", "i32.shr_s", "i32.shr_u", "i32.rotl",
		"i32.rotr")
	set(0x79, immNone, "i64.clz", "i64.ctz", "i64.popcnt", "i64.add", "i64.sub", "i64.mul", "i64.div_s", "i64.div_u",
		"i64.rem_s", "i64.rem_u", "i64.and", "i64.or", "i64.xor", "i64.shl", "i64.shr_s", "i64.shr_u", "i64.rotl",
		"i64.rotr")
	set(0x8b, immNone, "f32.abs", "f32.neg", "f32.ceil", "f32.floor", "f32.trunc", "f32.nearest", "f32.sqrt", "f32.add",
		"f32.sub", "f32.mul", "f32.div", "f32.min", "f32.max", "f32.copysign")
	set(0x99, immNone, "f64.abs", "f64.neg", "f64.ceil", "f64.floor", "f64.trunc", "f64.nearest", "f64.sqrt", "f64.add",
		"f64.sub", "f64.mul", "f64.div", "f64.min", "f64.max", "f64.copysign")
	set(0xa7, immNone, "i32.wrap_i64", "i32.trunc_f32_s", "i32.trunc_f32_u", "i32.trunc_f64_s", "i32.trunc_f64_u",
		"i64.extend_i32_s", "i64.extend_i32_u", "i64.trunc_f32_s", "i64.trunc_f32_u", "i64.trunc_f64_s",
		"i64.trunc_f64_u",
		"f32.convert_i32_s", "f32.convert_i32_u", "f32.convert_i64_s", "f32.convert_i64_u", "f32.demote_f64",
		"f64.convert_i32_s", "f64.convert_i32_u", "f64.convert_i64_s", "f64.convert_i64_u", "f64.promote_f32",
		"i32.reinterpret_f32", "i64.reinterpret_f64", "f32.reinterpret_i32", "f64.reinterpret_i64",
		"i32.extend8_s", "i32.extend16_s", "i64.extend8_s", "i64.extend16_s", "i64.extend32_s")
	set(0xd0, immRefType, "ref.null")
	set(0xd1, immNone, "ref.is_null")
	set(0xd2, immFunc, "ref.func")
	return t
}()

// misc holds the opcodes behind the prefix 0xfc.
var misc = func() (t [18]instruction) {
	for i, x := range []struct {
		name string
		imm  immediate
	}{
		{"i32.trunc_sat_f32_s", immNone}, {"i32.trunc_sat_f32_u", immNone},
		{"i32.trunc_sat_f64_s", immNone}, {"i32.trunc_sat_f64_u", immNone},
		{"i64.trunc_sat_f32_s", immNone}, {"i64.trunc_sat_f32_u", immNone},
		{"i64.trunc_sat_f64_s", immNone}, {"i64.trunc_sat_f64_u", immNone},
		miscMemoryInit: {"memory.init", immDataMem},
		miscDataDrop:   {"data.drop", immData},
		miscMemoryCopy: {"memory.copy", immMemMem},
		miscMemoryFill: {"memory.fill", immMemory},
		miscTableInit:  {"table.init", immElemTable},
		miscElemDrop:   {"elem.drop", immElem},
		miscTableCopy:  {"table.copy", immTableTable},
		miscTableGrow:  {"table.grow", immTable},
		miscTableSize:  {"table.size", immTable},
		miscTableFill:  {"table.fill", immTable},
	} {
		t[i] = instruction{x.name, x.imm, costOf(x.name)}
	}
	return t
}()

// beyond names what core 2.0 does not have, by opcode, with the proposal that adds it.
var beyond = map[byte]string{
	0x06: "try (exceptions)", 0x07: "catch (exceptions)", 0x08: "throw (exceptions)", 0x09: "rethrow (exceptions)",
	0x0a: "throw_ref (exceptions)", 0x12: "return_call (tail calls)", 0x13: "return_call_indirect (tail calls)",
	0x14: "call_ref (typed function references)", 0x15: "return_call_ref (tail calls)", 0x18: "delegate (exceptions)",
	0x19: "catch_all (exceptions)", 0x1f: "try_table (exceptions)", 0xd3: "ref.eq (GC)",
	0xd4: "ref.as_non_null (typed function references)", 0xd5: "br_on_null (typed function references)",
	0xd6: "br_on_non_null (typed function references)",
}

// opcode reads an opcode with its prefix. sub is the opcode behind the prefix.
func (r *reader) opcode() (op byte, sub uint32, in instruction) {
	off := r.pos
	op = r.u8()
	switch op {
	case prefixMisc:
		if sub = r.u32(); sub < uint32(len(misc)) {
			in = misc[sub]
		}
	case prefixSIMD:
		if sub = r.u32(); sub < uint32(len(simd)) {
			in = simd[sub]
		}
	case prefixGC, prefixThreads:
		sub = r.u32()
	default:
		in = plain[op]
	}
	if in.name == "" && r.ok() {
		r.errorf(off, "%s is not an instruction of WebAssembly core 2.0", unknownName(op, sub))
	}
	return op, sub, in
}

func unknownName(op byte, sub uint32) string {
	switch {
	case beyond[op] != "":
		return beyond[op]
	case op == prefixGC:
		return fmt.Sprintf("opcode 0xfb 0x%x (GC)", sub)
	case op == prefixThreads:
		if sub == 3 {
			return "atomic.fence (threads)"
		}
		return fmt.Sprintf("opcode 0xfe 0x%x (threads)", sub)
	case op == prefixSIMD && sub >= 0x100:
		return fmt.Sprintf("opcode 0xfd 0x%x (relaxed SIMD)", sub)
	case op == prefixSIMD, op == prefixMisc:
		return fmt.Sprintf("opcode 0x%x 0x%x", op, sub)
	}
	return fmt.Sprintf("opcode 0x%x", op)
}
