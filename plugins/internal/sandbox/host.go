package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"tgi/plugins/internal/sandbox/rewrite"
)

// hostFuel is what a call of a host function costs the guest.
const hostFuel = 200

// HostFunc is one function that guests may import.
//
// Func runs on the goroutine of the call, with the instance that calls. stack holds the arguments and takes the results
// in their place (i32 and f32 in the low half, the high half zero). Func may read and write the guest's memory through
// the instance, must charge for work that grows with an argument ([Instance.Charge]), ends the call with
// [Instance.Fail], and must not call the instance.
type HostFunc struct {
	Module, Name string
	Sig          Signature
	Func         func(in *Instance, stack []uint64)
}

// link finds a host function for each import and names all that are not offered.
func link(info *rewrite.Info, offered []HostFunc) ([]HostFunc, error) {
	var found []HostFunc
	var errs []error
	seen := map[[2]string]bool{}
	for _, im := range info.Imports {
		if im.Kind != rewrite.KindFunc {
			errs = append(errs, fmt.Errorf("%w %q %q is a %v: only functions can be imported", ErrImport, im.Module,
				im.Name, im.Kind))
			continue
		}
		h, err := match(im, offered)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if key := [2]string{im.Module, im.Name}; !seen[key] {
			seen[key] = true
			found = append(found, h)
		}
	}
	return found, errors.Join(errs...)
}

func match(im rewrite.Import, offered []HostFunc) (HostFunc, error) {
	for _, list := range [][]HostFunc{offered, wasi()} {
		for _, h := range list {
			if h.Module != im.Module || h.Name != im.Name {
				continue
			}
			if !h.Sig.Equal(im.Sig) {
				return h, fmt.Errorf("%w %q %q is a function %v, %v wanted", ErrImport, im.Module, im.Name, im.Sig,
					h.Sig)
			}
			return h, nil
		}
	}
	if im.Module == rewrite.TickModule && im.Name == rewrite.TickName {
		return HostFunc{}, fmt.Errorf("%w %q %q is reserved", ErrImport, im.Module, im.Name)
	}
	return HostFunc{}, &NotOffered{im.Module, im.Name, im.Sig}
}

// NotOffered is the error for an import that the host does not have. It matches ErrImport.
type NotOffered struct {
	Module, Name string
	Sig          Signature
}

// Error names the import.
func (e *NotOffered) Error() string {
	return fmt.Sprintf("%v %q %q, a function %v, is not offered", ErrImport, e.Module, e.Name, e.Sig)
}

// Unwrap is for package errors.
func (e *NotOffered) Unwrap() error { return ErrImport }

// instantiateHost gives the runtime the functions that the module imports, and tick. Each calls the function of that
// place in the list of the instance's own module: other modules with this code have functions of their own.
func (c *compiled) instantiateHost(ctx context.Context, host []HostFunc) error {
	byModule := map[string][]int{rewrite.TickModule: nil}
	for i, h := range host {
		byModule[h.Module] = append(byModule[h.Module], i)
	}
	for name, list := range byModule {
		b := c.runtime.NewHostModuleBuilder(name)
		for _, place := range list {
			h := host[place]
			narrow := narrowParams(h.Sig)
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
				in := ctx.(*callContext).in
				in.meter.hosted = 0
				in.Charge(hostFuel)
				for _, i := range narrow {
					stack[i] = uint64(uint32(stack[i])) // the engine leaves what was there in the high half
				}
				in.module.host[place].Func(in, stack)
			}), types(h.Sig.Params), types(h.Sig.Results)).Export(h.Name)
		}
		if name == rewrite.TickModule {
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, _ []uint64) {
				ctx.(*callContext).in.tick()
			}), nil, nil).Export(rewrite.TickName)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("host functions of %q: %w", name, err)
		}
	}
	return nil
}

// narrowParams lists the parameters that fill half a slot of the stack.
func narrowParams(s Signature) (list []int) {
	for i, t := range s.Params {
		if t == rewrite.I32 || t == rewrite.F32 {
			list = append(list, i)
		}
	}
	return list
}

func types(ts []rewrite.ValueType) []api.ValueType {
	out := make([]api.ValueType, len(ts))
	for i, t := range ts {
		out[i] = api.ValueType(t)
	}
	return out
}
