package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// looks is a guard that lets an "a" out only before a "b" or a "c": anything else behind it, an end as well, has it say
// what is to become of it. It holds what it does not know yet.
func looks(kind llm.VerdictKind, every int) sample.Guard {
	rules := llm.GuardRules{Name: "looks", Hold: 8, Every: every, Rewinds: true, Stops: true}
	return saying{rules, func(v *llm.GuardView) llm.Verdict {
		text, from := v.Text, v.Context
		for i := from; i < len(text); i++ {
			if text[i] != 'a' || i+1 < len(text) && (text[i+1] == 'b' || text[i+1] == 'c') {
				continue
			}
			at := slices.IndexFunc(v.Ends, func(end uint32) bool { return int(end) > i })
			first := at
			for first > 0 && text[v.Ends[first-1]-1] == 'a' { // it goes out by what begins this one
				first--
			}
			if kind == llm.VerdictReplace && (i+1 < len(text) || v.Reason != llm.FinishNone) {
				before := from // what is held before stays
				if first > 0 {
					before = int(v.Ends[first-1])
				}
				return llm.Verdict{Kind: kind, Position: v.Released + at + 1, Text: string(text[from:before]) + "-",
					Tokens: []llm.Token{5, 5, 5, 5, 5, 5, 5, 5}}
			}
			at = v.Released + first
			if i+1 == len(text) && v.Reason == llm.FinishNone {
				return llm.Verdict{Position: at}
			}
			return llm.Verdict{Kind: kind, Position: at}
		}
		return llm.Verdict{Position: len(v.Output)}
	}}
}

// allBanned leaves no token of the fake's vocabulary.
var allBanned = func() (list []llm.Bias) {
	for id := range llm.Token(53) {
		list = append(list, llm.Bias{Token: id, Add: float32(math.Inf(-1))})
	}
	return list
}()

// fickle is a guard that takes back, ends and holds what it has not released, by chance. Some forbid all that may
// follow.
func fickle(seed uint64, rewinds bool) sample.Guard {
	r := rand.New(rand.NewPCG(seed, 3))
	bans := r.IntN(3) == 0
	rules := llm.GuardRules{Name: fmt.Sprint("fickle ", seed), Hold: 8, Every: 1, Rewinds: rewinds, Stops: true}
	return saying{rules, func(v *llm.GuardView) llm.Verdict {
		n := len(v.Output)
		free := v.Released + r.IntN(n-v.Released+1)
		switch k := r.IntN(12); {
		case k < 4 && rewinds && free < n:
			v := llm.Verdict{Kind: llm.VerdictRewind, Position: free}
			if k == 0 && bans {
				v.Biases = allBanned
			}
			return v
		case k == 4 && r.IntN(4) == 0:
			return llm.Verdict{Kind: llm.VerdictStop, Position: free}
		case k < 7 && v.Reason == llm.FinishNone:
			return llm.Verdict{Position: free}
		}
		return llm.Verdict{Position: n}
	}}
}

// unfollowed is an "a" that looks would not let out.
func unfollowed(text string) bool {
	for i := range len(text) {
		if text[i] == 'a' && (i+1 == len(text) || text[i+1] != 'b' && text[i+1] != 'c') {
			return true
		}
	}
	return false
}

// TestReleasedByWhatStays: what a guard releases by what it sees behind goes out only beside that, whatever other
// guards take back, and wherever they end the text.
func TestReleasedByWhatStays(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	texts, ends := 0, map[llm.Reason]int{}
	for seed := range uint64(3000) {
		kind := []llm.VerdictKind{llm.VerdictReplace, llm.VerdictRewind, llm.VerdictStop}[seed%3]
		list := []sample.Guard{looks(kind, 1+int(seed/3%2)), fickle(seed, true)}
		if seed%5 == 0 {
			list = append(list, fickle(seed+1000, seed%2 == 0))
		}
		if seed%2 == 0 {
			slices.Reverse(list)
		}
		r := endless(12)
		r.Params.Temperature, r.Params.Seed, r.Params.IgnoreEOS = 1.5, seed, seed%4 > 0
		r.Params.Stop = [][]string{nil, {"d"}, {"ab"}, nil}[seed/4%4]
		plugins := sample.Plugins{Guards: list}
		if seed%7 < 3 { // they are asked apart from the steps
			plugins.Guests = []string{"all"}
		}
		r.Plugins = func(int) sample.Plugins { return plugins }
		got, err := generate(e, r)
		if err != nil {
			t.Fatal(err)
		}
		fin := got.finish[0]
		ends[fin.Reason]++
		if texts += strings.Count(fin.Text, "a"); unfollowed(fin.Text) {
			t.Errorf("%d: %q went out, the end %+v", seed, fin.Text, fin)
		}
	}
	if texts < 100 || ends[llm.FinishGuard] < 20 || ends[llm.FinishLength] < 20 || ends[llm.FinishStop] < 5 {
		t.Errorf("%d letters went out, %v: nothing was tried", texts, ends)
	}
}

