package engine

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

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
		{"stop on what was held back", "a|\xe2|\x82|\xac|b", []string{"a€"}, false, []string{"a", "", "", "€"}, "a€",
			"a€", 4},
		{"special token matches", "a|<sp>|b", []string{"<sp>"}, false, []string{"a", "<sp>"}, "a", "<sp>", 0},
		{"special token matches in part", "a|b|<sp>|c|d", []string{"b<sp>c"}, false, []string{"a", "b", "<sp>", "c"},
			"abc", "b<sp>c", 2},
		{"special token cut", "a|<sp>", []string{"a<s"}, false, []string{"a", "<s"}, "a", "a<s", 1},
		{"special token inside a character", "\xe2|\x82|<sp>|\xac", nil, false, []string{"", "", "<sp>", "€"}, "€", "",
			0},
		{"end flushes", "a|\xe2", nil, true, []string{"a", "\uFFFD"}, "a\uFFFD", "", 0},
		{"hidden end flushes to the visible text", "a|\xe2|</s>", nil, true, []string{"a", "", "</s>"}, "a\uFFFD", "",
			0},
		{"end beats stop", "a|b", []string{"b"}, true, []string{"a", "b"}, "ab", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tokens := tokensOf(t, c.trace)
			tr := newTranscript(fakeCodec{}, nil, c.stops, 0)
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
				t.Errorf("%q, stop %q of %d bytes; want %q, %q, %d", tr.visible, stop, stopBytes, c.visible, c.stop,
					c.stopBytes)
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
		tr := newTranscript(fakeCodec{}, nil, []string{stop}, 0)
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

// countingCodec counts the tokens that are decoded.
type countingCodec struct {
	fakeCodec
	tokens *int
}

func (c countingCodec) Stream(context []llm.Token) Detokenizer {
	*c.tokens += len(context)
	return countingDetok{c.fakeCodec.Stream(context), c.tokens}
}

type countingDetok struct {
	Detokenizer
	tokens *int
}

func (d countingDetok) Next(t llm.Token) string {
	*d.tokens++
	return d.Detokenizer.Next(t)
}

// TestTailFindsStopStrings: a beam's tail ends it where a transcript of its whole text does, for the price of a few
// tokens however long the text is.
func TestTailFindsStopStrings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	longest, ends := 0, 0
	for range 3000 {
		var stops []string
		for range 1 + r.IntN(3) {
			stop := ""
			for range 1 + r.IntN(5) {
				stop += []string{"a", "b", "c", "h", " ", "é", "€", "</s>"}[r.IntN(8)]
			}
			stops = append(stops, stop)
		}
		prompt := make([]llm.Token, r.IntN(8))
		for i := range prompt {
			prompt[i] = llm.Token(r.IntN(len(pieces)))
		}
		whole := newTranscript(fakeCodec{}, prompt, stops, 0)
		tail := textTail{context: lastTokens(prompt, detokContext)}
		for n := range 2000 {
			tok, tokens, stopped := llm.Token(r.IntN(len(pieces))), 0, false
			if r.IntN(2) == 0 {
				tok = llm.Token(r.IntN(5)) // the special ones, and the parts of a character
			}
			tail, stopped = tail.add(countingCodec{tokens: &tokens}, tok, stops)
			_, stop, _ := whole.add(tok, fakeCodec{}.Special(tok))
			if stopped != (stop != "") {
				t.Fatalf("stops %q, token %d (%q): the tail says %v, the transcript %q", stops, n, pieces[tok], stopped, stop)
			}
			if tokens > detokContext+1 || len(tail.context) > detokContext {
				t.Fatalf("token %d: %d tokens were decoded for one, want at most %d", n, tokens, detokContext+1)
			}
			longest = max(longest, n)
			if stopped {
				ends++
				break
			}
		}
	}
	if longest < 1000 || ends < 1000 {
		t.Errorf("%d texts ended, the longest has %d tokens: too few to tell", ends, longest)
	}
}
