package stop

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// firstStop is the plain meaning of stop strings: the earliest end of any, the
// first named among equals.
func firstStop(text string, stops []string) (stop string, end int) {
	for end := 1; end <= len(text); end++ {
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) {
				return s, end
			}
		}
	}
	return "", 0
}

// pending is the plain meaning of Pending.
func pending(text string, stops []string) (longest int) {
	for _, s := range stops {
		for n := range len(s) {
			if strings.HasSuffix(text, s[:n]) {
				longest = max(longest, n)
			}
		}
	}
	return longest
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		text  string
		stops []string
		stop  string
		end   int
	}{
		{"Paris is", []string{"Pari"}, "Pari", 4},
		{"aaab", []string{"aab"}, "aab", 4},
		{"abababac", []string{"ababac"}, "ababac", 8},
		{"aabaaabaaax", []string{"aabaaax"}, "aabaaax", 11},
		{"x\n\nUser:", []string{"User:", "\n\n"}, "\n\n", 3},
		{"one two", []string{"two", "o"}, "o", 1},
		{"stop", []string{"op", "stop"}, "op", 4},
		{"stop", []string{"stop", "op"}, "stop", 4},
		{"5 €", []string{"€"}, "€", 5},
		{"nothing", []string{"", "z"}, "", 0},
		{"nothing", nil, "", 0},
	} {
		if stop, cut := New(c.stops).Feed(c.text); stop != c.stop || cut != c.end {
			t.Errorf("%q in %q: %q at %d, want %q at %d", c.stops, c.text, stop, cut, c.stop, c.end)
		}
	}
}

// feedAll feeds the pieces and returns the cut in bytes of the whole text.
func feedAll(pieces, stops []string) (stop string, end int) {
	m := New(stops)
	before := 0
	for _, p := range pieces {
		if stop, cut := m.Feed(p); stop != "" {
			return stop, before + cut
		}
		before += len(p)
	}
	return "", 0
}

func TestMatcherAnySplit(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString([]string{"a", "b", "ab", "é"}[r.IntN(4)])
		}
		return b.String()
	}
	matched := 0
	for range 5000 {
		text := word(r.IntN(30))
		var stops []string
		for range r.IntN(4) {
			stop := word(r.IntN(6))
			if r.IntN(2) == 0 { // nearly in the text
				from := r.IntN(len(text) + 1)
				stop = text[from:min(from+r.IntN(12), len(text))] + stop[:len(stop)/4]
			}
			stops = append(stops, stop)
		}
		var split []string
		for rest := text; rest != ""; {
			n := r.IntN(min(len(rest), 4) + 1)
			split = append(split, rest[:n])
			rest = rest[n:]
		}
		wantStop, wantEnd := firstStop(text, stops)
		if wantStop != "" {
			matched++
		}
		if wantStop == "" {
			m := New(stops)
			for _, p := range split {
				m.Feed(p)
			}
			if got, want := m.Pending(), pending(text, stops); got != want {
				t.Fatalf("%q behind %q: %d bytes are pending, want %d", stops, split, got, want)
			}
		}
		if stop, end := feedAll(split, stops); stop != wantStop || end != wantEnd {
			t.Fatalf("%q in %q: %q at %d, want %q at %d", stops, split, stop, end, wantStop, wantEnd)
		}
	}
	if matched < 1000 {
		t.Errorf("only %d texts held a stop string", matched)
	}
}

func FuzzMatcher(f *testing.F) {
	f.Add("hello world", "o w", "ld", uint8(3))
	f.Add("aaaaab", "aab", "b", uint8(1))
	f.Fuzz(func(t *testing.T, text, a, b string, every uint8) {
		stops := []string{a, b}
		wantStop, wantEnd := firstStop(text[:min(len(text), 200)], stops)
		text = text[:min(len(text), 200)]
		var split []string
		for n := int(every)%7 + 1; len(text) > n; text = text[n:] {
			split = append(split, text[:n])
		}
		if stop, end := feedAll(append(split, text), stops); stop != wantStop || end != wantEnd {
			t.Errorf("%q at %d, want %q at %d", stop, end, wantStop, wantEnd)
		}
	})
}

// TestEachStringSeesEachByte: a string is found whose bytes are another's too, and by a clone.
func TestEachStringSeesEachByte(t *testing.T) {
	m := New([]string{"ab", "bc", "cd"})
	if stop, cut := m.Feed("xabcd"); stop != "ab" || cut != 3 {
		t.Fatalf("%q at %d", stop, cut)
	}
	other := m.Clone()
	for _, m := range []*Matcher{m, other} {
		if stop, cut := m.Feed("cd"); stop != "bc" || cut != 1 {
			t.Errorf("%q at %d, want bc at 1", stop, cut)
		}
	}
	m.Feed("x")
	if stop, cut := other.Feed("d"); stop != "cd" || cut != 1 {
		t.Errorf("%q at %d: the other is no clone", stop, cut)
	}
}

// TestBehindAMatch: a matcher goes on behind a match, which may begin the next.
func TestBehindAMatch(t *testing.T) {
	m := New([]string{"aba"})
	for _, c := range []struct {
		piece string
		cut   int
	}{{"aba", 3}, {"b", 0}, {"a", 1}, {"x", 0}, {"aba", 3}} {
		if _, cut := m.Feed(c.piece); cut != c.cut {
			t.Errorf("%q: cut at %d, want %d", c.piece, cut, c.cut)
		}
	}
}
