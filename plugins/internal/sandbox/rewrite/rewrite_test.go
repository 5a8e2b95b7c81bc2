package rewrite_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tgi/plugins/internal/sandbox/rewrite"
)

// TestPieces covers fills and copies above the size that runs in one piece, overlapping both ways, and out of range.
func TestPieces(t *testing.T) {
	module := func(op ...byte) []byte {
		return wasm(
			section(1, vec(functype("iii", ""))), section(3, vec(leb(0), leb(0))), section(5, vec([]byte{0, 40})),
			section(7, vec(cat(name("op"), []byte{0, 0}), cat(name("pattern"), []byte{0, 1}))),
			section(10, vec(
				fn(cat([]byte{0x20, 0, 0x20, 1, 0x20, 2}, op)...),
				// pattern(from, step, to): a store of from*step at every from, four bytes apart
				fn(0x03, 0x40, 0x20, 0, 0x20, 0, 0x20, 1, 0x6c, 0x36, 2, 0, 0x20, 0, 0x41, 4, 0x6a, 0x22, 0, 0x20, 2,
					0x49, 0x0d, 0, 0x0b),
			)),
		)
	}
	const piece = 1 << 18
	for opName, op := range map[string][]byte{"fill": {0xfc, 11, 0}, "copy": {0xfc, 10, 0, 0}} {
		plain, rewritten := newWorld(t, false), newWorld(t, true)
		rewritten.slice = 1000
		a, err := plain.load("", module(op...))
		if err != nil {
			t.Fatal(err)
		}
		b, err := rewritten.load("", module(op...))
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]uint64{
			{0, 5, piece}, {0, 5, piece + 1}, {1, 0, 2*piece + 7}, {0, 1, 2*piece + 7}, {piece / 2, 0, 5 * piece},
			{0, piece / 2, 5 * piece},
			{0, 0, 10 * piece}, {1, 0, 10*piece - 1}, {0, 1, 10*piece - 1}, {1, 0, 10 * piece}, {0, 1 << 31, 3 * piece},
			{1<<32 - 1, 0, 1<<32 - 1}, {0, 0, 1<<32 - 1}, {10 * piece, 3, 0}, {10*piece + 1, 3, 0},
		} {
			for i, m := range []api.Module{a, b} {
				if out := []*world{plain, rewritten}[i].call(m, "pattern", 0, 2654435761, 10*piece); out.trap != "" {
					t.Fatal(out.trap)
				}
			}
			rewritten.ticks = 0
			if err := same(plain.call(a, "op", args...), rewritten.call(b, "op", args...)); err != nil {
				t.Errorf("%s %v: %v", opName, args, err)
			}
			if err := sameMemory(a, b); err != nil {
				t.Errorf("%s %v: %v", opName, args, err)
			}
			inside := max(args[0], args[1]*uint64(len(op)-3))+args[2] <= 10*piece
			if want := int(args[2] / piece); inside && rewritten.ticks < want {
				t.Errorf("%s %v: %d ticks, %d wanted", opName, args, rewritten.ticks, want)
			}
		}
	}
}

