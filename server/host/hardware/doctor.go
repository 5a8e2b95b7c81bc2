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

// Doctor writes what models compute on with these settings, and of all that a GPU needs whether it is there, with the
// cure of what is not. With parts "cuda" it first puts ONNX Runtime for NVIDIA GPUs and CUDA's libraries into the cache
// folder; the log says how much that is, then how far it got. The error is also that of a setting which cannot be met.
func Doctor(ctx context.Context, parts string, settings config.Runtime, out, log io.Writer) error {
	switch parts {
	case "":
	case "cuda":
		if _, err := fetch.GPU(ctx, fetch.GPUAll, fetch.Options{Log: log}); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--fetch must be cuda, given %q", parts)
	}
	cuda.SaveSignals()
	defer cuda.RestoreSignals() // which the driver changes when it starts
	return diagnose(out, settings.Device, settings.ORTLib, here)
}

func diagnose(w io.Writer, device, library string, m machine) error {
	rows := m.findings(library)
	choice, err := choose(device, library, m)
	if err == nil {
		rows = append(rows, finding{"device = " + device, choice.String() + ": " + choice.Why})
	} else {
		rows = append(rows, finding{"device = " + device, "cannot be used"})
	}
	for _, f := range rows {
		if _, err := fmt.Fprintf(w, "%-16s %s\n", f.what, f.text); err != nil {
			return err
		}
	}
	return err
}

// finding is a line of a diagnosis.
type finding struct{ what, text string }

// findings looks at one thing after the other: what needs one that is missing is not looked at.
func (m machine) findings(library string) []finding {
	out := []finding{{"driver", "found"}}
	driver := m.driver()
	if !driver {
		out[0].text = "not found: to compute on a GPU, install NVIDIA's driver, version 580 or newer"
	}
	path, folder, err := m.gpuLibrary(library)
	if err != nil {
		return append(out, finding{"GPU library", cure(err)})
	}
	out = append(out, finding{"GPU library", path})
	if !driver {
		return out
	}
	if err := m.load(folder); err != nil {
		return append(out, finding{"CUDA libraries", cure(err)})
	}
	out = append(out, finding{"CUDA libraries", "loaded"})
	devices, err := m.devices()
	if err != nil {
		return append(out, finding{"devices", cure(err)})
	}
	for _, d := range devices {
		text := d.String()
		if err := d.Supported(); err != nil {
			text = cure(err)
		}
		out = append(out, finding{fmt.Sprintf("cuda:%d", d.Index), text})
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
