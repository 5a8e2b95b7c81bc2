package cuda

/*
#cgo CFLAGS: -O2 -std=gnu11
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "cuda.h"

// Calls of a table's functions, which Go cannot make.
static int get_count(int *n) { return tgi_cudart.GetDeviceCount(n); }
static int get_properties(void *p, int device) { return tgi_cudart.GetDeviceProperties(p, device); }
static int get_attribute(int *v, int attribute, int device) {
	return tgi_cudart.DeviceGetAttribute(v, attribute, device);
}
static int mem_info(int device, size_t *available, size_t *total) {
	int e = tgi_cudart.SetDevice(device);
	return e ? e : tgi_cudart.MemGetInfo(available, total);
}
static int device_malloc(int device, void **p, size_t n) {
	int e = tgi_cudart.SetDevice(device);
	return e ? e : tgi_cudart.Malloc(p, n);
}
static int device_free(int device, void *p) {
	int e = tgi_cudart.SetDevice(device);
	return e ? e : tgi_cudart.Free(p);
}
static int host_alloc(int device, void **p, size_t n) {
	int e = tgi_cudart.SetDevice(device);
	return e ? e : tgi_cudart.HostAlloc(p, n, 0);
}
static int host_free(void *p) { return tgi_cudart.FreeHost(p); }
static int stream_create(int device, void **s) {
	int e = tgi_cudart.SetDevice(device);
	return e ? e : tgi_cudart.StreamCreateWithFlags(s, 1);  // cudaStreamNonBlocking
}
static int stream_destroy(void *s) { return tgi_cudart.StreamDestroy(s); }
static int stream_wait(void *s) { return tgi_cudart.StreamSynchronize(s); }
static int stream_abort_capture(void *s) {
	void *graph = NULL;
	int capturing = 0, e = tgi_cudart.StreamIsCapturing(s, &capturing);
	if (e || !capturing) return e;
	e = tgi_cudart.StreamEndCapture(s, &graph);  // of an invalid capture it is an error, and ends it all the same
	if (graph) tgi_cudart.GraphDestroy(graph);
	tgi_cudart.GetLastError();
	e = tgi_cudart.StreamIsCapturing(s, &capturing);
	return e ? e : capturing ? 901 : 0;  // cudaErrorStreamCaptureInvalidated
}
static int stream_copy(void *to, const void *from, size_t n, int kind, void *s) {
	return tgi_cudart.MemcpyAsync(to, from, n, kind, s);
}
static int stream_set(void *p, int v, size_t n, void *s) { return tgi_cudart.MemsetAsync(p, v, n, s); }
static const char *error_text(int code) { return tgi_cudart.GetErrorString(code); }
static int take_error(void) { return tgi_cudart.GetLastError(); }
*/
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// loaded is the state of the process: libraries cannot be unloaded.
var loaded struct {
	sync.Mutex
	paths  []string // empty until Load succeeded
	driver int      // the version of CUDA that the driver supports
}

// Load opens the driver's library and CUDA's, each from the first of the folders that has it, otherwise from where the
// system's loader finds it. It may be called again with the same result; a process keeps the libraries that it has.
// Errors wrap ErrUnavailable.
func Load(folders ...string) error {
	loaded.Lock()
	defer loaded.Unlock()
	paths := find(folders)
	if len(loaded.paths) > 0 {
		if !slices.Equal(loaded.paths, paths) {
			return fmt.Errorf("%w: this process already runs CUDA from %s, not %s", ErrUnavailable,
				loaded.paths[runtimeLibrary], paths[runtimeLibrary])
		}
		return nil
	}
	for i, path := range paths {
		library, err := openLibrary(i, path)
		if err != nil {
			return err
		}
		switch i {
		case driverLibrary:
			loaded.driver = int(C.tgi_driver_version(library))
		case runtimeLibrary:
			if message := C.tgi_cudart_load(library); message != nil {
				defer C.free(unsafe.Pointer(message))
				return fmt.Errorf("%w: %s is not CUDA's runtime (%s): %s", ErrUnavailable, path, C.GoString(message),
					remedy)
			}
		}
	}
	loaded.paths = paths
	return nil
}

