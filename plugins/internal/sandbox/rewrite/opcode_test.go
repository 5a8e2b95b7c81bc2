package rewrite_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"tgi/plugins/internal/sandbox/rewrite"
)

// bodies gives, for the instructions that need surroundings, the code of rich's function.
var bodies = map[string][]byte{
	"unreachable": {0x20, 0, 0x04, 0x40, 0x00, 0x0b, 0x41, 3},
	"nop":         {0x01, 0x20, 0},
	"block":       {0x02, 0x7f, 0x20, 0, 0x0b},
	"loop": {0x20, 0, 0x41, 0x1f, 0x71, 0x21, 0, 0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x41, 0, 0x4a,
		0x0d, 0, 0x0b, 0x20, 0},
	"if":            {0x20, 0, 0x04, 0x7f, 0x20, 1, 0x05, 0x20, 2, 0x0b},
	"else":          {0x20, 0, 0x04, 0x7f, 0x41, 5, 0x05, 0x41, 6, 0x0b},
	"end":           {0x41, 7},
	"br":            {0x02, 0x7f, 0x20, 0, 0x0c, 0, 0x0b},
	"br_if":         {0x02, 0x7f, 0x20, 0, 0x20, 1, 0x0d, 0, 0x1a, 0x41, 9, 0x0b},
	"br_table":      {0x02, 0x40, 0x02, 0x40, 0x20, 0, 0x0e, 1, 0, 1, 0x0b, 0x41, 1, 0x0f, 0x0b, 0x41, 2},
	"return":        {0x20, 1, 0x0f},
	"call":          {0x20, 0, 0x10, 1},
	"call_indirect": {0x20, 0, 0x20, 1, 0x11, 1, 0},
	"drop":          {0x20, 0, 0x1a, 0x20, 1},
	"select":        {0x20, 0, 0x20, 1, 0x20, 2, 0x1b},
	"local.get":     {0x20, 2},
	"local.set":     {0x20, 2, 0x21, 0, 0x20, 0},
	"local.tee":     {0x20, 1, 0x22, 0, 0x20, 0, 0x6a},
	"global.get":    {0x23, 0},
	"global.set":    {0x20, 0, 0x24, 0, 0x23, 0},
	"table.get":     {0x20, 0, 0x25, 0, 0xd1},
	"table.set":     {0x20, 0, 0xd2, 1, 0x26, 0, 0x20, 0, 0x25, 0, 0xd1},
	"memory.size":   {0x3f, 0},
	"memory.grow":   {0x20, 0, 0x40, 0, 0x3f, 0, 0x6a},
	"ref.null":      {0xd0, 0x6f, 0xd1},
	"ref.is_null":   {0x20, 0, 0x25, 0, 0xd1},
	"ref.func":      {0xd2, 1, 0xd1},
	"memory.init":   {0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 8, 0, 0, 0x41, 0, 0x28, 2, 0},
	"data.drop":     {0xfc, 9, 0, 0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 8, 0, 0, 0x41, 1},
	"memory.copy":   {0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 10, 0, 0, 0x41, 0, 0x28, 2, 0},
	"memory.fill":   {0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 11, 0, 0x41, 0, 0x28, 2, 0},
	"table.init":    {0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 12, 1, 0, 0x41, 5, 0x41, 0, 0x11, 1, 0},
	"elem.drop":     {0xfc, 13, 1, 0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 12, 1, 0, 0x41, 1},
	"table.copy":    {0x20, 0, 0x20, 1, 0x20, 2, 0xfc, 14, 0, 0, 0x41, 5, 0x41, 0, 0x11, 1, 0},
	"table.grow":    {0xd0, 0x6f, 0x20, 0, 0xfc, 15, 1, 0xfc, 16, 1, 0x6a},
	"table.size":    {0xfc, 16, 0},
	"table.fill":    {0x20, 0, 0xd2, 1, 0x20, 1, 0xfc, 17, 0, 0x20, 0, 0x25, 0, 0xd1},
}

var scalars = map[string]string{"i8x16": "i", "i16x8": "i", "i32x4": "i", "i64x2": "I", "f32x4": "f", "f64x2": "F",
	"i32": "i", "i64": "I", "f32": "f", "f64": "F", "v128": "v"}

