package logits

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
)

// plugin refuses parameters that are not {} and bans the last token of the prompt.
type plugin struct{}

type banLast struct{ last []uint32 }

func (plugin) Begin(params []byte, prompt []uint32) (Processor, error) {
	if string(params) != "{}" {
		return nil, errors.New("want no parameters")
	}
	return banLast{prompt[max(0, len(prompt)-1):]}, nil
}

func (b banLast) Process(s *Step) error {
	s.Stop()
	s.Deny(b.last)
	return nil
}

func TestRegister(t *testing.T) {
	Register(Uses{Modes: []Mode{Deny, Stop}, View: 64, Row: true}, func(config []byte) (Plugin, error) {
		if string(config) != "{}" {
			return nil, errors.New("want no configuration")
		}
		return plugin{}, nil
	})
	if d := string(registry.Description()); !strings.Contains(d,
		`"kinds":["logits"],"modes":["deny","stop"],"needs":["topk:64","row"]`) {
		t.Errorf("description %s", d)
	}
	if registry.Init([]byte(`{"a":1}`)) == nil || registry.Init([]byte(`{}`)) != nil {
		t.Error("the configuration is not handed over")
	}
	if registry.Begin([]byte(`{"a":1}`), nil) == nil || registry.Begin([]byte(`{}`), []uint32{4, 5}) != nil {
		t.Error("the parameters are not handed over")
	}
	var s Step
	s.Reset()
	if err := processor.Process(&s); err != nil {
		t.Fatal(err)
	}
	if r := s.Result(); r.Mode != abi.ModeDeny || !r.Stop || !reflect.DeepEqual(r.IDs, []uint32{5}) ||
		r.Temperature == r.Temperature {
		t.Errorf("result %+v", r)
	}
}

// TestResults: a later result replaces an earlier one and leaves what stands beside it.
func TestResults(t *testing.T) {
	s := Step{Row: []float32{1}}
	s.Reset()
	s.Temperature(0.5)
	s.Force([]uint32{9})
	s.Only()
	s.Bias([]Entry{{ID: 1, Value: 2}})
	beside := Result{Temperature: 0.5, Force: []uint32{9}, Only: true}
	for _, c := range []struct {
		set  func()
		want Result
	}{
		{func() {}, Result{Mode: abi.ModeSparse, Entries: []Entry{{ID: 1, Value: 2}}}},
		{func() { s.Allow([]uint32{3}) }, Result{Mode: abi.ModeAllow, IDs: []uint32{3}}},
		{func() { s.Mask([]uint32{7}) }, Result{Mode: abi.ModeBitmask, Words: []uint32{7}}},
		{func() { s.SetView([]Entry{{ID: 4}}) }, Result{Mode: abi.ModeView, Entries: []Entry{{ID: 4}}}},
		{func() { s.SetRow() }, Result{Mode: abi.ModeRow, Row: []float32{1}}},
	} {
		c.set()
		c.want.Temperature, c.want.Force, c.want.Only = beside.Temperature, beside.Force, beside.Only
		if got := s.Result(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}
