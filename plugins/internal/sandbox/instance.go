package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"tgi/plugins/internal/sandbox/rewrite"
)

// Instance is one guest: its memory, globals and position in its seed's random numbers. It is used by one goroutine at
// a time. Views of its memory end at the next Call, Put or Close.
type Instance struct {
	module *Module
	guest  api.Module
	memory *linear // nil for a guest without memory
	fuel   api.MutableGlobal
	depth  api.MutableGlobal
	stack  uint32 // how deep calls may be nested, as far as was paid for, at most rewrite.StackBytes
	states []state
	ctx    callContext

	meter   meter
	account *Account

	lease   Lease
	seed    rand.PCG
	slept   uint64 // nanoseconds by which the guest's clock has moved
	printed printer
	said    bool // it printed something
	broken  *Fault
	funcs   map[string]*Func
	home    *Pool     // nil for an instance of its own
	origin  *snapshot // the state it is reset to
	alloc   allocation
}

// Lease is what an instance is given for one sequence. The zero value is fine.
type Lease struct {
	Cancel <-chan struct{} // closed to end a running call at its next tick; calls begun later end at their first
	Seed   uint64          // of the guest's random numbers
	Host   any             // for host functions, by Instance.Host
	// Turn, if not nil, is what calls run by.
	Turn Turn
	// Patient says that the taker can wait when memory is short.
	Patient bool
	// Brief says that it is for one call, which begins no sequence.
	Brief bool
}

// Turn is the right to one of the processors that calls share. A call takes it before it runs, has it until Release,
// and gives it up while the governor pauses it.
type Turn interface {
	Take() bool               // waits for a processor, unless there is one already; false: cancelled
	Yield() (waited, on bool) // at a tick: may wait while others have the processors; on is false when cancelled
	Release()                 // gives up the processor, if there is one
}

// EndTurn gives up the instance's turn: later calls run as they like.
func (in *Instance) EndTurn() {
	if in.lease.Turn != nil {
		in.lease.Turn.Release()
		in.lease.Turn = nil
	}
}

// Func is an exported function of one instance.
type Func struct {
	name string
	in   *Instance
	call api.Function
}

// New makes an instance of its own, outside any pool, and runs the module's start function. Close it.
func (m *Module) New(lease Lease) (*Instance, error) { return m.fresh(lease, nil) }

// fresh is New with an account.
func (m *Module) fresh(lease Lease, a *Account) (*Instance, error) {
	in, err := m.instantiate()
	if err != nil {
		return nil, err
	}
	if err := in.setData(); err != nil {
		in.Close()
		return nil, err
	}
	in.account = a
	in.begin(lease)
	if m.info.Start {
		if _, err := in.Run(in.Func(rewrite.StartFunc), nil, m.start); err != nil {
			in.Close()
			return nil, err
		}
	}
	return in, nil
}

// instantiate makes an instance without running any of the guest's code.
func (m *Module) instantiate() (in *Instance, err error) {
	in = &Instance{module: m}
	in.meter.pacer = slicePacer{size: m.slice.Load(), max: m.engine.slice}
	in.ctx.in = in
	ctx := context.Background()
	if m.info.HasMemory {
		// Reserved here, because the engine's hook can't report an error.
		pages := min(uint64(m.pages), uint64(m.info.MemoryMax))
		b, err := m.reserve(max(pages, 1) * pageBytes)
		if err != nil {
			return nil, err
		}
		in.memory = &linear{reserved: b}
		ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(
			func(_, _ uint64) experimental.LinearMemory { return in.memory }))
	}
	cfg := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	if in.guest, err = m.compiled.runtime.InstantiateModule(ctx, m.compiled.code, cfg); err != nil {
		if in.memory != nil {
			in.release(in.memory.Free)
		}
		return nil, fmt.Errorf("%s: instantiate: %w", m.name, err)
	}
	in.fuel = in.guest.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
	in.depth = in.guest.ExportedGlobal(rewrite.DepthGlobal).(api.MutableGlobal)
	in.resetStack()
	in.states = statesOf(in)
	in.chargeNew()
	return in, nil
}

// setData writes the data segments that the engine does not have to the memory.
func (in *Instance) setData() error {
	if in.module.compiled.data == nil {
		return nil
	}
	n, memory := 0, in.memoryBytes()
	var outside error
	err := rewrite.Segments(in.module.compiled.data, func(at uint32, b []byte) bool {
		if uint64(at)+uint64(len(b)) > uint64(len(memory)) {
			outside = fmt.Errorf("%s: instantiate: data[%d]: %d bytes at 0x%x, the memory has %d", in.module.name, n,
				len(b), at, len(memory))
			return false
		}
		copy(memory[at:], b)
		n++
		return true
	})
	return errors.Join(err, outside)
}

// seedStream is the second half of every seed: any constant will do.
const seedStream = 0x9e3779b97f4a7c15

// begin gives the instance to a new sequence.
func (in *Instance) begin(l Lease) {
	in.lease = l
	in.Reseed(l.Seed)
	in.printed.reset()
}

// Module gives the instance's module.
func (in *Instance) Module() *Module { return in.module }

// Host returns the lease's Host.
func (in *Instance) Host() any { return in.lease.Host }

