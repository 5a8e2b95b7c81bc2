package engine

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/runtime/sched"
)

// whim is a guard whose verdicts follow from what it sees and how often it was asked to take back, and from nothing
// else.
type whim struct {
	seed    uint64
	rules   llm.GuardRules
	rewinds int
	applied [llm.Verdicts]int
	reads   bool // the prompt, too
}

func (w *whim) Rules() llm.GuardRules { return w.rules }

func (w *whim) Applied(kind llm.VerdictKind, n int) { w.applied[kind] += n }

func (w *whim) Check(v *llm.GuardView) (llm.Verdict, error) {
	f := fnv.New64a()
	fmt.Fprint(f, w.seed, w.rewinds, v.Output, v.Released, v.Reason, string(v.Text), v.Context, v.Ends)
	if w.reads {
		fmt.Fprint(f, v.Prompt)
	}
	d := f.Sum64()
	n := len(v.Output)
	pick := func(from, to int) int { return from + int(d>>32)%(to-from+1) }
	kind := d % 16
	if v.Reason == llm.FinishStop && kind > 8 { // often: then it may be no end
		kind = 4
	}
	switch kind {
	case 0, 1, 2:
		w.rewinds++
		p := pick(v.Released, n-1)
		if d>>16%3 == 0 {
			return llm.Verdict{Kind: llm.VerdictRewind, Position: p}, nil
		}
		return llm.Verdict{Kind: llm.VerdictRewind, Position: p, Biases: []llm.Bias{
			{Token: v.Output[p], Add: float32(math.Inf(-1))},
			{Token: llm.Token(d>>40) % llm.Token(len(pieces)), Add: 1.5},
		}}, nil
	case 3:
		w.rewinds++
		return llm.Verdict{Kind: llm.VerdictInsert, Position: pick(v.Released, n), Tokens: []llm.Token{7, 4, 9}}, nil
	case 4:
		return llm.Verdict{Kind: llm.VerdictReplace, Position: pick(v.Released+1, n), Tokens: []llm.Token{8, 9},
			Text: "[gone]"}, nil
	case 5:
		if d>>16%5 == 0 {
			return llm.Verdict{Kind: llm.VerdictStop, Position: pick(v.Released, n), Why: "enough"}, nil
		}
	case 6:
		return llm.Verdict{Position: n, Done: d>>16%3 == 0}, nil
	}
	if v.Reason != llm.FinishNone {
		return llm.Verdict{Position: n}, nil
	}
	return llm.Verdict{Position: pick(v.Released, n)}, nil
}

// steady is a processor that depends on the history alone.
type steady struct{}

func (steady) Process(h sample.History, s *sample.Step) error {
	for i, id := range h.Output {
		s.Logits[(int(id)+i)%len(s.Logits)] += 0.25
	}
	return nil
}

func (steady) Rewind(sample.History) error { return nil }

// guarded returns requests of all kinds with whims, without those that no guard can have.
func guarded(n int) (out []Request) {
	reqs := mixedRequests(n)
	for i, twin := range twinned(reqs) {
		if i%4 == 2 {
			reqs[i] = twin
		}
	}
	for i, r := range reqs {
		if i >= 12 { // stop strings in what a whim gives, and across its ends
			r.Params.Stop = append(r.Params.Stop, [][]string{nil, {"e]a", "[gon"}, {"]", "ab"}, nil,
				{"a", "b[", "]c", "]d", "]e"}, {"bc", "c", " [g", "]e", "]f", "]g", "]h"}}[i%6]...)
		}
		rules := llm.GuardRules{Name: "whim", Hold: 1 + i%9, Every: 1 + i%3%(1+i%9), Rewinds: true, Stops: true,
			OnFull: llm.GuardEnd(i % 2), OnExhausted: llm.GuardEnd(i / 2 % 2)}
		r.Plugins = func(k int) sample.Plugins {
			p := sample.Plugins{Guards: []sample.Guard{&whim{seed: uint64(i*100 + k), rules: rules}}}
			if i%3 == 0 {
				p.Processors = []sample.Processor{steady{}}
			}
			return p
		}
		if i%4 == 1 {
			r = heal(r, []string{"abc", "a", "€", "gbc", "hb", "fabc"}[i/4%6])
		}
		out = append(out, r)
	}
	return out
}