// TestLimits exceeds each limit by one and checks that the error names it.
func TestLimits(t *testing.T) {
	void := functype("", "")
	nested := func(n int) []byte {
		return cat(slices.Repeat([]byte{0x02, 0x40}, n), slices.Repeat([]byte{0x0b}, n))
	}
	export := func(n string) []byte { return cat(name(n), []byte{2, 0}) }
	memory := section(5, vec([]byte{0, 1}))
	imp := func(n string) []byte { return cat(name("m"), name(n), []byte{0, 0}) }
	for _, c := range []struct {
		what   string
		limits rewrite.Limits
		good   []byte
		bad    []byte
	}{
		{"bytes of module", rewrite.Limits{ModuleBytes: 8}, wasm(), wasm(section(0, name("x")))},
		{"types", rewrite.Limits{Types: 1}, wasm(section(1, vec(void))), wasm(section(1, vec(void, void)))},
		{"functions", rewrite.Limits{Functions: 1}, single("", ""), wasm(section(1, vec(void)),
			section(3, vec(leb(0), leb(0))), section(10, vec(fn(), fn())))},
		{"bytes of function body", rewrite.Limits{BodyBytes: 4}, single("", "", 0x01, 0x01), single("", "", 0x01, 0x01,
			0x01)},
		{"nested blocks", rewrite.Limits{Depth: 3}, single("", "", nested(2)...), single("", "", nested(3)...)},
		{"parameters", rewrite.Limits{Params: 1}, single("i", ""), single("ii", "")},
		{"results", rewrite.Limits{Params: 1}, wasm(section(1, vec(functype("", "i")))),
			wasm(section(1, vec(functype("", "ii"))))},
		{"imports", rewrite.Limits{Imports: 1}, wasm(section(1, vec(void)), section(2, vec(imp("a")))),
			wasm(section(1, vec(void)), section(2, vec(imp("a"), imp("b"))))},
		{"exports", rewrite.Limits{Exports: 1}, wasm(memory, section(7, vec(export("a")))),
			wasm(memory, section(7, vec(export("a"), export("b"))))},
		{"globals", rewrite.Limits{Globals: 1}, wasm(section(6, vec([]byte{0x7f, 0, 0x41, 0, 0x0b}))),
			wasm(section(6, vec([]byte{0x7f, 0, 0x41, 0, 0x0b}, []byte{0x7f, 0, 0x41, 0, 0x0b})))},
		{"tables", rewrite.Limits{Tables: 1}, wasm(section(4, vec([]byte{0x70, 0, 1}))),
			wasm(section(4, vec([]byte{0x70, 0, 1}, []byte{0x70, 0, 1})))},
		{"elements of tables", rewrite.Limits{TableElements: 5}, wasm(section(4, vec([]byte{0x70, 0, 5}))),
			wasm(section(4, vec([]byte{0x70, 0, 6})))},
		{"data segments", rewrite.Limits{Segments: 1}, wasm(memory, section(11, vec([]byte{1, 0}))),
			wasm(memory, section(11, vec([]byte{1, 0}, []byte{1, 0})))},
		{"pages of memory", rewrite.Limits{MemoryPages: 1}, wasm(memory), wasm(section(5, vec([]byte{0, 2})))},
		{"bytes in a name", rewrite.Limits{NameBytes: 2}, wasm(memory, section(7, vec(export("ab")))),
			wasm(memory, section(7, vec(export("abc"))))},
		{"bytes of rewritten", rewrite.Limits{OutputBytes: 100}, wasm(), single("", "")},
		{"locals", rewrite.Limits{Locals: 3}, wasm(section(1, vec(void)), section(3, vec(leb(0))),
			section(10, vec(sized([]byte{1, 3, 0x7f, 0x0b})))),
			wasm(section(1, vec(void)), section(3, vec(leb(0))),
				section(10, vec(sized([]byte{2, 3, 0x7f, 1, 0x7e, 0x0b}))))},
		{"locals times blocks", rewrite.Limits{LocalsByJoins: 3}, wasm(section(1, vec(void)), section(3, vec(leb(0))),
			section(10, vec(sized([]byte{1, 3, 0x7f, 0x02, 0x40, 0x0b, 0x0b})))),
			wasm(section(1, vec(void)), section(3, vec(leb(0))),
				section(10, vec(sized([]byte{1, 4, 0x7f, 0x02, 0x40, 0x0b, 0x0b}))))},
	} {
		if _, _, err := rewrite.Rewrite(c.good, c.limits); err != nil {
			t.Errorf("%s: at the limit: %v", c.what, err)
		}
		_, _, err := rewrite.Rewrite(c.bad, c.limits)
		var limit *rewrite.LimitError
		if !errors.As(err, &limit) || !strings.HasPrefix(limit.What, c.what) || limit.Value <= limit.Limit {
			t.Errorf("%s: beyond the limit: %v", c.what, err)
		}
	}
}

