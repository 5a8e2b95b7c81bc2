package check

import "tgi/plugins/internal/guest"

// Limits bounds what the module may use, as [plugin.limits] does. A zero field means the default.
type Limits = guest.Limits

// DefaultLimits are those of a plugin that sets none.
func DefaultLimits() Limits {
	return Limits{Memory: 64 << 20, FuelPerStep: 2_000_000, FuelPerRequest: 50_000_000, FuelLoad: 10_000_000_000}
}

const pageBytes = 64 << 10

// complete gives l with every zero field set to its default.
func complete(l Limits) Limits {
	d := DefaultLimits()
	for _, f := range []struct{ to, from *int64 }{{&l.Memory, &d.Memory}, {&l.FuelPerStep, &d.FuelPerStep},
		{&l.FuelPerRequest, &d.FuelPerRequest}, {&l.FuelLoad, &d.FuelLoad}} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	return l
}
