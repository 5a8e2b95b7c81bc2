package guest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Limits bounds one plugin. A zero field means the default, which depends on the kinds that the module serves: the
// greatest of theirs. A unit of fuel is about 0.2 ns.
type Limits struct {
	// Memory: bytes an instance may have, in units of 64 KiB; default 64 MiB, for kinds template, tools and grammar 256
	// MiB.
	Memory int64
	// FuelPerStep: for process, for sample, for feed, for check, for propose, and for each of accept, mask, forced and
	// key, on average; default 2,000,000 (0.4 ms); see [Burst].
	FuelPerStep int64
	// FuelPerRequest: for validate, for each begin, for render, for compile and for finish; default 50,000,000 (10 ms),
	// for kind tools 500,000,000 (0.1 s), for kinds template, grammar and program 5,000,000,000 (1 s). Room for what is
	// handed over is paid from it too. A program has FuelPerStep more for each token that its contexts generated.
	FuelPerRequest int64
	// FuelLoad: for all from instantiation to init; default 10,000,000,000 (2 s): a walk over a large vocabulary.
	FuelLoad int64

	// TimePerStep, TimePerRequest and TimeLoad bound how long calls run, for what no price in fuel can foresee; default
	// 1 s, 10 s and 60 s. The first two hold for each call that the fuel of the same name is for, the third for all
	// together. Unlike fuel they depend on the machine and on what else runs there, so they are far above what the fuel
	// allows to usual code (a step 3.2 ms, a request 1 s, loading 2 s): a plugin that works must not fail on a busy
	// day.
	TimePerStep, TimePerRequest, TimeLoad time.Duration
	// Share is how many cores the calls may have in the long run, all together, while others wait for tokens; default
	// sandbox.DefaultShare, for what is trusted sandbox.TrustedShare. Without a governor it means nothing.
	Share float64
}

// Names of the limits, as operators know them.
const (
	fuelPerStep    = "fuel_per_step"
	fuelPerRequest = "fuel_per_request"
	fuelLoad       = "fuel_load"
	timePerStep    = "time_per_step"
	timePerRequest = "time_per_request"
	timeLoad       = "time_load"
)

func (l Limits) step(fuel int64) sandbox.Budget {
	return sandbox.Budget{Fuel: fuel, Time: l.TimePerStep, FuelLimit: fuelPerStep, TimeLimit: timePerStep}
}

func (l Limits) request(fuel int64) sandbox.Budget {
	return sandbox.Budget{Fuel: fuel, Time: l.TimePerRequest, FuelLimit: fuelPerRequest, TimeLimit: timePerRequest}
}

// Load is the budget of all calls from instantiation to init, and the start function's too.
func (l Limits) Load() sandbox.Budget {
	return sandbox.Budget{Fuel: l.FuelLoad, Time: l.TimeLoad, FuelLimit: fuelLoad, TimeLimit: timeLoad}
}

// Budget is that of one call of an export outside loading. saved is the fuel that a call at a step has.
func (l Limits) Budget(export string, saved int64) sandbox.Budget {
	if EachStep(export) {
		return l.step(saved)
	}
	return l.request(l.FuelPerRequest)
}

// EachStep reports whether an export is called at every step, or with every piece, and paid from what a sequence saved
// for it: see [Entry].
func EachStep(export string) bool {
	switch export {
	case Process, Sample, Feed, GuardCheck, Propose, Accept, Mask, Forced, Key:
		return true
	}
	return false
}

// AtLoad reports whether an export is called before the snapshot alone, or for the host's own room, and paid from the
// fuel of loading.
func AtLoad(export string) bool {
	switch export {
	case abi.Initialize, "tgi_describe", "tgi_init", "tgi_alloc", "tgi_logits_step", "tgi_guard_step":
		return true
	}
	return false
}

// Burst is how many steps' fuel a sequence can save for one call: a guest with a garbage collector needs it now and
// then. A sequence begins with one step's, beside that of its first step: more would let every new request of a hostile
// guest hold up the others for as long.
const Burst = 8

// pageBytes is the unit of a guest's memory.
const pageBytes = 65536

// requestFuel is the default of FuelPerRequest by kind.
var requestFuel = map[string]int64{
	abi.KindLogits: 50_000_000, abi.KindSampler: 50_000_000, abi.KindTemplate: 5_000_000_000,
	abi.KindTools:   500_000_000,
	abi.KindGrammar: 5_000_000_000,
	abi.KindGuard:   50_000_000,
	abi.KindProgram: 5_000_000_000,
	abi.KindDraft:   50_000_000,
}

