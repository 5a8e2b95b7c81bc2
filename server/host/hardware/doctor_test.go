package hardware

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tgi/runtime/cuda"
	"tgi/runtime/ort"
	"tgi/server/config"
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
			want: []string{"driver not found: to compute", "GPU library the GPU build is not installed: run make",
				"auto CPU: there is no"}},
		"no driver": {device: "auto", want: []string{"driver not found", "GPU library gpu.so", "auto CPU"}},
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
		var out strings.Builder
		if err := diagnose(&out, c.device, "", m); !errors.Is(err, c.err) {
			t.Errorf("%s: error %v, want %v", name, err, c.err)
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

// TestFetchNames: what cannot be fetched is named, before anything is downloaded or looked at.
func TestFetchNames(t *testing.T) {
	var out, log strings.Builder
	err := Doctor(t.Context(), "rocm", config.Runtime{Device: "cpu"}, &out, &log)
	if err == nil || !strings.Contains(err.Error(), `"rocm"`) || log.Len()+out.Len() > 0 {
		t.Errorf("%v, printed %q, log %q", err, &out, &log)
	}
}
