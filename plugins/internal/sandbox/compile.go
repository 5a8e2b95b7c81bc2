package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero"

	"tgi/plugins/internal/sandbox/rewrite"
)

// Export is an exported function that a module must, or may, have.
type Export struct {
	Name     string
	Sig      Signature
	Optional bool // it may be missing, but not have another signature
}

// Module is a compiled module. It is safe for concurrent use.
type Module struct {
	name    string
	sum     [sha256.Size]byte
	engine  *Engine
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	code    wazero.CompiledModule
	info    *rewrite.Info
	exports map[string]Signature
	others  map[string]rewrite.Kind // exports that are no functions
	pages   uint32                  // the most pages an instance may have
	start   Budget                  // of the start function
	slice   atomic.Int64            // of fuel, as the instances found it last: new ones begin with it
	log     func(Line)
	lines   limiter
	share   *share // of the quota
}

// Compile checks wasm against the limits, the imports offered and the exports wanted, rewrites and compiles it. All
// missing or wrong imports and exports are named in one error, which matches ErrImport or ErrExport (or both); any
// other fault of the module matches ErrModule, and ErrCompile too where compiling it takes too much. wasm is not kept.
// Cancelling ctx ends a compilation at once.
func (e *Engine) Compile(ctx context.Context, wasm []byte, c ModuleConfig) (*Module, error) {
	limits := c.Limits.WithDefaults()
	out, info, err := rewrite.Rewrite(wasm, limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", c.Name, ErrModule, err)
	}
	m := &Module{
		name: c.Name, sum: sha256.Sum256(wasm), engine: e, info: info, exports: map[string]Signature{},
		others: map[string]rewrite.Kind{},
		pages:  uint32(limits.MemoryPages), start: c.Start, log: c.Log,
	}
	if m.start.Fuel == 0 {
		m.start.Fuel = DefaultStartFuel
	}
	if info.HiddenState != "" {
		m.start.Fuel = min(m.start.Fuel, HiddenFuel)
	}
	m.slice.Store(e.slice)
	for _, x := range info.Exports {
		if x.Kind == rewrite.KindFunc {
			m.exports[x.Name] = x.Sig
		} else {
			m.others[x.Name] = x.Kind
		}
	}
	host, err := link(info, c.Host)
	err = errors.Join(err, m.Check(c.Exports))
	if c.Check != nil {
		err = errors.Join(err, c.Check(m))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	allowed := e.compile
	if c.Trusted {
		allowed = allowed.times(trustedTimes)
	}
	if err := m.open(ctx, out, host, allowed); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, context.Cause(ctx))
		}
		return nil, fmt.Errorf("%s: %w: %w", c.Name, ErrModule, err)
	}
	m.share = e.quota.addShare(c.Name)
	return m, nil
}

// load takes the compiled module from the engine's cache in dir and instantiates the host functions that it imports. It
// compiles nothing.
func (m *Module) load(ctx context.Context, dir string, out []byte, host []HostFunc) (err error) {
	m.runtime, m.cache, err = newRuntime(ctx, dir)
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("BUG: the compiler panicked: %v", r)
		}
		if err != nil {
			m.Close()
		}
	}()
	if m.code, err = m.runtime.CompileModule(loadOnly(ctx), out); err != nil {
		return err
	}
	return m.instantiateHost(ctx, host)
}

// Check reports every export that is missing or has another signature, each in a line that names the signature wanted.
// The error matches ErrExport.
func (m *Module) Check(want []Export) error {
	var errs []error
	for _, w := range want {
		got, ok := m.exports[w.Name]
		switch {
		case ok && !got.Equal(w.Sig):
			errs = append(errs, fmt.Errorf("%w %q is a function %v, %v wanted", ErrExport, w.Name, got, w.Sig))
		case !ok && !w.Optional:
			errs = append(errs, fmt.Errorf("%w %q is missing, a function %v wanted", ErrExport, w.Name, w.Sig))
		}
	}
	return errors.Join(errs...)
}

// Name gives the name from ModuleConfig.
func (m *Module) Name() string { return m.name }

// Sum gives the SHA-256 of the module's bytes.
func (m *Module) Sum() [sha256.Size]byte { return m.sum }

// Has reports whether the module exports a function of that name.
func (m *Module) Has(export string) bool { _, ok := m.exports[export]; return ok }

// Exports gives the exported functions by name. The map must not be changed.
func (m *Module) Exports() map[string]Signature { return m.exports }

// Others gives what the module exports beside functions: the kind ("memory", "global", "table") by name.
func (m *Module) Others() map[string]string {
	out := map[string]string{}
	for name, kind := range m.others {
		out[name] = kind.String()
	}
	return out
}

// HiddenState says where the guest keeps state that a snapshot can't hold, or "" when it keeps none. Pools of such a
// module build every instance anew by running init, and can't clone.
func (m *Module) HiddenState() string { return m.info.HiddenState }

// Close frees the compiled code. Every instance must have been closed before: close the pool and wait for it.
func (m *Module) Close() {
	if m.share != nil {
		m.engine.quota.removeShare(m.share)
	}
	ctx := context.Background()
	if m.runtime != nil {
		_ = m.runtime.Close(ctx)
	}
	if m.cache != nil {
		_ = m.cache.Close(ctx)
	}
	m.runtime, m.cache = nil, nil
}