// TestEmittedByWhatStays: the same holds for what programs emit, a token or some at a time.
func TestEmittedByWhatStays(t *testing.T) {
	s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
	defer s.Close()
	letters, refused := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 4))
		kind := []llm.VerdictKind{llm.VerdictReplace, llm.VerdictRewind, llm.VerdictStop}[seed%3]
		list := []sample.Guard{looks(kind, 1), fickle(seed, true)}
		if seed%2 == 0 {
			slices.Reverse(list)
		}
		o := s.Output(0, []llm.Token{7}, params(40), list)
		text, over := "", false
		note := func(events []Event, err error) {
			for _, ev := range events {
				text, over = text+ev.Text, over || ev.Finish != nil
			}
			if errors.As(err, new(*Refusal)) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for i := 0; i < 12 && !over; i++ {
			o.Begin()
			for n := r.IntN(3); n >= 0 && !over; n-- {
				events, err := o.Add(Emitted{Token: llm.Token(5 + r.IntN(len(pieces)-5)), Whole: n == 0})
				if note(events, err); err != nil {
					break
				}
			}
		}
		if !over {
			note(o.End())
		}
		text = strings.TrimSuffix(text, "</s>")
		if letters += strings.Count(text, "a"); unfollowed(text) {
			t.Errorf("%d: %q went out", seed, text)
		}
	}
	if letters < 100 || refused < 100 {
		t.Errorf("%d letters went out, %d emissions were refused: nothing was tried", letters, refused)
	}
}

// TestReplacementsTogether: of two guards that replace at once, the one before goes first; where they overlap, no byte
// of what either replaces goes out.
func TestReplacementsTogether(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{Speculation: draft.Settings{}})
	masks := func(name string, from, to int) sample.Guard {
		return saying{llm.GuardRules{Name: name, Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			switch n := len(v.Output); {
			case v.Released >= to:
				return llm.Verdict{Position: n}
			case n < to && v.Reason == llm.FinishNone:
				return llm.Verdict{Position: max(min(from, n), v.Released)}
			case n < to:
				return llm.Verdict{Position: n}
			}
			text := strings.Repeat("k", max(from-v.Released, 0)) + "[" + name + "]"
			return llm.Verdict{Kind: llm.VerdictReplace, Position: to, Text: text}
		}}
	}
	for _, c := range []struct {
		one, two sample.Guard
		want     string
	}{
		{masks("one", 1, 3), masks("two", 4, 6), "h[one]b [two]"},
		{masks("one", 4, 6), masks("two", 1, 3), "h[two]b [one]"},
		{masks("one", 1, 6), masks("two", 2, 6), "h[one]"},
	} {
		r := endless(6)
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: []sample.Guard{c.one, c.two}} }
		got, err := generate(e, r)
		if err != nil || got.finish[0].Text != c.want {
			t.Errorf("%q %+v (%v), want %q", got.texts[0], got.finish[0], err, c.want)
		}
	}
}

// TestGuardsThatNeverAgree: two guards that take back, each of which knows of a token what it releases by the next
// alone, never know what stays: the text ends where there is no more room for what they hold.
func TestGuardsThatNeverAgree(t *testing.T) {
	behind := saying{llm.GuardRules{Name: "behind", Hold: 2, Every: 1, Rewinds: true},
		func(v *llm.GuardView) llm.Verdict {
			if len(v.Ends) > 2*llm.MaxHold+1 {
				t.Fatalf("%d tokens are held", len(v.Ends))
			}
			if v.Reason != llm.FinishNone {
				return llm.Verdict{Position: len(v.Output)}
			}
			return llm.Verdict{Position: max(len(v.Output)-1, v.Released)}
		}}
	ahead := saying{llm.GuardRules{Name: "ahead", Hold: 2, Every: 1}, behind.says}
	for _, c := range []struct {
		other sample.Guard
		want  int
	}{{ahead, 600}, {behind, 2*llm.MaxHold + 1}} {
		r := endless(600)
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: []sample.Guard{behind, c.other}} }
		got, err := generate(start(t, newFake(64, 16, 1024), Config{}), r)
		if err != nil || got.finish[0].Generated != c.want {
			t.Errorf("%+v (%v), want %d tokens", got.finish[0], err, c.want)
		}
	}
}

