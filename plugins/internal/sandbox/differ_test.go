package sandbox

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// TestGuestsBehaveAsWritten runs the guests of each language as they are in the engine's interpreter and rewritten in
// the sandbox: results, memory and traps agree.
func TestGuestsBehaveAsWritten(t *testing.T) {
	type call struct {
		export string
		args   []uint64
	}
	for name, g := range map[string]struct {
		wasm  func(testing.TB) []byte
		calls []call
	}{
		"C": {func(tb testing.TB) []byte { return guestFile(tb, "walk.wasm") }, []call{
			{"init", nil}, {"walk", []uint64{1}}, {"walk", []uint64{99}}, {"spin", []uint64{5000}},
			{"tree", []uint64{8}},
			{"remember", []uint64{3}}, {"remember", []uint64{4}}, {"storm", []uint64{2, 900_000}},
			{"sum", []uint64{1024, 5000}}, {"sum", []uint64{0xffffff00, 1}}}},
		"Rust": {func(tb testing.TB) []byte { return guestFile(tb, "rusty.wasm") }, []call{
			{"digest", []uint64{50}}, {"remember", []uint64{3}}, {"remember", []uint64{4}}, {"index", []uint64{2}},
			{"index", []uint64{3}}}},
		"Go": {goGuest, []call{
			{"_initialize", nil}, {"digest", []uint64{40}}, {"remember", []uint64{3}}, {"remember", []uint64{4}},
			{"init_table", []uint64{1000}}, {"walk", []uint64{5}}, {"spin", []uint64{100}}}},
	} {
		t.Run(name, func(t *testing.T) {
			wasm := g.wasm(t)
			in := instance(t, compile(t, engine(t, Config{Slice: 500}), wasm, ModuleConfig{}))
			plain := interpreted(t, wasm)
			for _, c := range g.calls {
				stack := append(append([]uint64(nil), c.args...), 0)
				_, err := in.Call(in.Func(c.export), stack, plenty)
				want := append(append([]uint64(nil), c.args...), 0)
				ctx := callContext{in: plain}
				wantErr := plain.guest.ExportedFunction(c.export).CallWithStack(&ctx, want)
				var f *Fault
				if (err == nil) != (wantErr == nil) || errors.As(err, &f) && f.Cause != errors.Unwrap(wantErr).Error() {
					t.Fatalf("%s: %v, plain %v", c.export, err, wantErr)
				}
				if err != nil {
					break
				}
				if stack[0] != want[0] {
					t.Errorf("%s: %d, plain %d", c.export, stack[0], want[0])
				}
				got := in.memory.bytes()
				b, _ := plain.guest.Memory().Read(0, plain.guest.Memory().Size())
				if !bytes.Equal(got, b) {
					i := 0
					for ; i < min(len(got), len(b)) && got[i] == b[i]; i++ {
					}
					t.Errorf("%s: memories of %d and %d bytes differ at 0x%x", c.export, len(got), len(b), i)
				}
			}
		})
	}
}

// interpreted runs a module as it is, with the stub's functions and without fuel.
func interpreted(t *testing.T, wasm []byte) *Instance {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithMemoryLimitPages(1024))
	t.Cleanup(func() { r.Close(ctx) })
	in := &Instance{module: &Module{name: "plain"}, meter: meter{left: plenty}, memory: &linear{}}
	in.ctx.in = in
	b := r.NewHostModuleBuilder(wasiModule)
	for _, h := range wasi() {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module,
			stack []uint64) {
			mem := m.Memory()
			in.memory.reserved, _ = mem.Read(0, mem.Size())
			in.memory.size = uint64(mem.Size())
			for _, i := range narrowParams(h.Sig) {
				stack[i] = uint64(uint32(stack[i]))
			}
			h.Func(in, stack)
		}), types(h.Sig.Params), types(h.Sig.Results)).Export(h.Name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	in.guest, in.fuel = m, new(unmetered)
	in.begin(Lease{})
	return in
}

// unmetered stands in for the fuel global of a module that has none.
type unmetered struct {
	api.MutableGlobal
	v uint64
}

// Get implements api.Global.
func (u *unmetered) Get() uint64 { return plenty }

// Set implements api.MutableGlobal.
func (u *unmetered) Set(v uint64) { u.v = v }