func openLibrary(i int, path string) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var library unsafe.Pointer
	if message := C.tgi_library_open(name, &library); message != nil {
		defer C.free(unsafe.Pointer(message))
		return nil, missing(i, path, C.GoString(message))
	}
	return library, nil
}

// DriverPresent reports whether the driver's library opens: a cheap look that loads nothing else.
func DriverPresent() bool {
	_, err := openLibrary(driverLibrary, names[driverLibrary])
	return err == nil
}

// Devices lists the devices, in CUDA's order. Load must have succeeded. Errors wrap ErrUnavailable; no device is one.
func Devices() ([]Device, error) {
	loaded.Lock()
	driver, ready := loaded.driver, len(loaded.paths) > 0
	loaded.Unlock()
	if !ready {
		return nil, fmt.Errorf("%w: BUG: Devices before Load", ErrUnavailable)
	}
	var n C.int
	if err := failure("counting devices", C.get_count(&n)); err != nil {
		return nil, countError(err, driver)
	}
	if n == 0 {
		return nil, noneFound()
	}
	list := make([]Device, n)
	for i := range list {
		d, err := describe(i)
		if err != nil {
			return nil, countError(err, driver)
		}
		list[i] = d
	}
	return list, nil
}

// Numbers of cudaDeviceGetAttribute.
const (
	processorCount  = 16
	memoryClock     = 36 // kHz
	memoryWidth     = 37 // bits
	capabilityMajor = 75
	capabilityMinor = 76
)

// memoryOffset is where cudaDeviceProp of CUDA 13 has totalGlobalMem: after the name (256 bytes), the UUID (16), the
// LUID (8) and its mask (4), at a multiple of 8.
const memoryOffset = 288

func describe(i int) (Device, *Error) {
	d := Device{Index: i}
	var major, minor C.int
	op := fmt.Sprintf("describing device %d", i)
	for _, a := range []struct {
		to     *C.int
		number C.int
	}{{&major, capabilityMajor}, {&minor, capabilityMinor}} {
		if err := failure(op, C.get_attribute(a.to, a.number, C.int(i))); err != nil {
			return d, err
		}
	}
	properties := C.calloc(1, C.TGI_CUDART_PROPERTIES)
	defer C.free(properties)
	if err := failure(op, C.get_properties(properties, C.int(i))); err != nil {
		return d, err
	}
	d.Name = C.GoString((*C.char)(properties))
	d.Major, d.Minor = int(major), int(minor)
	d.Memory = *(*int64)(unsafe.Add(properties, memoryOffset))
	var clock, width C.int
	if failure(op, C.get_attribute(&clock, memoryClock, C.int(i))) == nil &&
		failure(op, C.get_attribute(&width, memoryWidth, C.int(i))) == nil {
		d.Bandwidth = 2 * 1000 * int64(clock) * int64(width) / 8 // two transfers a cycle
	}
	return d, nil
}

// Processors returns the number of a device's multiprocessors. Load must have succeeded.
func Processors(device int) (int, error) {
	var n C.int
	if err := failure("counting multiprocessors", C.get_attribute(&n, processorCount, C.int(device))); err != nil {
		return 0, err
	}
	return int(n), nil
}

// failure returns the error of a call, or nil. It clears the error that the runtime keeps for the thread.
func failure(op string, code C.int) *Error {
	if code == 0 {
		return nil
	}
	C.take_error()
	return &Error{Op: op, Code: int(code), Text: C.GoString(C.error_text(code))}
}

// asError is failure as an error: nil is nil.
func asError(op string, code C.int) error {
	if e := failure(op, code); e != nil {
		return e
	}
	return nil
}

