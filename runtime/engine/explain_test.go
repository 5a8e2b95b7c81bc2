package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// explained returns the events of a request.
func explained(t *testing.T, e *Engine, r Request) (list []Event) {
	t.Helper()
	st, err := e.Submit(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := st.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, ev)
	}
}

// TestExplainedDrafts: explanations name the guesses, and the tokens are the same.
func TestExplainedDrafts(t *testing.T) {
	r := endless(12)
	want, err := generate(start(t, newFake(64, 16, 256), Config{}), r)
	if err != nil {
		t.Fatal(err)
	}
	wrong := append(oracle(nil), want.tokens[0]...)
	wrong[6] = (wrong[6] + 1) % llm.Token(len(pieces))
	r.Plugins = func(int) sample.Plugins { return sample.Plugins{Drafter: wrong} }
	r.Params.Explain = llm.Explain{Top: 2, Tokens: 10}
	e := start(t, newFake(64, 16, 256), Config{Speculation: always(4)})
	accepted, rejected := 0, 0
	for i, ev := range explained(t, e, r) {
		x := ev.Explained
		if ev.Token != want.tokens[0][i] || (x != nil) != (i < 10) {
			t.Fatalf("token %d is %d, explained: %v", i, ev.Token, x)
		}
		if x == nil {
			continue
		}
		if x.Token != ev.Token || x.Text != e.codec.Text(ev.Token) || x.Final != ev.Logprob ||
			x.Candidates[0].Text != e.codec.Text(x.Candidates[0].Token) {
			t.Errorf("token %d: %+v of %+v", i, x, ev)
		}
		switch d := x.Draft; {
		case d == nil:
		case d.Accepted && d.Token == ev.Token && d.Source == "plugin":
			accepted++
		case !d.Accepted && i == 6 && d.Token == wrong[6]:
			rejected++
		default:
			t.Errorf("token %d: guess %+v", i, d)
		}
	}
	if accepted < 5 || rejected != 1 {
		t.Errorf("%d guesses accepted, %d rejected", accepted, rejected)
	}
}

// TestTakenBackIsNotNamed: however a guard takes tokens back (it forbids the first, leaves it possible, inserts
// others), no event and no explanation names one in the place where it was, but where it is picked again.
func TestTakenBackIsNotNamed(t *testing.T) {
	plain := endless(8)
	plain.Params.TopN, plain.Params.Explain = 3, llm.Explain{Top: 3, Tokens: 8}
	var first oracle
	for _, ev := range explained(t, start(t, newFake(64, 16, 256), Config{}), plain) {
		first = append(first, ev.Token)
	}
	rules := llm.GuardRules{Name: "watch", Hold: 9, Every: 1, Rewinds: true}
	for name, verdict := range map[string]llm.Verdict{
		"forbids": {Kind: llm.VerdictRewind, Position: 3},
		"weakens": {Kind: llm.VerdictRewind, Position: 3, Biases: []llm.Bias{{Token: first[3], Add: -0.5}}},
		"changes": {Kind: llm.VerdictRewind, Position: 3, Biases: []llm.Bias{{Token: first[3] + 1, Add: 1}}},
		"inserts": {Kind: llm.VerdictInsert, Position: 3, Tokens: []llm.Token{(first[3] + 1) % llm.Token(len(pieces)),
			4}},
		"repeats": {Kind: llm.VerdictInsert, Position: 3, Tokens: []llm.Token{first[3], (first[4] + 1) %
			llm.Token(len(pieces))}},
	} {
		for _, raw := range []bool{false, true} {
			for _, guesses := range []int{0, 4} {
				r, did := plain, false
				r.Params.RawLogprobs = raw
				r.Plugins = func(int) sample.Plugins {
					p := saying{rules, func(v *llm.GuardView) llm.Verdict {
						switch n := len(v.Output); {
						case n == 6 && !did:
							did = true
							return verdict
						case n < 6 && v.Reason == llm.FinishNone:
							return llm.Verdict{Position: min(n, 3)}
						default:
							return llm.Verdict{Position: n}
						}
					}}.plugins()
					p.Drafter = first // what was taken back is guessed again
					return p
				}
				cfg := Config{}
				if guesses > 0 {
					cfg.Speculation = always(guesses)
				}
				checked := 0
				same := true // as what was taken back, so far
				for i, ev := range explained(t, start(t, newFake(64, 16, 256), cfg), r) {
					if i >= 3 && i < 6 && same {
						checked++
						if list := namedTokens(ev); ev.Token != first[i] && slices.Contains(list, first[i]) {
							t.Errorf("%s, raw %v, %d guesses: token %d, %d, was taken back, and is among %v", name, raw,
								guesses, i, first[i], list)
						}
					}
					same = same && ev.Token == first[i]
				}
				if !did || checked == 0 || name == "repeats" && checked < 2 {
					t.Errorf("%s: taken back %v, %d places checked", name, did, checked)
				}
			}
		}
	}
}

