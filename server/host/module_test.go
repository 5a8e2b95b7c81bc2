package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// A module is a plugin of kind logits, or guard, assembled by hand. It does nothing; tests
// replace the bodies of single exports.
type module struct {
	description string
	guard       bool // its kind
	imports     []importFunc
	bodies      map[string][]byte // by export; without locals and the final end
	locals      map[string][]byte // by export, as they stand in front of a body; none where it is missing
	extra       []extraFunc       // further functions, behind the exports
	sections    []byte            // appended as they are
	dataCount   bool              // there is a section with the number of data segments
}

type importFunc struct {
	module, name    string
	params, results []byte
}

type extraFunc struct {
	params, results []byte
	body            []byte
}

// Value types, and where things lie in the module's memory.
const (
	i32, i64, f32 = 0x7f, 0x7e, 0x7d

	stepAt    = 1024
	outAt     = 1200
	textAt    = 2048
	heapAt    = 65536
	memPages  = 32
	maxPages  = 4096
	stepOut   = stepAt + 40
	stepCount = stepAt + 44
	stepMode  = stepAt + 36

	guardCount    = stepAt + 8
	guardReleased = stepAt + 20
	guardVerdict  = stepAt + 44
	guardPosition = stepAt + 48
	guardOut      = stepAt + 52
	guardOutCount = stepAt + 56

	unreached  = 0x00
	opCall     = 0x10
	opI32Const = 0x41
	opI64Const = 0x42
)

// exports are those of kind logits, in the order of their functions.
var exports = []struct {
	name            string
	params, results []byte
}{
	{"tgi_abi_v1", nil, nil},
	{"tgi_alloc", []byte{i32}, []byte{i32}},
	{"tgi_describe", nil, []byte{i64}},
	{"tgi_init", []byte{i32, i32}, []byte{i64}},
	{"tgi_validate", []byte{i32, i32}, []byte{i64}},
	{"tgi_logits_step", nil, []byte{i32}},
	{"tgi_logits_begin", []byte{i32, i32, i32, i32}, []byte{i64}},
	{"tgi_logits_process", []byte{i32}, []byte{i32}},
}

// guardExports are those of kind guard.
var guardExports = append(slices.Clone(exports[:5]), []struct {
	name            string
	params, results []byte
}{
	{"tgi_guard_step", nil, []byte{i32}},
	{"tgi_guard_begin", []byte{i32, i32, i32, i32}, []byte{i64}},
	{"tgi_guard_check", []byte{i32}, []byte{i32}},
}...)

func newModule(modes string) *module {
	return &module{
		description: fmt.Sprintf(`{"name":"hostile","version":"1","kinds":["logits"],"modes":[%s]}`, modes),
		bodies:      map[string][]byte{},
	}
}

// newGuard is a module of kind guard, which lets everything go.
func newGuard() *module {
	return &module{
		guard: true,
		description: `{"name":"hostile","version":"1","kinds":["guard"],"guard":{"hold":16,"verdicts":["rewind",` +
			`"insert","replace","stop"]}}`,
		bodies: map[string][]byte{"tgi_guard_check": letGo()},
	}
}

// letGo is a body of tgi_guard_check that releases all.
func letGo() []byte {
	return slices.Concat(push32(guardPosition), push32(guardCount), []byte{0x28, 2, 0, 0x36, 2, 0}, push32(0))
}

// function is the index of the i-th function that is no export.
func (m *module) function(i int) int { return len(m.imports) + len(exports) + i }

func uleb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// sleb is a signed LEB128 number.
func sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func section(id byte, items ...[]byte) []byte {
	body := slices.Concat(append([][]byte{uleb(uint64(len(items)))}, items...)...)
	return slices.Concat([]byte{id}, uleb(uint64(len(body))), body)
}

func text(s string) []byte { return append(uleb(uint64(len(s))), s...) }

func funcType(params, results []byte) []byte {
	return slices.Concat([]byte{0x60}, uleb(uint64(len(params))), params, uleb(uint64(len(results))), results)
}

func push32(v int64) []byte { return append([]byte{opI32Const}, sleb(v)...) }
func push64(v int64) []byte { return append([]byte{opI64Const}, sleb(v)...) }

// store32 writes a constant to an address.
func store32(at, v int64) []byte { return slices.Concat(push32(at), push32(v), []byte{0x36, 2, 0}) }

// answer is a body of tgi_logits_process that gives mode, pointer and count.
func answer(mode, out, count int64) []byte {
	return slices.Concat(store32(stepMode, mode), store32(stepOut, out), store32(stepCount, count), push32(0))
}

// wasm returns the binary.
func (m *module) wasm() []byte {
	bodies := map[string][]byte{
		// The heap grows from the global and is rounded to 16.
		"tgi_alloc": slices.Concat([]byte{0x23, 0, 0x23, 0, 0x20, 0, 0x6a}, push32(15), []byte{0x6a},
			push32(-16), []byte{0x71, 0x24, 0}),
		"tgi_describe":       push64(int64(textAt)<<32 | int64(len(m.description))),
		"tgi_init":           push64(0),
		"tgi_validate":       push64(0),
		"tgi_logits_step":    push32(stepAt),
		"tgi_logits_begin":   push64(0),
		"tgi_logits_process": push32(0),
		"tgi_guard_step":     push32(stepAt),
		"tgi_guard_begin":    push64(0),
	}
	for name, b := range m.bodies {
		bodies[name] = b
	}
	var types, imports, funcs, exported, code [][]byte
	typeOf := func(params, results []byte) []byte {
		t := funcType(params, results)
		i := slices.IndexFunc(types, func(have []byte) bool { return bytes.Equal(have, t) })
		if i < 0 {
			i = len(types)
			types = append(types, t)
		}
		return uleb(uint64(i))
	}
	for _, im := range m.imports {
		imports = append(imports, slices.Concat(text(im.module), text(im.name), []byte{0},
			typeOf(im.params, im.results)))
	}
	add := func(params, results, locals, body []byte) {
		funcs = append(funcs, typeOf(params, results))
		if locals == nil {
			locals = []byte{0}
		}
		f := slices.Concat(locals, body, []byte{0x0b})
		code = append(code, append(uleb(uint64(len(f))), f...))
	}
	exported = append(exported, slices.Concat(text("memory"), []byte{2, 0}))
	list := exports
	if m.guard {
		list = guardExports
	}
	for i, x := range list {
		exported = append(exported, slices.Concat(text(x.name), []byte{0}, uleb(uint64(len(m.imports)+i))))
		add(x.params, x.results, m.locals[x.name], bodies[x.name])
	}
	for _, x := range m.extra {
		add(x.params, x.results, nil, x.body)
	}
	var b bytes.Buffer
	b.WriteString("\x00asm\x01\x00\x00\x00")
	b.Write(section(1, types...))
	if len(imports) > 0 {
		b.Write(section(2, imports...))
	}
	b.Write(section(3, funcs...))
	b.Write(section(5, slices.Concat([]byte{1}, uleb(memPages), uleb(maxPages))))
	b.Write(section(6, slices.Concat([]byte{i32, 1}, push32(heapAt), []byte{0x0b})))
	b.Write(section(7, exported...))
	if m.dataCount {
		b.Write([]byte{12, 1, 1})
	}
	b.Write(section(10, code...))
	b.Write(section(11, slices.Concat([]byte{0}, push32(textAt), []byte{0x0b}, text(m.description))))
	b.Write(m.sections)
	return b.Bytes()
}
