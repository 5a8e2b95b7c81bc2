package engine

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// hidden says which bytes of a text are of the longest of some secrets from the left, and before which byte that is
// decided where more text may follow.
func hidden(text string, secrets []string, more bool) (gone []bool, decided int) {
	gone = make([]bool, len(text))
	for decided < len(text) {
		best := 0
		for _, s := range secrets {
			switch rest := text[decided:]; {
			case strings.HasPrefix(rest, s):
				best = max(best, len(s))
			case more && strings.HasPrefix(s, rest):
				return gone, decided
			}
		}
		for i := range best {
			gone[decided+i] = true
		}
		decided += max(best, 1)
	}
	return gone, decided
}

// longest is a guard that replaces the longest of some secrets by its name. It reads nothing of what went out, and goes
// by what is held alone: so what it says of a secret rests on what it saw behind it.
func longest(name string, secrets ...string) sample.Guard {
	return saying{llm.GuardRules{Name: name, Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		held := string(v.Text[v.Context:])
		gone, decided := hidden(held, secrets, v.Reason == llm.FinishNone)
		n, to := 0, 0
		for i, end := range v.Ends {
			end := int(end) - v.Context
			if end > decided {
				break
			}
			if end == len(held) || end == 0 || !gone[end] || !gone[end-1] || begins(held, secrets, end) {
				n, to = i+1, end
			}
		}
		if n == 0 {
			return llm.Verdict{Position: v.Released}
		}
		var out strings.Builder
		for i := range to {
			if !gone[i] {
				out.WriteByte(held[i])
			} else if i == 0 || !gone[i-1] || begins(held, secrets, i) {
				out.WriteString(name)
			}
		}
		if out.String() != held[:to] {
			return llm.Verdict{Kind: llm.VerdictReplace, Position: v.Released + n, Text: out.String()}
		}
		return llm.Verdict{Position: v.Released + n}
	}}
}

// begins reports whether one of the replaced parts begins at a place.
func begins(text string, secrets []string, place int) bool {
	for at := 0; at <= place && at < len(text); {
		best := 0
		for _, s := range secrets {
			if strings.HasPrefix(text[at:], s) {
				best = max(best, len(s))
			}
		}
		if at == place {
			return best > 0
		}
		at += max(best, 1)
	}
	return false
}

// tap releases all and keeps the text that it saw last.
func tap(text *string) sample.Guard {
	return saying{llm.GuardRules{Name: "tap", Hold: 1, Every: 1}, func(v *llm.GuardView) llm.Verdict {
		*text = string(v.Text) // shorter than what a view has
		return llm.Verdict{Position: len(v.Output)}
	}}
}

// TestReplacedByWhatStays: what a guard replaces by what it sees behind is what it replaces of the text that stays,
// whatever another takes back.
func TestReplacedByWhatStays(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	lists := [][]string{{"b", "bba"}, {"c", "ch", "chb"}, {"h", "hb ", "b", "bcb"}, {"bc", "bcbca"}}
	replaced, rewound := 0, 0
	for seed := range uint64(6000) {
		secrets := lists[seed%4]
		text := ""
		list := []sample.Guard{longest("#", secrets...), fickle(seed, true), tap(&text)}
		if seed%3 == 0 {
			list = append(list, fickle(seed+10_000, true))
		}
		rand.New(rand.NewPCG(seed, 8)).Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		q := endless(16)
		q.Params.Temperature, q.Params.Seed = 1.5, seed
		q.Plugins = func(int) sample.Plugins { return sample.Plugins{Guards: list} }
		got, err := generate(e, q)
		if err != nil {
			t.Fatal(err)
		}
		fin := got.finish[0]
		if fin.Reason != llm.FinishLength {
			continue
		}
		gone, _ := hidden(text, secrets, false)
		var want strings.Builder
		for i := range len(text) {
			if !gone[i] {
				want.WriteByte(text[i])
			} else if i == 0 || !gone[i-1] || begins(text, secrets, i) {
				want.WriteByte('#')
			}
		}
		if fin.Text != want.String() {
			t.Errorf("%d: %q of %q: %q, want %q", seed, secrets, text, fin.Text, want.String())
		}
		replaced, rewound = replaced+fin.Replaced, rewound+fin.Rewound
	}
	if replaced < 5000 || rewound < 5000 {
		t.Errorf("%d tokens were replaced, %d taken back: nothing was tried", replaced, rewound)
	}
}

