package ort

import (
	"testing"

	"tgi/conformance/cuda/fake"
)

// onFake returns the fake CUDA device of the test's own process, or nil where that process was run and has said what
// there is to say: a process loads one library.
func onFake(t *testing.T) *fake.Device {
	t.Helper()
	fake.Need(t)
	if !alone(t) {
		return nil
	}
	return startFake(t)
}

// startFake loads the GPU build of ONNX Runtime over a fake CUDA device.
func startFake(t testing.TB) *fake.Device {
	t.Helper()
	path := fake.Need(t)
	d := fake.Load(t)
	if err := Init(path); err != nil {
		t.Fatal(err)
	}
	return d
}
