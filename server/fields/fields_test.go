package fields

import (
	"reflect"
	"strings"
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

// TestShapesAreNamed: what fits no shape of a field is refused with its value and all shapes; what fits one in part
// with what is wrong in there.
func TestShapesAreNamed(t *testing.T) {
	const explain = `expected true, false, "receipt" or an object such as {"top": 5, "tokens": 256}`
	const content = `expected a string or an array of {"type": "text", "text": "..."}`
	for body, want := range map[string]string{
		`{"explain": "receipts"}`:   `explain: invalid value: "receipts", ` + explain,
		`{"explain":  7}`:           `explain: invalid value: 7, ` + explain,
		`{"explain": [1, 2]}`:       `explain: invalid value: [1, 2], ` + explain,
		`{"explain": {"tops": 1}}`:  "explain: unknown field `tops`, expected `top` or `tokens`",
		`{"explain": {"top": "a"}}`: `explain.top: invalid type: string "a", expected usize`,
		`{"explain": tru}`:          "explain: expected ident",
		`{"prediction": "text"}`: `prediction: invalid type: string "text", expected an object such as ` +
			`{"type": "content", "content": "..."}`,
		`{"prediction": {"type": "text", "content": "a"}}`:     "`prediction.type` must be \"content\". Given: \"text\"",
		`{"prediction": {"type": "content", "content": 3}}`:    `prediction.content: invalid value: 3, ` + content,
		`{"prediction": {"type": "content", "content": null}}`: `prediction.content: invalid value: null, ` + content,
		`{"prediction": {"type": "content", "content": nul}}`:  "prediction.content: expected ident",
		`{"prediction": {"type": "content", "content": {}}}`:   `prediction.content: invalid value: {}, ` + content,
		`{"prediction": {"type": "content", "content": [{}]}}`: "prediction.content[0]: missing field `type`",
		`{"prediction": {"content": "a"}}`:                     "prediction: missing field `type`",
	} {
		var d generate.Draft
		err := Decode([]byte(body), "struct Request", []wire.Field{Explain(&d.Explain), Prediction(&d)}, &d)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
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
