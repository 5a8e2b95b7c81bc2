package std_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"unicode"
	"unicode/utf8"

	"tgi/plugins/logits"
)

// ofWord reports whether a character belongs to a word, as Go's tables have it.
func ofWord(r rune) bool {
	return r == '_' || unicode.In(r, unicode.L, unicode.M, unicode.N) &&
		!unicode.In(r, unicode.Me, unicode.Variation_Selector)
}

// TestLetters holds the table of the characters that belong to words to Go's, which is of a newer Unicode: that has
// characters more.
func TestLetters(t *testing.T) {
	table, err := os.ReadFile("letters/src/letters.bin")
	if err != nil {
		t.Fatal(err)
	}
	has := map[rune]bool{}
	for ; len(table) > 0; table = table[4:] {
		x := binary.BigEndian.Uint32(table)
		for i := range rune(x&0xfff) + 1 {
			has[rune(x>>12)+i] = true
		}
	}
	newer := 0
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		switch {
		case has[r] && !ofWord(r):
			t.Errorf("%U belongs to words", r)
		case !has[r] && ofWord(r):
			newer++
		}
	}
	if len(has) < 135_000 || newer > 20_000 {
		t.Errorf("%d characters, and %d of a newer Unicode", len(has), newer)
	}
}

// TestWholeWords asks banned-words about a word behind and before characters whose bytes are tokens of their own.
func TestWholeWords(t *testing.T) {
	g := load(t, modules(t)["banned-words"], `{"words":["ab"],"whole_word":true}`)
	random := rand.New(rand.NewPCG(7, 8))
	beside := []rune("— “”’…\u00a0🙂❤。€éßЖ漢٣Ⅷ𝒜\u0301\u094d\ufe0f_x7-")
	for range 60 {
		beside = append(beside, rune(0x80+random.IntN(0x3000)))
	}
	prompt, output := []uint32{'x'}, []uint32(nil)
	p := logits.NewProcessor(begin(t, g, `{}`, prompt))
	for _, r := range beside {
		if !unicode.IsGraphic(r) && !unicode.In(r, unicode.Variation_Selector) {
			continue // perhaps of a newer Unicode
		}
		var scores []float32
		text := []byte(" " + string(r) + "a")
		for i := range len(text) + 1 {
			scores = row(nil)
			if _, err := p.Process(prompt, output, scores); err != nil {
				t.Fatal(err)
			}
			if i < len(text) {
				output = append(output, uint32(text[i]))
			}
		}
		if denied := math.IsInf(float64(scores['b']), -1); denied == ofWord(r) {
			t.Errorf("%U %q: b behind it and a: denied %v", r, r, denied)
		}
	}
}
