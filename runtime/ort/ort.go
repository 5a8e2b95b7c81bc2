// Package ort runs models on ONNX Runtime: it finds and loads the library, opens a built
// decoder graph over a paged KV cache, and runs the engine's steps on it.
//
// The environment and the session options belong to
// github.com/yalue/onnxruntime_go; shim.c adds what that binding lacks: tensors over C memory,
// I/O binding, and custom operators. ONNX Runtime has paged attention for GPUs only,
// so the operator tgi.PagedAttention (attention*.c) is for CPUs. On CUDA another of that name
// (cudaattend_op.c) computes steps that decode, and leaves all others to ONNX Runtime.
//
// No Go memory is ever bound to ONNX Runtime: a step's inputs are copied into C memory, and
// the logits are read where the model wrote them.
//
// Callers: the wiring calls Locate, Init and Open; the engine's step goroutine calls the
// methods of Paged, or of CUDA. ONNX Runtime has threads of its own, which end with the session
// (Close). A model on a CUDA device has one goroutine, on a thread of its own, that makes all calls
// for it; Close awaits it. The lock of library is never held during a session's calls; those of
// CUDA models hold opening, loading or recording, in this order.
//
// The reasons behind it: docs/rationale/runtime.md and docs/rationale/gpu.md.
package ort

/*
#cgo CFLAGS: -O3 -std=gnu11
#cgo linux LDFLAGS: -ldl -lm
#include <stdlib.h>
#include "shim.h"
#include "attention.h"
#include "product.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	binding "github.com/yalue/onnxruntime_go"
)

// ErrLibrary says that the ONNX Runtime library is missing or cannot be used. The text tells
// the user what to do.
var ErrLibrary = errors.New("no usable ONNX Runtime library")

// ErrModel says that a model does not load or has unexpected inputs or outputs.
var ErrModel = errors.New("cannot use model")

// library is the one loaded library of the process.
var library struct {
	sync.Mutex
	path    string // empty until Init succeeded
	version string
}

// Init loads the library at path and starts ONNX Runtime's environment. It may be called again
// with the same path; another path is an error, because a process can load only one library.
// Its errors wrap ErrLibrary.
func Init(path string) error {
	library.Lock()
	defer library.Unlock()
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if library.path == path {
		return nil
	}
	if library.path != "" {
		return fmt.Errorf("%w: %s cannot be loaded because this process already runs %s", ErrLibrary, path,
			library.path)
	}
	if err := chooseAttention(os.Getenv("TGI_ATTENTION")); err != nil {
		return err
	}
	if err := chooseProduct(os.Getenv("TGI_PRODUCT")); err != nil {
		return err
	}
	version, err := load(path)
	if err != nil {
		return err
	}
	library.path, library.version = path, version
	return nil
}

// Version returns the version of the loaded library, empty before Init.
func Version() string {
	library.Lock()
	defer library.Unlock()
	return library.version
}

// Attention returns the name of the attention kernel in use: portable, avx2, avx512, avx512vnni or neon. The
// environment variable TGI_ATTENTION forces one at Init.
func Attention() string { return C.GoString(C.pa_current().name) }

// chooseAttention selects a kernel by name, or the best one for this CPU if name is empty. It
// must not run during a Forward.
func chooseAttention(name string) error {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	if C.pa_choose(s) == nil {
		return fmt.Errorf("TGI_ATTENTION=%q: this CPU has no such attention kernel", name)
	}
	return nil
}

// Product returns the name of the kernel in use for products with quantised matrices: portable, avx2, avxvnni,
// avx512vnni, amx, neondot or neoni8mm. The environment variable TGI_PRODUCT forces one at Init. All give the same
// bits.
func Product() string { return C.GoString(C.mq_current().name) }

// chooseProduct selects a kernel by name, or the best one for this CPU if name is empty. It must
// not run during a Forward.
func chooseProduct(name string) error {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	if C.mq_choose(s) == nil {
		return fmt.Errorf("TGI_PRODUCT=%q: this CPU has no such kernel for quantised products", name)
	}
	return nil
}

// load opens the library for the shim and for the binding.
func load(path string) (version string, err error) {
	// Read by the library when it starts; the binding's call below comes later.
	if err := os.Setenv("ORT_DISABLE_TELEMETRY", "1"); err != nil {
		return "", fmt.Errorf("%w: %v", ErrLibrary, err)
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: %s cannot be read (%v): %s", ErrLibrary, path, errors.Unwrap(err), remedy)
	}
	C.tgi_heap_configure()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var found *C.char
	err = takeError(C.tgi_load(name, &found))
	version = C.GoString(found)
	C.free(unsafe.Pointer(found))
	switch {
	case err != nil && version != "":
		return "", fmt.Errorf("%w: %s is ONNX Runtime %s, which is too old (1.%d or newer is needed): %s",
			ErrLibrary, path, version, C.TGI_ORT_API_VERSION, remedy)
	case err != nil:
		return "", fmt.Errorf("%w: %s is not an ONNX Runtime library for this machine (%s): %s",
			ErrLibrary, path, strings.TrimPrefix(err.Error(), path+": "), remedy)
	}
	binding.SetSharedLibraryPath(path)
	if err := binding.InitializeEnvironment(binding.WithLogLevelError()); err != nil {
		return "", fmt.Errorf("%w: %s does not start: %v", ErrLibrary, path, err)
	}
	if err := binding.DisableTelemetry(); err != nil {
		return "", fmt.Errorf("%w: %s: %v", ErrLibrary, path, err)
	}
	return version, nil
}

// takeError converts an error message of the shim, which it frees; nil for no error.
func takeError(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(message))
	return errors.New(C.GoString(message))
}
