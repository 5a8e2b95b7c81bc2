package fields

import (
	"reflect"
	"testing"

	"tgi/server/generate"
	"tgi/server/wire"
)

// TestNull: null is the same as a field that is not there.
func TestNull(t *testing.T) {
	var bias map[uint32]float32
	var plugins []generate.PluginCall
	for name, read := range map[string]func(*wire.Reader) error{"bias": LogitBias(&bias),
		"plugins": Plugins(&plugins)} {
		if err := wire.Decode([]byte(" null "), read); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if bias != nil || plugins != nil {
		t.Errorf("got %v, %v", bias, plugins)
	}
}

func TestValues(t *testing.T) {
	var bias map[uint32]float32
	if err := wire.Decode([]byte(`{"7":-1.5,"4294967295":2}`), LogitBias(&bias)); err != nil ||
		!reflect.DeepEqual(bias, map[uint32]float32{7: -1.5, 1<<32 - 1: 2}) {
		t.Errorf("got %v, %v", bias, err)
	}
	var plugins []generate.PluginCall
	want := []generate.PluginCall{{Name: "a"}, {Name: "b", Params: []byte(`{ "n":1 }`)}}
	if err := wire.Decode([]byte(`[{"name":"a","params":null},{"params":{ "n":1 },"name":"b"}]`),
		Plugins(&plugins)); err != nil || !reflect.DeepEqual(plugins, want) {
		t.Errorf("got %q, %v", plugins, err)
	}
	if err := wire.Decode([]byte(`{"4294967296":2}`), LogitBias(&bias)); err == nil {
		t.Error("a token id past 32 bits was taken")
	}
}
