package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/plugins/internal/sandbox/rewrite"
)

// uleb, section and the like write the few modules that no compiler makes.
func uleb(v int) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func section(id byte, items ...[]byte) []byte {
	body := append(uleb(len(items)), slices.Concat(items...)...)
	return slices.Concat([]byte{id}, uleb(len(body)), body)
}

func wasmOf(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), slices.Concat(sections...)...)
}

func str(s string) []byte { return append(uleb(len(s)), s...) }

func body(code ...byte) []byte {
	code = slices.Concat([]byte{0}, code, []byte{0x0b})
	return append(uleb(len(code)), code...)
}

var voidType = []byte{0x60, 0, 0}

// void is a module of one function "f" () -> (), with a table of 10 functions and a page of memory.
func void(code ...byte) []byte {
	return wasmOf(section(1, voidType), section(3, []byte{0}), section(4, []byte{0x70, 0, 10}),
		section(5, []byte{0, 1}),
		section(7, append(str("f"), 0, 0)), section(10, body(code...)))
}

// importing is a module that imports one function of type () -> ().
func importing(module, name string) []byte {
	return wasmOf(section(1, voidType), section(2, slices.Concat(str(module), str(name), []byte{0, 0})))
}

func TestCompileRefuses(t *testing.T) {
	e := engine(t, Config{})
	nop := func(*Instance, []uint64) {}
	host := []HostFunc{{"tgi", "log", Sig("iii:"), nop}}
	many := make([][]byte, 30_000)
	for i := range many {
		many[i] = []byte{0}
	}
	for _, c := range []struct {
		name string
		wasm []byte
		want []Export
		kind error
		text string
	}{
		{"unknown import", importing("env", "abort"), nil, ErrImport,
			`"env" "abort", a function () -> (), is not offered`},
		{"import signature", importing("tgi", "log"), nil, ErrImport,
			`"tgi" "log" is a function () -> (), (i32 i32 i32) -> () wanted`},
		{"tick", importing("tgi", "tick"), nil, ErrImport, "reserved"},
		{"wasi signature", importing("wasi_snapshot_preview1", "fd_write"), nil, ErrImport,
			"(i32 i32 i32 i32) -> (i32) wanted"},
		{"imported memory", wasmOf(section(2, slices.Concat(str("env"), str("memory"), []byte{2, 0, 1}))), nil,
			ErrImport, "only functions can be imported"},
		{"missing export", void(), []Export{{Name: "tgi_init", Sig: Sig("ii:I")}}, ErrExport,
			`"tgi_init" is missing, a function (i32 i32) -> (i64) wanted`},
		{"export signature", void(), []Export{{Name: "f", Sig: Sig("i:")}}, ErrExport,
			`"f" is a function () -> (), (i32) -> () wanted`},
		{"optional, wrong", void(), []Export{{Name: "f", Sig: Sig(":f"), Optional: true}}, ErrExport,
			"() -> (f32) wanted"},
		{"not wasm", []byte("#!/bin/sh"), nil, ErrModule, "not a WebAssembly binary"},
		{"empty", nil, nil, ErrModule, "not a WebAssembly binary"},
		{"100 MB", make([]byte, 100<<20), nil, ErrModule, "104857600 bytes of module, the limit is 16777216"},
		{"10^6 functions", wasmOf(section(1, voidType), append([]byte{3, 0x80, 0x89, 0x7a}, append(uleb(1_000_000),
			make([]byte, 2_000_000)...)...)), nil, ErrModule, "1000000 functions, the limit is 20000"},
		{"30,000 functions", wasmOf(section(1, voidType), section(3, many...)), nil, ErrModule,
			"30000 functions, the limit is 20000"},
		{"memory", wasmOf(section(5, []byte{0, 0x81, 8})), nil, ErrModule, "1025 pages of memory, the limit is 1024"},
		{"table", wasmOf(section(4, []byte{0x70, 0, 0xff, 0xff, 0xff, 0x7f})), nil, ErrModule,
			"elements of tables, the limit is 100000"},
		{"locals", void(append([]byte{}, 0x01)...), nil, nil, ""},
		{"wrong types", void(0x41, 0, 0x1a, 0x1a), nil, ErrModule, ""},
		{"reserved export", wasmOf(section(5, []byte{0, 1}), section(7, append(str("tgi.fuel"), 2, 0))), nil, ErrModule,
			"are reserved"},
	} {
		_, err := e.Compile(context.Background(), c.wasm, ModuleConfig{Name: "bad", Host: host, Exports: c.want})
		if c.kind == nil {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) ||
			!strings.HasPrefix(err.Error(), "bad: ") {
			t.Errorf("%s: %v, %q wanted", c.name, err, c.text)
		}
	}
	// All faults in one error.
	_, err := e.Compile(context.Background(), importing("a", "b"),
		ModuleConfig{Exports: []Export{{Name: "x"}, {Name: "y"}}})
	for _, text := range []string{`"a" "b"`, `"x" is missing`, `"y" is missing`} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %s is not named", err, text)
		}
	}
	if !errors.Is(err, ErrImport) || !errors.Is(err, ErrExport) {
		t.Errorf("%v: matches one kind only", err)
	}
}

