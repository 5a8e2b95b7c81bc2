package rewrite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"tgi/plugins/internal/sandbox/rewrite"
)

// wide has limits that allow everything wazero accepts.
var wide = rewrite.Limits{
	ModuleBytes: 1 << 30, Types: 1 << 20, Functions: 1 << 20, BodyBytes: 1 << 27, Locals: 1 << 20,
	LocalsByJoins: 1 << 40,
	Depth:         1 << 20, Params: 10_000, Imports: 10_000, Exports: 100_000, Globals: 10_000, Tables: 10_000,
	TableElements: math.MaxUint32, Segments: 100_000, MemoryPages: 65536, NameBytes: 1 << 20, OutputBytes: 1 << 30,
}

// world runs modules one way: as they are in the engine's interpreter, or rewritten in its compiler.
type world struct {
	rewritten bool
	runtime   wazero.Runtime
	slice     int64
	ticks     int
	maxTicks  int // a call that ticks more often is ended; 0: never
	limits    rewrite.Limits
}

var errTicks = errors.New("too many ticks")

func newWorld(tb testing.TB, rewritten bool) *world { return limitedWorld(tb, rewritten, wide) }

func limitedWorld(tb testing.TB, rewritten bool, limits rewrite.Limits) *world {
	ctx := context.Background()
	cfg := wazero.NewRuntimeConfigInterpreter()
	if rewritten {
		cfg = wazero.NewRuntimeConfig()
	}
	w := &world{rewritten: rewritten, slice: 50, limits: limits}
	w.runtime = wazero.NewRuntimeWithConfig(ctx, cfg.WithCoreFeatures(api.CoreFeaturesV2).
		WithMemoryLimitPages(uint32(limits.MemoryPages)))
	tb.Cleanup(func() { w.runtime.Close(ctx) })
	_, err := w.runtime.NewHostModuleBuilder(rewrite.TickModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, _ []uint64) {
			w.ticks++
			if w.maxTicks > 0 && w.ticks > w.maxTicks {
				panic(errTicks)
			}
			m.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal).Set(uint64(w.slice))
		}), nil, nil).Export(rewrite.TickName).Instantiate(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// load instantiates a module under a name (which may be empty) and runs its start function.
func (w *world) load(name string, bin []byte) (api.Module, error) {
	ctx := context.Background()
	var info *rewrite.Info
	if w.rewritten {
		out, in, err := rewrite.Rewrite(bin, w.limits)
		if err != nil {
			return nil, err
		}
		bin, info = out, in
	}
	code, err := w.runtime.CompileModule(ctx, bin)
	if err != nil {
		return nil, err
	}
	m, err := w.runtime.InstantiateModule(ctx, code, wazero.NewModuleConfig().WithName(name).WithStartFunctions())
	if err != nil {
		return nil, err
	}
	if info != nil && info.Start {
		if _, err := m.ExportedFunction(rewrite.StartFunc).Call(ctx); err != nil {
			m.Close(ctx)
			return nil, err
		}
	}
	return m, nil
}

// outcome is the result of a call: values, or the trap's cause.
type outcome struct {
	values []uint64
	types  []api.ValueType
	trap   string
}

func (w *world) call(m api.Module, export string, args ...uint64) outcome {
	f := m.ExportedFunction(export)
	if f == nil {
		return outcome{trap: "no export " + export}
	}
	before := w.depth(m)
	values, err := f.Call(context.Background(), args...)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return outcome{trap: err.Error()}
	}
	if after := w.depth(m); after != before {
		return outcome{trap: fmt.Sprintf("%d bytes of stack, %d before the call", after, before)}
	}
	return outcome{values: values, types: f.Definition().ResultTypes()}
}

// depth is the module's estimate of its stack; after a trap the estimate at that time.
func (w *world) depth(m api.Module) uint64 {
	if !w.rewritten {
		return 0
	}
	return m.ExportedGlobal(rewrite.DepthGlobal).Get()
}

// same compares the results of both worlds. The bits of a NaN are not specified, and references are addresses.
func same(a, b outcome) error {
	if a.trap != b.trap {
		return fmt.Errorf("trap %q, rewritten %q", a.trap, b.trap)
	}
	if len(a.values) != len(b.values) {
		return fmt.Errorf("%d values, rewritten %d", len(a.values), len(b.values))
	}
	i := 0
	for _, t := range a.types {
		x, y := a.values[i], b.values[i]
		ok := x == y
		switch t {
		case api.ValueTypeI32:
			ok = uint32(x) == uint32(y)
		case api.ValueTypeF32:
			ok = sameF32(uint32(x), uint32(y))
		case api.ValueTypeF64:
			ok = sameF64(x, y)
		case api.ValueTypeExternref, api.ValueType(rewrite.FuncRef):
			ok = (x == 0) == (y == 0)
		case api.ValueType(rewrite.V128):
			ok = sameV128(a.values[i:i+2], b.values[i:i+2])
			i++
		}
		if !ok {
			return fmt.Errorf("values %x, rewritten %x", a.values, b.values)
		}
		i++
	}
	return nil
}

func sameF32(x, y uint32) bool {
	return x == y || math.Float32frombits(x) != math.Float32frombits(x) &&
		math.Float32frombits(y) != math.Float32frombits(y)
}

func sameF64(x, y uint64) bool {
	return x == y || math.IsNaN(math.Float64frombits(x)) && math.IsNaN(math.Float64frombits(y))
}

func sameV128(x, y []uint64) bool {
	as64 := sameF64(x[0], y[0]) && sameF64(x[1], y[1])
	as32 := true
	for i := range x {
		as32 = as32 && sameF32(uint32(x[i]), uint32(y[i])) && sameF32(uint32(x[i]>>32), uint32(y[i]>>32))
	}
	return as64 || as32
}

// sameMemory compares the memories of two instances of one module.
func sameMemory(a, b api.Module) error {
	if reflect.ValueOf(a.Memory()).IsNil() || reflect.ValueOf(b.Memory()).IsNil() { // the engine gives a typed nil
		return nil
	}
	if a.Memory().Size() != b.Memory().Size() {
		return fmt.Errorf("memory of %d bytes, rewritten %d", a.Memory().Size(), b.Memory().Size())
	}
	x, _ := a.Memory().Read(0, a.Memory().Size())
	y, _ := b.Memory().Read(0, b.Memory().Size())
	if !bytes.Equal(x, y) {
		return errors.New("memories differ")
	}
	return nil
}
