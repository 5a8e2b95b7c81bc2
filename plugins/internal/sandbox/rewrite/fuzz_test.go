package rewrite_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"tgi/conformance/long"
	"tgi/plugins/internal/sandbox/rewrite"
)

// small has limits that keep mutated modules cheap.
var small = rewrite.Limits{MemoryPages: 64, TableElements: 1000, BodyBytes: 1 << 16, ModuleBytes: 1 << 17}

func seeds(tb testing.TB) (list [][]byte) {
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		list = append(list, rich(bodies[name]...))
	}
	list = append(list, single("ii", "i", 0x20, 0, 0x20, 1, 0x6a), wasm(),
		// nested loops with branches of every kind, a br_table, and a loop with parameters
		rich(0x20, 0, 0x41, 0x0f, 0x71, 0x21, 0, 0x02, 0x40, 0x03, 0x40, 0x20, 0, 0x45, 0x0d, 1,
			0x03, 0x40, 0x20, 1, 0x41, 1, 0x6a, 0x22, 1, 0x41, 7, 0x71, 0x0e, 2, 0, 1, 2, 0x0b,
			0x20, 0, 0x41, 1, 0x6b, 0x21, 0, 0x0c, 0, 0x0b, 0x0b, 0x20, 1),
		rich(0x20, 0, 0x41, 0x1f, 0x71, 0x03, 1, 0x41, 1, 0x6b, 0x22, 0, 0x20, 0, 0x0d, 0, 0x0b))
	for _, file := range []string{"walk.wasm", "rusty.wasm"} {
		b, err := os.ReadFile(filepath.Join("..", "testdata", "guests", file))
		if err != nil {
			tb.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// compareBoth checks what must hold for any bytes: no panic, both worlds accept or both refuse, and what runs to its
// end gives the same. It reports whether both accepted. Without refused, what the rewriter refuses is not shown to the
// engine: on bytes of a fuzzer's, its decoder can ask for gigabytes (a count of parameters that it believes).
func compareBoth(t *testing.T, bin []byte, refused bool) bool {
	out, info, err := rewrite.Rewrite(bin, small)
	if err != nil && !refused {
		return false
	}
	var limit *rewrite.LimitError
	if errors.As(err, &limit) {
		return false
	}
	if err != nil && (strings.Contains(err.Error(), "reserved") || strings.Contains(err.Error(), "must begin with")) {
		return false
	}
	plain, rewritten := limitedWorld(t, false, small), limitedWorld(t, true, small)
	defer plain.runtime.Close(context.Background())
	defer rewritten.runtime.Close(context.Background())
	code, plainErr := plain.runtime.CompileModule(context.Background(), bin)
	if err == nil {
		_, err = rewritten.runtime.CompileModule(context.Background(), out)
	}
	if plainErr != nil && strings.Contains(strings.ReplaceAll(plainErr.Error(), "section custom", "custom section"),
		"custom section") {
		// the engine refuses custom sections that the specification says to ignore; the rewriter leaves them out
		return false
	}
	if plainErr == nil && err != nil && strings.Contains(err.Error(), "of WebAssembly core 2.0") {
		return false // the engine takes a type index in ref.null, for instance
	}
	if (plainErr == nil) != (err == nil) {
		t.Fatalf("plain: %v, rewritten: %v\n%x", plainErr, err, bin)
	}
	if err != nil || len(info.Imports) > 0 {
		return err == nil
	}
	rewritten.maxTicks = 2000
	b, err := rewritten.load("", bin)
	if errors.Is(err, errTicks) || err != nil && strings.Contains(err.Error(), "stack overflow") {
		return true
	}
	a, plainErr := plain.runtime.InstantiateModule(context.Background(), code,
		wazero.NewModuleConfig().WithStartFunctions())
	if (plainErr == nil) != (err == nil) {
		t.Fatalf("instantiate: plain %v, rewritten %v\n%x", plainErr, err, bin)
	}
	if err != nil {
		return true
	}
	for _, e := range info.Exports {
		if e.Kind != rewrite.KindFunc || len(e.Sig.Params) > 3 || strings.ContainsAny(e.Sig.String(), "rv") {
			continue
		}
		args := []uint64{3, 77, 5}[:len(e.Sig.Params)]
		rewritten.ticks = 0
		after := rewritten.call(b, e.Name, args...)
		if after.trap == errTicks.Error() || after.trap == "stack overflow" {
			return true
		}
		before := plain.call(a, e.Name, args...)
		if before.trap == "stack overflow" {
			return true
		}
		if err := same(before, after); err != nil {
			t.Fatalf("%s: %v\n%x", e.Name, err, bin)
		}
		if err := sameMemory(a, b); err != nil {
			t.Fatalf("%s: %v\n%x", e.Name, err, bin)
		}
	}
	return true
}

// TestMutations changes valid modules in a few places, in a fixed order of random numbers.
func TestMutations(t *testing.T) {
	rounds := long.Count(300, 4000)
	r := rand.New(rand.NewPCG(3, 4))
	list := seeds(t)
	list = list[:len(list)-1] // the largest is for the fuzzer
	accepted := 0
	for range rounds {
		bin := append([]byte(nil), list[r.IntN(len(list))]...)
		for range r.IntN(3) {
			if len(bin) < 9 {
				break
			}
			at := 8 + r.IntN(len(bin)-8)
			switch r.IntN(4) {
			case 0:
				bin[at] = byte(r.Uint32())
			case 1:
				bin[at] ^= 1 << r.IntN(8)
			case 2:
				bin[at]++
			case 3:
				bin = append(bin[:at], bin[at+1:]...)
			}
		}
		if compareBoth(t, bin, true) {
			accepted++
		}
	}
	if accepted < rounds/4 || accepted == rounds {
		t.Errorf("%d of %d mutated modules are valid", accepted, rounds)
	}
	t.Logf("%d of %d mutated modules are valid", accepted, rounds)
}

// FuzzRewrite looks for bytes that panic, that one world accepts and the other refuses, or that behave differently.
func FuzzRewrite(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, bin []byte) { compareBoth(t, bin, false) })
}
