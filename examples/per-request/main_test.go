package main

import (
	"slices"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/logits"
	"tgi/sdk/go/plugintest"
)

func choice(t *testing.T) logits.Plugin {
	t.Helper()
	plugintest.New(t, "n", "o", "no", "t", "not", "yes", "<s>", "</s>", "\xc3", "\xa9", "é")
	p, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParameters(t *testing.T) {
	p := choice(t)
	for params, want := range map[string]string{
		`{}`:               "answers: want at least one, and none empty",
		`{"answers":[]}`:   "answers: want at least one, and none empty",
		`{"answers":[""]}`: "answers: want at least one, and none empty",
		`{"answers":"no"}`: "want a JSON array",
		`{"answers":[1]}`:  "want a JSON string",
		`{"answer":["a"]}`: "unknown parameter: answer",
	} {
		if _, err := plugintest.Begin(p, params); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
}

// TestAllowed: after the tokens in done, those in want may come.
func TestAllowed(t *testing.T) {
	p := choice(t)
	for _, c := range []struct {
		answers    string
		done, want []uint32
	}{
		{`["yes","no"]`, nil, []uint32{5, 0, 2}},
		{`["yes","no"]`, []uint32{0}, []uint32{1}},
		{`["yes","no"]`, []uint32{2}, []uint32{7}},
		{`["no","not"]`, []uint32{2}, []uint32{7, 3}},
		{`["no","not"]`, []uint32{4}, []uint32{7}},
		{`["\u00e9"]`, nil, []uint32{8, 10}},
		{`["\u00e9"]`, []uint32{8}, []uint32{9}},
		{`["<s>"]`, nil, nil}, // markup is not text
	} {
		seq, err := plugintest.Begin(p, `{"answers":`+c.answers+`}`, 6, 5)
		if err != nil {
			t.Fatal(err)
		}
		r, err := seq.Step()
		if c.done != nil {
			r, err = seq.Step(c.done...)
		}
		if err != nil || r.Mode != abi.ModeAllow || !slices.Equal(r.IDs, c.want) {
			t.Errorf("%s after %v: %+v (%v), want %v", c.answers, c.done, r, err, c.want)
		}
	}
}
