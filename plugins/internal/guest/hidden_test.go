package guest_test

import (
	"errors"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
)

// TestHiddenState: a guest with state outside the snapshot is initialised for each sequence, so its init must be short,
// whatever fuel the operator grants; an expensive one is refused with the reason.
func TestHiddenState(t *testing.T) {
	load := func(code ...guesttest.Code) (*guest.Guest, error) {
		f := guesttest.Fake{Table: true, Code: map[string]guesttest.Code{"tgi_init": guesttest.Join(append(code,
			guesttest.Long(0))...)}}
		return loadWith(t, guest.Config{Wasm: f.Wasm(), Limits: guest.Limits{FuelLoad: 1 << 40}})
	}
	g, err := load(guesttest.SetTable())
	if err != nil || g.CanClone() {
		t.Fatalf("a small init: %v, a sequence can be cloned", err)
	}
	_, err = load(guesttest.SetTable(), guesttest.Spin())
	var f *sandbox.Fault
	if !errors.As(err, &f) || f.Budget > sandbox.HiddenFuel ||
		!strings.Contains(err.Error(), "may use 10000000 units of fuel") ||
		!strings.Contains(err.Error(), ": table.set)") {
		t.Errorf("an init without end: %v", err)
	}
}