// Uint64 returns the next of the lease's random numbers.
func (in *Instance) Uint64() uint64 { return in.seed.Uint64() }

// Func finds an exported function, nil when there is none. The instance keeps it: the first look costs a stack for its
// calls, later ones a look into a map.
func (in *Instance) Func(export string) *Func {
	if f, ok := in.funcs[export]; ok {
		return f
	}
	call := in.guest.ExportedFunction(export)
	if call == nil {
		return nil
	}
	f := &Func{name: export, in: in, call: call}
	if in.funcs == nil {
		in.funcs = map[string]*Func{}
	}
	in.funcs[export] = f
	return f
}

// A call that nests deeply makes the engine grow its stack, which doubles it: that allocates, clears and copies, and
// the collector has to free it. It is no code of the guest, so it is paid in fuel: what a step may use up is not
// enough for an endless recursion to take long.
const (
	// freeStack is how deep calls may be nested for nothing, in the bytes that the rewriter counts.
	freeStack = 128 << 10
	// stackFuel is the price of a byte that the stack grows to, the search for the names in a fault's trace included.
	stackFuel = 16
)

// resetStack takes the depth back to what is free. The global counts from below, so that the guest ticks there.
func (in *Instance) resetStack() {
	in.stack = freeStack
	in.depth.Set(rewrite.StackBytes - freeStack)
}

// growStack lets calls nest deeper where the guest is as deep as it may be now, if the call's fuel pays for it; else it
// ends the call. rest is what is left of the slice.
func (in *Instance) growStack(rest int64) {
	for uint32(in.depth.Get()) > rewrite.StackBytes {
		if in.stack >= rewrite.StackBytes {
			panic(abortStack)
		}
		next := min(2*in.stack, rewrite.StackBytes)
		price := int64(next) * stackFuel
		if in.meter.left+rest < price {
			panic(&abort{kind: ErrTrap, cause: fmt.Sprintf(
				"stack overflow: calls nested deeper than %d bytes, twice as much is %d units of fuel, %d are left",
				in.stack, price, max(in.meter.left+rest, 0))})
		}
		in.meter.left -= price
		in.depth.Set(uint64(uint32(in.depth.Get()) - (next - in.stack)))
		in.stack = next
	}
}

// Charge takes fuel for work that a host function does for the guest, and ends the call when none is left. Only host
// functions may call it.
func (in *Instance) Charge(fuel int64) {
	rest := int64(in.fuel.Get()) - fuel
	in.fuel.Set(uint64(rest))
	in.meter.hosted += fuel
	if rest < 0 {
		in.tick()
	}
}

// Fail ends the guest's call from a host function; it does not return. The fault's kind is the sentinel of this package
// that err matches, ErrTrap if none, and its cause err's text.
func (in *Instance) Fail(err error) {
	panic(abortOf(err))
}

// View returns n bytes of the guest's memory at ptr, to read or write in place until the next call. Out of range, the
// error matches ErrAccess and names what was looked for.
func (in *Instance) View(what string, ptr, n uint32) ([]byte, error) {
	size := uint64(0)
	if in.memory != nil {
		size = in.memory.size
	}
	end := uint64(ptr) + uint64(n) // 1<<32 where the memory is as large as it can be
	if end > size {
		return nil, &Fault{
			Kind: ErrAccess, Module: in.module.name, Func: what, Log: in.printed.lines(),
			Cause: fmt.Sprintf("%d bytes at 0x%x, the memory has %d", n, ptr, size),
		}
	}
	if n == 0 {
		return nil, nil
	}
	return in.memory.reserved[ptr:end:end], nil
}

// peek is View for the stub's own use: nil when out of range.
func (in *Instance) peek(ptr, n uint64) []byte {
	if n > 1<<32-1 {
		return nil
	}
	b, _ := in.View("", uint32(ptr), uint32(n))
	return b
}

// MemoryBytes returns the size of the guest's memory.
func (in *Instance) MemoryBytes() int {
	if in.memory == nil {
		return 0
	}
	return int(in.memory.size)
}

// Memory returns all of the guest's memory, to read or write in place until the next call.
func (in *Instance) Memory() []byte {
	if in.memory == nil {
		return nil
	}
	return in.memory.bytes()
}

// Reseed starts the guest's random numbers anew, as a lease with this seed does: for a clone that must not draw those
// of its original.
func (in *Instance) Reseed(seed uint64) {
	in.lease.Seed = seed
	in.seed.Seed(seed, seedStream)
}

// Break marks the instance as broken, for a host that found what fn, an export, answered to be unusable: the pool will
// discard it. The fault's kind is ErrResult.
func (in *Instance) Break(fn, cause string) *Fault {
	f := &Fault{Kind: ErrResult, Module: in.module.name, Func: fn, Cause: cause, Log: in.printed.lines()}
	in.broken = f
	return f
}

// Close frees the instance's memory. An instance from a pool is given back with Put instead.
func (in *Instance) Close() {
	if in.guest == nil {
		return
	}
	in.free(func() {
		in.release(func() { _ = in.guest.Close(context.Background()) }) // frees memory through linear.Free
	})
	in.guest = nil
	in.broken = &Fault{Kind: ErrClosed, Module: in.module.name}
}