// TestReplacementsRestOnAll: of two guards that replace neither has the other's secret cut in two: what goes out is no
// byte of what either replaces of the whole text, and nearly all others, in spite of so few letters.
func TestReplacementsRestOnAll(t *testing.T) {
	s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
	defer s.Close()
	const letters = "bch "
	replaced, visible, lost := 0, 0, 0
	for seed := range uint64(8000) {
		r := rand.New(rand.NewPCG(seed, 9))
		word := func(n int) string {
			var b strings.Builder
			for range n {
				b.WriteByte(letters[r.IntN(len(letters)-1)])
			}
			return b.String()
		}
		some := func() (list []string) {
			for range 1 + r.IntN(3) {
				list = append(list, word(1+r.IntN(4)))
			}
			return list
		}
		one, two, text := some(), some(), ""
		list := []sample.Guard{longest("#", one...), longest("@", two...), tap(&text)}
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		o := s.Output(0, []llm.Token{7}, params(40), list)
		shown := ""
		note := func(events []Event, err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				shown += ev.Text
			}
		}
		for range 12 {
			id := slices.Index(pieces, word(1))
			o.Begin()
			note(o.Add(Emitted{Token: llm.Token(id), Whole: true}))
		}
		note(o.End())
		shown = strings.TrimSuffix(shown, "</s>")
		a, _ := hidden(text, one, false)
		b, _ := hidden(text, two, false)
		var left []byte
		for i := range len(text) {
			if !a[i] && !b[i] {
				left = append(left, text[i])
			}
		}
		bare := strings.NewReplacer("#", "", "@", "", "***", "").Replace(shown)
		if !within(bare, string(left)) || shown == bare && len(left) < len(text) {
			t.Errorf("%d: %q and %q of %q: %q, want no more than %q", seed, one, two, text, shown, left)
		}
		replaced += strings.Count(shown, "#") + strings.Count(shown, "@")
		visible, lost = visible+len(left), lost+len(left)-len(bare)
	}
	if replaced < 5000 || lost > visible/80 {
		t.Errorf("%d parts were replaced, %d of %d bytes lost", replaced, lost, visible)
	}
}

// TestReplacementsThatNeverMeet: two guards that always change more than the other has decided hold no more than one
// may hold, and what is held goes out as one replacement then.
func TestReplacementsThatNeverMeet(t *testing.T) {
	most := 0
	pairs := func(shift int) sample.Guard {
		return saying{llm.GuardRules{Name: "pairs", Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			most = max(most, len(v.Ends))
			n := len(v.Output)
			if v.Reason == llm.FinishNone {
				n -= (n + shift) % 2
			}
			if n <= v.Released {
				return llm.Verdict{Position: v.Released}
			}
			return llm.Verdict{Kind: llm.VerdictReplace, Position: n, Text: strings.Repeat("#", (n-v.Released+1)/2)}
		}}
	}
	session := open(t, start(t, newFake(64, 16, 1024), Config{}), 1)
	defer session.Close()
	o := session.Output(0, []llm.Token{7}, params(700), []sample.Guard{pairs(0), pairs(1)})
	shown := ""
	for i := range 600 {
		o.Begin()
		events, err := o.Add(Emitted{Token: llm.Token(slices.Index(pieces, "bch"[i%3:i%3+1])), Whole: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			shown += ev.Text
		}
	}
	if most > llm.MaxHold+2 || len(shown) < 2 || strings.Trim(shown, "#") != "" {
		t.Errorf("%d tokens were held, %q went out", most, shown)
	}
}

// TestEdited: whatever part of a text another one may have lost is in what is said to be edited, and no more.
func TestEdited(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 10))
	word := func() string {
		var b strings.Builder
		for range r.IntN(7) {
			b.WriteByte("ab#"[r.IntN(3)])
		}
		return b.String()
	}
	ambiguous := 0
	for range 20_000 {
		text, other := word(), word()
		if text == other {
			continue
		}
		// What stays at the beginning and at the end may be told apart in more than one way.
		stays, ways, first, last := -1, 0, 0, 0
		for p := 0; p <= min(len(text), len(other)) && text[:p] == other[:p]; p++ {
			for q := 0; p+q <= min(len(text), len(other)) && text[len(text)-q:] == other[len(other)-q:]; q++ {
				switch {
				case p+q > stays:
					stays, ways, first, last = p+q, 1, p, len(text)-q
				case p+q == stays:
					ways, first, last = ways+1, min(first, p), max(last, len(text)-q)
				}
			}
		}
		from, to := edited([]byte(text), other)
		shorter := len(other) < len(text) // otherwise all of it may have stayed
		if shorter && (from != first || to != last) || to > len(text) || from > to || from+len(text)-to > len(other) ||
			text[:from] != other[:from] || text[to:] != other[len(other)-(len(text)-to):] {
			t.Errorf("%q to %q: %d to %d, want %d to %d", text, other, from, to, first, last)
		}
		if shorter && ways > 1 {
			ambiguous++
		}
	}
	if ambiguous < 200 {
		t.Errorf("%d could be told in more than one way", ambiguous)
	}
}

