package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"

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
	name     string
	sum      [sha256.Size]byte
	engine   *Engine
	compiled *compiled // shared with other modules
	info     *rewrite.Info
	host     []HostFunc // of its imports, in their order
	exports  map[string]Signature
	others   map[string]rewrite.Kind // exports that are no functions
	pages    uint32                  // the most pages an instance may have
	start    Budget                  // of the start function
	slice    atomic.Int64            // of fuel, as the instances found it last: new ones begin with it
	log      func(Line)
	lines    limiter
	share    *share // of the quota
}

// Compile checks wasm against the limits, the imports offered and the exports wanted, rewrites and compiles it. All
// missing or wrong imports and exports are named in one error, which matches ErrImport or ErrExport (or both); any
// other fault of the module matches ErrModule, and ErrCompile too where compiling it takes too much. An error that
// matches ErrNoPlace is no fault of the module. wasm is not kept.
// Cancelling ctx ends a compilation at once.
//
// A module that the process has in use already, with the same limits and cache, is neither rewritten nor compiled
// again: both share the code. Of several that want the same module at once, one compiles it and the others wait; where
// that one fails or is cancelled, the next tries for itself.
func (e *Engine) Compile(ctx context.Context, wasm []byte, c ModuleConfig) (*Module, error) {
	key := compiledKey{sha256.Sum256(wasm), c.Limits.WithDefaults(), e.cache}
	m := &Module{name: c.Name, sum: key.sum, engine: e, pages: uint32(key.limits.MemoryPages), start: c.Start,
		log: c.Log}
	m.slice.Store(e.slice)
	if m.compiled = shareCompiled(key); m.compiled == nil {
		unlock, err := preparing.lock(ctx, fmt.Sprint(key))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		defer unlock()
		m.compiled = shareCompiled(key)
	}
	var err error
	if m.compiled != nil {
		err = m.connect(m.compiled.info, c)
	} else {
		err = m.prepare(ctx, key, wasm, c)
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	m.share = e.quota.addShare(c.Name)
	return m, nil
}

// preparing is held for each module while it is looked for in the cache, or rewritten and compiled.
var preparing byKey

// prepare finds a module in the cache or rewrites and compiles it, and lets others share the code.
func (m *Module) prepare(ctx context.Context, key compiledKey, wasm []byte, c ModuleConfig) error {
	o := opening{name: m.name, key: keyOf(key), limits: m.engine.compile}
	if c.Trusted {
		o.limits = o.limits.times(trustedTimes)
	}
	made := &compiled{key: key}
	known := m.engine.lookUp(o)
	if known != nil {
		made.info, made.entry = known.info, known.path
		if err := m.connect(known.info, c); err != nil {
			return err
		}
		if !m.engine.take(ctx, made, known, o, m.host) {
			known = nil
		}
	}
	if known == nil {
		out, info, err := rewrite.Rewrite(wasm, key.limits)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrModule, err)
		}
		if err := m.connect(info, c); err != nil {
			return err
		}
		made.info = info
		if err := m.engine.compileAnew(ctx, made, out, o, m.host); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, ErrNoPlace) {
				return err
			}
			return fmt.Errorf("%w: %w", ErrModule, err)
		}
	}
	made.publish()
	m.compiled = made
	return nil
}

// connect finds the host's functions for the imports, and checks the exports.
func (m *Module) connect(info *rewrite.Info, c ModuleConfig) error {
	m.info, m.exports, m.others = info, map[string]Signature{}, map[string]rewrite.Kind{}
	if m.start.Fuel == 0 {
		m.start.Fuel = DefaultStartFuel
	}
	if info.HiddenState != "" {
		m.start.Fuel = min(m.start.Fuel, HiddenFuel)
	}
	for _, x := range info.Exports {
		if x.Kind == rewrite.KindFunc {
			m.exports[x.Name] = x.Sig
		} else {
			m.others[x.Name] = x.Kind
		}
	}
	var err error
	m.host, err = link(info, c.Host)
	err = errors.Join(err, m.Check(c.Exports))
	if c.Check != nil {
		err = errors.Join(err, c.Check(m))
	}
	return err
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

// Name returns the name from ModuleConfig.
func (m *Module) Name() string { return m.name }

// Sum returns the SHA-256 of the module's bytes.
func (m *Module) Sum() [sha256.Size]byte { return m.sum }

// Has reports whether the module exports a function of that name.
func (m *Module) Has(export string) bool { _, ok := m.exports[export]; return ok }

// Exports returns the exported functions by name. The map must not be changed.
func (m *Module) Exports() map[string]Signature { return m.exports }

// Others returns what the module exports beside functions: the kind ("memory", "global", "table") by name.
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

// Close frees the compiled code, unless another module shares it. Every instance must have been closed before: close
// the pool and wait for it. Closing twice is fine.
func (m *Module) Close() {
	if m.share != nil {
		m.engine.quota.removeShare(m.share)
	}
	if m.compiled != nil {
		m.compiled.drop()
		m.compiled = nil
	}
}
