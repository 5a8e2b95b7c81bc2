package guesttest

import (
	"context"
	"errors"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// plenty is more fuel than any test uses.
const plenty = 10_000_000_000

// Kit is a module as the kit drives it: export by export, over the imports of package guest and a vocabulary. Random
// numbers are those of Seed; the kit's own host is not asked.
type Kit struct {
	t       testing.TB
	module  *sandbox.Module
	imports []kit.Import
	Seed    uint64
}

// NewKit compiles a module for the kit.
func NewKit(t testing.TB, e *sandbox.Engine, wasm []byte, v guest.Vocabulary) *Kit {
	t.Helper()
	k := &Kit{t: t, Seed: 7}
	host := guest.Imports(v)
	var err error
	if k.module, err = e.Compile(context.Background(), wasm, sandbox.ModuleConfig{Name: "kit",
		Host: host}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.module.Close)
	for _, f := range abi.Imports {
		k.imports = append(k.imports, kit.Import{Module: abi.ImportModule, Func: f})
	}
	return k
}

// Exports implements the kit's Guest.
func (k *Kit) Exports() (out []abi.Func) {
	for name, sig := range k.module.Exports() {
		f := abi.Func{Name: name}
		for _, p := range sig.Params {
			f.Params = append(f.Params, abi.Type(p))
		}
		for _, r := range sig.Results {
			f.Results = append(f.Results, abi.Type(r))
		}
		out = append(out, f)
	}
	return out
}

// Imports implements the kit's Guest: all that it may use. The sandbox has checked those that it does use.
func (k *Kit) Imports() []kit.Import { return k.imports }

// Load implements the kit's Guest.
func (k *Kit) Load(kit.Host) (kit.Instance, error) {
	pool, err := k.module.NewPool(sandbox.PoolConfig{Ready: 1, Init: func(in *sandbox.Instance) error {
		if f := in.Func(abi.Initialize); f != nil {
			_, err := in.Call(f, nil, plenty)
			return err
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	k.t.Cleanup(func() {
		pool.Close()
		<-pool.Drained()
	})
	in, err := pool.Take(sandbox.Lease{Seed: k.Seed})
	if err != nil {
		return nil, err
	}
	return &played{k, pool, in}, nil
}

// played implements the kit's Instance.
type played struct {
	k    *Kit
	pool *sandbox.Pool
	in   *sandbox.Instance
}

func (p *played) Call(export string, args ...uint64) (uint64, error) {
	f := p.in.Func(export)
	if f == nil {
		return 0, errors.New("there is no " + export)
	}
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	switch export {
	case "tgi_logits_begin", "tgi_sampler_begin", "tgi_template_render", "tgi_tools_begin":
		p.in.Reseed(p.k.Seed)
	}
	_, err := p.in.Call(f, stack, plenty)
	return stack[0], err
}

func (p *played) Memory() []byte { return p.in.Memory() }

func (p *played) Fork() (kit.Instance, error) {
	in, err := p.pool.Clone(p.in, sandbox.Lease{})
	if err != nil {
		return nil, err
	}
	return &played{p.k, p.pool, in}, nil
}

func (p *played) Close() { p.pool.Put(p.in) }
