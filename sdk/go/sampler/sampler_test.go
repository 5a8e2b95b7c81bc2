package sampler

import (
	"errors"
	"strings"
	"testing"

	"tgi/sdk/go/internal/registry"
)

type last struct{}

func (last) Begin(params []byte, _ []uint32) (Sampler, error) {
	if string(params) != "{}" {
		return nil, errors.New("want no parameters")
	}
	return last{}, nil
}

func (last) Sample(c []Candidate) (int, error) { return len(c) - 1, nil }

func TestRegister(t *testing.T) {
	Register(77, func(config []byte) (Plugin, error) {
		if string(config) != "{}" {
			return nil, errors.New("want no configuration")
		}
		return last{}, nil
	})
	if d := string(registry.Description()); !strings.Contains(d, `"kinds":["sampler"]`) ||
		!strings.Contains(d, `"candidates":77`) {
		t.Errorf("description %s", d)
	}
	if registry.Init([]byte(`{"a":1}`)) == nil || registry.Init([]byte(`{}`)) != nil {
		t.Error("the configuration is not handed over")
	}
	if registry.Begin([]byte(`{"a":1}`), nil) == nil || registry.Begin([]byte(`{}`), nil) != nil {
		t.Error("the parameters are not handed over")
	}
	if i, err := sampler.Sample(make([]Candidate, 3)); i != 2 || err != nil {
		t.Errorf("index %d (%v)", i, err)
	}
}
