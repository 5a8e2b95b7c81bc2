// Package hardware says what a process computes on: it finds the libraries, the driver and the devices, and chooses as
// the setting runtime.device asks. It loads CUDA where that is chosen or may be, and ONNX Runtime nowhere.
//
// Its caller is server/host. It starts no goroutines.
package hardware

import (
	"fmt"

	"tgi/models"
	"tgi/runtime/cuda"
	"tgi/runtime/ort"
	"tgi/server/config"
)

// Choice is what a process computes on.
type Choice struct {
	models.Processor
	// CUDA describes the device; zero on the CPU.
	CUDA cuda.Device
	// Library is the path of the ONNX Runtime library to load.
	Library string
	// Why says in a few words why this was chosen.
	Why string
}

// String names what was chosen, for a banner.
func (c Choice) String() string {
	if c.Device == models.CUDA {
		return c.CUDA.String()
	}
	return "CPU"
}

// Choose decides what to compute on. device and library are the settings runtime.device and runtime.ort_lib. With the
// device "auto" a GPU that cannot be used is no error: Why says what is in the way. Other errors wrap ort.ErrLibrary
// or cuda.ErrUnavailable, or name the setting.
func Choose(device, library string) (Choice, error) {
	cuda.SaveSignals()
	defer cuda.RestoreSignals() // which the driver changes when it starts
	return choose(device, library, here)
}

// here is the machine that the process runs on.
var here = machine{
	cpuLibrary: ort.Locate, gpuLibrary: ort.LocateGPU, load: cuda.Load, devices: cuda.Devices,
	driver: cuda.DriverPresent,
}

// machine is what there is to choose from.
type machine struct {
	cpuLibrary func(explicit string) (string, error)
	gpuLibrary func(explicit string) (path, folder string, err error)
	driver     func() bool
	load       func(folders ...string) error
	devices    func() ([]cuda.Device, error)
}

func choose(device, library string, m machine) (Choice, error) {
	kind, index, err := config.ParseDevice(device)
	if err != nil {
		return Choice{}, fmt.Errorf("runtime.device %w", err)
	}
	switch kind {
	case config.DeviceCPU:
		return m.onCPU(library, "runtime.device says so")
	case config.DeviceCUDA:
		return m.onGPU(library, index, fmt.Sprintf("runtime.device is %s", device))
	}
	if !m.driver() {
		return m.onCPU(library, "there is no NVIDIA driver")
	}
	c, err := m.onGPU(library, -1, "it is there, with its driver and libraries")
	if err != nil {
		return m.onCPU(library, err.Error())
	}
	return c, nil
}

func (m machine) onCPU(library, why string) (Choice, error) {
	path, err := m.cpuLibrary(library)
	return Choice{Processor: models.Processor{Device: models.CPU}, Library: path, Why: why}, err
}

// onGPU chooses the device of an index, or with -1 the first that can be used.
func (m machine) onGPU(library string, index int, why string) (Choice, error) {
	path, folder, err := m.gpuLibrary(library)
	if err != nil {
		return Choice{}, err
	}
	if err := m.load(folder); err != nil {
		return Choice{}, err
	}
	devices, err := m.devices()
	if err != nil {
		return Choice{}, err
	}
	d, err := pick(devices, index)
	if err != nil {
		return Choice{}, err
	}
	return Choice{
		Processor: models.Processor{Device: models.CUDA, Major: d.Major, Minor: d.Minor},
		CUDA:      d, Library: path, Why: why,
	}, nil
}

// pick returns the device of an index, or with -1 the first that ONNX Runtime's library has code for.
func pick(devices []cuda.Device, index int) (cuda.Device, error) {
	if index >= len(devices) {
		return cuda.Device{}, fmt.Errorf("%w: runtime.device is cuda:%d, and there are %d devices, from cuda:0 on",
			cuda.ErrUnavailable, index, len(devices))
	}
	if index >= 0 {
		return devices[index], devices[index].Supported()
	}
	var all error
	for _, d := range devices {
		err := d.Supported()
		switch {
		case err == nil:
			return d, nil
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return cuda.Device{}, all
}
