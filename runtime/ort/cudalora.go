package ort

// #include <stdlib.h>
// #include "cudalora.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"tgi/runtime/cuda"
	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
)

// Low-rank adapters on a device are added by kernels of our own, of package lowrank, which the operator of
// cudalora_op.c launches behind each product. Each token names the address of its adapter there, so that adapters come
// and go without a change of the graph, recorded runs included.

// loraInput is the graph input with the address of a struct tgi_cuda_lora, in the host's memory.
const loraInput = "adapter_kernels"

// loraTokens is how many tokens the kernels compute at a time: so large is the memory between the two.
const loraTokens = 1024

// loraMatrices is the most matrices of a node: queries, keys and values.
const loraMatrices = 3

// deviceAdapters are the low-rank adapters of a model on a device.
type deviceAdapters struct {
	kernels  [2]*cuda.Kernel
	products *deviceMem
	c        buffer // a struct tgi_cuda_lora, the shapes of its matrices, and its address

	mu sync.Mutex // protects what follows
	// loaded[i] is adapter i+1; nil where there is none.
	loaded []*deviceMem
	// gone are those that were removed while a step was under way.
	gone  []*deviceMem
	under bool // a step is
}

// native is the C struct.
func (a *deviceAdapters) native() *C.struct_tgi_cuda_lora { return (*C.struct_tgi_cuda_lora)(a.c.at) }

// openAdapters loads the kernels and reserves what they need, if the model has adapters.
func (m *CUDA) openAdapters() error {
	a := &m.adapters
	if m.o.Adapters == 0 {
		return nil
	}
	for i, name := range []string{lowrank.Shrink, lowrank.Expand} {
		k, err := cuda.LoadKernel(m.o.Device, lowrank.Kernel, name)
		if err != nil {
			return fmt.Errorf("adapters: %w", err)
		}
		a.kernels[i] = k
	}
	var err error
	if a.products, err = newDeviceMem(m.o.Device, loraTokens*lowrank.ProductBytes); err != nil {
		return err
	}
	head := align(int(unsafe.Sizeof(C.struct_tgi_cuda_lora{})))
	shapes := m.o.Adapters * int(unsafe.Sizeof(C.struct_tgi_cuda_lora_shape{}))
	if err := a.c.reserve(head + shapes + int64s.size()); err != nil {
		return err
	}
	n := a.native()
	launch, text := cuda.KernelCalls()
	*n = C.struct_tgi_cuda_lora{shrink: a.kernels[0].Pointer(), expand: a.kernels[1].Pointer(), products: a.products.at,
		tokens: loraTokens, threads: lowrank.Threads, most: loraMatrices, count: C.int64_t(m.o.Adapters),
		shapes: (*C.struct_tgi_cuda_lora_shape)(unsafe.Add(a.c.at, head)), device: C.int(m.o.Device)}
	*(*unsafe.Pointer)(unsafe.Pointer(&n.launch)) = launch
	*(*unsafe.Pointer)(unsafe.Pointer(&n.error)) = text
	clear(unsafe.Slice(n.shapes, m.o.Adapters))
	*(*int64)(a.address(m.o.Adapters)) = int64(uintptr(a.c.at))
	return nil
}

// address is where the struct's address lies, which the operator reads.
func (a *deviceAdapters) address(matrices int) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(a.native().shapes), matrices*int(unsafe.Sizeof(C.struct_tgi_cuda_lora_shape{})))
}

// free gives everything back.
func (a *deviceAdapters) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, list := range [][]*deviceMem{a.loaded, a.gone} {
		for _, mem := range list {
			if mem != nil {
				mem.free()
			}
		}
	}
	a.loaded, a.gone = nil, nil
	for i, k := range a.kernels {
		if k != nil {
			_ = k.Close() // fails where the device does
			a.kernels[i] = nil
		}
	}
	if a.products != nil {
		a.products.free()
	}
	a.c.free()
}

// AdapterBytes returns the memory of the device that an adapter takes.
func (m *CUDA) AdapterBytes(sites []LowRank) int64 { return lowrank.Bytes(sites) }

// DeviceFull says that an adapter found no room on a device.
type DeviceFull struct {
	Device int
	// Bytes is what was asked for.
	Bytes int64
	// Err is the device's error.
	Err error
}

// Error says what does not fit.
func (e *DeviceFull) Error() string {
	return fmt.Sprintf("the memory of CUDA device %d is full: no room for %d bytes: %v", e.Device, e.Bytes, e.Err)
}

// Unwrap returns the device's error.
func (e *DeviceFull) Unwrap() error { return e.Err }

