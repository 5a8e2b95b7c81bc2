package cuda

import "fmt"

// Device describes a device.
type Device struct {
	// Index counts the devices that CUDA shows to this process, from 0; CUDA_VISIBLE_DEVICES selects and orders them.
	Index int
	Name  string
	// Major and Minor are the compute capability.
	Major, Minor int
	// Memory is in bytes.
	Memory int64
	// Bandwidth of the memory in bytes a second, by its clock and width; 0 where CUDA does not say.
	Bandwidth int64
}

// String is what a banner says of the device.
func (d Device) String() string {
	return fmt.Sprintf("%s (cuda:%d, compute capability %d.%d, %d GiB)", d.Name, d.Index, d.Major, d.Minor, d.Memory>>30)
}

// capabilities are those for which ONNX Runtime's GPU library 1.30 has machine code. It has none that a driver could
// compile for others; code for a capability runs on later ones of the same major version.
var capabilities = []struct{ major, minor int }{{7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {12, 0}}

// Supported returns nil if ONNX Runtime's GPU library has code for the device, or an error that wraps ErrUnavailable.
func (d Device) Supported() error {
	for _, c := range capabilities {
		if d.Major == c.major && d.Minor >= c.minor {
			return nil
		}
	}
	return fmt.Errorf("%w: %s has compute capability %d.%d, and ONNX Runtime's GPU library has code for "+
		"7.5, 8.x, 9.0 and 12.x only: set [runtime] device = \"cpu\"", ErrUnavailable, d.Name, d.Major, d.Minor)
}

// BFloat16 reports whether the device computes with bfloat16.
func (d Device) BFloat16() bool { return d.Major >= 8 }

// Error is a failed call of CUDA's runtime.
type Error struct {
	// Op is what was tried.
	Op string
	// Code is CUDA's number of the error, Text its text.
	Code int
	Text string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: CUDA error %d: %s", e.Op, e.Code, e.Text) }

// Codes of errors that this package knows (driver_types.h of CUDA 13).
const (
	outOfMemory        = 2
	insufficientDriver = 35
	noDevice           = 100
)

// OutOfMemory reports whether the device has no memory left.
func (e *Error) OutOfMemory() bool { return e.Code == outOfMemory }

// needs is the version of CUDA that a driver must support at least.
const needs = 13000

// version formats CUDA's number of a version, such as 13000 for 13.0.
func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// countError is the error of counting devices; driver is the version of CUDA that the driver supports, 0 if unknown.
func countError(e *Error, driver int) error {
	switch {
	case e.Code == insufficientDriver || driver > 0 && driver < needs:
		has := "an older CUDA"
		if driver > 0 {
			has = "CUDA " + version(driver)
		}
		return fmt.Errorf("%w: the driver is too old: it supports %s, and CUDA %s is needed: %s", ErrUnavailable, has,
			version(needs), driverRemedy)
	case e.Code == noDevice:
		return noneFound()
	}
	return fmt.Errorf("%w: %w: %s", ErrUnavailable, e, driverRemedy)
}

// noneFound is the error of a machine, or a process, without a device.
func noneFound() error {
	return fmt.Errorf("%w: the driver finds no device: look at `nvidia-smi`, at CUDA_VISIBLE_DEVICES, and in a container "+
		"at its GPU option, or set [runtime] device = \"cpu\"", ErrUnavailable)
}