// TestLimitsOfDefaults checks that every field has a default.
func TestLimitsOfDefaults(t *testing.T) {
	d := rewrite.Limits{}.WithDefaults()
	for _, v := range []int{d.ModuleBytes, d.Types, d.Functions, d.BodyBytes, d.Locals, d.LocalsByJoins, d.Depth,
		d.Params, d.Imports,
		d.Exports, d.Globals, d.Tables, d.TableElements, d.Segments, d.MemoryPages, d.NameBytes, d.OutputBytes} {
		if v <= 0 {
			t.Errorf("%+v", d)
		}
	}
	if got := (rewrite.Limits{Types: 3}).WithDefaults().Types; got != 3 {
		t.Errorf("a limit that was set became %d", got)
	}
}

// TestFuelFollowsWork: a function like a Go guest's, one loop around a br_table over large blocks, is charged for about
// what it runs and never for less.
func TestFuelFollowsWork(t *testing.T) {
	work := slices.Repeat([]byte{0x23, 0, 0x41, 1, 0x6a, 0x24, 0}, 100) // 400 instructions
	const blocks = 20
	// f(which, times): run block which, times times
	code := []byte{0x03, 0x40}
	code = append(code, slices.Repeat([]byte{0x02, 0x40}, blocks)...)
	code = append(code, 0x20, 0, 0x0e)
	code = append(code, leb(blocks-1)...)
	for i := range blocks {
		code = append(code, leb(i)...)
	}
	for i := range blocks {
		code = append(code, 0x0b)
		code = append(code, work...)
		code = append(code, 0x20, 1, 0x41, 1, 0x6b, 0x22, 1, 0x0d)
		code = append(code, leb(blocks-1-i)...) // the loop
		code = append(code, 0x0f)
	}
	code = append(code, 0x0b)
	bin := wasm(section(1, vec(functype("ii", ""))), section(3, vec(leb(0))),
		section(6, vec([]byte{0x7f, 1, 0x41, 0, 0x0b})),
		section(7, vec(cat(name("f"), []byte{0, 0}))), section(10, vec(fn(code...))))
	w := newWorld(t, true)
	w.slice = 1 << 40
	m, err := w.load("", bin)
	if err != nil {
		t.Fatal(err)
	}
	fuel := m.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
	for _, which := range []uint64{0, 7, blocks - 1} {
		fuel.Set(1 << 40)
		if out := w.call(m, "f", which, 1000); out.trap != "" {
			t.Fatal(out.trap)
		}
		used := 1<<40 - int64(fuel.Get())
		if ran := int64(1000 * (400 + 8)); used < ran || used > ran*3 {
			t.Errorf("block %d: used %d for about %d instructions", which, used, ran)
		}
	}
}

// TestNames shows that traps name the input's functions, and that a damaged name section is left out.
func TestNames(t *testing.T) {
	names := func(body []byte) []byte { return section(0, cat(name("name"), body)) }
	good := section(1, vec(cat(leb(0), name("inner"))))
	for _, c := range []struct {
		body []byte
		want string
	}{{good, "inner"}, {section(1, vec(cat(leb(9), name("inner")))), "$1"}, {[]byte{1, 0x80}, "$1"}, {nil, "$1"}} {
		out, _, err := rewrite.Rewrite(append(single("", "", 0x00), names(c.body)...), rewrite.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, true)
		m, err := w.runtime.InstantiateWithConfig(context.Background(), out, wazero.NewModuleConfig())
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.ExportedFunction("f").Call(context.Background())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %q wanted", err, c.want)
		}
	}
}

