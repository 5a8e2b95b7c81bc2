package token

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// One word of a megabyte must not take quadratic time: with it this test
// would run for hours.
func TestLongWords(t *testing.T) {
	for name, units := range map[string][]string{
		"llama3": {"a", " ", "\n", "é", "=", "<"},
		"llama2": {"a", " ", "é", "the "},                     // characters, all of them one word
		"qwen2":  {"e\u0301\u0323", "\u0301", "\u0301\u0323"}, // with a normalizer
	} {
		tok := loadFile(t, name)
		for _, unit := range units {
			s := strings.Repeat(unit, 1<<20/len(unit))
			ids := tok.Encode(s, false)
			if n := len(ids); n == 0 || n > len(s)+len("▁") {
				t.Errorf("%s: %q: %d tokens for %d bytes", name, unit, n, len(s))
			}
		}
	}
}

func TestInvalidUTF8(t *testing.T) {
	tok := loadFile(t, "gpt2")
	for _, c := range []struct{ in, as string }{
		{"\xff", "\uFFFD"},
		{"a\xe2\x82b", "a\uFFFDb"},
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"\xf0\x9f\x98", "\uFFFD"},
		{"é\xc3", "é\uFFFD"},
	} {
		got, want := tok.EncodeOffsets(c.in, true), tok.EncodeOffsets(c.as, true)
		if len(got) != len(want) {
			t.Fatalf("%q: %v, want %v", c.in, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %v, want %v", c.in, got[i], want[i])
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	texts := testStrings(t)[:600]
	tok := loadFile(t, "llama3")
	fresh := loadFile(t, "llama3")
	var want [][]uint32
	for _, s := range texts {
		want = append(want, fresh.Encode(s, true))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range texts {
				k := (i*7 + g*131) % len(texts)
				got := tok.Encode(texts[k], true)
				if len(got) != len(want[k]) {
					t.Errorf("%q: %v, want %v", texts[k], got, want[k])
					return
				}
				for n := range got {
					if got[n] != want[k][n] {
						t.Errorf("%q: %v, want %v", texts[k], got, want[k])
						return
					}
				}
				tok.Decode(got, true)
			}
		})
	}
	wg.Wait()
}

func TestVocabulary(t *testing.T) {
	tok := loadFile(t, "llama3")
	for id := range uint32(tok.VocabSize()) {
		s, ok := tok.Token(id)
		if !ok {
			t.Fatalf("no token %d of %d", id, tok.VocabSize())
		}
		if back, ok := tok.ID(s); !ok || back != id {
			t.Fatalf("ID(%q) = %d, %v; want %d", s, back, ok, id)
		}
	}
	if _, ok := tok.Token(uint32(tok.VocabSize())); ok {
		t.Error("a token behind the last")
	}
	if _, ok := tok.ID("no such token"); ok {
		t.Error("an id for no token")
	}
	for s, want := range map[string]bool{"<|begin|>": true, "<|x|>": true, "<right>": false, "a": false} {
		id, ok := tok.ID(s)
		if !ok || tok.Special(id) != want {
			t.Errorf("IsSpecial(%q) = %v, want %v", s, !want, want)
		}
	}
	if tok.Special(1 << 31) {
		t.Error("an id outside the vocabulary is special")
	}
}

// A token's offsets cover the text, and joined tokens give it back.
func checkRoundTrip(t *testing.T, tok *Tokenizer, s string) {
	pieces := tok.EncodeOffsets(s, false)
	ids := make([]uint32, len(pieces))
	end := 0
	for i, p := range pieces {
		ids[i] = p.ID
		if p.Start > end || p.End < end || p.Start > p.End {
			t.Fatalf("%q: token %d of %v leaves a gap behind %d", s, i, pieces, end)
		}
		end = p.End
	}
	if n := utf8.RuneCountInString(s); end != n {
		t.Fatalf("%q: offsets end at %d of %d", s, end, n)
	}
	if got := tok.Decode(ids, false); got != s {
		t.Fatalf("%q decodes to %q", s, got)
	}
}

// plain is the llama3 test tokenizer without added tokens, which may take
// white space along.
func plain(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := Load(withParts(t, readFile(t, "llama3.json"),
		map[string]json.RawMessage{"added_tokens": json.RawMessage("[]"), "post_processor": json.RawMessage("null")}))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestRoundTrip(t *testing.T) {
	tok := plain(t)
	for _, s := range testStrings(t) {
		checkRoundTrip(t, tok, s)
	}
}

func FuzzEncode(f *testing.F) {
	tok := plain(f)
	for _, s := range []string{"", "Hello, world! It's 2026.", " \n\t x", "naïve 👩🏿‍🚀 中文 'ſ", "\xff\xe2\x82",
		strings.Repeat("ab ", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkRoundTrip(t, tok, toValidUTF8(s))
		if got := tok.Decode(tok.Encode(s, false), false); got != toValidUTF8(s) {
			t.Fatalf("%q decodes to %q", s, got)
		}
	})
}

// english is n bytes of words that no one wrote: 8,000 of them, as unevenly
// common as words are.
func english(n int) string {
	rng := rand.New(rand.NewPCG(3, 4))
	syllables := strings.Fields("the an in er on re at en nd st or te ed is it ar ou ing to ha al ter com per pro ment tion ness ly con")
	words := make([]string, 8000)
	for i := range words {
		for range 1 + rng.IntN(1+min(3, 1+i/50)) {
			words[i] += syllables[rng.IntN(len(syllables))]
		}
	}
	zipf := rand.NewZipf(rng, 1.1, 3, uint64(len(words)-1))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[zipf.Uint64()])
		b.WriteString([]string{" ", " ", " ", " ", " ", " ", " ", ", ", ". ", "'s ", " 1998 ", ".\n\n"}[rng.IntN(12)])
	}
	return b.String()
}

func BenchmarkEncode(b *testing.B) {
	text := english(1 << 18)
	for _, name := range families {
		b.Run(name, func(b *testing.B) {
			tok := loadFile(b, name)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Encode(text, true)
			}
		})
	}
	b.Run("llama3-offsets", func(b *testing.B) {
		tok := loadFile(b, "llama3")
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			tok.EncodeOffsets(text, true)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	tok := loadFile(b, "llama3")
	ids := tok.Encode(english(1<<14), false)
	b.ReportAllocs()
	for b.Loop() {
		s := tok.Stream(nil)
		for _, id := range ids {
			s.Next(id)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
}
