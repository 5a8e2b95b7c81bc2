package main

import (
	"slices"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/logits"
	"tgi/sdk/go/plugintest"
)

func opened(t *testing.T) logits.Plugin {
	t.Helper()
	plugintest.New(t, "n", "o", "no", "t", "yes", "<s>", "</s>")
	p, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParameters(t *testing.T) {
	p := opened(t)
	for params, want := range map[string]string{
		`{}`:               "answers: want at least one, and none empty",
		`{"answers":[]}`:   "answers: want at least one, and none empty",
		`{"answers":[""]}`: "answers: want at least one, and none empty",
		`{"answers":"no"}`: "want a JSON array for answers",
		`{"answers":[1]}`:  "want a JSON string for answers",
		`{"answer":["a"]}`: "unknown parameter: answer",
	} {
		if _, err := plugintest.Begin(p, params); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
}

// TestAllowed: when done has been written, what is in want may come.
func TestAllowed(t *testing.T) {
	p := opened(t)
	const o, no, tt, yes, end = 1, 2, 3, 4, 6
	for _, c := range []struct {
		answers    string
		done, want []uint32
	}{
		{`["yes","no"]`, nil, []uint32{yes, no}},
		{`["yes","no"]`, []uint32{no}, []uint32{end}},
		{`["not","no"]`, nil, []uint32{no, no}},
		{`["not","no"]`, []uint32{no}, []uint32{tt, end}},
		{`["not","no"]`, []uint32{no, tt}, []uint32{end}},
		{`["not","no"]`, []uint32{no, o}, nil},
	} {
		seq, err := plugintest.Begin(p, `{"answers":`+c.answers+`}`, yes, no)
		if err != nil {
			t.Fatal(err)
		}
		r, err := seq.Step(c.done...)
		if c.want == nil {
			if err == nil {
				t.Errorf("%s after %v: %+v, want an error", c.answers, c.done, r)
			}
		} else if err != nil || r.Mode != abi.ModeAllow || !slices.Equal(r.IDs, c.want) {
			t.Errorf("%s after %v: %+v (%v), want %v", c.answers, c.done, r, err, c.want)
		}
	}
}