// TestRewoundAsNeverGenerated: whatever guards take back, insert, replace and end, requests get what is generated one
// token after the other without cache, batch and guesses: alone and together, in roomy and tiny caches, where prefixes
// are shared, sequences preempted, parked and guessed for.
func TestRewoundAsNeverGenerated(t *testing.T) {
	reqs := guarded(72)
	var want []outcome
	total, checked, stops, unmade, respelled := [llm.Verdicts]int{}, 0, 0, 0, 0
	for _, r := range reqs {
		var o outcome
		for k := range r.N {
			s, err := told(r, k)
			if err != nil {
				t.Fatal(err)
			}
			o.tokens, o.logprobs = append(o.tokens, s.sent.tokens[0]), append(o.logprobs, s.sent.logprobs[0])
			o.texts, o.finish = append(o.texts, s.sent.texts[0]), append(o.finish, s.sent.finish[0])
			o.best = append(o.best, s.sent.best[0])
			total[llm.VerdictRewind] += s.back
			total[llm.VerdictInsert] += s.added
			checked, stops, unmade = checked+s.checked, stops+s.stops, unmade+s.unmade
			respelled += s.respelled
		}
		want = append(want, o)
	}
	if total[llm.VerdictRewind] < 200 || total[llm.VerdictInsert] < 20 {
		t.Fatalf("the guards do not do much: %v", total)
	}
	if respelled == 0 {
		t.Fatal("nothing is inserted behind a part of what a prompt is healed of")
	}
	if checked < 20 {
		t.Fatalf("%d likeliest tokens where something was taken back", checked)
	}
	if stops < 5 || unmade < 5 {
		t.Fatalf("%d stop strings in what guards gave, %d of the model's that they replaced", stops, unmade)
	}
	for _, s := range []struct {
		name              string
		blocks, blockSize int
		cfg               Config
		slow              bool
	}{
		{"roomy", 512, 16, Config{}, false},
		{"foreseen", 512, 16, Config{Speculation: always(6)}, false},
		{"foreseen, tiny cache", 20, 8, Config{Speculation: always(3)}, false},
		{"guessed", 512, 16, Config{Speculation: always(6)}, false},
		{"tiny cache", 20, 8, Config{}, false},
		{"tiny cache, guessed", 20, 8, Config{Speculation: always(4)}, false},
		{"tiny cache, chunks of 3", 26, 5, Config{Settings: sched.Settings{MaxBatchPrefillTokens: 3},
			Speculation: always(3)}, false},
		{"no sharing", 20, 8, Config{Settings: sched.Settings{NoPrefixSharing: true}}, false},
		{"blocks of one token", 150, 1, Config{Speculation: always(2)}, false},
		{"few rows", 64, 16, Config{Settings: sched.Settings{MaxBatchSize: 5}, Workers: 1}, false},
		{"late", 20, 8, Config{GuestWait: 1}, true},
		{"late, guessed", 20, 8, Config{GuestWait: 1, Speculation: always(4)}, true},
		{"a little late", 512, 16, Config{Workers: 1}, true},
	} {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen pacing
				m := newFake(s.blocks, s.blockSize, 256)
				if s.slow {
					m.before = func(llm.Step) { time.Sleep(time.Millisecond) }
				}
				s.cfg.Observer = &seen
				e := start(t, m, s.cfg)
				var wg sync.WaitGroup
				for i, r := range reqs {
					wg.Go(func() {
						if s.slow {
							r = tardy(r, i)
						}
						if strings.HasPrefix(s.name, "foreseen") {
							r = drafted(r, want[i], guessers["oracle"], uint64(i))
						}
						got, err := generate(e, r)
						w := want[i]
						w.prefill = got.prefill
						if err == nil {
							err = sameSteps(got, w)
						}
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						}
						for k, text := range got.texts {
							if fin := got.finish[k]; len(fin.Text) < len(text) || fin.Text[:len(text)] != text {
								t.Errorf("request %d: events say %q, its end %q", i, text, fin.Text)
							}
						}
					})
				}
				wg.Wait()
				if e.Close(); s.slow && (seen.late.Load() == 0 || seen.satOut.Load() == 0) {
					t.Errorf("%d were late, %d sat out: nothing was tried", seen.late.Load(), seen.satOut.Load())
				}
			})
		})
	}
}

