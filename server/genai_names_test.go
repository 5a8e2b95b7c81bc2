package server

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBoundedNames: a name that is cut is still UTF-8.
func TestBoundedNames(t *testing.T) {
	if s := bounded(strings.Repeat("x", mostName-1) + "é"); !utf8.ValidString(s) || len(s) != mostName-1 {
		t.Errorf("%d bytes, %q", len(s), s[mostName-4:])
	}
}
