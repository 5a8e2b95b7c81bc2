package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tgi/conformance/long"
)

func modes(t *testing.T, f func(t *testing.T, e *Engine)) {
	for name, plain := range map[string]bool{"copy-on-write": false, "plain copy": true} {
		t.Run(name, func(t *testing.T) { f(t, engine(t, Config{PlainCopy: plain})) })
	}
}

// TestNothingLeaks runs a guest with state in every language: after a reset nothing of the last sequence is left, and
// everything of init.
func TestNothingLeaks(t *testing.T) {
	modes(t, func(t *testing.T, e *Engine) {
		for name, wasm := range map[string][]byte{"C": guestFile(t, "walk.wasm"), "Rust": guestFile(t, "rusty.wasm"),
			"Go": goGuest(t)} {
			m := compile(t, e, wasm, ModuleConfig{Name: name})
			p := newPool(t, m, PoolConfig{Ready: 2, Init: func(in *Instance) error {
				if err := start(in); err != nil {
					return err
				}
				_, err := in.Call(in.Func("remember"), []uint64{7}, plenty)
				return err
			}})
			want := uint64(1) // of entries; the C guest gives what it was last told
			if name == "C" {
				want = 7
			}
			for round := range 20 {
				in := take(t, p)
				if got := call1(t, in, "remember", uint64(100+round)); got != want {
					t.Fatalf("%s, round %d: the guest remembers %d, %d wanted", name, round, got, want)
				}
				if got := call1(t, in, "remember", 3); got == want {
					t.Fatalf("%s: the guest forgets within a sequence", name)
				}
				p.Put(in)
			}
			if s := p.Stats(); s.Reset == 0 || s.Discarded != 0 || s.Out != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
	})
}

// TestEveryGlobalIsReset covers the types of globals that the guests of compilers do not use.
func TestEveryGlobalIsReset(t *testing.T) {
	// (global (mut v128)) (global (mut f64)) (func (export "f") ... adds one to each and returns both as i64s)
	wasm := wasmOf(
		section(1, []byte{0x60, 0, 3, 0x7e, 0x7e, 0x7c}),
		section(3, []byte{0}),
		section(6, append([]byte{0x7b, 1, 0xfd, 12}, append(make([]byte, 16), 0x0b)...), []byte{0x7c, 1, 0x44, 0, 0, 0,
			0, 0, 0, 0, 0, 0x0b}),
		section(7, append(str("f"), 0, 0)),
		section(10, body(
			0x23, 0, 0x42, 1, 0xfd, 0x12, 0xfd, 0xce, 1, 0x24, 0, // v += splat(1)
			0x23, 1, 0x44, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0xa0, 0x24, 1, // d += 1
			0x23, 0, 0xfd, 0x1d, 0, 0x23, 0, 0xfd, 0x1d, 1, 0x23, 1)),
	)
	p := newPool(t, compile(t, engine(t, Config{}), wasm, ModuleConfig{}), PoolConfig{Init: func(in *Instance) error {
		_, err := in.Call(in.Func("f"), make([]uint64, 3), plenty)
		return err
	}})
	run := func(in *Instance) string {
		stack := make([]uint64, 3)
		if _, err := in.Call(in.Func("f"), stack, plenty); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", stack)
	}
	const second, third = "[2 2 4000000000000000]", "[3 3 4008000000000000]"
	for range 3 {
		in := take(t, p)
		if got := run(in); got != second {
			t.Errorf("after reset: %s, %s wanted", got, second)
		}
		twin, err := p.Clone(in, Lease{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := run(in), run(twin); a != third || b != third {
			t.Errorf("clone: %s and %s, %s wanted", a, b, third)
		}
		p.Put(in)
		p.Put(twin)
	}
}

// TestHiddenState checks that a guest with state in a table gets instances built by init, never reset ones, and no
// clones.
func TestHiddenState(t *testing.T) {
	// f: traps if table[0] is set, then sets it.
	wasm := void(0x41, 0, 0x25, 0, 0xd1, 0x04, 0x40, 0x05, 0x00, 0x0b, 0x41, 0, 0xd2, 0, 0x26, 0)
	m := compile(t, engine(t, Config{}), wasm, ModuleConfig{})
	if !strings.Contains(m.HiddenState(), "table.set") {
		t.Fatalf("hidden state %q", m.HiddenState())
	}
	inits := 0
	var mu sync.Mutex
	p := newPool(t, m, PoolConfig{Ready: 1, Init: func(*Instance) error {
		mu.Lock()
		defer mu.Unlock()
		inits++
		return nil
	}})
	for range 5 {
		in := take(t, p)
		if _, err := in.Call(in.Func("f"), nil, plenty); err != nil {
			t.Fatalf("state of another sequence: %v", err)
		}
		if _, err := p.Clone(in, Lease{}); !errors.Is(err, ErrHiddenState) {
			t.Errorf("clone: %v", err)
		}
		p.Put(in)
	}
	if s := p.Stats(); s.Reset != 0 || s.Discarded != 5 {
		t.Errorf("%+v", s)
	}
	mu.Lock()
	defer mu.Unlock()
	if inits < 5 {
		t.Errorf("init ran %d times", inits)
	}
}

// TestDiscard checks that instances that faulted or grew are not reused, and that instances in use are counted.
func TestDiscard(t *testing.T) {
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	p := newPool(t, m, PoolConfig{Ready: 1, Max: 2})
	a, b := take(t, p), take(t, p)
	if _, err := p.Take(Lease{}); !errors.Is(err, ErrBusy) {
		t.Errorf("a third of two: %v", err)
	}
	if _, err := a.Call(a.Func("trap"), nil, plenty); !errors.Is(err, ErrTrap) {
		t.Error(err)
	}
	if _, err := p.Clone(a, Lease{}); !errors.Is(err, ErrBroken) {
		t.Errorf("clone of a broken instance: %v", err)
	}
	call1(t, b, "bomb", 0)
	p.Put(a)
	p.Put(b)
	if s := p.Stats(); s.Discarded != 2 || s.Out != 0 {
		t.Errorf("%+v", s)
	}
	c := take(t, p)
	if got := call1(t, c, "remember", 1); got != 0 {
		t.Errorf("remembers %d", got)
	}
	p.Close()
	if _, err := p.Take(Lease{}); !errors.Is(err, ErrClosed) {
		t.Errorf("take after close: %v", err)
	}
	select {
	case <-p.Drained():
		t.Error("drained while an instance is in use")
	default:
	}
	call1(t, c, "remember", 2) // what is out goes on
	p.Put(c)
	<-p.Drained()
}

// TestClone copies memory that grew, globals and random numbers.
func TestClone(t *testing.T) {
	modes(t, func(t *testing.T, e *Engine) {
		p := newPool(t, compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{}), PoolConfig{})
		in, err := p.Take(Lease{Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		in.Uint64()
		call1(t, in, "init", 0)
		call1(t, in, "remember", 42)
		call1(t, in, "bomb", 0)
		twin, err := p.Clone(in, Lease{Seed: 6})
		if err != nil {
			t.Fatal(err)
		}
		if in.Uint64() != twin.Uint64() || in.MemoryBytes() != twin.MemoryBytes() {
			t.Error("random numbers or size differ")
		}
		if a, b := call1(t, in, "walk", 3), call1(t, twin, "walk", 3); a != b || a == 0 {
			t.Errorf("walk %d and %d", a, b)
		}
		if a, b := call1(t, in, "remember", 1), call1(t, twin, "remember", 1); a != 42 || b != 42 {
			t.Errorf("remember %d and %d", a, b)
		}
		p.Put(in)
		p.Put(twin)
	})
}

// TestManyFaults discards thousands of instances and checks for leaks of mappings, files and heap.
func TestManyFaults(t *testing.T) {
	rounds := long.Count(200, 3000)
	p := newPool(t, compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{}), PoolConfig{Ready: 2})
	fault := func() {
		in := take(t, p)
		call1(t, in, "remember", 1)
		if _, err := in.Call(in.Func("spin"), []uint64{1 << 31}, 1000); !errors.Is(err, ErrFuel) {
			t.Fatal(err)
		}
		p.Put(in)
	}
	for range 50 {
		fault()
	}
	heap, maps := left()
	for range rounds {
		fault()
	}
	heapAfter, mapsAfter := left()
	if heapAfter > heap+8<<20 || mapsAfter > maps+50 {
		t.Errorf("heap %d -> %d bytes, %d -> %d mappings after %d faults", heap, heapAfter, maps, mapsAfter, rounds)
	}
	if s := p.Stats(); s.Discarded != rounds+50 {
		t.Errorf("%+v", s)
	}
}

func left() (heap, maps int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, _ := os.ReadFile("/proc/self/maps") // empty elsewhere
	return int(m.HeapAlloc), strings.Count(string(b), "\n")
}

// TestConcurrent uses one pool from many goroutines, with faults and clones in between. Run with -race.
func TestConcurrent(t *testing.T) {
	modes(t, func(t *testing.T, e *Engine) {
		p := newPool(t, compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{}), PoolConfig{Ready: 3, Max: 20})
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 60 {
					in, err := p.Take(Lease{Seed: uint64(g)})
					if err != nil {
						t.Error(err)
						return
					}
					stack := []uint64{uint64(g + 1)}
					if _, err := in.Call(in.Func("remember"), stack, plenty); err != nil || stack[0] != 0 {
						t.Errorf("remembers %d, %v", stack[0], err)
					}
					switch i % 5 {
					case 0:
						in.Call(in.Func("trap"), nil, plenty)
					case 1:
						if twin, err := p.Clone(in, Lease{}); err == nil {
							p.Put(twin)
						}
					}
					p.Put(in)
				}
			})
		}
		wg.Wait()
		if s := p.Stats(); s.Out != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestGoGuest covers what a Go guest needs from WASI, and what it must not get.
func TestGoGuest(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	m := compile(t, engine(t, Config{}), goGuest(t), ModuleConfig{Name: "go", Log: func(l Line) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, fmt.Sprint(l.Level, " ", l.Text))
	}})
	p := newPool(t, m, PoolConfig{Ready: 1})
	in := take(t, p)
	if got := call1(t, in, "files", 0); got != 0 {
		t.Errorf("files and environment: %d", got)
	}
	a, b := call1(t, in, "digest", 200), call1(t, in, "digest", 200)
	if a != b {
		t.Error("digest differs from call to call")
	}
	_, err := in.Call(in.Func("fail"), []uint64{0}, plenty)
	var f *Fault
	if !errors.As(err, &f) || f.Kind != ErrTrap || !strings.Contains(err.Error(), `last printed: "panic: as asked`) {
		t.Fatalf("panic: %v\n%s", err, strings.Join(f.Log, "\n"))
	}
	if len(f.Trace) == 0 || !strings.Contains(strings.Join(f.Trace, "\n"), "main.fail") {
		t.Errorf("trace %q", f.Trace)
	}
	p.Put(in)
	mu.Lock()
	defer mu.Unlock()
	if len(lines) == 0 || lines[0] != "-2 about to fail" {
		t.Errorf("lines %q", lines)
	}
}

// TestDrainedAwaitsFiller: a pool is drained when the goroutine that makes its instances has ended too.
func TestDrainedAwaitsFiller(t *testing.T) {
	m := compile(t, engine(t, Config{}), void(), ModuleConfig{})
	for range 100 {
		p, err := m.NewPool(PoolConfig{Ready: 2})
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		<-p.Drained()
		p.mu.Lock()
		filling := p.filling
		p.mu.Unlock()
		if filling {
			t.Fatal("the pool is drained, and makes instances")
		}
	}
}
