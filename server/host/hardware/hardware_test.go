package hardware

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tgi/models"
	"tgi/runtime/cuda"
	"tgi/runtime/ort"
)

var (
	h200   = cuda.Device{Index: 0, Name: "H200", Major: 9, Memory: 141 << 30}
	b200   = cuda.Device{Index: 0, Name: "B200", Major: 10, Memory: 180 << 30}
	ampere = cuda.Device{Index: 1, Name: "A100", Major: 8, Memory: 80 << 30}
)

// TestChoose: what is taken from what there is, and what is said of it.
func TestChoose(t *testing.T) {
	noLibrary := fmt.Errorf("%w: the GPU build is not installed", ort.ErrLibrary)
	noRuntime := fmt.Errorf("%w: libcudart is missing", cuda.ErrUnavailable)
	noDevice := fmt.Errorf("%w: no device", cuda.ErrUnavailable)
	for name, c := range map[string]struct {
		setting                       string
		driver                        bool
		libraryErr, loadErr, countErr error
		devices                       []cuda.Device
		// want is a device's name, "CPU" or empty for an error; text stands in Why or in the error.
		want string
		err  error
		text string
	}{
		"cpu":                {setting: "cpu", driver: true, devices: []cuda.Device{h200}, want: "CPU", text: "says"},
		"auto, nothing":      {setting: "auto", libraryErr: noLibrary, want: "CPU", text: "no NVIDIA driver"},
		"auto, driver alone": {setting: "auto", driver: true, libraryErr: noLibrary, want: "CPU", text: "build"},
		"auto, no runtime":   {setting: "auto", driver: true, loadErr: noRuntime, want: "CPU", text: "libcudart"},
		"auto, no device":    {setting: "auto", driver: true, countErr: noDevice, want: "CPU", text: "no device"},
		"auto, too new":      {setting: "auto", driver: true, devices: []cuda.Device{b200}, want: "CPU", text: "10.0"},
		"auto, all":          {setting: "auto", driver: true, devices: []cuda.Device{h200, ampere}, want: "H200", text: "is"},
		"auto, the second":   {setting: "auto", driver: true, devices: []cuda.Device{b200, ampere}, want: "A100"},
		"cuda":               {setting: "cuda", devices: []cuda.Device{h200}, want: "H200", text: "is cuda"},
		"cuda, no library":   {setting: "cuda", libraryErr: noLibrary, err: ort.ErrLibrary, text: "not installed"},
		"cuda, no runtime":   {setting: "cuda", loadErr: noRuntime, err: cuda.ErrUnavailable, text: "libcudart"},
		"cuda, no device":    {setting: "cuda", countErr: noDevice, err: cuda.ErrUnavailable, text: "no device"},
		"cuda, too new":      {setting: "cuda", devices: []cuda.Device{b200}, err: cuda.ErrUnavailable, text: "B200"},
		"cuda, two too new": {setting: "cuda", devices: []cuda.Device{b200, b200}, err: cuda.ErrUnavailable,
			text: "; "},
		"cuda:1":            {setting: "cuda:1", devices: []cuda.Device{b200, ampere}, want: "A100", text: "cuda:1"},
		"cuda:0, of no use": {setting: "cuda:0", devices: []cuda.Device{b200}, err: cuda.ErrUnavailable, text: "10.0"},
		"cuda:1 of 1":       {setting: "cuda:1", devices: []cuda.Device{h200}, err: cuda.ErrUnavailable, text: "there are 1"},
		"a wrong word":      {setting: "gpu", err: nil, text: "runtime.device must be"},
	} {
		m := machine{
			cpuLibrary: func(string) (string, error) { return "cpu.so", nil },
			gpuLibrary: func(string) (string, string, error) { return "gpu.so", "/gpu", c.libraryErr },
			driver:     func() bool { return c.driver },
			load: func(folders ...string) error {
				if len(folders) != 1 || folders[0] != "/gpu" {
					t.Errorf("%s: CUDA from %v", name, folders)
				}
				return c.loadErr
			},
			devices: func() ([]cuda.Device, error) { return c.devices, c.countErr },
		}
		got, err := choose(c.setting, "", m)
		if c.want == "" {
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), c.text) ||
				c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		onGPU := c.want != "CPU"
		if err != nil || !strings.HasPrefix(got.String(), c.want) || !strings.Contains(got.Why, c.text) ||
			(got.Device == models.CUDA) != onGPU || (got.Library == "gpu.so") != onGPU || got.Major != got.CUDA.Major {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestNoLibraryAtAll: without a GPU the CPU's library is needed.
func TestNoLibraryAtAll(t *testing.T) {
	missing := errors.New("run make ort")
	m := machine{cpuLibrary: func(string) (string, error) { return "", missing }, driver: func() bool { return false }}
	for _, setting := range []string{"auto", "cpu"} {
		if _, err := choose(setting, "", m); !errors.Is(err, missing) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
