package ort

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"tgi/conformance/cuda/fake"
	"tgi/runtime/llm"
	"tgi/runtime/reduce"
)

// cudaReduces: rows stay on the device but for those that are asked for, what is reduced is what the reference says,
// and a step and its reductions are two copies to the device, one wait and no allocation. The fake device runs our
// kernel.
func cudaReduces(t *testing.T, d *fake.Device) {
	begin := d.Counters()
	o := tinyCUDA
	o.Vocab, o.Graphs = 700, []int{1, 4}
	m := openTinyCUDA(t, o, bfloat16s)
	// Attention has a module too.
	if err := errors.Join(m.Reduces(), m.Attends()); err != nil || d.Counters().Since(begin).Modules != 2 {
		t.Fatal(err, d.Counters().Since(begin))
	}
	rng := rand.New(rand.NewPCG(3, 4))
	mask := make([]uint32, (o.Vocab+31)/32)
	for i := range mask {
		mask[i] = rng.Uint32()
	}
	for _, c := range []struct {
		name string
		step *llm.Step
	}{{"graph", decodeStep(o, 3, 10)}, {"eager", decodeStep(o, 5, 10)}} {
		rows := len(c.step.LogitRows)
		list := []llm.Reduction{
			{Row: rows - 1, Scale: 1, Draw: 0.7, Raw: true},
			{Row: 0, Scale: 2, Draw: 0.2, Edits: []llm.Edits{{Kind: llm.EditPenalize,
				Pairs: []llm.Edit{{Token: 5, Value: 1.3}, {Token: 600, Value: 3}}}}, Raw: true},
			{Row: 0, Scale: 0.5, Draw: llm.NoDraw, Mask: mask},
		}
		for run := range 3 {
			before := d.Counters()
			if err := m.Compute(c.step); err != nil {
				t.Fatal(c.name, err)
			}
			// The fake computes zeros: what a device would have computed is written over them.
			logits := unsafe.Slice((*float32)(m.reducer.step.logits.device.at), rows*o.Vocab)
			for i := range logits {
				logits[i] = float32(rng.NormFloat64() * 3)
			}
			row := func(i int) []float32 { return logits[i*o.Vocab : (i+1)*o.Vocab] }
			whole, answers, err := m.Fetch([]int{2, 0, 1}, list)
			if err != nil || len(whole) != 3*o.Vocab || len(answers) != len(list) {
				t.Fatal(c.name, len(whole), len(answers), err)
			}
			if !slices.Equal(whole, slices.Concat(row(2), row(0), row(1))) {
				t.Errorf("%s: other rows than were asked for", c.name)
			}
			for i := range list {
				if want := reduce.Row(row(list[i].Row), &list[i]); !reflect.DeepEqual(answers[i], want) {
					t.Errorf("%s, question %d: %+v, want %+v", c.name, i, answers[i], want)
				}
			}
			got := d.Counters().Since(before)
			if run > 0 && (got.CopiesIn != 2 || got.CopiesOut != 3 || got.Waits != 1 || got.Allocations != 0) {
				t.Errorf("%s, run %d: %+v", c.name, run, got)
			}
			before = d.Counters()
			if whole, answers, err = m.Fetch([]int{1}, nil); err != nil || !slices.Equal(whole, row(1)) ||
				answers != nil {
				t.Errorf("%s: a second fetch: %v", c.name, err)
			}
			if got := d.Counters().Since(before); got.CopiesOut != 1 || got.CopiesIn != 0 || got.Waits != 1 {
				t.Errorf("%s, a second fetch: %+v", c.name, got)
			}
		}
		if _, _, err := m.Fetch([]int{rows}, nil); !errors.Is(err, llm.ErrBackend) {
			t.Errorf("%s: a row that is not there: %v", c.name, err)
		}
		if _, _, err := m.Fetch(nil, []llm.Reduction{{Row: -1, Scale: 1}}); !errors.Is(err, llm.ErrBackend) {
			t.Errorf("%s: a reduction of a row that is not there: %v", c.name, err)
		}
	}
	m.Close()
	if _, _, err := m.Fetch(nil, nil); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("closed: %v", err)
	}
	if got := d.Counters().Since(begin); got.Modules != 0 || got.Live != 0 {
		t.Errorf("left over: %+v", got)
	}
	cudaWithoutKernel(t, d, o)
}

// cudaWithoutKernel: a driver that refuses our kernels costs whole rows, and slower attention, not the model.
func cudaWithoutKernel(t *testing.T, d *fake.Device, o CUDAOptions) {
	d.NoKernels(true)
	defer d.NoKernels(false)
	m := openTinyCUDA(t, o, bfloat16s)
	if err := m.Reduces(); err == nil || !strings.Contains(err.Error(), "unsupported version") {
		t.Errorf("the kernel was refused: %v", err)
	}
	if err := m.Attends(); err == nil || !strings.Contains(err.Error(), "unsupported version") {
		t.Errorf("attention's was refused: %v", err)
	}
	before := d.Counters()
	if logits, err := m.Forward(decodeStep(o, 3, 10)); err != nil || len(logits) != 3*o.Vocab {
		t.Errorf("%d logits, %v", len(logits), err)
	}
	if got := d.Counters().Since(before); got.Attentions != 0 || got.Launches == 0 {
		t.Errorf("without kernels: %+v", got)
	}
	m.Close()
}