// TestUnsure: what of a text was edited in places, with words or without, is all in what is said that it may be.
func TestUnsure(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 11))
	wide, tight := 0, 0
	for range 50_000 {
		var text, other []byte
		gone := make([]bool, r.IntN(12))
		for i := range gone {
			text = append(text, "abcd"[r.IntN(4)])
			if gone[i] = r.IntN(4) == 0; !gone[i] {
				other = append(other, text[i])
			} else if r.IntN(2) == 0 {
				other = append(other, '#')
			}
		}
		begin, end := edited(text, string(other))
		from, to := unsure(text, begin, end)
		if from > begin || to < end {
			t.Errorf("%q to %q: %d to %d, and surely %d to %d", text, other, begin, end, from, to)
		}
		for i, gone := range gone {
			if gone && (i < from || i >= to) {
				t.Errorf("%q to %q: %d to %d, byte %d is gone, too", text, other, from, to, i)
			}
		}
		wide, tight = wide+to-from, tight+end-begin
	}
	if wide > tight*5/4 {
		t.Errorf("%d bytes may be edited, %d are", wide, tight)
	}
}

// within reports whether a text is left of another when some bytes of that are taken out.
func within(text, of string) bool {
	i := 0
	for k := 0; i < len(text) && k < len(of); k++ {
		if text[i] == of[k] {
			i++
		}
	}
	return i == len(text)
}

// TestJoinedText: what stands for edits that overlap, and what is between those that do not.
func TestJoinedText(t *testing.T) {
	const text = "the the SECRETWORDORD x"
	for _, c := range []struct {
		edits []edit
		want  string
	}{
		{nil, text},
		{[]edit{{1, 8, 8, 18, 18, "#", false, false}, {0, 0, 0, 6, 6, "#", false, false}}, "#e #ORD x"},
		{[]edit{{1, 8, 8, 18, 18, "#", false, false}, {0, 4, 4, 12, 12, "[name]", false, false}}, "the [name]ORD x"},
		{[]edit{{0, 8, 8, 18, 18, "#", false, false}, {1, 4, 4, 12, 12, "[name]", false, false}}, "the #ORD x"},
		{[]edit{{0, 8, 8, 18, 18, "#e#", false, false}, {1, 4, 4, 12, 12, "[name]", false, false}}, "the ***ORD x"},
		{[]edit{{0, 8, 8, 18, 18, "#e#", false, false}, {1, 4, 4, 12, 12, "#", false, false}}, "the #ORD x"},
		{[]edit{{0, 8, 8, 18, 18, "#S#", false, false}, {1, 4, 4, 12, 12, "#S#", false, false}}, "the ***ORD x"},
		{[]edit{{0, 0, 0, 3, 3, "#", false, false}, {1, 3, 3, 4, 4, "@", false, false}}, "#the SECRETWORDORD x"},
		{[]edit{{0, 0, 0, 3, 3, "", false, false}, {1, 2, 2, 4, 4, "@", false, false}}, "the SECRETWORDORD x"},
		{[]edit{{0, 0, 0, 3, 3, "#", false, false}, {1, 8, 8, 23, 23, "", true, false}}, "# the ***"},
		{[]edit{{0, 0, 0, 3, 3, "#", false, true}, {1, 3, 3, 4, 4, "@", false, true}}, "#@the SECRETWORDORD x"},
		{[]edit{{0, 0, 0, 3, 3, "#", false, true}, {1, 3, 3, 4, 4, "@", false, false}}, "#the SECRETWORDORD x"},
		{[]edit{{0, 0, 0, 3, 3, "#e#", false, true}, {1, 2, 2, 7, 7, "#e#", false, true}}, "#e# SECRETWORDORD x"},
		{[]edit{{0, 0, 0, 3, 3, "#", false, true}, {1, 3, 3, 23, 23, "", true, false}}, "#"},
		{[]edit{{0, 4, 4, 7, 7, "#", false, true}, {1, 4, 4, 4, 4, "+", false, true}}, "the +# SECRETWORDORD x"},
		{[]edit{{0, 4, 4, 7, 7, "#", false, true}, {1, 23, 23, 23, 23, "+", false, true}}, "the # SECRETWORDORD x+"},
		{[]edit{{0, 0, 0, 3, 3, "#", false, true}, {0, 3, 3, 4, 4, "#", false, true},
			{1, 5, 5, 5, 5, "+", false, true}}, "##t+he SECRETWORDORD x"},
		{[]edit{{0, 0, 0, 10, 10, "[é]", false, false}, {1, 8, 8, 23, 23, "", true, false}}, "[é]"},
		{[]edit{{0, 0, 0, 10, 10, "[x]", false, false}, {1, 8, 8, 23, 23, "", true, false}}, "[x]"},
		{[]edit{{0, 2, 4, 6, 8, "#", false, false}}, "the #e SECRETWORDORD x"},
		{[]edit{{0, 2, 4, 6, 8, "#", false, false}, {1, 2, 4, 6, 8, "#", false, false}}, "the #e SECRETWORDORD x"},
		{[]edit{{0, 2, 4, 6, 8, "#", false, false}, {1, 2, 4, 6, 8, "@", false, false}}, "th#SECRETWORDORD x"},
		{[]edit{{0, 2, 4, 6, 8, "#", false, false}, {1, 2, 4, 6, 8, "#", false, false},
			{2, 7, 7, 18, 18, "#", false, false}}, "th#ORD x"},
		{[]edit{{0, 2, 4, 6, 8, "#", false, false}, {1, 8, 8, 18, 18, "#", false, false}}, "th#ORD x"},
	} {
		if got := joinedText(text, c.edits); got != c.want {
			t.Errorf("%v: %q, want %q", c.edits, got, c.want)
		}
	}
}

