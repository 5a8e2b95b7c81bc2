package catalog

import "testing"

func TestParameterCount(t *testing.T) {
	for n, want := range map[int64]string{0: "-", 103232: "103K", 5246208: "5.2M", 494_032_768: "494.0M",
		7_000_000_000: "7.0B"} {
		if got := ParameterCount(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