// TestLoopExits leaves loops by every kind of branch, which all have one more block to cross in a doubled loop, and
// counts what a call through a table costs.
func TestLoopExits(t *testing.T) {
	for _, code := range [][]byte{
		// loop in two blocks: br_table to the loop, the inner block (20 + a) or the outer (30)
		{0x02, 0x40, 0x02, 0x40, 0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x41, 3, 0x71, 0x0e, 3, 0, 1, 2, 0, 0x0b,
			0x41, 10, 0x0f, 0x0b, 0x41, 20, 0x20, 0, 0x6a, 0x0f, 0x0b, 0x41, 30},
		// br_if out of the loop, br to its head: a + b
		{0x02, 0x40, 0x03, 0x40, 0x20, 0, 0x45, 0x0d, 1, 0x20, 0, 0x41, 1, 0x6b, 0x21, 0, 0x20, 1, 0x41, 1, 0x6a, 0x21,
			1, 0x0c, 0, 0x0b, 0x0b, 0x20, 1},
		// out of a block within the loop, past the loop
		{0x02, 0x40, 0x03, 0x40, 0x02, 0x40, 0x20, 0, 0x45, 0x0d, 2, 0x20, 1, 0x45, 0x0d, 0, 0x20, 1, 0x41, 1, 0x6b,
			0x21, 1, 0x0b,
			0x20, 0, 0x41, 1, 0x6b, 0x21, 0, 0x0c, 0, 0x0b, 0x0b, 0x20, 1},
		// a call, then a loop that is left by a return: in a wrapped body that is a branch
		{0x20, 0, 0x10, 1, 0x1a, 0x03, 0x40, 0x20, 0, 0x45, 0x04, 0x40, 0x20, 1, 0x0f, 0x0b, 0x20, 0, 0x41, 1, 0x6b,
			0x21, 0,
			0x20, 1, 0x41, 1, 0x6a, 0x21, 1, 0x0c, 0, 0x0b, 0x00},
	} {
		for _, slice := range []int64{0, 1, 7, 1000} {
			plain, rewritten := newWorld(t, false), newWorld(t, true)
			rewritten.slice = slice
			rewritten.maxTicks = 1 << 20
			a, err := plain.load("", rich(code...))
			if err != nil {
				t.Fatal(err)
			}
			b, err := rewritten.load("", rich(code...))
			if err != nil {
				t.Fatal(err)
			}
			for x := range uint64(9) {
				if err := same(plain.call(a, "f", x, 100-x*12, 0), rewritten.call(b, "f", x, 100-x*12, 0)); err != nil {
					t.Errorf("slice %d, f(%d): %v", slice, x, err)
				}
			}
		}
	}
}

