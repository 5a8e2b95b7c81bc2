package guest_test

import (
	"errors"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// TestOptionalExport checks that an optional export may be missing, and otherwise needs the right signature and kind.
func TestOptionalExport(t *testing.T) {
	const name = "tgi_tools_constraint"
	code := map[string]guesttest.Code{name: guesttest.Const(0)}
	for _, has := range []bool{false, true} {
		f := guesttest.Fake{Description: guesttest.Tools}
		if has {
			f.Code = code
		}
		g, err := load(t, f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Open(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Guest().Has(name) != has {
			t.Errorf("Has gives %v of a guest that was made with %v", !has, has)
		}
		s.Close()
	}
	other := []abi.Func{{Name: name, Params: []abi.Type{abi.I32}, Results: []abi.Type{abi.I64}}}
	_, err := load(t, guesttest.Fake{Description: guesttest.Tools, Extra: other,
		Code: map[string]guesttest.Code{name: guesttest.Long(0)}})
	if !errors.Is(err, sandbox.ErrExport) || !strings.Contains(err.Error(), name) {
		t.Errorf("another signature: %v", err)
	}
	_, err = load(t, guesttest.Fake{Description: guesttest.Template, Code: code})
	if !errors.Is(err, guest.ErrDescription) ||
		!strings.Contains(err.Error(), name+` is exported, but kinds lacks "tools"`) {
		t.Errorf("another kind: %v", err)
	}
}
