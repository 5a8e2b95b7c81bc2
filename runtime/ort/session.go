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

// element is the type of a tensor's elements, in ONNX's numbering.
type element uint32

const (
	float32s  = element(C.TGI_ORT_FLOAT)
	uint8s    = element(C.TGI_ORT_UINT8)
	float16s  = element(C.TGI_ORT_FLOAT16)
	bfloat16s = element(C.TGI_ORT_BFLOAT16)
	int32s    = element(C.TGI_ORT_INT32)
	int64s    = element(C.TGI_ORT_INT64)
)

// size returns the bytes of one element.
func (e element) size() int {
	switch e {
	case int64s:
		return 8
	case float16s, bfloat16s:
		return 2
	}
	return 4
}

// tensorInfo describes an input or output of a model.
type tensorInfo struct {
	name string
	kind element
	dims []int64 // -1 where the model leaves it open
}

// session is a loaded model.
type session struct {
	c *C.struct_tgi_session
}

// sessionOptions configure a session.
type sessionOptions struct {
	threads int
	spin    bool
	// cuda has the session run on a CUDA device alone; nil on the CPU.
	cuda *cudaOptions
	// foreign says that the model was made by others: it gets no operators of ours, some of which trust their inputs.
	foreign bool
	// record keeps where each node was placed, for nodes.
	record bool
	// weights are matrices that the session has from others; they are closed after it.
	weights weights
}

// openSession loads the model at path.
func openSession(path string, o sessionOptions) (*session, error) {
	so, err := binding.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer so.Destroy()
	if err := configure(so, o); err != nil {
		return nil, err
	}
	if o.foreign { // whose errors are ours to tell
		if err := so.SetLogSeverityLevel(binding.LoggingLevelFatal); err != nil {
			return nil, err
		}
	}
	raw, err := handle(so)
	if err != nil {
		return nil, err
	}
	device := -1
	if o.cuda != nil {
		device = o.cuda.device
		err = o.cuda.apply(so)
	}
	if err == nil && !o.foreign {
		err = takeError(C.tgi_add_operators(raw, flag(o.cuda != nil)))
	}
	if err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	s := &session{}
	if err := takeError(C.tgi_session_open(name, raw, C.int(device), o.weights.c, &s.c)); err != nil {
		return nil, err
	}
	return s, nil
}

// configure fills the options.
func configure(so *binding.SessionOptions, o sessionOptions) error {
	spin, duration := "0", "0"
	if o.spin {
		spin, duration = "1", strconv.FormatInt(spinTime.Microseconds(), 10)
	}
	return errors.Join(
		so.SetIntraOpNumThreads(o.threads),
		so.SetInterOpNumThreads(1),
		so.SetExecutionMode(binding.ExecutionModeSequential),
		so.SetGraphOptimizationLevel(binding.GraphOptimizationLevelEnableAll),
		// Shapes change with every step, so memory patterns would never be reused.
		so.SetMemPattern(false),
		so.AddSessionConfigEntry("session.intra_op.allow_spinning", spin),
		so.AddSessionConfigEntry("session.intra_op.spin_duration_us", duration),
		// Weights are allocated separately, so they do not round up the arena.
		so.AddSessionConfigEntry("session.use_device_allocator_for_initializers", "1"),
		so.AddSessionConfigEntry("session.record_ep_graph_assignment_info", strconv.Itoa(int(flag(o.record)))),
		so.AddSessionConfigEntry(probeEntry, "1"),
	)
}

// probeEntry is a config entry by which handle verifies the pointer.
const probeEntry = "tgi.probeEntry"

// handle returns the C object of the binding's options, which is the only field of the struct.
// It verifies this by reading, through the pointer, an entry that was set through the binding.
func handle(so *binding.SessionOptions) (*C.OrtSessionOptions, error) {
	if unsafe.Sizeof(*so) != unsafe.Sizeof(uintptr(0)) {
		return nil, errors.New("BUG: the binding's SessionOptions is not one pointer")
	}
	raw := *(**C.OrtSessionOptions)(unsafe.Pointer(so))
	key := C.CString(probeEntry)
	defer C.free(unsafe.Pointer(key))
	var has C.int
	if err := takeError(C.tgi_has_entry(raw, key, &has)); err != nil {
		return nil, err
	}
	if has == 0 {
		return nil, errors.New("BUG: the binding's SessionOptions is not what it points to")
	}
	return raw, nil
}

// tensors lists the model's inputs, or its outputs.
func (s *session) tensors(output bool) ([]tensorInfo, error) {
	var count C.size_t
	if err := takeError(C.tgi_session_count(s.c, flag(output), &count)); err != nil {
		return nil, err
	}
	list := make([]tensorInfo, count)
	for i := range list {
		var name *C.char
		var kind C.unsigned
		var dims [8]C.int64_t
		rank := C.size_t(len(dims))
		if err := takeError(C.tgi_session_tensor(s.c, flag(output), C.size_t(i), &name, &kind, &dims[0],
			&rank)); err != nil {
			return nil, fmt.Errorf("input or output %d: %w", i, err)
		}
		list[i] = tensorInfo{name: C.GoString(name), kind: element(kind)}
		C.free(unsafe.Pointer(name))
		for _, d := range dims[:min(int(rank), len(dims))] {
			list[i].dims = append(list[i].dims, int64(d))
		}
	}
	return list, nil
}

// placement is the provider that runs a node.
type placement struct{ provider, operator, name string }

// nodes returns where the nodes were placed; the session was opened with record.
func (s *session) nodes() ([]placement, error) {
	var text *C.char
	err := takeError(C.tgi_session_nodes(s.c, &text))
	defer C.free(unsafe.Pointer(text))
	if err != nil {
		return nil, err
	}
	var list []placement
	for line := range strings.Lines(C.GoString(text)) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3); len(f) == 3 {
			list = append(list, placement{f[0], f[1], f[2]})
		}
	}
	return list, nil
}

// close frees the session, whose bound tensors are closed.
func (s *session) close() {
	if s.c != nil {
		C.tgi_session_close(s.c)
		s.c = nil
	}
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
