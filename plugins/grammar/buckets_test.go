package grammar_test

import (
	"strings"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// runs is a vocabulary of 1 to n letters a, each with and without the suffix end.
func runs(n int, end string) (w words) {
	for i := 1; i <= n; i++ {
		for _, text := range []string{strings.Repeat("a", i), strings.Repeat("a", i) + end} {
			w = append(w, struct {
				text  string
				flags uint32
			}{text, 0})
		}
	}
	return append(w, struct {
		text  string
		flags uint32
	}{end, 0})
}

// checkMask compares a mask with the result of accepting each token and with the test's own answer for its text.
func checkMask(t *testing.T, w words, s *grammar.State, may func(text string) bool) {
	t.Helper()
	mask := make([]uint32, (w.Size()+31)/32)
	if err := s.Mask(mask); err != nil {
		t.Fatal(err)
	}
	for id, token := range w {
		in := mask[id/32]>>(id%32)&1 != 0
		if in != may(token.text) || in != s.Admits(uint32(id)) {
			t.Errorf("%q is %v in the mask, want %v", token.text, in, may(token.text))
		}
	}
}

// TestCountsBeyondTokens covers tokens longer than a count admits, at each length around the bucket lengths, and tokens
// that leave the term.
func TestCountsBeyondTokens(t *testing.T) {
	w := runs(130, "!")
	v := grammar.NewVocab(w, 0)
	for _, most := range []int{11, 12, 13, 14, 17, 31, 47, 95, 111, 112, 113, 128, 129, 131, 500} {
		for _, least := range []int{0, 5, 14, 100} {
			if least > most {
				continue
			}
			var b irtest.Builder
			run := b.Repeat(b.Bytes("az"), uint32(least), uint32(most))
			b.Define(b.Declare("start"), b.Seq(b.Term(run), b.Text("!")))
			s := compile(t, v, &b.G, grammar.Limits{}).Start()
			checkMask(t, w, s, func(text string) bool {
				n := strings.Count(text, "a")
				return n <= most && (n >= least || n == len(text))
			})
		}
	}
}

// TestCountsWithEndings checks that the suffix required after a run counts towards the limit.
func TestCountsWithEndings(t *testing.T) {
	w := runs(130, "!")
	v := grammar.NewVocab(w, 0)
	for _, most := range []int{14, 20, 26, 40, 70, 118, 125, 140, 300} {
		for _, tail := range []int{1, 6, 13} {
			var b irtest.Builder
			whole := b.Concat(b.Repeat(b.Bytes("az"), 0, ir.Unbounded), b.Repeat(b.Bytes("!!"), uint32(tail),
				uint32(tail)))
			both := b.And(whole, b.Repeat(b.Bytes(" ~"), 0, uint32(most)))
			b.Define(b.Declare("start"), b.Term(both))
			s := compile(t, v, &b.G, grammar.Limits{}).Start()
			checkMask(t, w, s, func(text string) bool { return strings.Count(text, "a")+tail <= most })
		}
	}
}

// TestLoopsAreASCII checks that a term which loops on NUL does not accept bytes outside ASCII.
func TestLoopsAreASCII(t *testing.T) {
	var w words
	for _, text := range []string{"b", "bc", "bcd", "bcde", "bcdé", "b\x00", "bca", "b!"} {
		w = append(w, struct {
			text  string
			flags uint32
		}{text, 0})
	}
	var b irtest.Builder
	b.Define(b.Declare("start"), b.Seq(b.Term(b.Repeat(b.Bytes("\x00\x00bz"), 1, ir.Unbounded)), b.Text("!")))
	s := compile(t, grammar.NewVocab(w, 0), &b.G, grammar.Limits{}).Start()
	checkMask(t, w, s, func(text string) bool { return !strings.ContainsAny(text, "éa") })
}

// TestLengthOfOtherCharacters covers a pattern that continues with a character outside the counted class, after one
// inside it.
func TestLengthOfOtherCharacters(t *testing.T) {
	var w words
	for _, text := range []string{"a", "\xc3", "\xa9", "é", "!", "b", "aé", "aé!"} {
		w = append(w, struct {
			text  string
			flags uint32
		}{text, 0})
	}
	var b irtest.Builder
	accented := ir.Range{Lo: 'é', Hi: 'ê'}
	counted := b.Repeat(b.Chars(accented, ir.Range{Lo: 'a', Hi: 'z'}), 0, 20)
	pattern := b.Union(b.Concat(b.Lit("a"), b.Chars(accented), b.Bytes("!!")), b.Lit("b"))
	b.Define(b.Declare("start"), b.Term(b.And(pattern, counted)))
	s := compile(t, grammar.NewVocab(w, 0), &b.G, grammar.Limits{}).Start()
	checkMask(t, w, s, func(text string) bool { return text == "b" })
}
