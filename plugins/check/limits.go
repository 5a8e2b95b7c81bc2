package check

import "tgi/plugins/internal/guest"

// Limits bounds what the module may use, as [plugin.limits] does. A zero field means the default.
type Limits = guest.Limits

// DefaultLimits are those of a plugin that sets none and serves kinds of the token loop alone.
func DefaultLimits() Limits {
	l, err := Limits{}.WithDefaults(nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return l
}

// LimitsOf gives l with the defaults that a module has by the kinds that it serves. The error names a field that is out
// of bounds.
func LimitsOf(wasm []byte, l Limits) (Limits, error) { return guest.LimitsOf(wasm, false, l) }

const pageBytes = 64 << 10
