package engine

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// TestRefusal holds the form of a refusal. The test of plugins/std/goon, which reads the number, has the same text.
func TestRefusal(t *testing.T) {
	got := (&Refusal{Guard: "a 7", Left: 12}).Error()
	if want := "guard a 7 takes it back; 12 tokens are left of all that was emitted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOutputTakesBackCharacters: where a guard takes back a character that a program emits a byte at a time, none of
// its tokens goes out, whatever follows.
func TestOutputTakesBackCharacters(t *testing.T) {
	s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
	defer s.Close()
	rules := llm.GuardRules{Name: "no euro", Hold: 5, Every: 1, Rewinds: true}
	guard := saying{rules, func(v *llm.GuardView) llm.Verdict {
		at := bytes.Index(v.Text[v.Context:], []byte("€"))
		if at < 0 {
			return llm.Verdict{Position: len(v.Output)}
		}
		behind := func(end uint32) bool { return int(end) > v.Context+at }
		return llm.Verdict{Kind: llm.VerdictRewind, Position: v.Released + slices.IndexFunc(v.Ends, behind)}
	}}
	o := s.Output(0, []llm.Token{7}, params(20), []sample.Guard{guard})
	var got []llm.Token
	text := ""
	note := func(list []Event) {
		for _, ev := range list {
			got, text = append(got, ev.Token), text+ev.Text
		}
	}
	for i, x := range []struct {
		id   llm.Token
		left int // where it is refused
	}{{5, 0}, {tokEuro, 0}, {tokEuro + 1, 0}, {tokEuro + 2, 1}, {11, 0}} {
		o.Begin()
		list, err := o.Add(Emitted{Token: x.id, Whole: true})
		note(list)
		no := &Refusal{}
		if errors.As(err, &no) != (x.left > 0) || no.Left != x.left {
			t.Errorf("token %d: %v, want %d tokens left", i, err, x.left)
		}
	}
	list, err := o.End()
	note(list)
	if out := o.Written(); !slices.Equal(out, []llm.Token{5, 11}) {
		t.Errorf("written %v", out)
	}
	want := []llm.Token{5, 11, tokEOS}
	if err != nil || !slices.Equal(got, want) || text != pieces[5]+pieces[11]+"</s>" {
		t.Errorf("%v %q (%v), want %v", got, text, err, want)
	}
}

// TestOutputEndsWhereItIsRefused: a text whose last emission a guard took back, and in whose place none came, is the
// guard's to end, with all that it let pass, also where another guard writes over that; one that went on is not.
func TestOutputEndsWhereItIsRefused(t *testing.T) {
	s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
	defer s.Close()
	const banned = llm.Token(9)
	refuses := saying{llm.GuardRules{Name: "refuses", Hold: 5, Every: 1, Rewinds: true},
		func(v *llm.GuardView) llm.Verdict {
			if at := slices.Index(v.Output, banned); at >= 0 {
				return llm.Verdict{Kind: llm.VerdictRewind, Position: at}
			}
			return llm.Verdict{Position: len(v.Output)}
		}}
	writes := saying{llm.GuardRules{Name: "writes", Hold: 50, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		if v.Reason == llm.FinishNone || v.Released > 0 {
			return llm.Verdict{Position: v.Released}
		}
		return llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output), Tokens: []llm.Token{12}, Text: pieces[12]}
	}}
	for _, c := range []struct {
		guards  []sample.Guard
		emitted []llm.Token
		want    []llm.Token
		reason  llm.Reason
		by      string
	}{
		{[]sample.Guard{refuses}, []llm.Token{5, banned}, []llm.Token{5, tokEOS}, llm.FinishGuard, "refuses"},
		{[]sample.Guard{refuses}, []llm.Token{banned}, []llm.Token{tokEOS}, llm.FinishGuard, "refuses"},
		{[]sample.Guard{refuses}, []llm.Token{5, banned, banned, 11}, []llm.Token{5, 11, tokEOS}, llm.FinishEOS, ""},
		{[]sample.Guard{refuses}, nil, []llm.Token{tokEOS}, llm.FinishEOS, ""},
		{[]sample.Guard{refuses, writes}, []llm.Token{5, banned}, []llm.Token{12}, llm.FinishGuard, "refuses"},
		{[]sample.Guard{refuses, writes}, []llm.Token{5}, []llm.Token{12, tokEOS}, llm.FinishEOS, ""},
	} {
		o := s.Output(0, []llm.Token{7}, params(20), c.guards)
		var all []Event
		for _, id := range c.emitted {
			o.Begin()
			list, err := o.Add(Emitted{Token: id, Whole: true})
			if all = append(all, list...); errors.As(err, new(*Refusal)) != (id == banned) {
				t.Fatalf("token %d: %v", id, err)
			}
		}
		list, err := o.End()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
		var got []llm.Token
		for _, ev := range all {
			got = append(got, ev.Token)
		}
		fin := all[len(all)-1].Finish
		if fin == nil || fin.Reason != c.reason || fin.StoppedBy != c.by || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %+v; want %v, %v by %q", c.emitted, got, fin, c.want, c.reason, c.by)
		}
	}
}

// TestOutputWritten: what a guard's end drops is not written, and what a guard gave other text for is.
func TestOutputWritten(t *testing.T) {
	s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
	defer s.Close()
	rules := llm.GuardRules{Name: "third", Hold: 5, Every: 1, Stops: true}
	guard := saying{rules, func(v *llm.GuardView) llm.Verdict {
		switch len(v.Output) {
		case 1:
			return llm.Verdict{Kind: llm.VerdictReplace, Position: 1, Text: "x"}
		case 4:
			return llm.Verdict{Kind: llm.VerdictStop, Position: 2}
		}
		return llm.Verdict{Position: v.Released}
	}}
	o := s.Output(0, []llm.Token{7}, params(20), []sample.Guard{guard})
	for i, id := range []llm.Token{5, 11, 12, 13} {
		o.Begin()
		list, err := o.Add(Emitted{Token: id, Whole: true})
		if over := len(list) > 0 && list[len(list)-1].Finish != nil; err != nil || over != (i == 3) {
			t.Fatalf("token %d: %v %v", i, list, err)
		}
	}
	if out := o.Written(); !slices.Equal(out, []llm.Token{5, 11}) {
		t.Errorf("written %v", out)
	}
}
