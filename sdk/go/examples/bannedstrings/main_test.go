package main

import (
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/plugintest"
)

// TestBanned: no client sees a banned text, whatever tokens it is made of, and all else goes out as soon as it can be
// no beginning of one.
func TestBanned(t *testing.T) {
	plugintest.New(t, "a", " de", "lve", " x", "</s>", "lta", "d")
	p, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	type push struct {
		token, reason, verdict uint32
		shown                  string
		left                   int
	}
	for params, steps := range map[string][]push{
		`{"strings": ["delve", "delta"]}`: {
			{0, abi.ReasonNone, abi.VerdictRelease, "a", 2},
			{1, abi.ReasonNone, abi.VerdictRelease, "a", 3}, // it may be the beginning
			{2, abi.ReasonNone, abi.VerdictRewind, "a", 2},  // it was: the token " de" goes
			{1, abi.ReasonNone, abi.VerdictRelease, "a", 3},
			{5, abi.ReasonNone, abi.VerdictRewind, "a", 2}, // the other text
			{1, abi.ReasonNone, abi.VerdictRelease, "a", 3},
			{3, abi.ReasonNone, abi.VerdictRelease, "a de x", 4}, // neither
			{6, abi.ReasonNone, abi.VerdictRelease, "a de x", 5},
			{4, abi.ReasonEOS, abi.VerdictRelease, "a de xd", 6}, // nothing more comes
		},
		`{"strings": ["d de?", " delve"]}`: {
			{6, abi.ReasonNone, abi.VerdictRelease, "", 2},
			{1, abi.ReasonNone, abi.VerdictRelease, "", 3},
			{2, abi.ReasonNone, abi.VerdictRewind, "", 2}, // it begins where the first of the held tokens ends
		},
		`{}`: {
			{1, abi.ReasonNone, abi.VerdictRelease, " de", 2},
			{2, abi.ReasonNone, abi.VerdictRelease, " delve", 3},
		},
	} {
		w, err := plugintest.Watch(p, params, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range steps {
			r, err := w.Push(s.token, s.reason)
			if err != nil || r.Verdict != s.verdict || w.Shown != s.shown || len(w.Tokens) != s.left {
				t.Errorf("%s, step %d: verdict %d, %q shown, %d tokens (%v), want %+v", params, i, r.Verdict, w.Shown,
					len(w.Tokens), err, s)
			}
		}
	}
	for _, bad := range []string{`{"strings": [""]}`, `{"strings": [7]}`, `{"ban": []}`, `{`,
		`{"strings": [` + strings.Repeat(`"a",`, 16) + `"a"]}`, `{"strings": ["` + strings.Repeat("a", 101) + `"]}`} {
		if _, err := p.Begin([]byte(bad), nil); err == nil {
			t.Errorf("%.40s is accepted", bad)
		}
	}
}
