package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// calling is a module of a page of memory that imports env.one and env.two; its exports "one" and "two" call them. The
// mark makes modules differ.
func calling(mark byte) []byte {
	const opCall, opConst, opDrop = 0x10, 0x41, 0x1a
	return wasmOf(section(1, voidType),
		section(2, slices.Concat(str("env"), str("one"), []byte{0, 0}), slices.Concat(str("env"), str("two"),
			[]byte{0, 0})),
		section(3, []byte{0}, []byte{0}), section(5, []byte{0, 1}),
		section(7, append(str("one"), 0, 2), append(str("two"), 0, 3)),
		section(10, body(opCall, 0), body(opCall, 1, opConst, mark, opDrop)))
}

// hostOf offers env.one and env.two, which add a letter to said.
func hostOf(said *strings.Builder, letters string) (list []HostFunc) {
	for i, name := range []string{"one", "two"} {
		list = append(list, HostFunc{"env", name, Sig(":"), func(*Instance, []uint64) { said.WriteByte(letters[i]) }})
	}
	return list
}

// inUse is how many compiled modules of its bytes the process holds.
func inUse(m *Module) (n int) {
	live.Lock()
	defer live.Unlock()
	for key := range live.list {
		if key.sum == m.sum {
			n++
		}
	}
	return n
}

// TestSharedCode: modules of the same bytes, limits and cache share their code, until the last is closed. What they
// import, print and take is each one's own.
func TestSharedCode(t *testing.T) {
	wasm := calling(1)
	quotas := []*Quota{NewQuota(QuotaConfig{}), NewQuota(QuotaConfig{})}
	var said [2]strings.Builder
	var list []*Module
	for i, q := range quotas {
		e := engine(t, Config{Quota: q})
		m := compile(t, e, wasm, ModuleConfig{Name: fmt.Sprint("m", i), Host: hostOf(&said[i],
			[]string{"ab", "xy"}[i])})
		list = append(list, m)
	}
	a, b := list[0], list[1]
	if a.compiled != b.compiled || a.compiled.users != 2 {
		t.Fatalf("the code is not shared: %p with %d users and %p", a.compiled, a.compiled.users, b.compiled)
	}
	other := compile(t, engine(t, Config{}), wasm, ModuleConfig{Host: hostOf(&said[0], "ab"),
		Limits: Limits{MemoryPages: 7}})
	elsewhere := compile(t, engine(t, Config{CacheDir: t.TempDir()}), wasm, ModuleConfig{Host: hostOf(&said[0], "ab")})
	if n := inUse(a); n != 3 || other.compiled == a.compiled || elsewhere.compiled == a.compiled {
		t.Errorf("%d compiled modules for three limits and caches", n)
	}
	pools := []*Pool{newPool(t, a, PoolConfig{Ready: 1}), newPool(t, b, PoolConfig{Ready: 1})}
	guests := []*Instance{take(t, pools[0]), take(t, pools[1])}
	for _, in := range guests {
		call1(t, in, "one", 0)
		call1(t, in, "two", 0)
	}
	if said[0].String() != "ab" || said[1].String() != "xy" {
		t.Errorf("host functions said %q and %q", said[0].String(), said[1].String())
	}
	guests[0].Memory()[100] = 1
	if guests[1].Memory()[100] != 0 {
		t.Error("two modules share memory")
	}
	for i, q := range quotas { // the snapshot and at least the instance that is out, of each
		if s := q.Stats(); s.Snapshots != pageBytes || s.Used < pageBytes+instanceBytes {
			t.Errorf("module %d is charged %+v", i, s)
		}
	}
	pools[0].Put(guests[0])
	pools[0].Close()
	<-pools[0].Drained()
	a.Close()
	a.Close() // counts once
	if used := quotas[0].Stats(); used.Used != 0 {
		t.Errorf("a closed module is charged %+v", used)
	}
	call1(t, guests[1], "two", 0)
	if said[1].String() != "xyy" || b.compiled.users != 1 {
		t.Errorf("after the other was closed: said %q, %d users", said[1].String(), b.compiled.users)
	}
	pools[1].Put(guests[1])
	pools[1].Close()
	<-pools[1].Drained()
	code := b.compiled
	for _, m := range []*Module{b, other, elsewhere} {
		m.Close()
	}
	if n := inUse(a); n != 0 || code.runtime != nil {
		t.Errorf("after all were closed %d compiled modules are in use", n)
	}
}

// TestSharedCompile: of those that want the same module at once, one compiles it. When that one leaves, another does,
// and who waits can leave; a module that can't be compiled fails for each under its own name.
func TestSharedCompile(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	load := func(ctx context.Context, name string, wasm []byte) (m *Module, done <-chan error) {
		out := make(chan error, 1)
		m = new(Module)
		go func() {
			got, err := e.Compile(ctx, wasm, ModuleConfig{Name: name, Host: hostOf(new(strings.Builder), "ab")})
			if err == nil {
				t.Cleanup(got.Close)
				m.compiled = got.compiled
			}
			out <- err
		}()
		return m, out
	}
	waiting := func(n int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			preparing.mu.Lock()
			users := 0
			for _, u := range preparing.users {
				users += u.n
			}
			preparing.mu.Unlock()
			if users == n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d want the module, not %d", users, n)
			}
		}
	}
	compilations.quick <- struct{}{} // nothing is compiled until it is taken out
	wasm := calling(2)
	ctx, leave := context.WithCancel(t.Context())
	_, first := load(ctx, "first", wasm)
	waiting(1)
	hurried, give := context.WithCancelCause(t.Context())
	_, second := load(hurried, "second", wasm)
	waiting(2)
	third, thirdDone := load(t.Context(), "third", wasm)
	fourth, fourthDone := load(t.Context(), "fourth", wasm)
	waiting(4)
	gone := errors.New("gone")
	give(gone)
	if err := <-second; !errors.Is(err, gone) || !strings.HasPrefix(err.Error(), "second: ") {
		t.Errorf("one that waited and left: %v", err)
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("one that compiled and left: %v", err)
	}
	<-compilations.quick
	if err := errors.Join(<-thirdDone, <-fourthDone); err != nil || third.compiled != fourth.compiled {
		t.Errorf("those that stayed: %v, %p and %p", err, third.compiled, fourth.compiled)
	}

	const opAdd = 0x6a // of nothing
	compilations.quick <- struct{}{}
	_, first = load(t.Context(), "first", void(opAdd))
	_, second = load(t.Context(), "second", void(opAdd))
	waiting(2)
	<-compilations.quick
	for name, done := range map[string]<-chan error{"first": first, "second": second} {
		if err := <-done; !errors.Is(err, ErrModule) || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("a module that can't be compiled, %s: %v", name, err)
		}
	}
}

// TestSharedAgain loads and closes a module from many goroutines at once: each finds code that works.
func TestSharedAgain(t *testing.T) {
	e := engine(t, Config{})
	wasm := calling(3)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 20 {
				var said strings.Builder
				m, err := e.Compile(t.Context(), wasm, ModuleConfig{Name: "m", Host: hostOf(&said, "ab")})
				if err != nil {
					t.Error(err)
					return
				}
				in, err := m.New(Lease{})
				if err == nil {
					_, err = in.Call(in.Func("two"), make([]uint64, 1), plenty)
					in.Close()
				}
				if m.Close(); err != nil || said.String() != "b" {
					t.Errorf("said %q, %v", said.String(), err)
				}
			}
		})
	}
	wait.Wait()
}
