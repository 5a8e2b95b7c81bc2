package rewrite_test

import (
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"tgi/plugins/internal/sandbox/rewrite"
)

// TestCosts checks that slow instructions are charged accordingly, at their position.
func TestCosts(t *testing.T) {
	w := newWorld(t, true)
	w.slice = 1 << 40
	const times = 100
	for _, c := range []struct {
		name, params string
		code         []byte // takes what it leaves
		cost         int64
	}{
		{"f64.neg", "F", []byte{0x9a}, 1},
		{"f64.sqrt", "F", []byte{0x9f}, 24},
		{"f64.floor", "F", []byte{0x9c}, 3},
		{"i32.popcnt", "i", []byte{0x69}, 1},
		{"i64.div_u", "I", []byte{0x42, 3, 0x80}, 1 + 16},
		{"i32.div_s", "i", []byte{0x41, 3, 0x6d}, 1 + 10},
		{"f64x2.sqrt", "v", []byte{0xfd, 0xef, 0x01}, 24},
		{"i8x16.neg", "v", []byte{0xfd, 0x61}, 2},
		{"i32.trunc_sat_f64_s", "i", []byte{0xb7, 0xfc, 2}, 6 + 6},
		{"memory.grow", "i", []byte{0x1a, 0x41, 0, 0x40, 0}, 2 + 200},
	} {
		m, err := w.load("", single(c.params, c.params, cat([]byte{0x20, 0}, slices.Repeat(c.code, times))...))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fuel := m.ExportedGlobal(rewrite.FuelGlobal).(api.MutableGlobal)
		fuel.Set(1 << 40)
		args := []uint64{7}
		if c.params == "v" {
			args = append(args, 7)
		}
		if out := w.call(m, "f", args...); out.trap != "" {
			t.Fatalf("%s: %s", c.name, out.trap)
		}
		used := 1<<40 - int64(fuel.Get())
		if beside := used - times*c.cost; beside < 0 || beside > 20 {
			t.Errorf("%s: %d times cost %d, %d each wanted", c.name, times, used, c.cost)
		}
	}
}
