package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// keptDirs lists the folders of states in an engine's cache.
func keptDirs(t *testing.T, e *Engine) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(e.cache, keptPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// keeping makes pools of walk.wasm, with a state that takes long to reach, and counts how it was come by.
type keeping struct {
	t           *testing.T
	e           *Engine
	m           *Module
	inits, took int
}

// pool makes one, and closes it after use has had an instance of it.
func (k *keeping) pool(key, note string, use func(in *Instance)) {
	k.t.Helper()
	c := PoolConfig{Ready: 1, Init: func(in *Instance) error {
		k.inits++
		call1(k.t, in, "init", 0)
		call1(k.t, in, "remember", 77)
		return nil
	}, Keep: &Keep{Key: key, Note: func() []byte {
		if note == "" {
			return nil
		}
		return []byte(note)
	}, Take: func(b []byte, memory uint64) error {
		if k.took++; memory == 0 || memory%pageBytes != 0 {
			k.t.Errorf("taken with a memory of %d bytes", memory)
		}
		if string(b) != note {
			return fmt.Errorf("note %q", b)
		}
		return nil
	}}}
	p, err := k.m.NewPool(c)
	if err != nil {
		k.t.Fatal(err)
	}
	in := take(k.t, p)
	use(in)
	p.Put(in)
	p.Close()
	<-p.Drained()
}

// expect compares how states were come by since the last time.
func (k *keeping) expect(what string, inits, took int) {
	k.t.Helper()
	if k.inits != inits || k.took != took {
		k.t.Errorf("%s: Init ran %d times, want %d; %d states were taken, want %d", what, k.inits, inits, k.took, took)
	}
	k.inits, k.took = 0, 0
}

// TestKeep: the state after Init is found again, under the same key alone, and instances of it are as those of the pool
// that ran Init.
func TestKeep(t *testing.T) {
	for _, plain := range []bool{false, true} {
		var told warnings
		e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add, PlainCopy: plain})
		k := &keeping{t: t, e: e, m: compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})}
		var first []byte
		k.pool("a", "note", func(in *Instance) { first = bytes.Clone(in.Memory()) })
		k.expect("new", 1, 0)
		check := func(in *Instance) {
			t.Helper()
			if !bytes.Equal(first, in.Memory()) {
				t.Error("the memory differs")
			}
			if got := call1(t, in, "remember", 78); got != 77 {
				t.Errorf("remember: %d", got)
			}
			if got := call1(t, in, "tree", 5); got != 32 {
				t.Errorf("tree(5) = %d", got)
			}
		}
		k.pool("a", "note", check)
		k.expect("again", 0, 1)
		k.pool("a", "note", check)
		k.expect("a third time", 0, 1)
		k.pool("b", "note", check)
		k.expect("another key", 1, 0)
		k.pool("a", "other", check)
		k.expect("a note that is not taken", 1, 1)
		k.pool("a", "other", check)
		k.expect("the note in its place", 0, 1)
		k.pool("c", "", check)
		k.pool("c", "", check)
		k.expect("not worth while", 2, 0)
		if n := len(keptDirs(t, e)); n != 2 {
			t.Errorf("%d states are kept", n)
		}
		if len(told.list) != 1 || !strings.Contains(told.list[0], `note "note"`) {
			t.Errorf("told %q", told.list)
		}
	}
}

// TestKeepDamaged: a damaged state is noticed, does no harm, and is replaced.
func TestKeepDamaged(t *testing.T) {
	var told warnings
	e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add})
	k := &keeping{t: t, e: e, m: compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})}
	check := func(in *Instance) {
		if got := call1(t, in, "remember", 78); got != 77 {
			t.Errorf("remember: %d", got)
		}
	}
	k.pool("a", "note", check)
	k.expect("new", 1, 0)
	dir := keptDirs(t, e)[0]
	for _, name := range []string{stateFile, memoryFile, manifestFile} {
		file := filepath.Join(dir, name)
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		flipped := slices.Clone(whole)
		flipped[len(flipped)/2] ^= 1
		for what, damaged := range map[string][]byte{"half": whole[:len(whole)/2], "flipped": flipped, "empty": {},
			"longer": append(slices.Clone(whole), '!')} {
			before := len(told.list)
			if err := os.WriteFile(file, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			k.pool("a", "note", check)
			k.expect(name+", "+what, 1, 0)
			k.pool("a", "note", check)
			k.expect(name+", "+what+", replaced", 0, 1)
			if len(told.list) != before+1 {
				t.Errorf("%s, %s: told %q", name, what, told.list[before:])
			}
		}
	}
}