// TestHostile runs what guests could try. Every call ends within its budget, as the fault it should be.
func TestHostile(t *testing.T) {
	e := engine(t, Config{})
	c := compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})
	const budget = 2_000_000
	for _, h := range []struct {
		name, export string
		args         []uint64
		kind         error
		cause        string
	}{
		{"endless loop", "spin", []uint64{1<<32 - 1}, ErrFuel, ""},
		{"loop-free recursion", "tree", []uint64{30}, ErrFuel, ""},
		{"endless recursion", "deep", nil, ErrTrap,
			"stack overflow: calls nested deeper than 131072 bytes, twice as much is 4194304 units of fuel, "},
		{"memory.fill storm", "storm", []uint64{1 << 30, 1 << 20}, ErrFuel, ""},
		{"memory bomb", "bomb", []uint64{0}, ErrFuel, ""},
		{"trap", "trap", nil, ErrTrap, "unreachable"},
		{"out of bounds", "sum", []uint64{0xfffffff0, 8}, ErrTrap, "out of bounds memory access"},
	} {
		in := instance(t, c)
		used, err := in.Call(in.Func(h.export), append(h.args, 0), budget)
		var f *Fault
		if !errors.As(err, &f) || !errors.Is(err, h.kind) || f.Kind != h.kind ||
			f.Cause != h.cause && (h.export != "deep" || !strings.HasPrefix(f.Cause, h.cause)) || f.Func != h.export {
			t.Errorf("%s: %v, %v %s wanted", h.name, err, h.kind, h.cause)
			continue
		}
		if h.kind == ErrFuel && (used <= budget || used > budget+2_000_000 || f.Budget != budget || f.Used != used) {
			t.Errorf("%s: used %d of %d", h.name, used, budget)
		}
		if in.MemoryBytes() > 64<<20 {
			t.Errorf("%s: %d bytes of memory", h.name, in.MemoryBytes())
		}
		if _, err := in.Call(in.Func("empty"), nil, budget); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: the instance still runs: %v", h.name, err)
		}
	}
	// With all the fuel in the world, memory and stack have ends of their own.
	in := instance(t, c)
	if got := call1(t, in, "bomb", 0); in.MemoryBytes() != 64<<20 || got == 0 {
		t.Errorf("the bomb got %d pages, %d bytes", got, in.MemoryBytes())
	}
	in = instance(t, compile(t, e, void(0x10, 0), ModuleConfig{}))
	if _, err := in.Call(in.Func("f"), nil, plenty); !errors.Is(err, ErrTrap) ||
		!strings.Contains(err.Error(), "stack overflow") {
		t.Errorf("endless recursion: %v", err)
	}
}

// nesting is a module whose function f nests as many calls as it is told.
func nesting() []byte {
	// f(n): if n == 0 return; f(n-1)
	code := []byte{0x20, 0, 0x45, 0x04, 0x40, 0x0f, 0x0b, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0}
	return wasmOf(section(1, []byte{0x60, 1, 0x7f, 0}), section(3, []byte{0}),
		section(7, append(str("f"), 0, 0)), section(10, body(code...)))
}

// TestStackIsPaid: what the engine's stack grows to is paid in fuel, by each call anew; a call that can't pay ends
// where it is, and one that can at the bound.
func TestStackIsPaid(t *testing.T) {
	c := compile(t, engine(t, Config{}), nesting(), ModuleConfig{})
	const frame = 96 + 8 + 16/4 // see rewrite.frameBytes
	run := func(in *Instance, calls int, fuel int64) (int64, error) {
		return in.Call(in.Func("f"), []uint64{uint64(calls)}, fuel)
	}
	in := instance(t, c)
	flat, err := run(in, freeStack/frame-2, plenty)
	if err != nil || flat > 40*freeStack/frame {
		t.Fatalf("what is free takes %d units, %v", flat, err)
	}
	for deep, paid := range map[int]int64{2: 2, 4: 2 + 4, 8: 2 + 4 + 8, 16: 2 + 4 + 8 + 16} {
		for range 3 { // the stack is there already, and it is paid all the same
			used, err := run(in, deep*freeStack/frame-2, plenty)
			if price := paid * freeStack * stackFuel; err != nil || used < price || used > price+flat*int64(deep)*2 {
				t.Errorf("%d times what is free: %d units, %v, want %d and what the code takes", deep, used, err, price)
			}
		}
	}
	for _, e := range []struct {
		fuel int64
		want string
	}{
		{plenty, "nested deeper than 2097152 bytes"},
		{60_000_000, "nested deeper than 1048576 bytes, twice as much is 33554432 units of fuel, "},
		{4_000_000, "nested deeper than 131072 bytes, twice as much is 4194304 units of fuel, "},
	} {
		in := instance(t, c)
		_, err := run(in, 1<<30, e.fuel)
		if !errors.Is(err, ErrTrap) || !strings.Contains(err.Error(), "stack overflow: calls "+e.want) {
			t.Errorf("with %d: %v, want %s", e.fuel, err, e.want)
		}
	}
	if _, err := run(instance(t, c), 4*freeStack/frame, 4_000_000); err == nil {
		t.Error("a call goes deeper than it pays for")
	}
}

