package ort

import (
	"errors"
	"testing"

	"tgi/conformance/cuda/fake"
	"tgi/runtime/llm"
)

// cudaFailsAnywhere: whichever call of the device fails, once or from then on, the open or a step returns an error,
// a model that is not dead goes on, and closing gives everything back.
func cudaFailsAnywhere(t *testing.T, d *fake.Device) {
	o := tinyCUDA
	o.Graphs = []int{1, 2}
	o.ModelPath = tinyCUDAModel(t, o, bfloat16s)
	if failOnce(t, d, o, fake.Allocation, 0, false) { // what the library keeps from its first model is there then
		t.Fatal("no fault was set, and one came")
	}
	for kind, name := range map[fake.Fault]string{
		fake.Allocation: "allocation", fake.Launch: "launch", fake.Copy: "copy", fake.Wait: "wait",
		fake.Capture: "capture", fake.Instantiate: "instantiate", fake.Replay: "replay",
	} {
		for _, stays := range []bool{false, true} {
			n := 1
			for ; failOnce(t, d, o, kind, n, stays); n++ {
				if t.Failed() {
					t.Fatalf("%s %d fails, for good: %v", name, n, stays)
				}
			}
			t.Logf("%s, for good %v: %d calls", name, stays, n-1)
			if n == 1 {
				t.Errorf("no %s was made", name)
			}
		}
	}
}

// failOnce opens a model and runs steps, of which one call fails, and returns whether it came to that call.
func failOnce(t *testing.T, d *fake.Device, o CUDAOptions, kind fake.Fault, n int, stays bool) bool {
	before := d.Counters()
	code := 719 // a launch failure
	if kind == fake.Allocation {
		code = 2
	}
	d.FailAt(kind, n, code, stays)
	m, err := OpenCUDA(o)
	switch {
	case err != nil && (!d.Faulted() || !errors.Is(err, ErrModel)):
		t.Errorf("open: %v", err)
	case err == nil:
		runWithFault(t, d, m, stays)
	}
	came := d.Faulted()
	d.FailAt(0, 0, 0, false)
	if m != nil {
		m.Close()
	}
	if got := d.Counters(); n > 0 && (got.Live != before.Live || got.LiveBytes != before.LiveBytes ||
		got.Streams != before.Streams || got.Modules != before.Modules) {
		t.Errorf("left %+v", got.Since(before))
	}
	return came
}

// runWithFault runs steps of every kind twice: where the device fails once, the second time without an error.
func runWithFault(t *testing.T, d *fake.Device, m *CUDA, stays bool) {
	steps := []*llm.Step{cudaStep(), decodeStep(m.o, 1, 3), decodeStep(m.o, 1, 4), decodeStep(m.o, 2, 3),
		decodeStep(m.o, 2, 4)}
	for i, s := range steps {
		if _, err := m.Forward(s); err != nil && (!d.Faulted() || !errors.Is(err, llm.ErrBackend)) {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if stays && d.Faulted() && m.dead == nil {
		t.Error("the device fails for good, and the model is not dead")
	}
	if m.dead != nil || !d.Faulted() {
		return
	}
	for i, s := range steps {
		if _, err := m.Forward(s); err != nil {
			t.Errorf("step %d, after the fault: %v", i, err)
		}
	}
}

// cudaGraphRefused: a graph that cannot be recorded costs no step: its bucket's steps run without, those of others as
// graphs.
func cudaGraphRefused(t *testing.T, d *fake.Device) {
	o := tinyCUDA
	o.Graphs = []int{1, 2}
	o.ModelPath = tinyCUDAModel(t, o, bfloat16s)
	for _, n := range []int{1, 2} { // the begin of the first recording, and its end
		m, err := OpenCUDA(o)
		if err != nil {
			t.Fatal(err)
		}
		d.FailAt(fake.Capture, n, 901, false)
		for i, s := range []*llm.Step{decodeStep(m.o, 1, 3), decodeStep(m.o, 1, 4), decodeStep(m.o, 2, 3),
			decodeStep(m.o, 2, 4), cudaStep()} {
			if _, err := m.Forward(s); err != nil {
				t.Errorf("call %d of a recording fails, step %d: %v", n, i, err)
			}
		}
		if c := m.Counts(); c.Steps != 5 || c.Replays != 1 || c.Graphs != 1 || c.Refused != 1 {
			t.Errorf("call %d of a recording fails: %+v", n, c)
		}
		d.FailAt(0, 0, 0, false)
		m.Close()
	}
}
