package hardware

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tgi/runtime/cuda"
	"tgi/runtime/ort"
)

// TestDiagnose: every fault is named with its cure, and nothing behind it is looked at.
func TestDiagnose(t *testing.T) {
	noLibrary := fmt.Errorf("%w: the GPU build is not installed: run make", ort.ErrLibrary)
	tooOld := fmt.Errorf("%w: the driver is too old: it supports CUDA 12.2", cuda.ErrUnavailable)
	noDevice := fmt.Errorf("%w: the driver finds no device", cuda.ErrUnavailable)
	for name, c := range map[string]struct {
		device                        string
		driver                        bool
		libraryErr, loadErr, countErr error
		devices                       []cuda.Device
		want                          []string // words of each line
		err                           error
	}{
		"nothing": {device: "auto", libraryErr: noLibrary,
			want: []string{"driver no NVIDIA driver", "GPU library the GPU build is not installed: run make",
				"auto CPU: there is no"}},
		"no driver": {device: "auto", want: []string{"driver no NVIDIA driver", "GPU library gpu.so", "auto CPU"}},
		"driver too old": {device: "auto", driver: true, loadErr: tooOld,
			want: []string{"driver found", "GPU library", "CUDA libraries the driver is too old",
				"auto CPU: CUDA is not"}},
		"no device": {device: "cuda", driver: true, countErr: noDevice, err: cuda.ErrUnavailable,
			want: []string{"driver", "GPU library", "CUDA libraries loaded",
				"devices the driver finds no", "cuda cannot"}},
		"one of two": {device: "auto", driver: true, devices: []cuda.Device{b200, ampere},
			want: []string{"driver", "GPU library", "CUDA libraries", "cuda:0 B200 has compute capability 10.0",
				"cuda:1 A100", "auto A100"}},
		"the CPU": {device: "cpu", driver: true, devices: []cuda.Device{h200},
			want: []string{"driver", "GPU library", "CUDA libraries", "cuda:0 H200",
				"cpu CPU: runtime.device says so"}},
	} {
		m := machine{
			cpuLibrary: func(string) (string, error) { return "cpu.so", nil },
			gpuLibrary: func(string) (string, string, error) { return "gpu.so", "/gpu", c.libraryErr },
			driver:     func() bool { return c.driver },
			load:       func(...string) error { return c.loadErr },
			devices:    func() ([]cuda.Device, error) { return c.devices, c.countErr },
		}
		rows, _, err := diagnose(c.device, "", m)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: error %v, want %v", name, err, c.err)
		}
		var out strings.Builder
		for _, f := range rows {
			fmt.Fprintf(&out, "%-16s %s\n", f.What, f.Found)
			if f.Bad && f.Cure == "" {
				t.Errorf("%s: %s has no cure", name, f.What)
			}
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", name, len(lines), len(c.want), &out)
			continue
		}
		for i, line := range lines {
			if got := strings.Join(strings.Fields(line), " "); !strings.Contains(got, c.want[i]) {
				t.Errorf("%s: %q does not say %q", name, got, c.want[i])
			}
		}
	}
}