// TestReplacedIsExplained: the explanations are those of the first events, one for each, whatever guards replace; each
// replacement, also one by nothing, is told, and so is what was taken back in front of what is replaced.
func TestReplacedIsExplained(t *testing.T) {
	rules := llm.GuardRules{Name: "mask", Hold: 9, Every: 1, Rewinds: true}
	for _, text := range []string{"xy", ""} {
		for _, limit := range []int{5, 20} {
			r, back := endless(12), false
			r.Params.Explain = llm.Explain{Top: 2, Tokens: limit}
			r.Plugins = func(int) sample.Plugins {
				return saying{rules, func(v *llm.GuardView) llm.Verdict {
					switch n := len(v.Output); {
					case n == 3 && !back:
						back = true
						return llm.Verdict{Kind: llm.VerdictRewind, Position: 2}
					case n == 5 && v.Released == 2:
						return llm.Verdict{Kind: llm.VerdictReplace, Position: 5, Text: text,
							Tokens: []llm.Token{5, 6}[:len(text)]}
					case n < 5 && v.Reason == llm.FinishNone:
						return llm.Verdict{Position: min(n, 2)}
					default:
						return llm.Verdict{Position: n}
					}
				}}.plugins()
			}
			list := explained(t, start(t, newFake(64, 16, 256), Config{}), r)
			told, replaced := 0, 0
			for i, ev := range list {
				x := ev.Explained
				switch {
				case x == nil:
					continue // what follows has none either
				case told != i || x.Token != ev.Token:
					t.Fatalf("%q, %d: event %d of %d with explanations has %+v", text, limit, i, told, x)
				}
				told++
				if ev.Replaced != (x.Pick == llm.PickedGuard) || ev.Replaced && (x.By != "mask" || x.Text != ev.Text) {
					t.Errorf("%q, %d: event %d, %+v, is explained by %+v", text, limit, i, ev, x)
				}
				for _, what := range x.Replaced {
					replaced += what.Tokens
					if i != 2 || what.By != "mask" || !slices.Equal(x.Rewound, []llm.Rewound{{By: "mask", Tokens: 1}}) {
						t.Errorf("%q, %d: event %d, %+v", text, limit, i, x)
					}
				}
			}
			want := 3
			if text == "" && limit == 5 { // the next token is not explained any more
				want = 0
			}
			if told != min(limit-3+len(text), len(list)) || replaced != want {
				t.Errorf("%q, %d: %d of %d events are explained, %d tokens replaced", text, limit, told, len(list),
					replaced)
			}
		}
	}
}

// namedTokens lists all tokens that an event names.
func namedTokens(ev Event) (list []llm.Token) {
	for _, x := range ev.Top {
		list = append(list, x.Token)
	}
	return append(list, namedBy(ev.Explained)...)
}

// namedBy lists all tokens that an explanation names.
func namedBy(e *llm.Explanation) (list []llm.Token) {
	if e == nil {
		return nil
	}
	for _, x := range e.Candidates {
		list = append(list, x.Token)
	}
	for _, c := range e.Changes {
		if c.Overtook {
			list = append(list, c.Best.Token)
		}
		if c.Forced >= 0 {
			list = append(list, llm.Token(c.Forced))
		}
		for _, x := range c.Moved {
			list = append(list, x.Token)
		}
	}
	if e.Draft != nil {
		list = append(list, e.Draft.Token)
	}
	return append(list, e.Token)
}

