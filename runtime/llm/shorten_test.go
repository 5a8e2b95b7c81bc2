package llm

import (
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	full, wide := strings.Repeat("a", MaxShown), strings.Repeat("é", MaxShown)
	for in, want := range map[string]string{
		"": "", full: full, full + "b": full + "…", "a" + wide: "a" + wide[:MaxShown-2] + "…",
		strings.Repeat("\x80", MaxShown+1): "…",
	} {
		if got := Shorten(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