// TestStart shows that a start function runs once, under fuel, and that its traps are faults.
func TestStart(t *testing.T) {
	e := engine(t, Config{})
	starting := func(code ...byte) []byte {
		return wasmOf(section(1, voidType), section(3, []byte{0}), []byte{8, 1, 0}, section(10, body(code...)))
	}
	for _, c := range []struct {
		wasm []byte
		kind error
	}{
		{starting(0x00), ErrTrap},
		{starting(0x03, 0x40, 0x0c, 0, 0x0b), ErrFuel},
		{starting(0x01), nil},
	} {
		m := compile(t, e, c.wasm, ModuleConfig{Start: Budget{Fuel: 10_000}})
		in, err := m.New(Lease{})
		if !errors.Is(err, c.kind) {
			t.Errorf("%v, %v wanted", err, c.kind)
		}
		if err == nil {
			in.Close()
		}
		if c.kind == nil {
			newPool(t, m, PoolConfig{})
		} else if _, err := m.NewPool(PoolConfig{}); !errors.Is(err, c.kind) {
			t.Errorf("pool: %v, %v wanted", err, c.kind)
		}
	}
}

func TestCancel(t *testing.T) {
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	stop := make(chan struct{})
	in, err := m.New(Lease{Cancel: stop})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	done := make(chan error)
	go func() {
		_, err := in.Call(in.Func("tree"), []uint64{40}, plenty)
		done <- err
	}()
	close(stop)
	if err := <-done; !errors.Is(err, ErrCancelled) {
		t.Errorf("%v, cancelled wanted", err)
	}
}

// TestFuel shows that fuel is a function of the input alone: not of the slice, the run, or what ran before.
func TestFuel(t *testing.T) {
	calls := []struct {
		export string
		arg    uint64
	}{{"init", 0}, {"walk", 5}, {"walk", 77}, {"spin", 12345}, {"tree", 9}, {"storm", 3}, {"empty", 0}}
	var first []int64
	for _, slice := range []int64{1, 1000, 0, 1 << 40} {
		m := compile(t, engine(t, Config{Slice: slice}), guestFile(t, "walk.wasm"), ModuleConfig{})
		for range 2 {
			in := instance(t, m)
			var got []int64
			for _, c := range calls {
				used, err := in.Call(in.Func(c.export), []uint64{c.arg, 1 << 20}, plenty)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, used)
			}
			if first == nil {
				first = got
			}
			if !slices.Equal(first, got) {
				t.Errorf("slice %d: fuel %v, before %v", slice, got, first)
			}
		}
	}
	// A budget of what was used is enough, one less is not.
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	for spare, want := range map[int64]error{0: nil, -1: ErrFuel} {
		in := instance(t, m)
		if _, err := in.Call(in.Func("spin"), []uint64{12345}, first[3]+spare); !errors.Is(err, want) {
			t.Errorf("budget %+d: %v", spare, err)
		}
	}
	// Bulk operations are charged by size: three fills of 1 MiB.
	if storm := first[5]; storm < 3<<20>>2 || storm > 3<<20>>1 {
		t.Errorf("three fills of 1 MiB used %d", storm)
	}
}