// tardy makes the guards of a request guests that take their time.
func tardy(r Request, i int) Request {
	plugins := r.Plugins
	r.Plugins = func(k int) sample.Plugins {
		p := plugins(k)
		p.Guards = []sample.Guard{&late{p.Guards[0].(*whim), i, 0}}
		p.Guests = []string{fmt.Sprint("guest", i%4)}
		return p
	}
	return r
}

type late struct {
	*whim
	i, n int
}

func (l *late) Check(v *llm.GuardView) (llm.Verdict, error) {
	s := debug.Stack()
	if !bytes.Contains(s, []byte("(*guestPool).work(")) && !bytes.Contains(s, []byte("(*Engine).askHere(")) {
		return llm.Verdict{}, errors.New("a guest is asked where a step waits for it")
	}
	if l.n++; (l.n+l.i)%3 == 0 {
		time.Sleep(time.Duration(l.i%5) * 700 * time.Microsecond)
	}
	return l.whim.Check(v)
}

// TestGuardsCopyNoRow: where guests only guard a sequence, its tokens are picked from the step's logits, and each step
// uses the memory of the last.
func TestGuardsCopyNoRow(t *testing.T) {
	e := byHand(t, newFake(64, 16, 256), Config{GuestWait: time.Minute})
	r := endless(20)
	rules := llm.GuardRules{Name: "g", Hold: 5, Every: 1, Stops: true}
	asked := 0
	r.Plugins = func(int) sample.Plugins {
		return sample.Plugins{Guests: []string{"g"}, Guards: []sample.Guard{saying{rules,
			func(v *llm.GuardView) llm.Verdict { asked++; return llm.Verdict{Position: len(v.Output)} }}}}
	}
	st := submit(t, e, t.Context(), r)
	e.step()
	q := st.seqs[0]
	first := q.ownStep
	for e.step() {
		if q.inFlight != nil || q.ownStep != first || len(e.freeLogits) != 0 {
			t.Fatal("it is as if its picks were a guest's")
		}
	}
	if got, err := collect(st, 1); err != nil || len(got.tokens[0]) != 20 || asked != 20 {
		t.Errorf("%d tokens, asked %d times: %v", len(got.tokens[0]), asked, err)
	}
}

// TestGuardsAreBounded: no guard rewinds, holds or inserts without end, and lies about positions end the sequence.
func TestGuardsAreBounded(t *testing.T) {
	at := func(kind llm.VerdictKind, position func(*llm.GuardView) int) func(*llm.GuardView) llm.Verdict {
		return func(v *llm.GuardView) llm.Verdict {
			return llm.Verdict{Kind: kind, Position: position(v), Tokens: []llm.Token{5}, Text: "x"}
		}
	}
	last := func(v *llm.GuardView) int { return len(v.Output) - 1 }
	for name, c := range map[string]struct {
		says func(*llm.GuardView) llm.Verdict
		why  string // of the end; "" for an error
	}{
		"endless rewind": {at(llm.VerdictRewind, last), "it rewound too often"},
		"endless insert": {at(llm.VerdictInsert, last), "it rewound too often"},
		"endless hold": {at(llm.VerdictRelease, func(v *llm.GuardView) int {
			if v.Reason != llm.FinishNone {
				return len(v.Output)
			}
			return v.Released
		}), "it holds back too much"},
		"appends":         {at(llm.VerdictInsert, func(v *llm.GuardView) int { return len(v.Output) }), "it rewound too often"},
		"beyond":          {at(llm.VerdictRelease, func(v *llm.GuardView) int { return len(v.Output) + 1 }), ""},
		"negative":        {at(llm.VerdictStop, func(*llm.GuardView) int { return -1 }), ""},
		"rewinds nothing": {at(llm.VerdictRewind, func(v *llm.GuardView) int { return len(v.Output) }), ""},
		"replaces none":   {at(llm.VerdictReplace, func(v *llm.GuardView) int { return v.Released }), ""},
		"no verdict":      {at(99, last), ""},
		"no number": {func(v *llm.GuardView) llm.Verdict {
			nan := []llm.Bias{{Add: float32(math.NaN())}}
			return llm.Verdict{Kind: llm.VerdictRewind, Position: last(v), Biases: nan}
		}, ""},
	} {
		for _, release := range []bool{false, true} {
			r := endless(60)
			rules := llm.GuardRules{Name: "g", Hold: 5, Every: 1, Rewinds: true, Stops: true}
			if release {
				rules.OnFull, rules.OnExhausted = llm.GuardReleases, llm.GuardReleases
			}
			r.Plugins = func(int) sample.Plugins {
				return sample.Plugins{Guards: []sample.Guard{saying{rules, c.says}}}
			}
			m := newFake(64, 16, 256)
			got, err := generate(start(t, m, Config{}), r)
			fin := got.finish[0]
			switch {
			case c.why == "":
				if !errors.Is(err, llm.ErrPlugin) || len(got.tokens[0]) > 0 {
					t.Errorf("%s: %v, %v", name, err, got.tokens)
				}
			case err != nil || m.steps > 400:
				t.Errorf("%s: %v in %d steps", name, err, m.steps)
			case release && fin.Reason != llm.FinishLength && name != "endless hold":
				t.Errorf("%s, released: %+v", name, fin)
			case !release && (fin.Reason != llm.FinishGuard || fin.Why != c.why || fin.StoppedBy != "g"):
				t.Errorf("%s: %+v", name, fin)
			}
		}
	}
}

