package check

import "testing"

func TestSizeText(t *testing.T) {
	for n, want := range map[int]string{64 << 10: "64KiB", 3 << 20: "3MiB", 2 << 30: "2GiB", 65 << 10: "65KiB",
		7: "7B"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
