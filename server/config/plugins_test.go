package config

import (
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "z9", "no-repeat", "a-b-2", strings.Repeat("x", 64)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "Z", "0", "a--b", "a-", "a.b", "a_b", "-a", "_a", "a/b", "a b", "a\n", "é",
		"a%2f", "a@b", "a[b", "a`b", "a{b", strings.Repeat("x", 65)} {
		if CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// TestLongValuesAreCut: an error repeats a short piece of what was given.
func TestLongValuesAreCut(t *testing.T) {
	if err := CheckName(strings.Repeat("x", 100_000)); err == nil || len(err.Error()) > 300 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}
