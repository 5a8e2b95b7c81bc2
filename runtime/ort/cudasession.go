package ort

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	binding "github.com/yalue/onnxruntime_go"
)

// cudaOptions have a session run on a CUDA device.
type cudaOptions struct {
	device int
	// stream is the CUDA stream that the session computes on; the caller owns it.
	stream unsafe.Pointer
	// graphs lets runs be captured as CUDA graphs.
	graphs bool
	// mixedGEMM multiplies 4-bit and 8-bit matrices with 16-bit floats by kernels of their own. The session profiles
	// them while it opens.
	mixedGEMM bool
}

// apply adds the CUDA provider to a session's options.
func (o cudaOptions) apply(so *binding.SessionOptions) error {
	p, err := binding.NewCUDAProviderOptions()
	if err != nil {
		return err
	}
	defer p.Destroy()
	err = p.Update(map[string]string{
		"device_id":         strconv.Itoa(o.device),
		"enable_cuda_graph": strconv.Itoa(int(flag(o.graphs))),
		// What is left of the device's memory is the cache's: the arena takes no more than steps need.
		"arena_extend_strategy": arenaStrategy,
	})
	if err != nil {
		return err
	}
	raw, err := cudaHandle(p)
	if err != nil {
		return err
	}
	if err := takeError(C.tgi_cuda_stream(raw, o.stream)); err != nil {
		return err
	}
	return errors.Join(
		so.AppendExecutionProviderCUDA(p),
		// A node that only the CPU has would copy its tensors at every step.
		so.AddSessionConfigEntry("session.disable_cpu_ep_fallback", "1"),
		so.AddSessionConfigEntry("ep.cuda.fpa_intb_gemm", strconv.Itoa(int(flag(o.mixedGEMM)))),
	)
}

// arenaStrategy is an option by whose value cudaHandle verifies the pointer: it is not the default.
const arenaStrategy = "kSameAsRequested"

// cudaHandle returns the C object of the binding's options, which is the only field of the struct. It verifies this
// by reading, through the pointer, an option that was set through the binding.
func cudaHandle(p *binding.CUDAProviderOptions) (*C.OrtCUDAProviderOptionsV2, error) {
	if unsafe.Sizeof(*p) != unsafe.Sizeof(uintptr(0)) {
		return nil, errors.New("BUG: the binding's CUDAProviderOptions is not one pointer")
	}
	raw := *(**C.OrtCUDAProviderOptionsV2)(unsafe.Pointer(p))
	var text *C.char
	if err := takeError(C.tgi_cuda_text(raw, &text)); err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(text))
	if !strings.Contains(C.GoString(text), "arena_extend_strategy="+arenaStrategy) {
		return nil, fmt.Errorf("BUG: the binding's CUDAProviderOptions is not what it points to: %s", C.GoString(text))
	}
	return raw, nil
}

// Node is a node of a model as ONNX Runtime computes it, after its optimisations.
type Node struct{ Provider, Operator, Name string }

// Nodes returns the model's nodes.
func (m *CUDA) Nodes() (list []Node, err error) {
	m.thread.do(func() {
		var placed []placement
		if placed, err = m.session.nodes(); err == nil {
			for _, p := range placed {
				list = append(list, Node{p.provider, p.operator, p.name})
			}
		}
	})
	return list, err
}
