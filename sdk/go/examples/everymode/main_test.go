package main

import (
	"math"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/logits"
	"tgi/sdk/go/plugintest"
)

// begin starts a sequence in memory that is new, as the server's would be.
func begin(t *testing.T, params string) *plugintest.Sequence {
	t.Helper()
	begunLogits, begunSampler = false, false
	seq, err := plugintest.Begin(processors{}, params, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestModes(t *testing.T) {
	h := plugintest.New(t, make([]string, 40)...)
	for mode, name := range abi.ModeNames {
		seq := begin(t, `{"mode":"`+name+`","ids":[0,5,33],"bias":2,"only":true}`)
		seq.View = []logits.Entry{{ID: 33, Value: 4}, {ID: 2, Value: 1}}
		seq.Row = make([]float32, len(h.Words))
		r, err := seq.Step()
		if err != nil || r.Mode != uint32(mode) || r.Only != (mode == abi.ModeSparse || mode == abi.ModeView) {
			t.Fatalf("%s: %+v (%v)", name, r, err)
		}
		switch mode {
		case abi.ModeBitmask:
			if len(r.Words) != 2 || r.Words[0] != 0x21 || r.Words[1] != 2 {
				t.Errorf("mask %x", r.Words)
			}
		case abi.ModeView:
			if len(r.Entries) != 1 || r.Entries[0] != (logits.Entry{ID: 33, Value: 6}) {
				t.Errorf("view %v", r.Entries)
			}
		case abi.ModeRow:
			if r.Row[33] != 2 || r.Row[1] != 0 {
				t.Errorf("row %v", r.Row)
			}
		}
	}
}

func TestBesideTheMode(t *testing.T) {
	plugintest.New(t, make([]string, 40)...)
	seq := begin(t, `{"stop_at":2,"force":[3,4],"force_at":0,"temperature":0.5,"fail_at":3,"trap_at":4}`)
	if r, _ := begin(t, `{}`).Step(); !math.IsNaN(float64(r.Temperature)) {
		t.Errorf("temperature %v, want NaN", r.Temperature)
	}
	r, _ := seq.Step()
	if len(r.Force) != 2 || r.Stop || r.Temperature != 0.5 {
		t.Errorf("first step: %+v", r)
	}
	if r, _ = seq.Step(3, 4); !r.Stop || r.Force != nil {
		t.Errorf("third step: %+v", r)
	}
	if _, err := seq.Step(5); err == nil || err.Error() != "asked to fail at 3" {
		t.Errorf("fourth step: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("the fifth step does not trap")
		}
	}()
	seq.Step(6)
}

func TestMemoryIsNew(t *testing.T) {
	plugintest.New(t, "a")
	begin(t, `{}`)
	if _, err := plugintest.Begin(processors{}, `{}`); err != errUsed {
		t.Errorf("a second sequence in the same memory: %v", err)
	}
}

func TestSampler(t *testing.T) {
	plugintest.New(t, "a")
	for params, want := range map[string]int{`{}`: 0, `{"pick":2}`: 2, `{"pick":9}`: 2, `{"random":true}`: 1} {
		begunSampler = false
		s, err := samplers{}.Begin([]byte(params), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Sample(plugintest.Candidates(0.5, 0.3, 0.2)); got != want {
			t.Errorf("%s: %d, want %d", params, got, want)
		}
	}
}