// TestRefusedEmissionIsNotNamed: what a guard took back of a program's emissions is not named by the tokens that it
// emits instead, whatever its runs know of them; what it keeps of a run does not change.
func TestRefusedEmissionIsNotNamed(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	s := open(t, e, 1)
	rules := llm.GuardRules{Name: "watch", Hold: 9, Every: 1, Rewinds: true}
	guard := saying{rules, func(v *llm.GuardView) llm.Verdict {
		if i := slices.Index(v.Output, 7); i >= 0 {
			return llm.Verdict{Kind: llm.VerdictRewind, Position: i}
		}
		return llm.Verdict{Position: len(v.Output)}
	}}
	out := s.Output(0, []llm.Token{3}, llm.Params{MaxNewTokens: 20}, []sample.Guard{guard})
	known := func(id llm.Token) Emitted { // by a run where 5 to 8 were likely
		x := Emitted{Token: id, Explained: &llm.Explanation{Token: id, Rank: 2, Raw: -3,
			Draft:   &llm.ExplainedDraft{Token: 7},
			Changes: []llm.Change{{Overtook: true, Forced: 7, Best: llm.ExplainedToken{Token: 7}}}}}
		for id := llm.Token(5); id < 9; id++ {
			x.Top = append(x.Top, TopToken{Token: id})
			x.Explained.Candidates = append(x.Explained.Candidates,
				llm.ExplainedToken{Token: id, Raw: -2 - float32(id%2)})
			x.Explained.Changes[0].Moved = append(x.Explained.Changes[0].Moved, llm.MovedToken{Token: id})
		}
		return x
	}
	emit := func(list ...Emitted) (events []Event, err error) {
		out.Begin()
		for i, x := range list {
			x.Whole = i == len(list)-1
			more, err := out.Add(x)
			if events = append(events, more...); err != nil {
				return events, err
			}
		}
		return events, nil
	}
	if ev, err := emit(known(4)); err != nil || len(ev) != 1 || !slices.Contains(namedTokens(ev[0]), 7) {
		t.Fatalf("%+v (%v), want an event that names 7", ev, err)
	}
	for range 2 {
		if ev, err := emit(known(7), known(9)); len(ev) > 0 || err == nil {
			t.Fatalf("%+v (%v), want a refusal", ev, err)
		}
	}
	again := known(8)
	ev, err := emit(again, known(5))
	if err != nil || len(ev) != 2 {
		t.Fatalf("%+v (%v)", ev, err)
	}
	if list := namedTokens(ev[0]); slices.Contains(list, 7) || !slices.Contains(list, 6) || len(ev[0].Top) != 3 {
		t.Errorf("where 7 was taken back: %v", list)
	}
	if list := namedTokens(ev[1]); !slices.Contains(list, 7) {
		t.Errorf("behind it: %v", list)
	}
	if list := namedBy(again.Explained); !slices.Contains(list, 7) || len(again.Top) != 4 {
		t.Errorf("the run's own: %v, %v", list, again.Top)
	}
}

// TestExplainedRewinds: what a guard took back is told without its text, in front of the token that came instead, once.
func TestExplainedRewinds(t *testing.T) {
	rewinds := 0
	rules := llm.GuardRules{Name: "watch", Hold: 9, Every: 1, Rewinds: true}
	guard := saying{rules, func(v *llm.GuardView) llm.Verdict {
		n := len(v.Output)
		switch {
		case n == 5 && rewinds == 0:
			rewinds++
			return llm.Verdict{Kind: llm.VerdictRewind, Position: 3}
		case n == 4 && rewinds == 1:
			rewinds++
			return llm.Verdict{Kind: llm.VerdictRewind, Position: 3}
		case n < 6 && v.Reason == llm.FinishNone:
			return llm.Verdict{Position: min(n, 3)}
		}
		return llm.Verdict{Position: n}
	}}
	r := endless(8)
	r.Params.Explain = llm.Explain{Top: 2, Tokens: 8}
	e := start(t, newFake(64, 16, 256), Config{Speculation: always(4)})
	var first oracle // what was taken back is guessed again
	for _, ev := range explained(t, e, r) {
		first = append(first, ev.Token)
	}
	r.Plugins = func(int) sample.Plugins {
		p := guard.plugins()
		p.Drafter = first
		return p
	}
	events := explained(t, e, r)
	if len(events) != 8 || rewinds != 2 {
		t.Fatalf("%d events, %d rewinds", len(events), rewinds)
	}
	for i, ev := range events {
		x := ev.Explained
		switch {
		case x == nil || x.Token != ev.Token:
			t.Fatalf("token %d: %+v", i, x)
		case i == 3 && (x.Draft != nil && x.Draft.Token == first[3] || x.Rank != 0):
			t.Errorf("it names what is forbidden: %+v, rank %d", x.Draft, x.Rank)
		case i != 3 && len(x.Rewound) > 0:
			t.Errorf("token %d tells of %+v", i, x.Rewound)
		case i == 3 && (len(x.Rewound) != 2 || x.Rewound[0] != llm.Rewound{By: "watch", Tokens: 2} ||
			x.Rewound[1] != llm.Rewound{By: "watch", Tokens: 1}):
			t.Errorf("rewound: %+v", x.Rewound)
		case i == 3 && (len(x.Changes) == 0 || x.Changes[0].Kind != llm.ChangeGuard || x.Changes[0].Name != "watch" ||
			x.Changes[0].Forbidden == 0):
			t.Errorf("the bans are not told: %+v", x.Changes)
		}
	}
}

