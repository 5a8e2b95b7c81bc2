package sandbox

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

// TestGuestsOfTheSDKs holds the committed example guests of all four languages,
// as the sandbox runs them, to the contract of sdk/abi: rewritten, under fuel,
// from a snapshot, and cloned.
func TestGuestsOfTheSDKs(t *testing.T) {
	e, err := New(Config{CacheDir: cacheDir()})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "sdk", "testdata", "guests", "*", "*.wasm"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d example guests, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), ".wasm")
		t.Run(name, func(t *testing.T) {
			cases, ok := guest.Examples[strings.TrimSuffix(filepath.Base(file), ".wasm")]
			if !ok {
				t.Fatal("the kit has no cases for it")
			}
			for _, v := range guest.Run(openContract(t, e, file), cases...) {
				t.Error(v)
			}
		})
	}
}

// contractGuest is a module of the sandbox as the kit wants it.
type contractGuest struct {
	t       *testing.T
	module  *Module
	imports []guest.Import
	exports []abi.Func
}

func openContract(t *testing.T, e *Engine, file string) *contractGuest {
	t.Helper()
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &contractGuest{t: t}
	g.describe(wasm)
	g.module, err = e.Compile(t.Context(), wasm, ModuleConfig{Name: file, Host: contractHost()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.module.Close)
	return g
}

// describe lists the functions that the original module imports and exports.
func (g *contractGuest) describe(wasm []byte) {
	ctx := g.t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer r.Close(ctx)
	m, err := r.CompileModule(ctx, wasm)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range m.ImportedFunctions() {
		module, name, _ := f.Import()
		g.imports = append(g.imports, guest.Import{Module: module, Func: contractFunc(name, f)})
	}
	for name, f := range m.ExportedFunctions() {
		g.exports = append(g.exports, contractFunc(name, f))
	}
}

// contractFunc is a function in the words of sdk/abi; both encode types as the binary format does.
func contractFunc(name string, f api.FunctionDefinition) abi.Func {
	out := abi.Func{Name: name}
	for _, p := range f.ParamTypes() {
		out.Params = append(out.Params, abi.Type(p))
	}
	for _, r := range f.ResultTypes() {
		out.Results = append(out.Results, abi.Type(r))
	}
	return out
}

// contractHost answers a guest's imports by the guest.Host of its lease.
func contractHost() []HostFunc {
	text := func(in *Instance, ptr, n uint64) string { return string(hostView(in, ptr, n)) }
	missing := uint64(^uint32(0))
	answers := map[string]func(in *Instance, h guest.Host, stack []uint64){
		"log":        func(in *Instance, h guest.Host, s []uint64) { h.Log(uint32(s[0]), text(in, s[1], s[2])) },
		"vocab_size": func(_ *Instance, h guest.Host, s []uint64) { s[0] = uint64(h.VocabSize()) },
		"rand_u64":   func(_ *Instance, h guest.Host, s []uint64) { s[0] = h.Rand() },
		"token_bytes": func(in *Instance, h guest.Host, s []uint64) {
			b, ok := h.TokenBytes(uint32(s[0]))
			if !ok {
				s[0] = missing
				return
			}
			if len(b) <= int(uint32(s[2])) {
				copy(hostView(in, s[1], uint64(len(b))), b)
			}
			s[0] = uint64(len(b))
		},
		"token_flags": func(_ *Instance, h guest.Host, s []uint64) {
			flags, ok := h.TokenFlags(uint32(s[0]))
			if s[0] = uint64(flags); !ok {
				s[0] = missing
			}
		},
		"encode": func(in *Instance, h guest.Host, s []uint64) {
			ids, ok := h.Encode(text(in, s[0], s[1]))
			if !ok {
				s[0] = missing
				return
			}
			if len(ids) <= int(uint32(s[3])) {
				out := hostView(in, s[2], uint64(4*len(ids)))
				for i, id := range ids {
					binary.LittleEndian.PutUint32(out[4*i:], id)
				}
			}
			s[0] = uint64(len(ids))
		},
	}
	var out []HostFunc
	for _, f := range abi.Imports {
		answer := answers[f.Name]
		out = append(out, HostFunc{Module: "tgi", Name: f.Name, Sig: shortSig(f), Func: func(in *Instance, stack []uint64) {
			answer(in, in.Host().(guest.Host), stack)
		}})
	}
	return out
}

func shortSig(f abi.Func) Signature {
	letter := map[abi.Type]string{abi.I32: "i", abi.I64: "I", abi.F32: "f", abi.F64: "F"}
	short := ""
	for _, p := range f.Params {
		short += letter[p]
	}
	short += ":"
	for _, r := range f.Results {
		short += letter[r]
	}
	return Sig(short)
}

// hostView is a part of a guest's memory; what lies outside of it ends the call.
func hostView(in *Instance, ptr, n uint64) []byte {
	b, err := in.View("argument", uint32(ptr), uint32(n))
	if err != nil {
		in.Fail(err)
	}
	return b
}

func (g *contractGuest) Exports() []abi.Func     { return g.exports }
func (g *contractGuest) Imports() []guest.Import { return g.imports }

// Load implements guest.Guest with a pool of its own, closed at the test's end.
func (g *contractGuest) Load(h guest.Host) (guest.Instance, error) {
	pool, err := g.module.NewPool(PoolConfig{Lease: Lease{Host: h}, Init: func(in *Instance) error {
		if f := in.Func("_initialize"); f != nil {
			_, err := in.Call(f, nil, plenty)
			return err
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	g.t.Cleanup(func() {
		pool.Close()
		select {
		case <-pool.Drained():
		case <-time.After(time.Minute): // a bound for a broken pool, not a measurement
			g.t.Error("not all instances were given back")
		}
	})
	in, err := pool.Take(Lease{Host: h})
	if err != nil {
		return nil, err
	}
	return &contractInstance{pool, in, h}, nil
}

// contractInstance implements guest.Instance.
type contractInstance struct {
	pool *Pool
	in   *Instance
	host guest.Host
}

func (i *contractInstance) Call(export string, args ...uint64) (uint64, error) {
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	_, err := i.in.Call(i.in.Func(export), stack, plenty)
	return stack[0], err
}

func (i *contractInstance) Memory() []byte {
	b, err := i.in.View("memory", 0, uint32(i.in.MemoryBytes()))
	if err != nil {
		return nil
	}
	return b
}

func (i *contractInstance) Fork() (guest.Instance, error) {
	in, err := i.pool.Clone(i.in, Lease{Host: i.host})
	if err != nil {
		return nil, err
	}
	return &contractInstance{i.pool, in, i.host}, nil
}

func (i *contractInstance) Close() { i.pool.Put(i.in) }
