package rewrite_test

// A small encoder for the tests' own modules.

func leb(v int) []byte {
	var b []byte
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func cat(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func vec(items ...[]byte) []byte { return append(leb(len(items)), cat(items...)...) }

func section(id byte, body []byte) []byte { return cat([]byte{id}, leb(len(body)), body) }

func name(s string) []byte { return append(leb(len(s)), s...) }

var valueTypes = map[rune]byte{'i': 0x7f, 'I': 0x7e, 'f': 0x7d, 'F': 0x7c, 'v': 0x7b, 'r': 0x70, 'x': 0x6f}

func functype(params, results string) []byte {
	list := func(s string) []byte {
		b := leb(len(s))
		for _, c := range s {
			b = append(b, valueTypes[c])
		}
		return b
	}
	return cat([]byte{0x60}, list(params), list(results))
}

// fn is a function body without locals.
func fn(code ...byte) []byte { return sized(cat([]byte{0}, code, []byte{0x0b})) }

func sized(b []byte) []byte { return append(leb(len(b)), b...) }

func wasm(sections ...[]byte) []byte { return cat([]byte("\x00asm\x01\x00\x00\x00"), cat(sections...)) }

// single is a module with one exported function "f", a page of memory with a pattern in it, and nothing else.
func single(params, results string, code ...byte) []byte {
	pattern := make([]byte, 256)
	for i := range pattern {
		pattern[i] = byte(i*37 + 11)
	}
	return wasm(
		section(1, vec(functype(params, results))),
		section(3, vec(leb(0))),
		section(5, vec([]byte{0, 1})),
		section(7, vec(cat(name("f"), []byte{0, 0}), cat(name("m"), []byte{2, 0}))),
		section(10, vec(fn(code...))),
		section(11, vec(cat([]byte{0, 0x41, 0, 0x0b}, sized(pattern)))),
	)
}

// rich is a module whose exported function "f" (i32 i32 i32) -> i32 has everything around it: two other functions
// (index 1: i32 -> i32 doubles; 2: () -> ()), a table of functions and one of externrefs, passive segments, globals of
// every type (0 to 4 mutable, 5 a funcref), and a memory.
func rich(code ...byte) []byte {
	zero := func(t rune, expr ...byte) []byte { return cat([]byte{valueTypes[t], 1}, expr, []byte{0x0b}) }
	return wasm(
		section(1, vec(functype("iii", "i"), functype("i", "i"), functype("", ""))),
		section(3, vec(leb(0), leb(1), leb(2))),
		section(4, vec([]byte{0x70, 0, 4}, []byte{0x6f, 1, 2, 8})),
		section(5, vec([]byte{1, 1, 3})),
		section(6, vec(zero('i', 0x41, 1), zero('I', 0x42, 2), zero('f', 0x43, 0, 0, 0x80, 0x3f),
			zero('F', 0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f), zero('v', append([]byte{0xfd, 12}, make([]byte, 16)...)...),
			zero('r', 0xd2, 1))),
		section(7, vec(cat(name("f"), []byte{0, 0}), cat(name("double"), []byte{0, 1}), cat(name("m"), []byte{2, 0}))),
		section(9, vec(cat([]byte{0, 0x41, 0, 0x0b}, vec(leb(1), leb(2), leb(0))),
			cat([]byte{1, 0}, vec(leb(2), leb(1))))),
		section(12, leb(1)),
		section(10, vec(fn(code...), fn(0x20, 0, 0x20, 0, 0x6a), fn())),
		section(11, vec(cat([]byte{1}, sized([]byte("passive data"))))),
	)
}