// TestKeepChecked: a state that agrees with its manifest is still none of another module.
func TestKeepChecked(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	m := compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})
	globals := make([][2]uint64, len(m.info.Globals))
	least := uint64(m.info.MemoryMin) * pageBytes
	for what, s := range map[string]keptState{
		"":                     {Size: least, Globals: globals, Parts: []keptPart{{least - 1, 1}}},
		"a page too few":       {Size: least - pageBytes, Globals: globals},
		"half a page":          {Size: least + pageBytes/2, Globals: globals},
		"too many pages":       {Size: (uint64(m.pages) + 1) * pageBytes, Globals: globals},
		"a global more":        {Size: least, Globals: append(slices.Clone(globals), [2]uint64{})},
		"parts in order":       {Size: 2 * least, Globals: globals, Parts: []keptPart{{0, 2}, {2, 1}}},
		"parts that overlap":   {Size: least, Globals: globals, Parts: []keptPart{{0, 2}, {1, 2}}},
		"the same part twice":  {Size: least, Globals: globals, Parts: []keptPart{{0, 2}, {0, 2}}},
		"a part behind it":     {Size: least, Globals: globals, Parts: []keptPart{{least, 1}}},
		"a part across it":     {Size: least, Globals: globals, Parts: []keptPart{{least - 1, 2}}},
		"a part that wraps":    {Size: least, Globals: globals, Parts: []keptPart{{1<<64 - 1, 2}}},
		"a part of wrong size": {Size: least, Globals: globals, Parts: []keptPart{{0, 1<<64 - 1}}},
	} {
		err, fine := m.checkKept(&s), what == "" || what == "parts in order"
		if bad := new(damage); (err == nil) != fine || !fine && !errors.As(err, &bad) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// TestKeepCharged: the memory of a kept state is charged before it is read.
func TestKeepCharged(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	k := &keeping{t: t, e: e, m: compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})}
	k.pool("a", "note", func(*Instance) {})
	k.expect("new", 1, 0)
	dir := keptDirs(t, e)[0]
	if err := os.Truncate(filepath.Join(dir, memoryFile), 1); err != nil { // who reads it removes it
		t.Fatal(err)
	}
	e.quota = NewQuota(QuotaConfig{Bytes: 1, Name: "test"})
	var no *Shortage
	_, err := k.m.NewPool(PoolConfig{Keep: &Keep{Key: "a", Take: func([]byte, uint64) error { return nil }}})
	if !errors.As(err, &no) {
		t.Errorf("a state that there is no memory for: %v", err)
	}
	if list := keptDirs(t, e); len(list) != 1 {
		t.Errorf("kept: %v", list)
	}
	if used := e.quota.Stats().Used; used != 0 {
		t.Errorf("%d bytes are charged", used)
	}
	e.quota = NewQuota(QuotaConfig{})
	k.pool("a", "note", func(*Instance) {})
	k.expect("with memory", 1, 0)
	if used := e.quota.Stats().Snapshots; used != 0 {
		t.Errorf("%d bytes of a snapshot that could not be read are charged", used)
	}
}

