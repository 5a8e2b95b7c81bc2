// Package cuda is NVIDIA's CUDA runtime, loaded when it is asked for: devices, device memory, pinned host memory,
// streams and copies, as the backend of runtime/ort needs them. Nothing links to CUDA: where its libraries are absent,
// Load says so, and the rest of the program is as it was.
//
// The libraries are opened by full path, in the order in which they need each other, so that the loader finds those
// that ONNX Runtime's provider names without LD_LIBRARY_PATH. CUDA sets handlers of signals that Go cannot live with;
// RestoreSignals sets Go's again.
//
// Every fault that a user can cure is an error of one sentence that says how. They wrap ErrUnavailable where there is
// no usable device; errors of a device that runs are of the type *Error.
//
// Callers: runtime/ort and the wiring. The package starts no goroutines. A device's functions may be called from any
// thread: each call selects its device first.
//
// The reasons behind it: docs/rationale/gpu.md.
package cuda