// TestReplacementsAtTheEnd: a guard whose replacement waits is asked again at the end of the text, too, where the other
// one replaces by nothing more that came.
func TestReplacementsAtTheEnd(t *testing.T) {
	s := open(t, start(t, newFake(64, 16, 256), Config{}), 1)
	defer s.Close()
	one, two := []string{"bchhb"}, []string{"hhbbc", "hhbbcdchh"}
	for _, list := range [][]sample.Guard{
		{longest("#", one...), longest("#", two...)}, {longest("#", two...), longest("#", one...)},
	} {
		o, shown := s.Output(0, []llm.Token{7}, params(40), list), ""
		note := func(events []Event, err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range events {
				shown += ev.Text
			}
		}
		for _, piece := range strings.Split("bchhbbcdc", "") {
			o.Begin()
			note(o.Add(Emitted{Token: llm.Token(slices.Index(pieces, piece)), Whole: true}))
		}
		note(o.End())
		if shown != "#dc</s>" {
			t.Errorf("%q went out", shown)
		}
	}
}

// TestWordsBehindAll: words that a guard adds behind all that is held go out, though another one replaces some of it
// and the text ends.
func TestWordsBehindAll(t *testing.T) {
	e := start(t, newFake(64, 16, 256), Config{})
	says := func(name string, edit llm.TextEdit) sample.Guard {
		return saying{llm.GuardRules{Name: name, Hold: 20, Every: 1}, func(v *llm.GuardView) llm.Verdict {
			held := string(v.Text[v.Context:])
			if v.Reason == llm.FinishNone {
				return llm.Verdict{Position: v.Released}
			}
			if len(held) < 4 {
				return llm.Verdict{Position: len(v.Output)}
			}
			return llm.Verdict{Kind: llm.VerdictReplace, Position: len(v.Output), Edits: []llm.TextEdit{edit},
				Text: held[:edit.From] + edit.Words + held[edit.To:]}
		}}
	}
	list := []sample.Guard{says("some", llm.TextEdit{From: 1, To: 3, Words: "#"}),
		says("more", llm.TextEdit{From: 4, To: 4, Words: "+"}), says("front", llm.TextEdit{From: 1, To: 1, Words: "@"})}
	for range list {
		s := open(t, e, 1)
		o, shown := s.Output(0, []llm.Token{7}, params(40), list), ""
		for _, piece := range []string{"a", "b", "c", "e"} {
			o.Begin()
			if _, err := o.Add(Emitted{Token: llm.Token(slices.Index(pieces, piece)), Whole: true}); err != nil {
				t.Fatal(err)
			}
		}
		events, err := o.End()
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			shown += ev.Text
		}
		s.Close()
		if shown = strings.TrimSuffix(shown, "</s>"); shown != "a@#e+" {
			t.Errorf("%q went out", shown)
		}
		list = append(list[1:], list[0])
	}
}