// TestReplacementsOfTheSame: of what several guards replace at once each changed byte is gone, and all others stay but
// those next to them that may be the ones that one of them took, also where they say nothing more.
func TestReplacementsOfTheSame(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	plain, err := generate(e, endless(4))
	if err != nil {
		t.Fatal(err)
	}
	text := plain.texts[0] // "hcbch b "
	masks := func(name, secret string, done bool) sample.Guard {
		return saying{llm.GuardRules{Name: name, Hold: 9, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			held := string(v.Text[v.Context:])
			if len(v.Output) < 4 || !strings.Contains(held, secret) {
				return llm.Verdict{Position: []int{v.Released, len(v.Output)}[len(v.Output)/4]}
			}
			return llm.Verdict{Kind: llm.VerdictReplace, Position: 4, Text: strings.ReplaceAll(held, secret, name),
				Tokens: []llm.Token{5, 6}, Done: done}
		}}
	}
	for _, c := range []struct{ one, two, want string }{
		{"cb", "cb", "h#h b "}, // the other "c" may be the one that is gone
		{"cb", "ch", "h# b "},
		{"cbc", "bch ", "h#"},
		{"b", "h", "***"}, // "#ch #" and "#cbc#" quote what the other one changes
	} {
		for done := range 4 {
			r := endless(4)
			list := []sample.Guard{masks("#", c.one, done&1 > 0), masks("@", c.two, done&2 > 0)}
			r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: list} }
			got, err := generate(e, r)
			if fin := got.finish[0]; err != nil || fin.Text != c.want || fin.Reason != llm.FinishLength {
				t.Errorf("%q and %q of %q, %d: %+v (%v), want %q", c.one, c.two, text, done, fin, err, c.want)
			}
		}
	}
}

// chaos is a guard that says by chance all that a guard may say.
func chaos(seed uint64) sample.Guard {
	r := rand.New(rand.NewPCG(seed, 5))
	rules := llm.GuardRules{Name: fmt.Sprint("chaos ", seed), Hold: 1 + r.IntN(8), Every: 1, Rewinds: true,
		Stops: true, OnFull: llm.GuardEnd(r.IntN(2)), OnExhausted: llm.GuardEnd(r.IntN(2))}
	stubborn := r.IntN(4) == 0
	return saying{rules, func(v *llm.GuardView) llm.Verdict {
		n := len(v.Output)
		some := v.Released + r.IntN(n-v.Released+1)
		k := r.IntN(14)
		if stubborn && v.Reason != llm.FinishNone { // it never lets a text end otherwise
			k = 1 + int(seed)%4
		}
		switch {
		case k == 1 && some < n:
			return llm.Verdict{Kind: llm.VerdictRewind, Position: some}
		case k == 2:
			return llm.Verdict{Kind: llm.VerdictInsert, Position: some, Tokens: []llm.Token{7, 9}}
		case k == 3:
			return llm.Verdict{Kind: llm.VerdictReplace, Position: max(some, v.Released+1), Text: "-",
				Tokens: []llm.Token{5}}
		case k == 4 && (stubborn || r.IntN(4) == 0):
			return llm.Verdict{Kind: llm.VerdictStop, Position: some}
		case k < 9 && v.Reason == llm.FinishNone:
			return llm.Verdict{Position: some, Done: r.IntN(20) == 0}
		}
		return llm.Verdict{Position: n, Done: r.IntN(20) == 0}
	}}
}

