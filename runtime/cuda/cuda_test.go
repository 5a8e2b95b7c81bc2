package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSupported: code for a capability runs on later ones of its major version, and on no others.
func TestSupported(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		ok, bf16     bool
	}{
		{6, 1, false, false}, {7, 0, false, false}, {7, 5, true, false}, {8, 0, true, true}, {8, 7, true, true},
		{8, 9, true, true}, {9, 0, true, true}, {10, 0, false, true}, {10, 3, false, true}, {12, 0, true, true},
		{12, 1, true, true}, {13, 0, false, true},
	} {
		d := Device{Name: "NVIDIA X", Major: c.major, Minor: c.minor}
		err := d.Supported()
		if (err == nil) != c.ok || d.BFloat16() != c.bf16 {
			t.Errorf("%d.%d: %v, bfloat16 %v", c.major, c.minor, err, d.BFloat16())
		}
		if err != nil && (!errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "NVIDIA X") ||
			!strings.Contains(err.Error(), "device = \"cpu\"")) {
			t.Errorf("%d.%d: %v", c.major, c.minor, err)
		}
	}
}

// TestCountErrors: each reason why there are no devices says what to do.
func TestCountErrors(t *testing.T) {
	for _, c := range []struct {
		code, driver int
		want         string
	}{
		{insufficientDriver, 0, "the driver is too old: it supports an older CUDA, and CUDA 13.0 is needed: install"},
		{insufficientDriver, 12040, "the driver is too old: it supports CUDA 12.4, and CUDA 13.0 is needed"},
		{noDevice, 12080, "too old: it supports CUDA 12.8"},
		{noDevice, 13000, "the driver finds no device: look at `nvidia-smi`"},
		{999, 13000, "counting: CUDA error 999: unknown: install"},
	} {
		err := countError(&Error{Op: "counting", Code: c.code, Text: "unknown"}, c.driver)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("code %d, driver %d: %v", c.code, c.driver, err)
		}
	}
}

// TestFind: the first folder that has a library is taken, the system's loader for the others.
func TestFind(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(b, "libcudart.so.13"), filepath.Join(a, "libcublas.so.13"),
		filepath.Join(b, "libcublas.so.13")} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(a, "libcurand.so.10"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := find([]string{a, b})
	want := []string{"libcuda.so.1", filepath.Join(b, "libcudart.so.13"), "libcublasLt.so.13",
		filepath.Join(a, "libcublas.so.13"), "libcurand.so.10"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s is taken from %s, want %s", names[i], got[i], want[i])
		}
	}
}

// TestMissing: a library that does not open is named, with what to do.
func TestMissing(t *testing.T) {
	there := filepath.Join(t.TempDir(), "libcublas.so.13")
	if err := os.WriteFile(there, []byte("no ELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		i    int
		path string
		want string
	}{
		{driverLibrary, "libcuda.so.1", "no driver: libcuda.so.1 does not open (why): install NVIDIA's driver"},
		{3, "libcublas.so.13", "libcublas.so.13 is missing: run `make ort-cuda`"},
		{3, there, there + " does not open (why): run"},
	} {
		err := missing(c.i, c.path, c.path+": why")
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

// TestSentences: why CUDA cannot be used is one sentence, which ends with what to do.
func TestSentences(t *testing.T) {
	old := &Error{Code: insufficientDriver, Text: "CUDA driver version is insufficient"}
	gone := &Error{Code: noDevice, Text: "no CUDA-capable device is detected"}
	for name, c := range map[string]struct {
		err  error
		cure string
	}{
		"no driver":      {missing(driverLibrary, names[driverLibrary], "cannot open shared object file"), driverRemedy},
		"driver too old": {countError(old, 12080), driverRemedy},
		"no device":      {countError(gone, needs), `device = "cpu"`},
		"none shown":     {noneFound(), `device = "cpu"`},
		"capability":     {Device{Name: "NVIDIA B200", Major: 10}.Supported(), `device = "cpu"`},
		"a library":      {missing(2, names[2], "cannot open shared object file"), remedy},
	} {
		text := c.err.Error()
		if !strings.HasPrefix(text, ErrUnavailable.Error()+": ") || !strings.HasSuffix(text, c.cure) ||
			strings.ContainsAny(text, "\n") || strings.Contains(text, ". ") || strings.Count(text, c.cure) != 1 {
			t.Errorf("%s: %q does not end with %q", name, text, c.cure)
		}
	}
}
