package rewrite_test

import (
	"bytes"
	"maps"
	"testing"

	"github.com/tetratelabs/wazero"

	"tgi/plugins/internal/sandbox/rewrite"
)

// TestHollow: a hollow module has everything of the whole one but its code, so the engine takes it; its functions trap.
// It names the module that it was made of.
func TestHollow(t *testing.T) {
	whole := func(code ...byte) []byte {
		t.Helper()
		out, _, err := rewrite.Rewrite(rich(code...), rewrite.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	hollow := func(out []byte) []byte {
		t.Helper()
		h, data, err := rewrite.Hollow(out)
		if err != nil || data != nil { // of segments that are counted
			t.Fatal(data, err)
		}
		return h
	}
	out := whole(0x20, 0) // local.get 0
	h := hollow(out)
	r := wazero.NewRuntime(t.Context())
	defer r.Close(t.Context())
	if _, err := r.NewHostModuleBuilder(rewrite.TickModule).NewFunctionBuilder().WithFunc(func() {}).
		Export(rewrite.TickName).Instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, bin := range map[string][]byte{"whole": out, "hollow": h} {
		m, err := r.InstantiateWithConfig(t.Context(), bin, wazero.NewModuleConfig().WithName(name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if fuel := m.ExportedGlobal(rewrite.FuelGlobal); fuel == nil || m.ExportedMemory("m").Size() != 1<<16 {
			t.Errorf("%s lacks fuel or memory", name)
		}
		if _, err := m.ExportedFunction("f").Call(t.Context(), 1, 2, 3); (err == nil) != (name == "whole") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if sections(t, out) != sections(t, h) {
		t.Error("what is not code differs")
	}
	if !bytes.Equal(h, hollow(out)) {
		t.Error("not the same twice")
	}
	if bytes.Equal(h, hollow(whole(0x20, 1))) { // local.get 1: as long, and with the same sections
		t.Error("two modules have the same hollow one")
	}
	for n := range out {
		if cut, _, err := rewrite.Hollow(out[:n]); err == nil && sections(t, cut) == sections(t, out) {
			t.Errorf("%d bytes of %d are taken for the module", n, len(out))
		}
	}
}

// sections returns the sections of a module, but for its code and the one that marks hollow ones.
func sections(t *testing.T, bin []byte) (all string) {
	t.Helper()
	for at := 8; at < len(bin); {
		id, start := bin[at], at
		at++
		size, shift := 0, 0
		for ; ; shift += 7 {
			size |= int(bin[at]&0x7f) << shift
			if at++; bin[at-1] < 0x80 {
				break
			}
		}
		at += size
		if id != 10 && !bytes.Contains(bin[start:at], []byte("tgi.hollow")) {
			all += string(bin[start:at])
		}
	}
	return all
}

// TestHollowData: data segments are given apart where all have constant addresses and no instruction can name them.
func TestHollowData(t *testing.T) {
	active := func(at ...byte) []byte { return cat([]byte{0}, at, []byte{0x0b}, sized([]byte("ab"))) }
	passive := cat([]byte{1}, sized([]byte("cd")))
	constant := []byte{0x41, 0x90, 0xce, 0} // i32.const 10000
	for _, c := range []struct {
		name     string
		sections [][]byte // in place of those of data
		want     map[uint32]string
	}{
		{"constant addresses", [][]byte{section(11, vec(active(0x41, 8), active(constant...)))},
			map[uint32]string{8: "ab", 10000: "ab"}},
		{"an address below zero", [][]byte{section(11, vec(active(0x41, 0x7f)))}, map[uint32]string{1<<32 - 1: "ab"}},
		{"a passive one", [][]byte{section(11, vec(active(0x41, 8), passive))}, nil},
		{"an address in a global", [][]byte{section(11, vec(active(0x23, 0)))}, nil},
		{"counted", [][]byte{section(12, leb(1)), section(11, vec(active(0x41, 8)))}, nil},
		{"none", nil, nil},
	} {
		parts := [][]byte{section(1, vec(functype("", ""))), section(3, vec(leb(0))), section(5, vec([]byte{0, 1})),
			section(6, vec([]byte{0x7f, 0, 0x41, 0, 0x0b}))}
		if len(c.sections) == 2 {
			parts = append(parts, c.sections[0])
		}
		parts = append(parts, section(10, vec(fn())))
		if len(c.sections) > 0 {
			parts = append(parts, c.sections[len(c.sections)-1])
		}
		out, _, err := rewrite.Rewrite(wasm(parts...), rewrite.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		hollow, data, err := rewrite.Hollow(out)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if has := bytes.Contains(hollow, []byte("ab")); has != (c.want == nil && c.name != "none") {
			t.Errorf("%s: the hollow module has data: %v", c.name, has)
		}
		got := map[uint32]string{}
		if data != nil {
			err := rewrite.Segments(data, func(at uint32, b []byte) bool {
				got[at] = string(b)
				return true
			})
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for n, data := range map[int]string{0: "", 1: "\x01", 2: "\x01\x00\x41\x08\x0b\x03ab"} {
		if err := rewrite.Segments([]byte(data), func(uint32, []byte) bool { return true }); err == nil {
			t.Errorf("%d: %q is read as segments", n, data)
		}
	}
}
