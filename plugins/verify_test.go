package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// TestVerify: what the settings' verification refuses does not open a set, and in a reload the version that serves
// stays; it sees the bytes that are loaded.
func TestVerify(t *testing.T) {
	refuse := errors.New("nobody signed it")
	allowed := spec(t, "a", bias(1).Wasm())
	var seen []byte
	allowed.Verify = func(module []byte) error { seen = module; return nil }
	s := open(t, Options{Specs: []Spec{allowed}})
	if string(seen) != string(bias(1).Wasm()) {
		t.Errorf("it saw %d bytes", len(seen))
	}
	for name, wasm := range map[string][]byte{"a new module": bias(2).Wasm(), "what serves": bias(1).Wasm()} {
		next := spec(t, "a", wasm)
		next.Verify = func([]byte) error { return refuse }
		if r := reload(t, s, []Spec{next}, nil, nil, nil, []string{"a"}); !errors.Is(r.Failed["a"], refuse) {
			t.Errorf("%s: %v", name, r.Failed)
		}
		if logit(t, s, "a") != 1 {
			t.Errorf("%s: another version serves", name)
		}
	}
	refused := spec(t, "a", bias(1).Wasm())
	refused.Verify = func([]byte) error { return refuse }
	if _, err := Open(t.Context(), options(t, Options{Specs: []Spec{refused}})); !errors.Is(err, refuse) {
		t.Errorf("opened: %v", err)
	}
	// The digest is checked first: what is verified is what was locked.
	called := false
	sum := sha256.Sum256(bias(1).Wasm())
	locked := spec(t, "a", bias(2).Wasm())
	locked.SHA256, locked.Verify = hex.EncodeToString(sum[:]), func([]byte) error { called = true; return nil }
	_, err := Open(t.Context(), options(t, Options{Specs: []Spec{locked}}))
	if err == nil || called || !strings.Contains(err.Error(), "has sha256") ||
		!strings.Contains(err.Error(), locked.SHA256) || !strings.Contains(err.Error(), locked.Source) {
		t.Errorf("%v, verified: %v", err, called)
	}
}
