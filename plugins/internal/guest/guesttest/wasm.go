package guesttest

import (
	"bytes"
	"slices"

	"tgi/sdk/abi"
)

// module is a WebAssembly module in the making: one memory, one mutable global (the heap's top), functions and data.
type module struct {
	imports, funcs []function
	pages, most    uint32
	heap           uint32
	data           []segment
	hideMemory     bool
	table          bool
}

type function struct {
	abi.Func
	code []byte // without the final end; no locals
}

type segment struct {
	at   uint32
	text string
}

func leb(v uint64) (b []byte) {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

func signed(v int64) (b []byte) {
	for {
		c := byte(v) & 0x7f
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func name(s string) []byte { return append(leb(uint64(len(s))), s...) }

func section(id byte, items ...[]byte) []byte {
	body := append(leb(uint64(len(items))), slices.Concat(items...)...)
	return slices.Concat([]byte{id}, leb(uint64(len(body))), body)
}

func types(ts []abi.Type) []byte {
	b := leb(uint64(len(ts)))
	for _, t := range ts {
		b = append(b, byte(t))
	}
	return b
}

// bytes encodes the module. Each function has a type of its own.
func (m *module) bytes() []byte {
	var typ, imp, fn, exp, code, data [][]byte
	for i, f := range m.imports {
		typ = append(typ, slices.Concat([]byte{0x60}, types(f.Params), types(f.Results)))
		imp = append(imp, slices.Concat(name(abi.ImportModule), name(f.Name), []byte{0}, leb(uint64(i))))
	}
	for i, f := range m.funcs {
		index := leb(uint64(len(m.imports) + i))
		typ = append(typ, slices.Concat([]byte{0x60}, types(f.Params), types(f.Results)))
		fn = append(fn, index)
		exp = append(exp, slices.Concat(name(f.Name), []byte{0}, index))
		body := slices.Concat([]byte{0}, f.code, []byte{0x0b})
		code = append(code, append(leb(uint64(len(body))), body...))
	}
	if !m.hideMemory {
		exp = append(exp, append(name(abi.Memory), 2, 0))
	}
	for _, d := range m.data {
		data = append(data, slices.Concat([]byte{0, 0x41}, signed(int64(int32(d.at))), []byte{0x0b}, name(d.text)))
	}
	var table []byte
	if m.table {
		table = section(4, []byte{0x70, 0, 1})
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, typ...), section(2, imp...), section(3, fn...),
		table,
		section(5, slices.Concat([]byte{1}, leb(uint64(m.pages)), leb(uint64(m.most)))),
		section(6, slices.Concat([]byte{byte(abi.I32), 1, 0x41}, signed(int64(int32(m.heap))), []byte{0x0b})),
		section(7, exp...), section(10, code...), section(11, data...))
}

// Code is the body of a function, without locals. Pieces are joined by [Join].
type Code []byte

// Join makes one body of several pieces.
func Join(parts ...Code) Code { return slices.Concat(parts...) }

// Const puts an i32 on the stack.
func Const(v uint32) Code { return append(Code{0x41}, signed(int64(int32(v)))...) }

// Long puts an i64 on the stack.
func Long(v uint64) Code { return append(Code{0x42}, signed(int64(v))...) }

// Arg puts a parameter on the stack.
func Arg(i uint32) Code { return append(Code{0x20}, leb(uint64(i))...) }

// Store writes a u32 to an address.
func Store(at, v uint32) Code { return Join(Const(at), Const(v), Code{0x36, 2, 0}) }

// Load puts the u32 at an address on the stack.
func Load(at uint32) Code { return Join(Const(at), Code{0x28, 2, 0}) }

// Add puts the sum of the two i32 on top of the stack there.
func Add() Code { return Code{0x6a} }

// Put writes the i32 on top of the stack to the address below it.
func Put() Code { return Code{0x36, 2, 0} }

// Sub puts the difference of the two i32 on top of the stack there.
func Sub() Code { return Code{0x6b} }

// Equal puts 1 on the stack if the two i32 there are equal, else 0.
func Equal() Code { return Code{0x46} }

// Grow asks for pages of memory and forgets the answer.
func Grow(pages uint32) Code { return Join(Const(pages), Code{0x40, 0, 0x1a}) }

// Trap is unreachable.
func Trap() Code { return Code{0x00} }

// SetTable writes to the table, which no snapshot can hold.
func SetTable() Code { return Join(Const(0), Code{0xd0, 0x70, 0x26, 0}) }

// Bomb is code that a compiler works on for minutes, in a function whose first argument is an i32: one long chain of
// branches behind which that argument is read.
func Bomb() Code {
	return Join(Code{0x02, 0x40, 0x20, 0, 0x0d, 0, 0x41, 1, 0x21, 0}, bytes.Repeat(Code{0x20, 0, 0x0d, 0}, 100_000),
		Code{0x0b, 0x20, 0, 0x1a})
}

// Spin never ends.
func Spin() Code { return Code{0x03, 0x40, 0x0c, 0, 0x0b, 0x00} }

// Call calls an import of a [Fake], by its index there.
func Call(i uint32) Code { return append(Code{0x10}, leb(uint64(i))...) }

// When runs code unless the top of the stack is 0.
func When(code Code) Code { return Join(Code{0x04, 0x40}, code, Code{0x0b}) }

// Next gives one i64 after the other of a list at an address, one at each call; it counts at another address, from 0.
func Next(counter, list uint32) Code {
	return Join(Const(counter), Load(counter), Const(8), Add(), Put(), Load(counter), Code{0x29, 3},
		leb(uint64(list-8)))
}

// Copy copies bytes within memory.
func Copy(to, from, n Code) Code { return Join(to, from, n, Code{0xfc, 10, 0, 0}) }

// Bytes are u32 as they lie in memory.
func Bytes(ws ...uint32) string {
	b := make([]byte, 0, 4*len(ws))
	for _, w := range ws {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return string(b)
}