var (
	comparison = regexp.MustCompile(`^(eq|ne|[lg][te](_[su])?)$`)
	unary      = regexp.MustCompile(`^(clz|ctz|popcnt|extend\d+_s|abs|neg|ceil|floor|trunc|nearest|sqrt)$`)
	fromType   = regexp.MustCompile(`_([if](32|64))`)
	simdUnary  = regexp.MustCompile(`^(abs|neg|popcnt|ceil|floor|trunc|nearest|sqrt|not|extend_.*|extadd_.*|trunc_sat.*|convert.*|demote.*|promote.*)$`)
)

// signature derives operands, results and immediates of an instruction from its name.
func signature(n string) (params, results string, imm []byte) {
	prefix, op, _ := strings.Cut(n, ".")
	x := scalars[prefix]
	switch {
	case strings.HasSuffix(op, "const"):
		size := map[string]int{"i": 1, "I": 1, "f": 4, "F": 8, "v": 16}[x]
		return "", x, append([]byte{0x21, 0x43}, make([]byte, 16)...)[:size]
	case strings.HasPrefix(op, "load") && strings.HasSuffix(op, "_lane"):
		return "iv", "v", []byte{0, 3, 1}
	case strings.HasPrefix(op, "store") && strings.HasSuffix(op, "_lane"):
		return "iv", "", []byte{0, 3, 1}
	case strings.HasPrefix(op, "load"):
		return "i", x, []byte{0, 5}
	case strings.HasPrefix(op, "store"):
		return "i" + x, "", []byte{0, 5}
	}
	if strings.Contains(prefix, "x") || prefix == "v128" {
		switch {
		case op == "splat":
			return x, "v", nil
		case strings.HasPrefix(op, "extract_lane"):
			return "v", x, []byte{1}
		case op == "replace_lane":
			return "v" + x, "v", []byte{1}
		case strings.HasPrefix(op, "sh") && op != "shuffle":
			return "vi", "v", nil
		case op == "shuffle":
			return "vv", "v", []byte{31, 0, 1, 17, 4, 5, 6, 7, 8, 30, 10, 11, 12, 13, 14, 16}
		case op == "all_true" || op == "any_true" || op == "bitmask":
			return "v", "i", nil
		case op == "bitselect":
			return "vvv", "v", nil
		case simdUnary.MatchString(op):
			return "v", "v", nil
		}
		return "vv", "v", nil
	}
	switch {
	case op == "eqz":
		return x, "i", nil
	case comparison.MatchString(op):
		return x + x, "i", nil
	case unary.MatchString(op):
		return x, x, nil
	case fromType.MatchString(op):
		return scalars[fromType.FindStringSubmatch(op)[1]], x, nil
	}
	return x + x, x, nil
}

// operand returns values of which many are at the edges.
func operand(r *rand.Rand, t rune) []uint64 {
	switch t {
	case 'i':
		return []uint64{uint64(uint32([]int64{0, 1, 2, 3, 9, 200, -1, math.MinInt32, math.MaxInt32,
			r.Int64()}[r.IntN(10)]))}
	case 'I':
		return []uint64{uint64([]int64{0, 1, 63, -1, math.MinInt64, math.MaxInt64, r.Int64()}[r.IntN(7)])}
	case 'f':
		f := []float32{0, -1.5, 0.5, 1e10, -3e30, float32(math.Inf(1)), float32(math.NaN()), r.Float32()}[r.IntN(8)]
		return []uint64{uint64(math.Float32bits(f))}
	case 'F':
		return []uint64{math.Float64bits([]float64{0, -1.5, 0.5, 1e10, -3e300, math.Inf(-1), math.NaN(),
			r.Float64()}[r.IntN(8)])}
	}
	if r.IntN(2) == 0 {
		return append(operand(r, 'F'), operand(r, 'F')...)
	}
	return []uint64{r.Uint64(), r.Uint64()}
}

