//go:build !linux

package cuda

import "unsafe"

// Kernel is a function that runs on a device; there is none here.
type Kernel struct{}

// LoadKernel fails: Load has failed.
func LoadKernel(int, string, string) (*Kernel, error) { return nil, errSystem }

// Launch fails: there are no kernels.
func (*Kernel) Launch(*Stream, int, int, ...uint64) error { return errSystem }

// Close fails: there are no kernels.
func (*Kernel) Close() error { return errSystem }

// Pointer returns nil: there are no kernels.
func (*Kernel) Pointer() unsafe.Pointer { return nil }

// KernelCalls returns nil: there are no kernels.
func KernelCalls() (launch, text unsafe.Pointer) { return nil, nil }