// TestKeepNoRoom: that there is no room for a state is said.
func TestKeepNoRoom(t *testing.T) {
	var told warnings
	e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add})
	k := &keeping{t: t, e: e, m: compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})}
	if err := errors.Join(os.RemoveAll(e.cache), os.WriteFile(e.cache, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	k.pool("a", "note", func(*Instance) {})
	if len(told.list) != 1 || !strings.HasPrefix(told.list[0], "state of a plugin not kept: guest: ") {
		t.Errorf("told %q", told.list)
	}
}

// TestKeepNot: a guest that printed is not kept, because its lines would be missing at the next start; nor is one whose
// state no snapshot can hold, and nothing without a cache.
func TestKeepNot(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	keep := &Keep{Key: "a", Note: func() []byte { return []byte("note") }, Take: func([]byte, uint64) error {
		return errors.New("BUG: nothing is kept")
	}}
	for mark, said := range []string{"a line", "\n", "x\ny", ""} {
		host := []HostFunc{{"env", "one", Sig(":"), func(in *Instance, _ []uint64) {
			if said != "" {
				in.Print(1, []byte(said))
			}
		}}, {"env", "two", Sig(":"), func(*Instance, []uint64) {}}}
		newPool(t, compile(t, e, calling(byte(20+mark)), ModuleConfig{Host: host}), PoolConfig{Keep: keep,
			Init: func(in *Instance) error {
				call1(t, in, "one", 0)
				return nil
			}})
		list := keptDirs(t, e)
		if kept := len(list) > 0; kept != (said == "") {
			t.Errorf("%q was printed: kept is %v", said, list)
		}
		for _, dir := range list {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	const refNull, funcRef, opTableSet = 0xd0, 0x70, 0x26
	hidden := wasmOf(section(1, voidType), section(3, []byte{0}), section(4, []byte{funcRef, 0, 1}),
		section(7, append(str("f"), 0, 0)), section(10, body(0x41, 0, refNull, funcRef, opTableSet, 0)))
	m := compile(t, e, hidden, ModuleConfig{})
	if m.HiddenState() == "" {
		t.Fatal("the module hides nothing")
	}
	newPool(t, m, PoolConfig{Keep: keep, Init: func(*Instance) error { return nil }})
	without, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	newPool(t, compile(t, without, void(), ModuleConfig{}), PoolConfig{Keep: keep,
		Init: func(*Instance) error { return nil }})
	if list := keptDirs(t, e); len(list) > 0 {
		t.Errorf("kept: %v", list)
	}
}

// TestKeepBound: of many states the ones that were used last are kept.
func TestKeepBound(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	k := &keeping{t: t, e: e, m: compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})}
	for i := range maxKept + 3 {
		k.pool(fmt.Sprint(i), "note", func(*Instance) {})
		k.pool("0", "note", func(*Instance) {}) // used all the time
	}
	if n := len(keptDirs(t, e)); n != maxKept {
		t.Errorf("%d states are kept, want %d", n, maxKept)
	}
	k.expect("new", maxKept+3, maxKept+3)
	k.pool("0", "note", func(*Instance) {})
	k.pool(fmt.Sprint(maxKept+2), "note", func(*Instance) {})
	k.expect("used last", 0, 2)
	k.pool("1", "note", func(*Instance) {})
	k.expect("used longest ago", 1, 0)
}

// TestKeepBytes: states have a part of the cache, and one of them half of that at most.
func TestKeepBytes(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	k := &keeping{t: t, e: e, m: compile(t, e, guestFile(t, "walk.wasm"), ModuleConfig{})}
	for i := range 4 {
		k.pool(fmt.Sprint(i), "note", func(*Instance) {})
	}
	var each int64
	for _, x := range cacheEntries(filepath.Dir(e.cache)) {
		if strings.HasPrefix(filepath.Base(x.path), keptPrefix) {
			each = max(each, x.bytes)
		}
	}
	e.cacheBytes = keptShare * (3*each + each/2)
	e.trimKept(each)
	if n := len(keptDirs(t, e)); n != 2 {
		t.Errorf("%d states are kept beside one more, of three", n)
	}
	e.cacheBytes = keptShare // less than any state
	k.pool("large", "note", func(*Instance) {})
	if n := len(keptDirs(t, e)); n != 2 {
		t.Errorf("%d states are kept, one of which is larger than its part of the cache", n)
	}
}

// TestNonZero: the parts that are not zero make the memory.
func TestNonZero(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		b := make([]byte, r.IntN(6)*4096+r.IntN(3)*r.IntN(4096))
		for range r.IntN(5) {
			if len(b) > 0 {
				b[r.IntN(len(b))] = 1
			}
		}
		got, last := make([]byte, len(b)), uint64(0)
		for at, n := range nonZero(b) {
			if n == 0 || at < last || at%4096 != 0 {
				t.Fatalf("%d bytes at %d after %d", n, at, last)
			}
			last = at + n
			copy(got[at:], b[at:last])
			for page := range slices.Chunk(b[at:last], 4096) {
				if !slices.ContainsFunc(page, func(c byte) bool { return c != 0 }) {
					t.Fatal("a page of zeros")
				}
			}
		}
		if !bytes.Equal(got, b) {
			t.Fatal("the memory differs")
		}
	}
}

// TestDataApart: data segments that the engine does not have are in the memory of a new instance, and of those made of
// its snapshot; one that is outside is an error.
func TestDataApart(t *testing.T) {
	e := engine(t, Config{})
	with := func(at ...byte) *Module {
		return compile(t, e, wasmOf(section(1, voidType), section(3, []byte{0}), section(5, []byte{0, 1}),
			section(7, append(str("f"), 0, 0)), section(10, body()), section(11, []byte{0, 0x41, 8, 0x0b, 2, 'a', 'b'},
				slices.Concat([]byte{0, 0x41}, at, []byte{0x0b, 2, 'c', 'd'}))), ModuleConfig{})
	}
	m := with(9)
	if m.compiled.data == nil {
		t.Fatal("the engine has the data")
	}
	p := newPool(t, m, PoolConfig{})
	alone, err := m.New(Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	pooled := take(t, p)
	defer p.Put(pooled)
	for _, in := range []*Instance{alone, pooled} {
		if got := string(in.Memory()[8:12]); got != "acd\x00" { // the second lies over the first
			t.Errorf("%q", got)
		}
	}
	_, err = with(0xff, 0xff, 3).New(Lease{}) // 65535
	if err == nil || !strings.Contains(err.Error(), "data[1]: 2 bytes at 0xffff, the memory has 65536") {
		t.Errorf("outside: %v", err)
	}
}