// choices is a processor that has the model pick the first of a place's tokens that is possible.
type choices [][]llm.Token

func (c choices) Process(h sample.History, s *sample.Step) error {
	for i, id := range c[len(h.Output)] {
		s.Logits[id] += 100 - 10*float32(i)
	}
	return nil
}

func (choices) Rewind(sample.History) error { return nil }

// TestRewoundAroundACutToken: a guard takes tokens back, what is picked instead is cut by a stop string, and the guard
// takes that back, too. The token that stays tells of all of it, in its order, and text and end have nothing of it.
func TestRewoundAroundACutToken(t *testing.T) {
	const a, b, c, d, e, f, g = 6, 12, 18, 24, 30, 36, 42 // a letter and a space
	const dOnly, fbc = d - 1, f + 3                       // without the space; cut by the stop string
	for _, guesses := range []int{0, 4} {
		did := 0
		rules := llm.GuardRules{Name: "watch", Hold: 9, Every: 1, Rewinds: true}
		guard := saying{rules, func(v *llm.GuardView) llm.Verdict {
			n := len(v.Output)
			switch {
			case did == 0 && n == 5: // d e
				did++
				return llm.Verdict{Kind: llm.VerdictRewind, Position: 3}
			case did == 1 && n == 5: // e, behind the d that tells of the first
				did++
				return llm.Verdict{Kind: llm.VerdictRewind, Position: 4}
			case did == 2 && v.Reason == llm.FinishStop: // d and the cut token, which was to tell of the second
				did++
				return llm.Verdict{Kind: llm.VerdictRewind, Position: 3}
			case n < 6 && v.Reason == llm.FinishNone:
				return llm.Verdict{Position: min(n, 3)}
			}
			return llm.Verdict{Position: n}
		}}
		r := endless(8)
		r.Params.Stop, r.Params.TopN, r.Params.Explain = []string{"fb"}, 3, llm.Explain{Top: 3, Tokens: 8}
		r.Plugins = func(int) sample.Plugins {
			p := guard.plugins()
			p.Processors = []sample.Processor{choices{{a}, {b}, {c}, {d, dOnly, g}, {e, fbc}, {a}, {b}, {c}}}
			p.Drafter = oracle{a, b, c, dOnly, fbc, a, b, c}
			return p
		}
		cfg := Config{}
		if guesses > 0 {
			cfg.Speculation = always(guesses)
		}
		events := explained(t, start(t, newFake(64, 16, 256), cfg), r)
		if did != 3 || len(events) != 8 {
			t.Fatalf("%d guesses: %d events, %d rewinds: %+v", guesses, len(events), did, events)
		}
		text := ""
		for i, ev := range events {
			text += ev.Text
			var want []llm.Rewound
			if i == 3 {
				want = []llm.Rewound{{By: "watch", Tokens: 2}, {By: "watch", Tokens: 1}, {By: "watch", Tokens: 2}}
			}
			switch x := ev.Explained; {
			case ev.Replaced || x == nil || x.Token != ev.Token:
				t.Errorf("%d guesses, token %d: %+v, %+v", guesses, i, ev, x)
			case !slices.Equal(x.Rewound, want):
				t.Errorf("%d guesses, token %d tells of %+v, want %+v", guesses, i, x.Rewound, want)
			}
			for _, id := range namedTokens(ev) {
				if i == 3 && (id == d || id == dOnly) {
					t.Errorf("%d guesses: %d was taken back, and is named by %+v", guesses, id, ev)
				}
			}
		}
		fin := events[7].Finish
		if text != "a b c g e a b c " || fin == nil || fin.Text != text || fin.Rewound != 5 ||
			fin.Reason != llm.FinishLength || fin.Stop != "" {
			t.Errorf("%d guesses: %q, %+v", guesses, text, fin)
		}
	}
}