// WithDefaults gives l with its zero fields set, for a module that serves kinds. The error names a field that is out of
// bounds.
func (l Limits) WithDefaults(kinds []string) (Limits, error) {
	memory, request := int64(64<<20), requestFuel[abi.KindLogits]
	for _, k := range kinds {
		request = max(request, requestFuel[k])
		if !Steps(k) && k != abi.KindProgram {
			memory = 256 << 20
		}
	}
	for _, d := range []struct {
		name           string
		field          *int64
		value, low, up int64
	}{
		{"memory", &l.Memory, memory, pageBytes, 1 << 32},
		{"fuel per step", &l.FuelPerStep, 2_000_000, 1, maxFuel},
		{"fuel per request", &l.FuelPerRequest, request, 1, maxFuel},
		{"fuel at load", &l.FuelLoad, 10_000_000_000, 1, maxFuel},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		if *d.field < d.low || *d.field > d.up {
			return l, fmt.Errorf("%s: %d is not from %d to %d", d.name, *d.field, d.low, d.up)
		}
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
		value time.Duration
	}{
		{timePerStep, &l.TimePerStep, time.Second},
		{timePerRequest, &l.TimePerRequest, 10 * time.Second},
		{timeLoad, &l.TimeLoad, time.Minute},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		if *d.field < 0 {
			return l, fmt.Errorf("%s: %v is negative", d.name, *d.field)
		}
	}
	if l.Share == 0 {
		l.Share = sandbox.DefaultShare
	}
	if !(l.Share >= minShare && l.Share <= maxShare) {
		return l, fmt.Errorf("share: %v is not from %v to %v", l.Share, minShare, maxShare)
	}
	return l, nil
}

// LimitsOf gives l with the defaults that hold for a module, trusted or not. The error names a field that is out of
// bounds.
func LimitsOf(wasm []byte, trusted bool, l Limits) (Limits, error) {
	if trusted && l.Share == 0 {
		l.Share = sandbox.TrustedShare
	}
	return l.WithDefaults(Kinds(wasm))
}

// minShare keeps pauses below seconds; maxShare is more than any machine has.
const minShare, maxShare = 0.01, 1024.0

// maxFuel keeps sums of budgets far from overflowing; it is two days.
const maxFuel = 1 << 50

// Converses reports whether a kind works on conversations, before and after the token loop, and not in it.
func Converses(kind string) bool { return kind == abi.KindTemplate || kind == abi.KindTools }

// Steps reports whether a kind works in the token loop from a sequence's prompt on, so that Begin begins it.
func Steps(kind string) bool {
	return kind == abi.KindLogits || kind == abi.KindSampler || kind == abi.KindGuard || kind == abi.KindDraft
}

// Kinds tells from a module's bytes of which kinds there are exports. Of what is no module it finds none; whether the
// exports are right is Load's to say.
func Kinds(wasm []byte) (out []string) {
	names := exportNames(wasm)
	for _, k := range kinds {
		if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, abi.ReservedPrefix+k+"_") }) {
			out = append(out, k)
		}
	}
	return out
}

// exportSection is the number of the section of exports in WebAssembly's binary format.
const exportSection = 7

// exportNames reads the names in the section of exports, as far as they can be read: the limits of a module must be
// known before it is decoded as a whole.
func exportNames(wasm []byte) (names []string) {
	r := reader(wasm[min(8, len(wasm)):])
	for len(r) > 0 {
		id, size := r[0], uint64(0)
		r = r[1:]
		body, ok := reader(nil), r.number(&size)
		if ok {
			body, ok = r.take(size)
		}
		if !ok {
			return nil
		}
		if id == exportSection {
			return body.exports()
		}
	}
	return nil
}

// reader is what is left of a module.
type reader []byte

// number reads one in LEB128.
func (r *reader) number(to *uint64) bool {
	v, n := binary.Uvarint(*r)
	if n <= 0 {
		return false
	}
	*to, *r = v, (*r)[n:]
	return true
}

func (r *reader) take(n uint64) (reader, bool) {
	if n > uint64(len(*r)) {
		return nil, false
	}
	b := (*r)[:n]
	*r = (*r)[n:]
	return b, true
}

func (r reader) exports() (names []string) {
	var count uint64
	for r.number(&count); count > 0; count-- {
		var size, index uint64
		if !r.number(&size) {
			break
		}
		name, ok := r.take(size)
		if _, kind := r.take(1); !ok || !kind || !r.number(&index) {
			break
		}
		names = append(names, string(name))
	}
	return names
}