// TestBiasesLeaveNothing: where a guard took back all tokens that a mask allows, its text ends with what went out, or
// goes on without the guard; greedy and drawn, with guesses and without.
func TestBiasesLeaveNothing(t *testing.T) {
	// It never wants what comes behind the third token.
	never := func(v *llm.GuardView) llm.Verdict {
		if len(v.Output) > 3 {
			return llm.Verdict{Kind: llm.VerdictRewind, Position: 3}
		}
		return llm.Verdict{Position: len(v.Output)}
	}
	for _, c := range []struct {
		drawn, guessed bool
		end            llm.GuardEnd
	}{
		{false, false, llm.GuardStops}, {false, false, llm.GuardReleases}, {false, true, llm.GuardStops},
		{false, true, llm.GuardReleases}, {true, false, llm.GuardStops}, {true, true, llm.GuardReleases},
	} {
		r := endless(12)
		r.Params.Sample, r.Params.Seed = c.drawn, 3
		calls := 0
		r.Plugins = func(int) sample.Plugins {
			rules := llm.GuardRules{Name: "never", Hold: 5, Every: 1, Rewinds: true, OnExhausted: c.end}
			return sample.Plugins{Masker: &fourTokens{&calls}, Guards: []sample.Guard{saying{rules, never}}}
		}
		cfg := Config{}
		if c.guessed {
			cfg.Speculation = always(5)
		}
		got, err := generate(start(t, newFake(64, 16, 256), cfg), r)
		fin, n := got.finish[0], len(got.tokens[0])
		switch {
		case err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.end == llm.GuardStops && (fin.Reason != llm.FinishGuard || fin.Why != "nothing else may follow" ||
			fin.StoppedBy != "never" || n != 4): // three, and the one that ends it
			t.Errorf("%+v: %+v, %d tokens", c, fin, n)
		case c.end == llm.GuardReleases && (fin.Reason != llm.FinishLength || n != 12):
			t.Errorf("%+v: %+v, %d tokens", c, fin, n)
		}
		if calls < 4+3 { // each of the four tokens was tried
			t.Errorf("%+v: %d masks", c, calls)
		}
	}
}

// fourTokens is a mask of as many.
type fourTokens struct{ calls *int }

func (m *fourTokens) Mask(bits []uint32) (bool, error) {
	*m.calls++
	clear(bits)
	for _, id := range []llm.Token{3, 5, 7, 9} {
		bits[id/32] |= 1 << (id % 32)
	}
	return true, nil
}

func (*fourTokens) Accept(llm.Token) error      { return nil }
func (*fourTokens) Rewind(sample.History) error { return nil }

