// Package sandbox runs untrusted WebAssembly guests so that they can harm nobody: metered by fuel, interruptible every
// few dozen microseconds, confined to their memory, and fresh for every sequence.
//
// It owns the engine (this is the only package that imports wazero), the import table that guests see, instances, their
// snapshots and pools. It knows nothing of plugin kinds: callers name host functions and the exports they want.
//
// The life of a guest: [Engine.Compile] checks the module, rewrites it (package rewrite) and has it compiled by a
// process of its own, or finds it in use or in the cache on disk; [Module.NewPool] makes one instance, runs its start
// function and the caller's init, and takes a snapshot; [Pool.Take] gives an instance that is in the snapshot's state,
// [Instance.Run] runs an export under a budget, [Pool.Put] resets the instance for the next taker or, after a fault,
// throws it away.
//
// Fuel is deterministic: the same module, input and seed use the same fuel. A unit is roughly one instruction and a
// fifth of a nanosecond of compiled code. What no price can foresee (loads from beyond the caches, the first touch of a
// page) is bounded in time: by limits of calls, and by a [Governor] that lets guests have their share of the
// processors.
//
// The reasons behind it: docs/rationale/plugins.md.
package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tgi/plugins/internal/sandbox/rewrite"
)

// engineVersion is wazero's, as required in go.mod (a test compares). It is part of the cache's key.
const engineVersion = "v1.12.0"

// DefaultSlice is the most fuel between two ticks: about 50 us of compiled code. Code that is slower gets less.
const DefaultSlice = 250_000

// Limits bounds what a module may contain; see the package rewrite for the table of limits, defaults and prices.
type Limits = rewrite.Limits

// Signature is a function's type, e.g. Sig("ii:I").
type Signature = rewrite.Signature

// Sig reads a signature in short form: parameters, a colon, results; i is i32, I i64, f f32, F f64. Anything else is a
// mistake of the program and panics.
func Sig(short string) Signature {
	var s Signature
	list := &s.Params
	for _, c := range short {
		switch c {
		case 'i':
			*list = append(*list, rewrite.I32)
		case 'I':
			*list = append(*list, rewrite.I64)
		case 'f':
			*list = append(*list, rewrite.F32)
		case 'F':
			*list = append(*list, rewrite.F64)
		case ':':
			list = &s.Results
		default:
			panic("BUG: signature " + short)
		}
	}
	return s
}

// Config is what all modules of an engine share. The zero value works.
type Config struct {
	CacheDir string // folder for compiled modules, created when missing; "" keeps nothing on disk
	// CacheBytes bounds what is in CacheDir: what was used longest ago goes first. 0 means no bound.
	CacheBytes int64
	Slice      int64 // the most fuel between two ticks; 0 means DefaultSlice
	PlainCopy  bool  // reset by copying memory where copy-on-write could be used (tests, comparison)
	Compile    CompileLimits
	// Warn is told what went wrong with the cache while a module was compiled, which works without; nil drops it. It
	// may be called from any goroutine.
	Warn func(what, module string, why error)
	// Compiling is told of a module that the cache does not have, before it is compiled, which may take seconds; nil
	// drops it. It may be called from any goroutine.
	Compiling func(module string)
	Quota     *Quota // of the memory; nil means one without a bound
}

// Engine compiles modules. It is safe for concurrent use and holds nothing that needs closing. Modules of the same
// bytes, limits and cache share their compiled code, whichever engine they are of, and nothing that can change: the
// last that is closed frees it.
type Engine struct {
	cache      string // "" without
	shared     string // the folder in memory that the system has, "" without
	cacheBytes int64
	slice      int64
	plain      bool
	compile    CompileLimits
	log        func(what, module string, why error)
	compiling  func(module string)
	quota      *Quota
}

// New makes an engine.
func New(c Config) (*Engine, error) {
	e := &Engine{slice: c.Slice, plain: c.PlainCopy, compile: c.Compile.WithDefaults(), cacheBytes: c.CacheBytes,
		log: c.Warn, compiling: c.Compiling, quota: c.Quota}
	if runtime.GOOS == "linux" {
		e.shared = "/dev/shm"
	}
	if e.quota == nil {
		e.quota = NewQuota(QuotaConfig{})
	}
	if err := e.compile.check(); err != nil {
		return nil, err
	}
	if e.slice < 0 {
		return nil, fmt.Errorf("fuel slice %d: it must not be negative", c.Slice)
	}
	if e.slice == 0 {
		e.slice = DefaultSlice
	}
	if c.CacheDir != "" {
		dir, err := filepath.Abs(filepath.Join(c.CacheDir, fmt.Sprintf("compiled-%s-wazero-%s",
			rewrite.Fingerprint(), engineVersion)))
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err != nil {
			return nil, fmt.Errorf("compilation cache: %w", err)
		}
		e.cache = dir
	}
	for _, place := range e.outputDirs() {
		sweep(place)
	}
	e.trim()
	return e, nil
}

// ModuleConfig is what one module is given.
type ModuleConfig struct {
	Name    string     // in errors and log lines
	Limits  Limits     // zero fields mean defaults
	Host    []HostFunc // what the module may import beside the WASI stub
	Exports []Export   // what it must export
	// Check looks for faults beyond missing exports, before anything is compiled. Its error stands in one with all
	// faults of imports and exports. It may use the module's name and exports alone. nil finds none.
	Check func(*Module) error
	Log   func(Line) // gets the guest's output, rate limited; called from any goroutine, must not block; nil drops it
	// Start is the budget of the module's start function; without fuel it has DefaultStartFuel.
	Start Budget
	// Trusted modules may take ten times as long to compile: they are known to end, and are needed on slow machines
	// too.
	Trusted bool
}

// HiddenFuel is the most that a module's start function may use if the module keeps state that a snapshot can't hold,
// and the most that a pool's Init should grant: both run for every instance then, on the way of a request.
const HiddenFuel = 10_000_000

// trustedTimes is how much longer a trusted module may take to compile.
const trustedTimes = 10

// DefaultStartFuel is about a second.
const DefaultStartFuel = 2_000_000_000

// callContext is the context that the engine hands to host functions: it leads them to the instance without a lookup.
type callContext struct{ in *Instance }

// Deadline implements context.Context: none. Cancellation is by tick.
func (callContext) Deadline() (t time.Time, ok bool) { return }

// Done implements context.Context: never.
func (callContext) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (callContext) Err() error { return nil }

// Value implements context.Context: there are none.
func (callContext) Value(any) any { return nil }
