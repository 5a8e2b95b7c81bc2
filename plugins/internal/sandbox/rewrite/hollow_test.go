package rewrite_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		h, err := rewrite.Hollow(out)
		if err != nil {
			t.Fatal(err)
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
		if cut, err := rewrite.Hollow(out[:n]); err == nil && sections(t, cut) == sections(t, out) {
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

// TestVersion: modules that were rewritten before are found by the version alone, so it has to be raised where the same
// input gives another output or other information.
func TestVersion(t *testing.T) {
	const version, want = 3, "4c3ecd058fde3572790bb73ed5ad1c2eded5fe19a47adb5abc52336fe75f3f3b"
	h := sha256.New()
	for _, file := range []string{"walk.wasm", "rusty.wasm"} {
		in, err := os.ReadFile(filepath.Join("..", "testdata", "guests", file))
		if err != nil {
			t.Fatal(err)
		}
		out, info, err := rewrite.Rewrite(in, rewrite.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		hollow, err := rewrite.Hollow(out)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(out)
		h.Write(hollow)
		if err := json.NewEncoder(h).Encode(info); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want || version != rewrite.Version {
		t.Errorf("version %d gives %s, version %d gave %s: raise rewrite.Version, unless the test's modules alone differ, "+
			"and write both here", rewrite.Version, got, version, want)
	}
}
