package ort

// #include <stdlib.h>
// #include "cudaattend.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	attention "tgi/runtime/attend"
	"tgi/runtime/cuda"
)

// Attention of steps that decode is computed by a kernel of our own, of package attend, which the operator of
// cudaattend_op.c launches; the operator has ONNX Runtime's compute all other steps.

// attendInput is the graph input with the address of a struct tgi_cuda_attend, in the host's memory.
const attendInput = "attention_kernels"

// attendBlocks are the blocks for each multiprocessor that steps of few rows are split into.
const attendBlocks = 2

// deviceAttention is what the operator needs.
type deviceAttention struct {
	kernel         *cuda.Kernel // nil where there is none for the model's heads, or the driver refuses it
	refused        error
	parts, arrived *deviceMem
	c              buffer // a struct tgi_cuda_attend, and its address
}

// openAttention loads the kernel for the model's heads and reserves what it needs.
func (m *CUDA) openAttention() error {
	if m.o.Latent {
		return nil
	}
	a := &m.attention
	head := align(int(unsafe.Sizeof(C.struct_tgi_cuda_attend{})))
	if err := a.c.reserve(head + int64s.size()); err != nil {
		return err
	}
	n := (*C.struct_tgi_cuda_attend)(a.c.at)
	*n = C.struct_tgi_cuda_attend{threads: C.int64_t(attention.Threads(m.o.HeadDim)), heads: attention.Heads,
		part_keys: attention.PartKeys, most_parts: attention.MostParts, device: C.int(m.o.Device)}
	*(*int64)(a.address()) = int64(uintptr(a.c.at))
	launch, text := cuda.KernelCalls()
	*(*unsafe.Pointer)(unsafe.Pointer(&n.launch)) = launch
	*(*unsafe.Pointer)(unsafe.Pointer(&n.error)) = text
	ptx, name := attention.Kernel(m.o.HeadDim, m.kind == float16s)
	if ptx == "" {
		return nil
	}
	processors, err := cuda.Processors(m.o.Device)
	if err != nil {
		return err
	}
	kernel, err := cuda.LoadKernel(m.o.Device, ptx, name)
	if err != nil {
		a.refused = err
		return nil
	}
	a.kernel = kernel
	aim := attendBlocks * processors
	var errs [2]error
	a.parts, errs[0] = newDeviceMem(m.o.Device, 2*aim*attention.PartBytes(m.o.HeadDim))
	a.arrived, errs[1] = newDeviceMem(m.o.Device, aim*int32s.size())
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("attention: %w", err)
	}
	n.kernel, n.parts, n.arrived, n.aim = a.kernel.Pointer(), a.parts.at, a.arrived.at, C.int64_t(aim)
	return m.stream.Set(a.arrived.at, 0, aim*int32s.size())
}

// Attends returns why the device's driver does not take the kernel for steps that decode, so that ONNX Runtime computes
// their attention too; nil if it does, or there is none for the model.
func (m *CUDA) Attends() error { return m.attention.refused }

// address is where the struct's address lies, which the operator reads.
func (a *deviceAttention) address() unsafe.Pointer {
	return unsafe.Add(a.c.at, align(int(unsafe.Sizeof(C.struct_tgi_cuda_attend{}))))
}

// free gives everything back.
func (a *deviceAttention) free() {
	if a.kernel != nil {
		_ = a.kernel.Close() // fails where the device does
		a.kernel = nil
	}
	for _, mem := range []*deviceMem{a.parts, a.arrived} {
		if mem != nil {
			mem.free()
		}
	}
	a.c.free()
}