// TestGuardsComeToAnEnd: whatever several guards say, and however often, each text ends, and its events are its text.
func TestGuardsComeToAnEnd(t *testing.T) {
	e := start(t, newFake(64, 16, 512), Config{})
	s := open(t, e, 1)
	defer s.Close()
	stops := saying{llm.GuardRules{Name: "stops", Hold: 8, Every: 1, Stops: true}, func(v *llm.GuardView) llm.Verdict {
		return llm.Verdict{Kind: llm.VerdictStop, Position: len(v.Output)}
	}}
	lists := [][]sample.Guard{{stops, stops}, {stops, stops, stops}}
	for seed := range uint64(3000) {
		list := []sample.Guard{chaos(seed), chaos(seed + 10_000)}
		if seed%3 == 0 {
			list = append(list, chaos(seed+20_000))
		}
		lists = append(lists, list)
	}
	for i, list := range lists {
		r := endless(12)
		r.Params.Temperature, r.Params.Seed, r.Params.IgnoreEOS = 1.5, uint64(i), i%4 > 0
		r.Params.Stop = [][]string{nil, {"d"}, {"ab"}, nil}[i/4%4]
		r.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: list} }
		got, err := generate(e, r)
		// A special token that ends the text has what is left of a character, in the text alone.
		rest, ok := strings.CutPrefix(got.finish[0].Text, got.texts[0])
		if err != nil || !ok || rest != "" && rest != "\ufffd" {
			t.Errorf("%d: events say %q, its end %+v (%v)", i, got.texts[0], got.finish[0], err)
		}
		o := s.Output(0, []llm.Token{7}, params(40), list)
		over := false
		for k := 0; k < 12 && !over; k++ {
			o.Begin()
			events, _ := o.Add(Emitted{Token: llm.Token(5 + k), Whole: true})
			over = slices.ContainsFunc(events, func(ev Event) bool { return ev.Finish != nil })
		}
		if over {
			continue
		}
		if events, err := o.End(); err != nil || len(events) == 0 || events[len(events)-1].Finish == nil {
			t.Errorf("%d: an output ends with %v (%v)", i, events, err)
		}
	}
}

// masks is a guard that replaces each occurrence of a text by its name, as far as it is not out, and holds what may
// begin one.
func masks(name, secret string) sample.Guard {
	return saying{llm.GuardRules{Name: name, Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		text := string(v.Text)
		gone, until := make([]bool, len(text)), len(text)
		for i := range text {
			if strings.HasPrefix(text[i:], secret) {
				for j := range secret {
					gone[i+j] = true
				}
			} else if strings.HasPrefix(secret, text[i:]) && v.Reason == llm.FinishNone && until == len(text) {
				until = i
			}
		}
		n := 0
		for n < len(v.Ends) && int(v.Ends[n]) <= until {
			n++
		}
		if n == 0 {
			return llm.Verdict{Position: v.Released}
		}
		var out strings.Builder
		for i := v.Context; i < int(v.Ends[n-1]); i++ {
			if !gone[i] {
				out.WriteByte(text[i])
			} else if i == v.Context || !gone[i-1] {
				out.WriteString(name)
			}
		}
		if held := text[v.Context:v.Ends[n-1]]; out.String() != held {
			return llm.Verdict{Kind: llm.VerdictReplace, Position: v.Released + n, Text: out.String()}
		}
		return llm.Verdict{Position: v.Released + n}
	}}
}

// TestMasksTogether: of two guards that replace, neither's texts go out, the text goes on, and what neither replaces is
// there: also beside one that takes back, and where the texts overlap, one is in the other, or both are in one token.
func TestMasksTogether(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	secrets := []string{"ab", "bc", "cb", "ha", "bca", "ch", "h ", "é", "a", "bcb", " b", "d", "bh", "eb"}
	masked := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 6))
		one, two := secrets[r.IntN(len(secrets))], secrets[r.IntN(len(secrets))]
		list := []sample.Guard{masks("#", one), masks("@", two)}
		if seed%4 == 0 {
			list = append(list, fickle(seed, true))
		}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		q := endless(16)
		q.Params.Temperature, q.Params.Seed = 1.5, seed
		q.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: list} }
		got, err := generate(e, q)
		fin := got.finish[0]
		masked += fin.Replaced
		if err != nil || strings.Contains(fin.Text, one) || strings.Contains(fin.Text, two) {
			t.Errorf("%d: %q and %q: %q (%v)", seed, one, two, fin.Text, err)
		}
		if len(list) == 2 && fin.Reason != llm.FinishLength {
			t.Errorf("%d: %q and %q: %+v", seed, one, two, fin)
		}
	}
	if masked < 1000 {
		t.Errorf("%d tokens were replaced", masked)
	}
}
