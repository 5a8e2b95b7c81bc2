package cuda

/*
#include <stdlib.h>
#include "kernel.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Kernel is a function that runs on a device.
type Kernel struct {
	device           int
	module, function unsafe.Pointer
}

// LoadKernel has the driver compile PTX for a device and returns its function of the given name. The caller must Close
// it. Load must have succeeded.
func LoadKernel(device int, ptx, name string) (*Kernel, error) {
	text, function := C.CString(ptx), C.CString(name)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(function))
	k := &Kernel{device: device}
	if err := driverError("loading the kernel "+name,
		C.tgi_kernel_load(C.int(device), text, function, &k.module, &k.function)); err != nil {
		return nil, err
	}
	return k, nil
}

// Launch asks a stream for a grid of blocks with so many threads each. Arguments are the kernel's parameters, in their
// order; those of 4 bytes are the lower half.
func (k *Kernel) Launch(s *Stream, blocks, threads int, arguments ...uint64) error {
	if len(arguments) == 0 || len(arguments) > C.TGI_KERNEL_ARGUMENTS {
		return fmt.Errorf("BUG: a kernel with %d arguments", len(arguments))
	}
	return driverError("launching a kernel", C.tgi_kernel_launch(C.int(k.device), k.function, C.uint(blocks),
		1, C.uint(threads), s.pointer, (*C.uint64_t)(&arguments[0]), C.int(len(arguments))))
}

// Close gives the kernel back; none of its launches may be under way.
func (k *Kernel) Close() error {
	return driverError("unloading a kernel", C.tgi_kernel_unload(C.int(k.device), k.module))
}

// driverError is the error of a call of the driver, or nil.
func driverError(op string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &Error{Op: op, Code: int(code), Text: C.GoString(C.tgi_kernel_error(code))}
}

// Pointer is CUDA's own handle of the function, for callers in C.
func (k *Kernel) Pointer() unsafe.Pointer { return k.function }

// KernelCalls are tgi_kernel_launch and tgi_kernel_error of kernel.h, for callers in C of other packages.
func KernelCalls() (launch, text unsafe.Pointer) {
	return C.tgi_kernel_launch, C.tgi_kernel_error
}
