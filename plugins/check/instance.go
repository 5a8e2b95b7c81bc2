package check

import (
	"errors"
	"maps"
	"strings"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// instance is one instance of the sandbox as the kit wants it: a kit.Instance. It and its forks have a pool of their
// own, so that a fork goes the server's way: a snapshot's memory and globals, then a copy.
type instance struct {
	m     *module
	pool  *sandbox.Pool
	in    *sandbox.Instance // nil once closed
	host  kit.Host
	load  sandbox.Budget   // what is left for loading
	saved map[string]int64 // fuel that the sequence has for its next step, by export; what is not there is one step's
	used  int64            // fuel of the last call
	first *instance        // the one that Load made
	forks []*instance      // of the first one, for its end
}

// Load implements kit.Guest.
func (m *module) Load(h kit.Host) (kit.Instance, error) {
	i := &instance{m: m, host: h, load: m.limits.Load(), saved: map[string]int64{}}
	i.first = i
	pool, err := m.code.NewPool(sandbox.PoolConfig{Lease: sandbox.Lease{Host: leaseOf(h, m.limits)}, Ready: 1,
		Init: func(in *sandbox.Instance) error {
			f := in.Func(abi.Initialize)
			if f == nil {
				return nil
			}
			_, err := i.spend(in, f, nil)
			return err
		}})
	if err != nil {
		return nil, err
	}
	in, err := pool.Take(sandbox.Lease{Host: leaseOf(h, m.limits)})
	if err != nil {
		pool.Close()
		<-pool.Drained()
		return nil, err
	}
	i.pool, i.in = pool, in
	m.loaded = append(m.loaded, i)
	return i, nil
}

// Call implements kit.Instance: under the budget that the server gives.
func (i *instance) Call(export string, args ...uint64) (uint64, error) {
	f := i.in.Func(export)
	if f == nil {
		return 0, errors.New("it is not exported")
	}
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	var err error
	var use sandbox.Use
	switch l := i.m.limits; {
	case guest.EachStep(export):
		saved, ok := i.saved[export]
		if !ok {
			saved = l.FuelPerStep
		}
		saved = min(saved+l.FuelPerStep, guest.Burst*l.FuelPerStep)
		use, err = i.in.Run(f, stack, l.Budget(export, saved))
		i.saved[export] = saved - use.Fuel
	case guest.AtLoad(export):
		use, err = i.spend(i.in, f, stack)
	default:
		use, err = i.in.Run(f, stack, l.Budget(export, 0))
	}
	i.used = use.Fuel
	if err != nil {
		// The kit names the export itself.
		return 0, errors.New(strings.TrimPrefix(err.Error(), i.m.code.Name()+": "+export+": "))
	}
	if len(i.resultsOf(export)) == 0 {
		return 0, nil
	}
	return stack[0], nil
}

// spend runs an export from what is left for loading.
func (i *instance) spend(in *sandbox.Instance, f *sandbox.Func, stack []uint64) (sandbox.Use, error) {
	use, err := in.Run(f, stack, i.load)
	i.load.Fuel -= use.Fuel
	i.load.Spent += use.Ran
	return use, err
}

func (i *instance) resultsOf(export string) []abi.Type {
	for _, f := range i.m.exports {
		if f.Name == export {
			return f.Results
		}
	}
	return nil
}

// Memory implements kit.Instance.
func (i *instance) Memory() []byte {
	if !i.m.memory {
		return nil
	}
	b, err := i.in.View("memory", 0, uint32(i.in.MemoryBytes()))
	if err != nil {
		return nil
	}
	return b
}

// Fork implements kit.Instance.
func (i *instance) Fork() (kit.Instance, error) {
	in, err := i.pool.Clone(i.in, sandbox.Lease{Host: leaseOf(i.host, i.m.limits)})
	if err != nil {
		return nil, err
	}
	f := &instance{m: i.m, pool: i.pool, in: in, host: i.host, load: i.load, saved: maps.Clone(i.saved), first: i.first}
	i.first.forks = append(i.first.forks, f)
	return f, nil
}

// Close implements kit.Instance.
func (i *instance) Close() {
	if i.in != nil {
		i.pool.Put(i.in)
		i.in = nil
	}
}

// end gives back what is still out and waits for the pool to be empty.
func (i *instance) end() {
	for _, f := range i.forks {
		f.Close()
	}
	i.Close()
	i.pool.Close()
	<-i.pool.Drained()
}