// saying is a guard that always says the same.
type saying struct {
	rules llm.GuardRules
	says  func(*llm.GuardView) llm.Verdict
}

func (s saying) Rules() llm.GuardRules                       { return s.rules }
func (s saying) Applied(llm.VerdictKind, int)                {}
func (s saying) Check(v *llm.GuardView) (llm.Verdict, error) { return s.says(v), nil }
func (s saying) plugins(more ...sample.Guard) sample.Plugins {
	return sample.Plugins{Guards: append(more, s)}
}

// TestGuardsTogether: no token goes out that one of several guards holds, and what one replaces does not go out because
// another ends the sequence.
func TestGuardsTogether(t *testing.T) {
	hold := saying{llm.GuardRules{Name: "hold", Hold: 9, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		if v.Reason == llm.FinishNone {
			return llm.Verdict{Position: max(v.Released, len(v.Output)-3)}
		}
		return llm.Verdict{Position: len(v.Output)}
	}}
	swap := saying{llm.GuardRules{Name: "swap", Hold: 9, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		return llm.Verdict{Kind: llm.VerdictReplace, Position: v.Released + 1, Text: "x", Tokens: []llm.Token{5}}
	}}
	stop := saying{llm.GuardRules{Name: "stop", Hold: 9, Every: 1, Stops: true}, func(v *llm.GuardView) llm.Verdict {
		if len(v.Output) == 6 {
			return llm.Verdict{Kind: llm.VerdictStop, Position: 6, Why: "six"}
		}
		return llm.Verdict{Position: len(v.Output)}
	}}
	rewound := false
	seldom := saying{llm.GuardRules{Name: "seldom", Hold: 9, Every: 4}, func(v *llm.GuardView) llm.Verdict {
		return llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output), Text: "x", Tokens: []llm.Token{5}}
	}}
	back := saying{llm.GuardRules{Name: "back", Hold: 9, Every: 1, Rewinds: true}, func(v *llm.GuardView) llm.Verdict {
		if len(v.Output) == 4 && !rewound {
			rewound = true
			return llm.Verdict{Kind: llm.VerdictRewind, Position: 2}
		}
		return llm.Verdict{Position: len(v.Output)}
	}}
	for name, c := range map[string]struct {
		list []sample.Guard
		text string
		want int
	}{
		"seldom beside back": {[]sample.Guard{seldom, back}, "xx", 2},
		"swap beside hold":   {[]sample.Guard{swap, hold}, "xxxxxxxx", 8},
		"stop beside both":   {[]sample.Guard{swap, hold, stop}, "xxxxxx", 6},
	} {
		r := endless(8)
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: c.list} }
		got, err := generate(start(t, newFake(64, 16, 256), Config{Speculation: draft.Settings{}}), r)
		if err != nil || got.texts[0] != c.text || len(got.tokens[0]) != c.want || got.finish[0].Text != c.text {
			t.Errorf("%s: %q %d %+v (%v)", name, got.texts[0], len(got.tokens[0]), got.finish[0], err)
		}
	}
}

// TestGuardsAnew: where a guard unmakes the end at a stop string, those that had released that end are asked about the
// text that goes on, also where it is not their turn.
func TestGuardsAnew(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{Speculation: draft.Settings{}})
	plain, err := generate(e, endless(3))
	if err != nil {
		t.Fatal(err)
	}
	replaced, asked := false, ""
	swap := saying{llm.GuardRules{Name: "swap", Hold: 9, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		if v.Reason == llm.FinishStop && !replaced {
			replaced = true
			return llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output), Text: "x"}
		}
		return llm.Verdict{Position: len(v.Output)}
	}}
	seldom := saying{llm.GuardRules{Name: "seldom", Hold: 9, Every: 1 << 10}, func(v *llm.GuardView) llm.Verdict {
		asked += fmt.Sprintf("%d %v,", len(v.Output), v.Reason)
		return llm.Verdict{Position: len(v.Output)}
	}}
	r := endless(8)
	r.Params.Stop = []string{plain.texts[0]}
	r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: []sample.Guard{swap, seldom}} }
	if _, err := generate(e, r); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("3 %v,3 %v,", llm.FinishStop, llm.FinishNone); !strings.HasPrefix(asked, want) {
		t.Errorf("it is asked at %q, want %q", asked, want)
	}
}