// TestEveryInstruction runs each instruction of core 2.0 in both worlds over edge values.
func TestEveryInstruction(t *testing.T) {
	ops := rewrite.Opcodes()
	if want := 177 + 6 + 18 + 236; len(ops) != want {
		t.Errorf("%d instructions in the tables, core 2.0 has %d", len(ops), want)
	}
	plain, rewritten := newWorld(t, false), newWorld(t, true)
	for _, op := range ops {
		r := rand.New(rand.NewPCG(1, 2))
		params := "iii"
		var bin []byte
		if body, ok := bodies[op.Name]; ok {
			if op.Bytes[0] == 0x1c {
				body = append(append([]byte(nil), body[:6]...), 0x1c, 1, 0x7f)
			}
			bin = rich(body...)
		} else {
			p, results, imm := signature(op.Name)
			params = p
			var code []byte
			for i := range p {
				code = append(code, 0x20, byte(i))
			}
			bin = single(p, results, cat(code, op.Bytes, imm)...)
		}
		a, err := plain.load("", bin)
		if err != nil {
			t.Errorf("%s: the test's module is wrong: %v", op.Name, err)
			continue
		}
		b, err := rewritten.load("", bin)
		if err != nil {
			t.Errorf("%s: rewritten: %v", op.Name, err)
			continue
		}
		for range 12 {
			var args []uint64
			for _, p := range params {
				args = append(args, operand(r, p)...)
			}
			if err := same(plain.call(a, "f", args...), rewritten.call(b, "f", args...)); err != nil {
				t.Errorf("%s %x: %v", op.Name, args, err)
			}
			if err := sameMemory(a, b); err != nil {
				t.Errorf("%s %x: %v", op.Name, args, err)
			}
		}
	}
}

// TestBeyondCore shows that every other opcode is refused, with its offset, and the named ones by name.
func TestBeyondCore(t *testing.T) {
	known := map[string]bool{}
	for _, op := range rewrite.Opcodes() {
		known[string(op.Bytes)] = true
	}
	refused := 0
	refuse := func(op []byte) {
		bin := single("", "", append(op, 0, 0, 0, 0)...)
		_, _, err := rewrite.Rewrite(bin, rewrite.Limits{})
		var fault *rewrite.Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), "is not an instruction of WebAssembly core 2.0") {
			t.Errorf("opcode %x: %v", op, err)
		} else if got := bin[fault.Offset]; got != op[0] {
			t.Errorf("opcode %x: offset 0x%x holds 0x%x", op, fault.Offset, got)
		}
		refused++
	}
	for op := range 256 {
		if op != 0xfc && op != 0xfd && op != 0xfb && op != 0xfe && !known[string([]byte{byte(op)})] {
			refuse([]byte{byte(op)})
		}
	}
	for _, prefix := range []byte{0xfb, 0xfc, 0xfd, 0xfe} {
		for sub := range 320 {
			if op := append([]byte{prefix}, leb(sub)...); !known[string(op)] {
				refuse(op)
			}
		}
	}
	if refused < 500 {
		t.Errorf("%d opcodes tried", refused)
	}
	for text, op := range map[string][]byte{
		"return_call (tail calls)": {0x12, 0}, "throw (exceptions)": {0x08, 0}, "try_table (exceptions)": {0x1f},
		"atomic.fence (threads)": {0xfe, 3, 0}, "opcode 0xfb 0x0 (GC)": {0xfb, 0}, "(relaxed SIMD)": {0xfd, 0x80, 2},
		"memory.grow of memory 1 (multi-memory)":      {0x41, 0, 0x40, 1},
		"i32.load with a memory index (multi-memory)": {0x41, 0, 0x28, 0x42, 0, 0},
	} {
		_, _, err := rewrite.Rewrite(single("", "", op...), rewrite.Limits{})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%x: %v, %q wanted", op, err, text)
		}
	}
	for text, bin := range map[string][]byte{
		"multi-memory": wasm(section(5, vec([]byte{0, 1}, []byte{0, 1}))),
		"memory64":     wasm(section(5, vec([]byte{4, 1}))),
		"threads":      wasm(section(5, vec([]byte{3, 1, 1}))),
		"exceptions":   wasm(section(13, vec([]byte{0, 0}))),
		"(GC)":         wasm(section(1, vec([]byte{0x5f, 0}))),
		"component":    []byte("\x00asm\x0d\x00\x01\x00"),
		"extended":     wasm(section(6, vec([]byte{0x7f, 0, 0x41, 1, 0x41, 1, 0x6a, 0x0b}))),
	} {
		_, _, err := rewrite.Rewrite(bin, rewrite.Limits{})
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, %q wanted", err, text)
		}
	}
}
