package check

import (
	"tgi/sdk/abi"
)

// assembly is a hand-written module: functions that are all exported, one memory, one global (mutable, i32) and
// one piece of data. It is as much of WebAssembly as a guest without a toolchain needs: the baseline of [Bench], and
// what the tests break.
type assembly struct {
	imports []imported
	funcs   []exported
	memory  []string // names under which it is exported
	pages   int
	global  uint32 // first value
	dataAt  uint32
	data    string
}

type imported struct {
	module string
	abi.Func
}

type exported struct {
	abi.Func
	code []byte // of the body, without locals and the final end
}

// Where things lie in the memory of the guest that does nothing.
const (
	noopStep  = 0x100
	noopText  = 0x200
	noopHeap  = 0x1000
	noopPages = 16
)

const noopDescription = `{"name":"noop","version":"1.0.0","kinds":["logits"]}`

// noop is a guest of kind logits that changes nothing.
func noop() assembly {
	text := abi.Pack(noopText, uint32(len(noopDescription)))
	code := map[string][]byte{
		abi.Marker: nil,
		"tgi_alloc": join(
			// Nothing is left when the heap and the size go beyond the memory.
			[]byte{0x23, 0, 0xad, 0x20, 0, 0xad, 0x7c, 0x42}, signed(noopPages*pageBytes),
			[]byte{0x56, 0x04, 0x40, 0x41, 0, 0x0f, 0x0b},
			// The heap's end is the result; it moves on by the size, rounded up to 16.
			[]byte{0x23, 0, 0x23, 0, 0x20, 0, 0x6a, 0x41, 15, 0x6a, 0x41, 0x70, 0x71, 0x24, 0}),
		"tgi_describe":       join([]byte{0x42}, signed(int64(text))),
		"tgi_init":           {0x42, 0},
		"tgi_validate":       {0x42, 0},
		"tgi_logits_step":    join([]byte{0x41}, signed(noopStep)),
		"tgi_logits_begin":   {0x42, 0},
		"tgi_logits_process": {0x41, 0},
	}
	a := assembly{memory: []string{abi.Memory}, pages: noopPages, global: noopHeap, dataAt: noopText,
		data: noopDescription}
	for _, list := range [][]abi.Func{abi.Common, abi.Logits} {
		for _, f := range list {
			a.funcs = append(a.funcs, exported{f, code[f.Name]})
		}
	}
	return a
}

// encode writes the binary format: one type for each function.
func (a assembly) encode() []byte {
	var types, imports, funcs, exports, bodies [][]byte
	for i, f := range a.imports {
		types = append(types, functype(f.Func))
		imports = append(imports, join(named(f.module), named(f.Name), []byte{0}, unsigned(i)))
	}
	for i, f := range a.funcs {
		i += len(a.imports)
		types = append(types, functype(f.Func))
		funcs = append(funcs, unsigned(i))
		exports = append(exports, join(named(f.Name), []byte{0}, unsigned(i)))
		bodies = append(bodies, sized(join([]byte{0}, f.code, []byte{0x0b})))
	}
	for _, name := range a.memory {
		exports = append(exports, join(named(name), []byte{2, 0}))
	}
	return join([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, types...), section(2, imports...), section(3, funcs...),
		section(5, join([]byte{0}, unsigned(a.pages))),
		section(6, join([]byte{0x7f, 1, 0x41}, signed(int64(a.global)), []byte{0x0b})),
		section(7, exports...), section(10, bodies...),
		section(11, join([]byte{0, 0x41}, signed(int64(a.dataAt)), []byte{0x0b}, sized([]byte(a.data)))),
	)
}

func section(id byte, items ...[]byte) []byte {
	return join([]byte{id}, sized(join(unsigned(len(items)), join(items...))))
}

func functype(f abi.Func) []byte {
	b := join([]byte{0x60}, unsigned(len(f.Params)))
	for _, p := range f.Params {
		b = append(b, byte(p))
	}
	b = append(b, byte(len(f.Results)))
	for _, r := range f.Results {
		b = append(b, byte(r))
	}
	return b
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func named(s string) []byte { return sized([]byte(s)) }

func sized(b []byte) []byte { return join(unsigned(len(b)), b) }

// unsigned and signed are LEB128 of the binary format.
func unsigned(v int) (b []byte) {
	for ; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}

func signed(v int64) (b []byte) {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}
