package registry

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDescription(t *testing.T) {
	defer func() { info, kinds = Info{}, nil }()
	Describe(Info{Name: "a\"b\\c\n\x01é", Version: "1", Doc: "\xff", Params: `{"type":"object"}`})
	fail := errors.New("no")
	var order []string
	for _, k := range []Kind{
		{Name: "logits", Modes: []string{"deny"}, Needs: []string{"row"}},
		{Name: "sampler", Candidates: 7},
		{Name: "sampler", Candidates: 9},
	} {
		k.Init = func([]byte) error { order = append(order, k.Name); return nil }
		k.Begin = func([]byte, []uint32) error { return fail }
		Add(k)
	}
	var got any
	if err := json.Unmarshal(Description(), &got); err != nil {
		t.Fatalf("%v: %s", err, Description())
	}
	want := map[string]any{"name": "a\"b\\c\n\x01é", "version": "1", "doc": "\ufffd", "kinds": []any{"logits",
		"sampler"},
		"modes": []any{"deny"}, "needs": []any{"row"}, "candidates": 9.0, "params": map[string]any{"type": "object"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if err := Init(nil); err != nil || !reflect.DeepEqual(order, []string{"logits", "sampler"}) {
		t.Errorf("Init: %v, %v", order, err)
	}
	if err := Begin(nil, nil); err != fail {
		t.Errorf("Begin: %v", err)
	}
}

// TestNoParameters: a plugin without a method Validate takes no parameters, and the error names the method.
func TestNoParameters(t *testing.T) {
	for params, refused := range map[string]bool{``: false, `{}`: false, "{ \n}": false, `{"n":1}`: true} {
		err := Validate(struct{}{}, []byte(params))
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "no method Validate") {
			t.Errorf("%s: %v", params, err)
		}
	}
}
