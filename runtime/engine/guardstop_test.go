package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// TestWholeTokenIsNew: where a text goes on behind a stop string of which a guard replaces something, the whole last
// token is new to all guards, of which they saw a part. And what one lets go at that end it may hold then.
func TestWholeTokenIsNew(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	ends, grown := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 12))
		seen := map[int]string{}
		last, stopped := 0, false
		watch := saying{llm.GuardRules{Name: "watch", Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			from := uint32(v.Context)
			for i, end := range v.Ends {
				at, text := v.Released+i, string(v.Text[from:end])
				if at < len(v.Output)-v.New && seen[at] != text {
					t.Errorf("%d: token %d is %q, it was %q, and %d of %d are new", seed, at, text, seen[at], v.New,
						len(v.Output))
				}
				seen[at], from = text, end
			}
			if stopped && len(v.Output) == last && v.Reason == llm.FinishNone {
				grown++
			}
			last, stopped = len(v.Output), v.Reason == llm.FinishStop
			return llm.Verdict{Position: len(v.Output)}
		}}
		once := saying{llm.GuardRules{Name: "once", Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			held := string(v.Text[v.Context:])
			switch i := strings.Index(held, "d"); {
			case i < 0:
				return llm.Verdict{Position: len(v.Output)}
			case i == len(held)-1 && v.Reason == llm.FinishNone: // so that what it replaces is decided by none yet
				return llm.Verdict{Position: v.Released}
			}
			return llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output), Done: true,
				Text: strings.Replace(held, "d", "%", 1)}
		}}
		text := ""
		list := []sample.Guard{longest("#", "b", "hb"), longest("@", []string{"bch", "bcbh"}[r.IntN(2)], "c"), watch,
			once, tap(&text)}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		q := endless(24)
		q.Params.Temperature, q.Params.Seed = 1.5, seed
		q.Params.Stop = []string{[]string{"b", "c", "cb", "h"}[r.IntN(4)]}
		q.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: list} }
		got, err := generate(e, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.finish[0].Text {
			if c == 'b' && q.Params.Stop[0] != "b" && q.Params.Stop[0] != "cb" {
				t.Errorf("%d: %q went out", seed, got.finish[0].Text)
				break
			}
		}
		if n := strings.Count(text, "d"); n > 0 && strings.Count(got.finish[0].Text, "d") >= n {
			t.Errorf("%d: %q went out of %q", seed, got.finish[0].Text, text)
		}
		if got.finish[0].Reason == llm.FinishStop {
			ends++
		}
	}
	if ends < 100 || grown < 100 {
		t.Errorf("%d texts ended at a stop string, %d went on behind one", ends, grown)
	}
}

// TestEndThatIsUndone: at a stop string that a guard will replace, another one lets go what it holds as the beginning
// of a string: it holds that still, where the text goes on. And one that says nothing more replaces what it said.
func TestEndThatIsUndone(t *testing.T) {
	done := saying{llm.GuardRules{Name: "done", Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		if len(v.Output) < 2 {
			return llm.Verdict{Position: v.Released}
		}
		return llm.Verdict{Kind: llm.VerdictReplace, Position: 2, Text: "%%", Done: true}
	}}
	for _, c := range []struct {
		text string
		list []sample.Guard
		want string // but for the marks
	}{
		{"eabbbe", []sample.Guard{longest("#", "abbb"), longest("#", "b")}, "ee</s>"},
		{"eacbbe", []sample.Guard{longest("#", "acb"), longest("@", "b"), done}, "e</s>"},
	} {
		for range c.list {
			s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
			p := params(40)
			p.Stop = []string{"b"}
			o, shown := s.Output(0, []llm.Token{7}, p, c.list), ""
			note := func(events []Event, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range events {
					shown += ev.Text
				}
			}
			for _, piece := range strings.Split(c.text, "") {
				o.Begin()
				note(o.Add(Emitted{Token: llm.Token(slices.Index(pieces, piece)), Whole: true}))
			}
			note(o.End())
			s.Close()
			if strings.NewReplacer("#", "", "@", "", "%", "", "*", "").Replace(shown) != c.want {
				t.Errorf("%s: %q went out, want %q", c.text, shown, c.want)
			}
			c.list = append(c.list[1:], c.list[0])
		}
	}
}