// AddAdapter loads an adapter onto the device and returns its number. sites has one entry for each matrix that
// CUDAOptions.Adapters counts. It may run beside steps. An error that wraps llm.ErrBackend is the device's; it wraps a
// DeviceFull if there is no room.
func (m *CUDA) AddAdapter(sites []LowRank) (llm.Adapter, error) {
	switch {
	case m.o.Adapters == 0:
		return 0, errNoAdapters
	case len(sites) != m.o.Adapters:
		return 0, fmt.Errorf("an adapter for %d matrices, the model has %d", len(sites), m.o.Adapters)
	}
	shapes := unsafe.Slice(m.adapters.native().shapes, m.o.Adapters)
	for i := range sites {
		s := &sites[i]
		err, own := s.Check(), shapes[i]
		if err == nil && s.Rank != 0 && (s.In != int(own.in) || s.Offset+s.Out > int(own.width)) {
			err = fmt.Errorf("%d by %d at column %d, the product is %d by %d", s.Out, s.In, s.Offset, own.width, own.in)
		}
		if err != nil {
			return 0, fmt.Errorf("matrix %d of the adapter: %w", i, err)
		}
	}
	loading.RLock() // no run is recorded meanwhile
	defer loading.RUnlock()
	mem, err := m.upload(sites)
	if err != nil {
		return 0, fmt.Errorf("%w: loading an adapter of %d MiB: %w", llm.ErrBackend, lowrank.Bytes(sites)>>20, err)
	}
	a := &m.adapters
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.loaded {
		if a.loaded[i] == nil {
			a.loaded[i] = mem
			return llm.Adapter(i + 1), nil
		}
	}
	a.loaded = append(a.loaded, mem)
	return llm.Adapter(len(a.loaded)), nil
}

// upload copies an adapter to the device, on a stream of its own.
func (m *CUDA) upload(sites []LowRank) (_ *deviceMem, err error) {
	bytes := int(lowrank.Bytes(sites))
	defer func() {
		if full := new(cuda.Error); errors.As(err, &full) && full.OutOfMemory() {
			err = &DeviceFull{Device: m.o.Device, Bytes: int64(bytes), Err: err}
		}
	}()
	mem, err := newDeviceMem(m.o.Device, bytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			mem.free()
		}
	}()
	host, err := newPinnedMem(m.o.Device, bytes)
	if err != nil {
		return nil, err
	}
	defer host.free()
	stream, err := cuda.NewStream(m.o.Device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	image := unsafe.Slice((*byte)(host.at), bytes)
	clear(image)
	lowrank.Image(image, sites, uint64(uintptr(mem.at)))
	return mem, errors.Join(stream.CopyIn(mem.at, host.at, bytes), stream.Synchronize())
}

// RemoveAdapter frees an adapter, after the step that runs; no later step may name it.
func (m *CUDA) RemoveAdapter(id llm.Adapter) {
	loading.RLock()
	defer loading.RUnlock()
	a := &m.adapters
	a.mu.Lock()
	defer a.mu.Unlock()
	mem := a.of(id)
	if mem == nil {
		return
	}
	a.loaded[id-1] = nil
	if a.under {
		a.gone = append(a.gone, mem)
	} else {
		mem.free()
	}
}

// of returns an adapter; nil if it is not loaded. The caller holds mu.
func (a *deviceAdapters) of(id llm.Adapter) *deviceMem {
	if id < 1 || int(id) > len(a.loaded) {
		return nil
	}
	return a.loaded[id-1]
}

// begin notes that a step will be under way, and writes the address of each token's adapter. Tokens behind those of the
// step have none.
func (a *deviceAdapters) begin(s *llm.Step, to []int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(to)
	for row, id := range s.Adapters {
		if id == llm.NoAdapter {
			continue
		}
		mem := a.of(id)
		if mem == nil {
			return fmt.Errorf("BUG: step: row %d has adapter %d, which is not loaded", row, id)
		}
		for t := s.CuSeqlens[row]; t < s.CuSeqlens[row+1]; t++ {
			to[t] = int64(uintptr(mem.at))
		}
	}
	a.under = true
	return nil
}

// ended notes that no step is under way, and frees what waited for that. The caller does not hold recording: one that
// records waits for that while it holds loading.
func (a *deviceAdapters) ended() {
	a.mu.Lock()
	gone := a.gone
	a.under, a.gone = false, nil
	a.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	loading.RLock() // no run is recorded meanwhile
	defer loading.RUnlock()
	for _, mem := range gone {
		mem.free()
	}
}

// use says whether the next run has adapters.
func (a *deviceAdapters) use(adapted bool) {
	if a.c.at != nil {
		a.native().used = flag(adapted)
	}
}

// adapted reports whether a row of a step has an adapter.
func adapted(s *llm.Step) bool {
	for _, id := range s.Adapters {
		if id != llm.NoAdapter {
			return true
		}
	}
	return false
}