// MemInfo returns the bytes of a device that are free, for all processes, and those that it has.
func MemInfo(device int) (free, total int64, err error) {
	var f, t C.size_t
	err = asError("asking for the device's memory", C.mem_info(C.int(device), &f, &t))
	return int64(f), int64(t), err
}

// Malloc returns so many bytes of a device's memory, aligned to 256. Their content is undefined.
func Malloc(device int, bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := asError(fmt.Sprintf("taking %d bytes of device %d", bytes, device),
		C.device_malloc(C.int(device), &p, C.size_t(bytes)))
	return p, err
}

// Free gives memory of Malloc back.
func Free(device int, p unsafe.Pointer) error {
	return asError("giving device memory back", C.device_free(C.int(device), p))
}

// HostAlloc returns so many bytes of the host's memory that is pinned, so that copies need not wait for the host.
func HostAlloc(device int, bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := asError(fmt.Sprintf("pinning %d bytes of memory", bytes),
		C.host_alloc(C.int(device), &p, C.size_t(bytes)))
	return p, err
}

// FreeHost gives memory of HostAlloc back.
func FreeHost(p unsafe.Pointer) error { return asError("giving pinned memory back", C.host_free(p)) }

// Stream is a queue of work of a device. It does not wait for the device's default stream, nor that for it. One
// goroutine at a time may use it.
type Stream struct {
	pointer unsafe.Pointer
}

// NewStream returns a stream of a device. The caller must Close it.
func NewStream(device int) (*Stream, error) {
	s := &Stream{}
	err := asError("making a stream", C.stream_create(C.int(device), &s.pointer))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Pointer is CUDA's own handle, for ONNX Runtime.
func (s *Stream) Pointer() unsafe.Pointer { return s.pointer }

// Close ends the stream when its work is done.
func (s *Stream) Close() error { return asError("ending a stream", C.stream_destroy(s.pointer)) }

// Synchronize waits for everything that was asked of the stream. Its error may be that of an earlier piece of work.
func (s *Stream) Synchronize() error {
	return asError("waiting for the device", C.stream_wait(s.pointer))
}

// AbortCapture ends the recording of a CUDA graph that failed, if one is going on; what was recorded is lost.
func (s *Stream) AbortCapture() error {
	return asError("ending a recording", C.stream_abort_capture(s.pointer))
}

// Directions of cudaMemcpy.
const (
	hostToDevice   = 1
	deviceToHost   = 2
	deviceToDevice = 3
)

// CopyIn asks for a copy of bytes from pinned host memory to the device. The host memory must stay as it is until the
// stream has been waited for; so for CopyOut.
func (s *Stream) CopyIn(device, host unsafe.Pointer, bytes int) error {
	return asError("copying to the device", C.stream_copy(device, host, C.size_t(bytes), hostToDevice, s.pointer))
}

// CopyOut asks for a copy from the device to pinned host memory.
func (s *Stream) CopyOut(host, device unsafe.Pointer, bytes int) error {
	return asError("copying from the device", C.stream_copy(host, device, C.size_t(bytes), deviceToHost, s.pointer))
}

// CopyDevice asks for a copy inside the device.
func (s *Stream) CopyDevice(to, from unsafe.Pointer, bytes int) error {
	return asError("copying on the device", C.stream_copy(to, from, C.size_t(bytes), deviceToDevice, s.pointer))
}

// Set asks for bytes of device memory to be filled with a value.
func (s *Stream) Set(device unsafe.Pointer, value byte, bytes int) error {
	return asError("filling device memory", C.stream_set(device, C.int(value), C.size_t(bytes), s.pointer))
}

// SaveSignals keeps the handlers of all signals, before CUDA is used for the first time.
func SaveSignals() { C.tgi_signals_save() }

// RestoreSignals sets the handlers that SaveSignals kept, where they are others now. The driver sets handlers of its
// own without SA_ONSTACK, which ends a Go program at the next signal: once when it is loaded, and again at the first
// work of a device.
func RestoreSignals() { C.tgi_signals_restore() }
