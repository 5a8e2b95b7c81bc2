package token

import (
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPieces: however the tokens of a text are asked for (all at once, a few at
// a time with others at work between, or only the first of them), they are those
// of Encode, and their places hold their texts.
func TestPieces(t *testing.T) {
	texts := testStrings(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range families {
		tok := loadFile(t, name)
		for range 400 {
			s := ""
			for range 1 + r.IntN(5) {
				s += texts[r.IntN(len(texts))]
			}
			special := r.IntN(2) == 0
			ids := tok.Encode(s, special)
			chars := []rune(toValidUTF8(s))
			next, stop := iter.Pull(tok.Pieces(s, special))
			n := 0
			for ; ; n++ {
				if r.IntN(8) == 0 { // what another text leaves in shared tables must not show
					tok.Encode(texts[r.IntN(len(texts))], true)
				}
				p, ok := next()
				if !ok {
					break
				}
				if n >= len(ids) || p.ID != ids[n] || p.Text != string(chars[p.Start:p.End]) {
					t.Fatalf("%s: %q: token %d is %+v, want id %v", name, s, n, p, ids[min(n, len(ids)):])
				}
			}
			stop()
			if n != len(ids) {
				t.Fatalf("%s: %q: %d tokens, want %d", name, s, n, len(ids))
			}
			var first []uint32
			for p := range tok.Pieces(s, special) {
				if first = append(first, p.ID); len(first) > n/2 {
					break
				}
			}
			if !slices.Equal(first, ids[:min(n, n/2+1)]) {
				t.Fatalf("%s: %q: the first tokens are %v, want those of %v", name, s, first, ids)
			}
		}
	}
}

// TestPiecesHold: a reader that pauses in the middle of a large text makes the
// tokenizer hold no more than it says: little beside the text itself, and a
// multiple of it where a normalizer rewrote it.
func TestPiecesHold(t *testing.T) {
	const size = 1 << 20
	words := strings.Repeat("each word of it — or nearly so ", size/33)
	for name, most := range map[string]int{"gpt2": size / 2, "llama3": size / 2, "qwen2": size / 2,
		"llama2": 9 * size} {
		tok := loadFile(t, name)
		before := live()
		next, stop := iter.Pull(tok.Pieces(words, true))
		for range 1000 {
			if _, ok := next(); !ok {
				t.Fatal("the text ended")
			}
		}
		if held := live() - before; held > most {
			t.Errorf("%s: a paused reader of %d bytes holds %d beside them, want at most %d", name, len(words), held,
				most)
		}
		stop()
	}
}

// live returns the bytes of the heap that are in use.
func live() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestCharIndex holds it against counting.
func TestCharIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var b strings.Builder
		for range r.IntN(300) {
			b.WriteRune([]rune("aé—😀")[r.IntN(1+r.IntN(4))])
		}
		s := b.String()
		index := newCharIndex(s)
		for i := range len(s) + 1 {
			starts := 0
			for k := range i {
				if utf8.RuneStart(s[k]) {
					starts++
				}
			}
			if got := index.char(i); got != starts {
				t.Fatalf("%q: char(%d) = %d, want %d", s, i, got, starts)
			}
		}
		c := 0
		for i := range s {
			if got := index.byte(c); got != i {
				t.Fatalf("%q: byte(%d) = %d, want %d", s, c, got, i)
			}
			c++
		}
		if got := index.byte(c); got != len(s) {
			t.Fatalf("%q: byte(%d) = %d, want the end", s, c, got)
		}
	}
}