// TestIndirectLeaf: a leaf that is not charged at its entry is paid for by a call through a table too.
func TestIndirectLeaf(t *testing.T) {
	w := newWorld(t, true)
	m, err := w.load("", rich(0x20, 0, 0x41, 0, 0x11, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	fuel := m.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
	fuel.Set(1000)
	if out := w.call(m, "f", 4, 0, 0); out.trap != "" || out.values[0] != 8 {
		t.Fatal(out)
	}
	if used := 1000 - int64(fuel.Get()); used < 4+4 {
		t.Errorf("used %d: less than the instructions that ran", used)
	}
}

// TestDepth: recursion is reported where the frames pass StackBytes, and not before. That every way out of a body gives
// its frame back is part of what world.call compares.
func TestDepth(t *testing.T) {
	// f(n): n nested calls
	bin := rich(0x20, 0, 0x45, 0x04, 0x7f, 0x41, 0, 0x05, 0x20, 0, 0x41, 1, 0x6b, 0x41, 0, 0x41, 0, 0x10, 0, 0x0b)
	w := newWorld(t, true)
	w.slice = 1 << 40
	m, err := w.load("", bin)
	if err != nil {
		t.Fatal(err)
	}
	m.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal).Set(1 << 40)
	const frame = 96 + 8*3 + 22/4
	for _, c := range []struct{ calls, ticks int }{{1, 0}, {rewrite.StackBytes/frame - 1, 0},
		{rewrite.StackBytes / frame, 1}, {rewrite.StackBytes/frame + 4, 5}} {
		w.ticks = 0
		if out := w.call(m, "f", uint64(c.calls), 0, 0); out.trap != "" {
			t.Fatal(out.trap)
		}
		if w.ticks != c.ticks {
			t.Errorf("%d nested calls: %d ticks, want %d", c.calls+1, w.ticks, c.ticks)
		}
	}
}

// TestManyBlockTypes: functions that call and have results of thousands of types are rewritten in time that grows with
// their number, not with its square.
func TestManyBlockTypes(t *testing.T) {
	const n = 9_000
	types, funcs, bodies := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	for i := range n {
		results := []byte("iiiiiiiiiiiiiiiiiiii")
		for bit := range 14 {
			if i>>bit&1 == 1 {
				results[bit] = 'I'
			}
		}
		types[i], funcs[i] = functype("", string(results)), leb(i)
		bodies[i] = fn(0x10, byte(0), 0x00)
	}
	began := time.Now()
	if _, _, err := rewrite.Rewrite(wasm(section(1, vec(types...)), section(3, vec(funcs...)),
		section(10, vec(bodies...))), rewrite.Limits{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("rewritten after %v", took)
	}
}

// TestLaterFeatures: a module with what came after core 2.0 is refused with the feature's name.
func TestLaterFeatures(t *testing.T) {
	void := section(1, vec(functype("", "")))
	code := func(b ...byte) []byte { return wasm(void, section(3, vec(leb(0))), section(10, vec(fn(b...)))) }
	one := func(id byte, item ...byte) []byte { return wasm(section(id, vec(item))) }
	for feature, modules := range map[string][][]byte{
		"exceptions": {code(0x06, 0x40, 0x0b), code(0x08, 0), code(0x0a), code(0x1f, 0x40, 0, 0x0b),
			wasm(void, section(13, vec([]byte{0, 0}))),
			wasm(void, section(2, vec(cat(name("m"), name("n"), []byte{4, 0, 0})))), one(1, 0x60, 1, 0x69, 0),
			one(7, append(name("tag"), 4, 0)...)},
		"tail calls": {code(0x12, 0), code(0x13, 0, 0), code(0x15, 0)},
		"threads":    {code(0xfe, 3, 0), code(0x41, 0, 0xfe, 0x10, 2, 0, 0x1a), one(5, 3, 1, 2)},
		"memory64":   {one(5, 4, 1), one(5, 5, 1, 2)},
		"multi-memory": {wasm(section(5, vec([]byte{0, 1}, []byte{0, 1}))),
			wasm(void, section(3, vec(leb(0))), section(5, vec([]byte{0, 1})),
				section(10, vec(fn(0x41, 0, 0x28, 0x42, 1, 0, 0x1a))))},
		"GC": {code(0xfb, 0, 0), one(1, 0x5f, 0), one(1, 0x50, 0, 0x5f, 0),
			one(1, 0x4e, 1, 0x60, 0, 0), one(1, 0x60, 1, 0x6e, 0), code(0x02, 0x6e, 0x0b)},
		"typed function references": {code(0x14, 0), code(0xd5, 0), one(1, 0x60, 1, 0x64, 0x70, 0),
			one(4, 0x40, 0, 0x70, 0, 1, 0xd0, 0x70, 0x0b)},
		"relaxed SIMD":      {code(0xfd, 0x80, 2)},
		"custom page sizes": {one(5, 8, 1, 0)},
		"stack switching":   {one(1, 0x5d, 0)},
		"component; a plugin is a core module: build for the target wasm32-wasip1": {[]byte("\x00asm\x0d\x00\x01\x00")},
	} {
		for i, m := range modules {
			if _, _, err := rewrite.Rewrite(m, rewrite.Limits{}); err == nil ||
				!strings.Contains(err.Error(), feature) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s %d: %v", feature, i, err)
			}
		}
	}
}
