package engine

import (
	"context"
	"errors"
	"io"
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
		case i == 3 && (len(x.Changes) == 0 || x.Changes[0].Kind != llm.ChangeGuard || x.Changes[0].Forbidden == 0):
			t.Errorf("the bans are not told: %+v", x.Changes)
		}
	}
}
