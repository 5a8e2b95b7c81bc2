package main

import (
	"math"
	"reflect"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/logits"
	"tgi/sdk/go/plugintest"
)

var words = []string{"a", "b", "ab", " the", "<s>", "</s>", "é", `"`, "😀"}

func TestErrors(t *testing.T) {
	plugintest.New(t, words...)
	p, _ := open(nil)
	for _, c := range []struct{ params, want string }{
		{``, "want a JSON object"},
		{`[]`, "want a JSON object"},
		{`{"ban":[9]}`, "ban: no such token id"},
		{`{"ban":[1.5]}`, "ban: no such token id"},
		{`{"ban":[-1]}`, "ban: no such token id"},
		{`{"ban":["aab"]}`, "ban: want the text of one token, not aab"},
		{`{"ban":[""]}`, "ban: want the text of one token, not "},
		{`{"ban":["a`, "a JSON string has no end"},
		{`{"ban":[true]}`, "want a JSON number for ban"},
		{`{"boost":{"#9":1}}`, "boost: no such token id"},
		{`{"boost":{"a":101}}`, "boost: want a bias from -100 to 100 for a"},
		{`{"boost":{"a":1e400}}`, "boost: want a bias from -100 to 100 for a"},
		{`{"bann":[]}`, "unknown parameter: bann"},
		{`{"only":[]}`, "only: every token of it is banned"},
		{`{"only":[1],"ban":["b"]}`, "only: every token of it is banned"},
	} {
		if _, err := plugintest.Begin(p, c.params); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.params, err, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	plugintest.New(t, words...)
	p, _ := open(nil)
	never := float32(math.Inf(-1))
	for params, want := range map[string]logits.Result{
		`{}`: {},
		` {"ban" : [ 1 , "\u00e9", "\ud83d\ude00", "\"" ] } `: {Mode: abi.ModeDeny, IDs: []uint32{1, 6, 8, 7}},
		`{"ban":[1],"boost":{"ab":-1.25e+1,"b":3,"#3":0.5}}`: {Mode: abi.ModeSparse,
			Entries: []logits.Entry{{ID: 1, Value: never}, {ID: 2, Value: -12.5}, {ID: 3, Value: 0.5}}},
		`{"only":[0,1,"</s>"],"ban":[1]}`: {Mode: abi.ModeAllow, IDs: []uint32{0, 5}},
		`{"only":[0,1],"boost":{"a":2,"ab":2}}`: {Mode: abi.ModeSparse, Entries: []logits.Entry{{ID: 0},
			{ID: 1}, {ID: 0, Value: 2}}, Only: true},
	} {
		seq, err := plugintest.Begin(p, params, 0, 3)
		if err != nil {
			t.Errorf("%s: %v", params, err)
			continue
		}
		got, err := seq.Step()
		got.Temperature = 0 // NaN, which equals nothing
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v), want %+v", params, got, err, want)
		}
	}
}
