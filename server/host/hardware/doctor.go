package hardware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"tgi/runtime/cuda"
	"tgi/runtime/ort"
	"tgi/runtime/ort/fetch"
	"tgi/server/config"
)

// Fetch puts ONNX Runtime for NVIDIA GPUs and CUDA's libraries into the cache folder. The log says how much that is,
// then how far it got.
func Fetch(ctx context.Context, log io.Writer) error {
	_, err := fetch.GPU(ctx, fetch.GPUAll, fetch.Options{Log: log})
	return err
}

// Finding is a line of a diagnosis: what was looked at and what was found, and what to do where a GPU cannot be used.
type Finding struct {
	What, Found, Cure string
	Bad               bool
}

// Diagnose says of all that a GPU needs whether it is there, and last what models compute on with these settings. The
// error is that of a setting which cannot be met.
func Diagnose(device, library string) ([]Finding, Choice, error) {
	cuda.SaveSignals()
	defer cuda.RestoreSignals() // which the driver changes when it starts
	return diagnose(device, library, here)
}

func diagnose(device, library string, m machine) ([]Finding, Choice, error) {
	rows := m.findings(library)
	choice, err := choose(device, library, m)
	last := Finding{What: "device = " + device, Found: choice.String() + ": " + choice.Why}
	if err != nil {
		last = Finding{What: last.What, Found: "cannot be used: " + cure(err), Bad: true,
			Cure: "put ONNX Runtime's library there, or set runtime.ort_lib to its file"}
		if kind, _, _ := config.ParseDevice(device); kind == config.DeviceCUDA {
			last.Cure = "mend what the lines about the GPU say, or set runtime.device to cpu"
		}
	}
	return append(rows, last), choice, err
}

// findings looks at one thing after the other: what needs one that is missing is not looked at.
func (m machine) findings(library string) []Finding {
	out := []Finding{{What: "driver", Found: "found"}}
	driver := m.driver()
	if !driver {
		out[0] = Finding{"driver", "no NVIDIA driver",
			"to compute on a GPU, install NVIDIA's driver, version 580 or newer", true}
	}
	path, folder, err := m.gpuLibrary(library)
	if err != nil {
		return append(out, Finding{"GPU library", cure(err), "to compute on a GPU, run `tgi doctor --fetch cuda`", true})
	}
	out = append(out, Finding{What: "GPU library", Found: path})
	if !driver {
		return out
	}
	if err := m.load(folder); err != nil {
		return append(out, Finding{"CUDA libraries", cure(err),
			"run `tgi doctor --fetch cuda`, and update a driver that is too old", true})
	}
	out = append(out, Finding{What: "CUDA libraries", Found: "loaded"})
	devices, err := m.devices()
	if err != nil {
		return append(out, Finding{"devices", cure(err), "show the process a GPU (CUDA_VISIBLE_DEVICES)", true})
	}
	for _, d := range devices {
		f := Finding{What: fmt.Sprintf("cuda:%d", d.Index), Found: d.String()}
		if err := d.Supported(); err != nil {
			f.Found, f.Cure, f.Bad = cure(err), "choose another device by runtime.device", true
		}
		out = append(out, f)
	}
	return out
}

// cure is the text of an error without the general words that it begins with.
func cure(err error) string {
	for _, general := range []error{cuda.ErrUnavailable, ort.ErrLibrary} {
		if errors.Is(err, general) {
			return strings.TrimPrefix(err.Error(), general.Error()+": ")
		}
	}
	return err.Error()
}
