// Package rewrite turns an untrusted WebAssembly module into one that can be metered, interrupted and snapshotted.
//
// It owns the binary format: it decodes every instruction of WebAssembly core 2.0, refuses what lies beyond (threads,
// tail calls, exceptions, GC, memory64, multi-memory, relaxed SIMD) with the byte offset and the instruction's name,
// enforces the limits of [Limits], and injects
//
//   - fuel: an i64 global that holds what is left of the current slice, charged at function entries, at loop headers
//     and, in large bodies, at the joins between them (see charge.go for the rule and why it is an upper bound);
//   - the import "tgi" "tick", called when the slice is used up; the host refills the global or ends the call;
//   - charges by size for bulk memory and table operations and for memory.grow; large fills and copies run in pieces;
//   - depth: an i32 global that holds a bound of the bytes on the engine's stack, raised and lowered around every body
//     that calls; tick is called where it passes StackBytes, so that the host can end the call before the stack, which
//     the engine grows by copying, takes hundreds of megabytes;
//   - exports of every mutable global (and accessors for those of type v128, which the engine's API can't set whole);
//   - an export of the start function, whose start section is removed: the host calls it, under fuel like any call.
//
// Apart from fuel the output behaves as the input did, and an input that is invalid gives an error here or an output
// that is invalid too: no index of the input can reach what was added. The package checks structure and index ranges;
// types are checked by the engine when it compiles the output.
//
// Names that start with "tgi." are reserved for what is added here.
package rewrite

import (
	"fmt"
	"strconv"
)

// Reserved names in the output.
const (
	ReservedPrefix = "tgi."     // no export of the input may start with it
	TickModule     = "tgi"      // module of the added import
	TickName       = "tick"     // name of the added import, of type () -> ()
	FuelGlobal     = "tgi.fuel" // export: mutable i64, what is left of the slice; negative when tick is called
	// export: mutable i32, at most the bytes on the stack and what it was before the call; above StackBytes when tick
	// is called
	DepthGlobal   = "tgi.depth"
	StartFunc     = "tgi.start"    // export: the input's start function, if it had one
	globalPrefix  = "tgi.global."  // export: mutable global, followed by its index
	getV128Prefix = "tgi.getv128." // export: () -> (i64 low, i64 high), followed by the global's index
	setV128Prefix = "tgi.setv128." // export: (i64 low, i64 high) -> (), followed by the global's index
)

// StackBytes bounds the frames of nested calls, by the estimate of frameBytes. Deep recursion of honest guests (a
// parser of nested values) stays far below it. Growing the stack so far takes about a millisecond, and the collector
// another: a host that wants to be asked earlier sets the global to more than 0 before the call.
const StackBytes = 2 << 20

// frameBytes estimates the stack of one call of a function: the engine's own part, a slot for each parameter and local,
// and what the operands of a body of so many bytes may need at once.
func frameBytes(slots, body int) int { return 96 + 8*slots + body/4 }

// ValueType is a type of WebAssembly in its binary encoding.
type ValueType byte

// The value types of core 2.0.
const (
	I32       ValueType = 0x7f
	I64       ValueType = 0x7e
	F32       ValueType = 0x7d
	F64       ValueType = 0x7c
	V128      ValueType = 0x7b
	FuncRef   ValueType = 0x70
	ExternRef ValueType = 0x6f
)

// String returns the type's name in the text format.
func (t ValueType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case V128:
		return "v128"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	}
	return fmt.Sprintf("type 0x%02x", byte(t))
}

// Signature is a function's type.
type Signature struct{ Params, Results []ValueType }

// String returns the signature as "(i32 i32) -> (i64)".
func (s Signature) String() string {
	return typeList(s.Params) + " -> " + typeList(s.Results)
}

// Equal reports whether both have the same parameters and results.
func (s Signature) Equal(o Signature) bool { return s.String() == o.String() }

func typeList(ts []ValueType) string {
	b := []byte{'('}
	for i, t := range ts {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, t.String()...)
	}
	return string(append(b, ')'))
}

// Kind says what an import or export is.
type Kind byte

// The kinds of imports and exports, in their binary encoding.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
	kindTag    Kind = 4 // of later versions
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case KindFunc:
		return "function"
	case KindTable:
		return "table"
	case KindMemory:
		return "memory"
	case KindGlobal:
		return "global"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Import is one import of the input.
type Import struct {
	Module, Name string
	Kind         Kind
	Sig          Signature // of a function
}

// Export is one export of the input.
type Export struct {
	Name string
	Kind Kind
	Sig  Signature // of a function
}

// Global is a mutable global of the input (imported ones included) and the name under which the output exports it.
type Global struct {
	Name string
	Type ValueType
	Get  string // accessors of a v128 global; empty otherwise
	Set  string
}

// Info describes the input and what became of it.
type Info struct {
	Imports []Import
	Exports []Export
	Globals []Global
	Start   bool // the output exports StartFunc

	HasMemory bool
	MemoryMin uint32 // pages of 64 KiB
	MemoryMax uint32 // declared maximum in pages; 65536 when none is declared

	// HiddenState names an instruction or global through which the guest can keep state that is neither in memory nor
	// in a numeric global (tables, dropped segments, references), with its byte offset. Empty when there is none; such
	// a guest can be snapshotted.
	HiddenState string

	Functions int // defined by the input
}

// Error is a fault of the input, at a byte offset of it.
type Error struct {
	Offset int
	Text   string
}

// Error returns "offset 0x2a: text".
func (e *Error) Error() string { return fmt.Sprintf("offset 0x%x: %s", e.Offset, e.Text) }

// Rewrite checks wasm against the limits and returns the module with fuel injected. The input is not kept or changed.
// The error is an *[Error], or a *[LimitError] where a limit was passed.
func Rewrite(wasm []byte, limits Limits) ([]byte, *Info, error) {
	m, err := decode(wasm, limits)
	if err != nil {
		return nil, nil, err
	}
	out, err := m.encode()
	if err != nil {
		return nil, nil, err
	}
	return out, m.info(), nil
}
