package engine

import "testing"

// TestRefusal holds the form of a refusal. The test of plugins/std/goon, which reads the number, has the same text.
func TestRefusal(t *testing.T) {
	got := (&Refusal{Guard: "a 7", Left: 12}).Error()
	if want := "guard a 7 takes it back; 12 tokens are left of all that was emitted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
