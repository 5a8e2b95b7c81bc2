package check

// Limits bound what the module may use, as those of [plugin.limits] do. A zero field means the default.
type Limits struct {
	Memory         int64 // bytes of an instance; default 64 MiB
	FuelPerStep    int64 // of process and sample, on average over a few steps; default 2,000,000 (about 0.4 ms)
	FuelPerRequest int64 // of validate and begin, each; default 50,000,000 (about 10 ms)
	FuelLoad       int64 // of each call until the snapshot; default 2,000,000,000 (about 0.4 s)
}

// stepsSaved is how many steps' fuel an instance can have at once: a Go guest's collector needs such a burst now and then.
const stepsSaved = 8

const pageBytes = 64 << 10

// WithDefaults gives l with every zero field set to its default.
func (l Limits) WithDefaults() Limits {
	for _, d := range []struct {
		field *int64
		value int64
	}{{&l.Memory, 64 << 20}, {&l.FuelPerStep, 2_000_000}, {&l.FuelPerRequest, 50_000_000}, {&l.FuelLoad, 2_000_000_000}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return l
}

// pages is the bound on memory in WebAssembly's unit, at least one.
func (l Limits) pages() int { return int(max(1, l.Memory/pageBytes)) }
