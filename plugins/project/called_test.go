package project

import (
	"os"
	"testing"
)

// TestCalledFrom: hints call the program as it was called, from the folder that they go to.
func TestCalledFrom(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][3]string{
		{"tgi", "mine", "tgi"}, {"bin/tgi", "mine", "../bin/tgi"}, {"../bin/tgi", "a/b", "../../../bin/tgi"},
		{"./tgi", here + "/mine", "../tgi"}, {"/opt/tgi/bin/tgi", "mine", "/opt/tgi/bin/tgi"},
	} {
		if got := CalledFrom(c[0], c[1]); got != c[2] {
			t.Errorf("%s from %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