// TestHostFunctions covers memory views, charging, failing, printing and random numbers from the host's side.
func TestHostFunctions(t *testing.T) {
	var lines []Line
	var mode string
	host := []HostFunc{{"env", "go", Sig(":"), func(in *Instance, _ []uint64) {
		switch mode {
		case "charge":
			in.Charge(1_000_000)
		case "fail":
			in.Fail(errors.New("no such token"))
		case "access":
			_, err := in.View("list", 65530, 10)
			in.Fail(err)
		case "print":
			in.Print(2, []byte("one\ntwo \xff"))
		case "panic":
			panic("host bug")
		}
	}}}
	wasm := wasmOf(section(1, voidType), section(2, slices.Concat(str("env"), str("go"), []byte{0, 0})),
		section(3, []byte{0}),
		section(5, []byte{0, 1}), section(7, append(str("f"), 0, 1)), section(10, body(0x10, 0)))
	m := compile(t, engine(t, Config{}), wasm, ModuleConfig{Name: "p", Host: host, Log: func(l Line) {
		lines = append(lines, l)
	}})
	for _, c := range []struct {
		mode string
		kind error
		text string
	}{
		{"charge", ErrFuel, "p: f: out of fuel: budget 500000"},
		{"fail", ErrTrap, "p: f: trap: no such token (fuel 2"},
		{"access", ErrAccess, "10 bytes at 0xfffa, the memory has 65536"},
		{"panic", ErrTrap, "host bug"},
	} {
		in := instance(t, m)
		mode = "print"
		if _, err := in.Call(in.Func("f"), nil, 500_000); err != nil {
			t.Fatal(err)
		}
		mode = c.mode
		_, err := in.Call(in.Func("f"), nil, 500_000)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.mode, err)
		}
		var f *Fault
		if errors.As(err, &f) && (len(f.Log) != 2 || f.Log[1] != "two \uFFFD") {
			t.Errorf("%s: log %q", c.mode, f.Log)
		}
	}
	if len(lines) != 8 || lines[0] != (Line{Module: "p", Level: 2, Text: "one"}) {
		t.Errorf("lines %v", lines)
	}
	in := instance(t, m)
	if _, err := in.View("result", 65536, 1); !errors.Is(err, ErrAccess) {
		t.Errorf("view past the end: %v", err)
	}
	if _, err := in.View("result", 1<<32-1, 1<<32-1); !errors.Is(err, ErrAccess) {
		t.Errorf("view around the corner: %v", err)
	}
	if b, err := in.View("result", 65535, 1); err != nil || len(b) != 1 || cap(b) != 1 {
		t.Errorf("last byte: %v %v", b, err)
	}
	if b, err := in.View("result", 65536, 0); err != nil || len(b) != 0 {
		t.Errorf("nothing at the end: %v %v", b, err)
	}
}

// TestLimiter: of lines that are dropped their number is said at once and then every 10 s, and none is forgotten.
func TestLimiter(t *testing.T) {
	var l limiter
	now := time.Unix(1000, 0)
	passed, said, notices := 0, 0, 0
	for range 30_000 { // a minute of 500 lines a second
		dropped, ok := l.allow(now)
		if ok {
			passed++
		}
		if dropped > 0 {
			notices, said = notices+1, said+dropped
		}
		now = now.Add(2 * time.Millisecond)
	}
	dropped, ok := l.allow(now.Add(noticeEvery))
	if all := passed + said + dropped; !ok || all != 30_000 || notices != 6 ||
		passed < LogBurst+59*LogPerSecond || passed > LogBurst+61*LogPerSecond {
		t.Errorf("%d passed, %d notices of %d lines, %d at the end", passed, notices, said, dropped)
	}
}

// TestViewOfAll looks at the end of a memory that has all that 32 bits address.
func TestViewOfAll(t *testing.T) {
	wasm := wasmOf(section(5, append([]byte{0}, uleb(65536)...)))
	in := instance(t, compile(t, engine(t, Config{}), wasm, ModuleConfig{Limits: Limits{MemoryPages: 65536}}))
	for _, n := range []uint32{1, 16, 65536} {
		if b, err := in.View("result", -n, n); err != nil || len(b) != int(n) {
			t.Errorf("the last %d bytes: %d, %v", n, len(b), err)
		}
	}
	if _, err := in.View("result", 1<<32-16, 17); !errors.Is(err, ErrAccess) {
		t.Errorf("one byte further: %v", err)
	}
}

// TestNoAllocation holds the hot path to its word.
func TestNoAllocation(t *testing.T) {
	in := instance(t, compile(t, engine(t, Config{Slice: 1000}), guestFile(t, "walk.wasm"), ModuleConfig{}))
	f, stack := in.Func("spin"), make([]uint64, 1)
	if n := testing.AllocsPerRun(100, func() {
		stack[0] = 1000 // a dozen ticks
		if _, err := in.Call(f, stack, plenty); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// TestInfo covers what the module tells about itself.
func TestInfo(t *testing.T) {
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"),
		ModuleConfig{Exports: []Export{{Name: "walk", Sig: Sig("i:i")}}})
	if !m.Has("walk") || m.Has("memory") || m.HiddenState() != "" ||
		m.Exports()["sum"].String() != "(i32 i32) -> (i32)" {
		t.Errorf("walk %v, memory %v, hidden %q, sum %v", m.Has("walk"), m.Has("memory"), m.HiddenState(),
			m.Exports()["sum"])
	}
	if Sig("iIfF:").Equal(Sig("iIfF:i")) || Sig("i:").Params[0] != rewrite.I32 {
		t.Error("signatures")
	}
}