// TestEndOfAnyCut: where a text ends at a stop string does not depend on how it is cut into tokens, though a guard
// replaces a part of the token in front of it, or of the stop string.
func TestEndOfAnyCut(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	stopped := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 19))
		var letters strings.Builder
		for range 6 + r.IntN(10) {
			letters.WriteByte("abc"[r.IntN(3)])
		}
		text := letters.String() + "e"
		part := func(least int) string {
			from := r.IntN(len(text) - 5)
			return text[from : from+least+r.IntN(3)]
		}
		p := params(40)
		p.Stop = []string{part(1), part(2)}[:1+r.IntN(2)]
		if r.IntN(4) == 0 { // part a replacement, part the model's
			p.Stop[0] = []string{"#" + p.Stop[0], p.Stop[0] + "#"}[r.IntN(2)]
		}
		secrets := []string{part(2), part(3) + "d"}
		first := ""
		for cut := range 4 {
			s := open(t, e, 1)
			o := s.Output(0, []llm.Token{7}, p, []sample.Guard{longest("#", secrets...)})
			shown, over := "", false
			note := func(events []Event, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, ev := range events {
					shown += ev.Text
					over = over || ev.Finish != nil && ev.Finish.Reason == llm.FinishStop
				}
			}
			for rest := text; rest != "" && !over; {
				id := llm.Token(0)
				for i, piece := range pieces {
					if strings.HasPrefix(rest, piece) && (id == 0 || cut > 0 && r.IntN(2) == 0) {
						id = llm.Token(i)
					}
				}
				rest = rest[len(pieces[id]):]
				o.Begin()
				note(o.Add(Emitted{Token: id, Whole: true}))
			}
			if !over {
				note(o.End())
			}
			s.Close()
			if over {
				stopped++
			}
			if cut == 0 {
				first = shown
			} else if shown != first {
				t.Errorf("%d: %q, secrets %q, stop %q: %q went out, letter by letter %q", seed, text, secrets, p.Stop, shown,
					first)
			}
		}
	}
	if stopped < 1000 {
		t.Errorf("%d texts ended at a stop string", stopped)
	}
}

// TestEndBehindEqualBytes: a guard takes the first of two equal bytes, and a stop string is the second: no diff of the
// texts tells which it was, but the client gets a stop string.
func TestEndBehindEqualBytes(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	guard := saying{llm.GuardRules{Name: "first", Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		replace := llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output)}
		switch held := string(v.Text[v.Context:]); {
		case held == "a":
			replace.Text = "#"
		case held != "c" && v.Reason == llm.FinishNone:
			return llm.Verdict{Position: v.Released}
		case held == "bb":
			replace.Text = "b"
		case held != "b":
			return llm.Verdict{Position: len(v.Output)}
		}
		return replace
	}}
	s := open(t, e, 1)
	defer s.Close()
	p := params(40)
	p.Stop = []string{"b"}
	o, shown, ended := s.Output(0, []llm.Token{7}, p, []sample.Guard{guard}), "", false
	for _, piece := range []string{"a", "b", "b", "c"} {
		if ended {
			break
		}
		o.Begin()
		events, err := o.Add(Emitted{Token: llm.Token(slices.Index(pieces, piece)), Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			shown += ev.Text
			ended = ended || ev.Finish != nil && ev.Finish.Reason == llm.FinishStop
		}
	}
	if shown != "#b" || !ended {
		t.Errorf("%q went out, ended %v, want #b, true", shown, ended)
	}
}