// TestGuardEndsAnEnd: a guard that stops a text behind the token that ended it is its end, whatever that was, and the
// client gets all of the text that goes before.
func TestGuardEndsAnEnd(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{Speculation: draft.Settings{}})
	plain, err := generate(e, endless(6))
	if err != nil {
		t.Fatal(err)
	}
	text := plain.texts[0]
	for what, c := range map[string]struct {
		most   int
		stop   []string
		reason llm.Reason // that the guard is shown
		text   string
	}{
		"length":                        {6, nil, llm.FinishLength, text},
		"a stop string":                 {9, []string{text[2:]}, llm.FinishStop, text},
		"length at a stop string":       {6, []string{text[2:]}, llm.FinishLength, text},
		"length behind a part of one":   {6, []string{text[2:] + "!"}, llm.FinishLength, text},
		"length inside of the last one": {6, []string{text[:len(text)-1]}, llm.FinishLength, text},
	} {
		shown := llm.FinishNone
		g := saying{llm.GuardRules{Name: "g", Hold: 9, Every: 1, Stops: true}, func(v *llm.GuardView) llm.Verdict {
			if v.Reason == llm.FinishNone {
				return llm.Verdict{Position: v.Released}
			}
			shown = v.Reason
			return llm.Verdict{Kind: llm.VerdictStop, Position: len(v.Output), Why: "enough"}
		}}
		r := endless(c.most)
		r.Params.Stop = c.stop
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: []sample.Guard{g}} }
		got, err := generate(e, r)
		if err != nil {
			t.Fatal(err)
		}
		fin := got.finish[0]
		if shown != c.reason || got.texts[0] != c.text || fin.Text != c.text || fin.Generated != len(got.tokens[0]) ||
			fin.Reason != llm.FinishGuard || fin.StoppedBy != "g" || fin.Why != "enough" || fin.Stop != "" {
			t.Errorf("%s, shown as %v: %q, %+v", what, shown, got.texts[0], fin)
		}
	}
}

// TestGuardsAreRefused: beside what cannot be taken back, and in beam searches.
func TestGuardsAreRefused(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	g := saying{llm.GuardRules{Name: "g", Hold: 5, Every: 1, Rewinds: true}, nil}
	for name, change := range map[string]func(*Request, *sample.Plugins){
		"processor": func(_ *Request, p *sample.Plugins) { p.Processors = []sample.Processor{nothing{}} },
		"beams":     func(r *Request, _ *sample.Plugins) { r.Params.NumBeams, r.Params.NumReturn = 3, 1 },
	} {
		r := endless(8)
		p := g.plugins()
		change(&r, &p)
		r.Plugins = func(int) sample.Plugins { return p }
		if _, err := generate(e, r); !errors.Is(err, llm.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplacementsWait: a guard that would replace more and more, beside one that always holds some tokens, replaces
// what it asked for first as soon as the other lets go, so that no more is held than two guards may.
func TestReplacementsWait(t *testing.T) {
	most, asked := 0, 0
	rules := llm.GuardRules{Name: "replaces", Hold: llm.MaxHold, Every: 1}
	replaces := saying{rules, func(v *llm.GuardView) llm.Verdict {
		asked++
		return llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output), Text: "x", Tokens: []llm.Token{8}}
	}}
	holds := saying{llm.GuardRules{Name: "holds", Hold: 8, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		most = max(most, len(v.Ends))
		if v.Reason != llm.FinishNone {
			return llm.Verdict{Position: len(v.Output)}
		}
		return llm.Verdict{Position: max(v.Released, len(v.Output)-4)}
	}}
	for _, guards := range [][]sample.Guard{{replaces, holds}, {holds, replaces}} {
		most, asked = 0, 0
		r := endless(600)
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: guards} }
		got, err := generate(start(t, newFake(64, 16, 1024), Config{}), r)
		if err != nil || len(got.tokens[0]) < 100 || most > 16 || asked < 100 {
			t.Errorf("%d tokens came out, at most %d were held, asked %d times: %v", len(got.tokens[0]), most, asked, err)
		}
	}
}
