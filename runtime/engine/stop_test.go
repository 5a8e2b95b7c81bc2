package engine

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tgi/runtime/llm"
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

func TestStopMatcher(t *testing.T) {
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
		if stop, cut := newStopMatcher(c.stops).feed(c.text); stop != c.stop || cut != c.end {
			t.Errorf("%q in %q: %q at %d, want %q at %d", c.stops, c.text, stop, cut, c.stop, c.end)
		}
	}
}

// feedAll feeds the pieces and returns the cut in bytes of the whole text.
func feedAll(pieces, stops []string) (stop string, end int) {
	m := newStopMatcher(stops)
	before := 0
	for _, p := range pieces {
		if stop, cut := m.feed(p); stop != "" {
			return stop, before + cut
		}
		before += len(p)
	}
	return "", 0
}

func TestStopMatcherAnySplit(t *testing.T) {
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
		if stop, end := feedAll(split, stops); stop != wantStop || end != wantEnd {
			t.Fatalf("%q in %q: %q at %d, want %q at %d", stops, split, stop, end, wantStop, wantEnd)
		}
	}
	if matched < 1000 {
		t.Errorf("only %d texts held a stop string", matched)
	}
}

func FuzzStopMatcher(f *testing.F) {
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

// A trace is the tokens that a model picks, named by their text.
func tokensOf(t *testing.T, trace string) (out []llm.Token) {
	t.Helper()
	for _, name := range strings.Split(trace, "|") {
		id := -1
		for i, p := range pieces {
			if p == name {
				id = i
			}
		}
		if id < 0 {
			t.Fatalf("no token %q", name)
		}
		out = append(out, llm.Token(id))
	}
	return out
}

func TestTranscript(t *testing.T) {
	for _, c := range []struct {
		name      string
		trace     string
		stops     []string
		end       bool // the last token ends the sequence by length or as EOS
		texts     []string
		visible   string
		stop      string
		stopBytes int
	}{
		{"inside a token", "ab|ch é|d", []string{"h"}, false, []string{"ab", "ch"}, "abch", "h", 1},
		{"across tokens", "a|b|cbc|d", []string{"bcb"}, false, []string{"a", "b", "cb"}, "abcb", "bcb", 3},
		{"not at a token's end alone", "a|b ", []string{"b"}, false, []string{"a", "b"}, "ab", "b", 1},
		{"held back", "a|\xe2|\x82|\xac|b", nil, false, []string{"a", "", "", "€", "b"}, "a€b", "", 0},
		{"stop on what was held back", "a|\xe2|\x82|\xac|b", []string{"a€"}, false, []string{"a", "", "", "€"}, "a€", "a€", 4},
		{"special token matches", "a|<sp>|b", []string{"<sp>"}, false, []string{"a", "<sp>"}, "a", "<sp>", 0},
		{"special token matches in part", "a|b|<sp>|c|d", []string{"b<sp>c"}, false, []string{"a", "b", "<sp>", "c"}, "abc", "b<sp>c", 2},
		{"special token cut", "a|<sp>", []string{"a<s"}, false, []string{"a", "<s"}, "a", "a<s", 1},
		{"special token inside a character", "\xe2|\x82|<sp>|\xac", nil, false, []string{"", "", "<sp>", "€"}, "€", "", 0},
		{"end flushes", "a|\xe2", nil, true, []string{"a", "\uFFFD"}, "a\uFFFD", "", 0},
		{"hidden end flushes to the visible text", "a|\xe2|</s>", nil, true, []string{"a", "", "</s>"}, "a\uFFFD", "", 0},
		{"end beats stop", "a|b", []string{"b"}, true, []string{"a", "b"}, "ab", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tokens := tokensOf(t, c.trace)
			tr := newTranscript(fakeCodec{}, nil, c.stops)
			var texts []string
			var stop string
			var stopBytes int
			for i, tok := range tokens {
				hidden := fakeCodec{}.Special(tok)
				var text string
				if c.end && i == len(tokens)-1 {
					text = tr.last(tok, hidden)
				} else {
					text, stop, stopBytes = tr.add(tok, hidden)
				}
				if texts = append(texts, text); stop != "" {
					break
				}
			}
			if strings.Join(texts, "|") != strings.Join(c.texts, "|") || len(texts) != len(c.texts) {
				t.Errorf("texts %q, want %q", texts, c.texts)
			}
			if string(tr.visible) != c.visible || stop != c.stop || stopBytes != c.stopBytes {
				t.Errorf("%q, stop %q of %d bytes; want %q, %q, %d", tr.visible, stop, stopBytes, c.visible, c.stop, c.stopBytes)
			}
		})
	}
}

// The visible part of a stop string is right however far it reaches back.
func TestTranscriptStopBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	for range 2000 {
		tokens := make([]llm.Token, 12)
		whole := ""
		for i := range tokens {
			tokens[i] = llm.Token(5 + r.IntN(len(pieces)-5))
			if r.IntN(4) == 0 {
				tokens[i] = tokSP
			}
			whole += pieces[tokens[i]]
		}
		from := r.IntN(len(whole) - 1)
		stop := whole[from:min(from+1+r.IntN(12), len(whole))]
		tr := newTranscript(fakeCodec{}, nil, []string{stop})
		all := ""
		for _, tok := range tokens {
			text, match, n := tr.add(tok, tok == tokSP)
			all += text
			if match == "" {
				continue
			}
			visible := 0
			at := 0
			for _, tok := range tokens { // byte by byte, from the start
				for range len(pieces[tok]) {
					if tok != tokSP && at >= len(all)-len(stop) && at < len(all) {
						visible++
					}
					at++
				}
			}
			if !strings.HasSuffix(all, stop) || n != visible {
				t.Fatalf("%q in %q: %d visible bytes, want %d", stop, all, n, visible)
			}
			break
		}
	}
}
