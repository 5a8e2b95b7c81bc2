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

const pageBytes = 64 << 10
