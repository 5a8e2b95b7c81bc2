package token

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// streamed decodes ids one at a time and checks that no piece has a broken
// end that a later one could mend.
func streamed(t *testing.T, tok *Tokenizer, context, ids []uint32) string {
	t.Helper()
	s := tok.Stream(context)
	var b strings.Builder
	for _, id := range ids {
		piece := s.Next(id)
		if !utf8.ValidString(piece) {
			t.Fatalf("Next(%d) = %q: not UTF-8", id, piece)
		}
		b.WriteString(piece)
	}
	b.WriteString(s.Flush())
	return b.String()
}

// randomIDs draws tokens, those of a text or any, broken characters among them.
func randomIDs(rng *rand.Rand, tok *Tokenizer, texts []string) []uint32 {
	ids := tok.Encode(texts[rng.IntN(len(texts))], rng.IntN(2) == 0)
	ids = append([]uint32(nil), ids[:min(len(ids), 60)]...)
	for range rng.IntN(12) {
		at := rng.IntN(len(ids) + 1)
		any := uint32(rng.IntN(tok.VocabSize() + 2))
		if rng.IntN(2) == 0 { // a single byte
			if id, ok := tok.ID(string(byteRunes[rng.IntN(256)])); ok {
				any = id
			}
		}
		ids = append(ids[:at], append([]uint32{any}, ids[at:]...)...)
		if rng.IntN(3) == 0 {
			ids = append(ids[:at], ids[min(at+2, len(ids)):]...)
		}
	}
	return ids
}

func TestStreamIsDecode(t *testing.T) {
	texts := testStrings(t)
	for _, name := range []string{"gpt2", "llama3", "qwen2"} {
		tok := loadFile(t, name)
		rng := rand.New(rand.NewPCG(1, 2))
		broken := 0
		for range 3000 {
			ids := randomIDs(rng, tok, texts)
			want := tok.Decode(ids, false)
			if strings.ContainsRune(want, utf8.RuneError) {
				broken++
			}
			if got := streamed(t, tok, nil, ids); got != want {
				t.Fatalf("%s: %v\nstream %q\ndecode %q", name, ids, got, want)
			}
			// With a context, the rest of the same text.
			cut := rng.IntN(len(ids) + 1)
			head := tok.Stream(nil)
			var before strings.Builder
			for _, id := range ids[:cut] {
				before.WriteString(head.Next(id))
			}
			if got := before.String() + streamed(t, tok, ids[:cut], ids[cut:]); got != want {
				t.Fatalf("%s: %v cut at %d\nstream %q\ndecode %q", name, ids, cut, got, want)
			}
		}
		if broken < 300 {
			t.Errorf("%s: only %d sequences had broken bytes", name, broken)
		}
	}
}

// With byte_fallback a stream shows characters as they become complete;
// whole and unbroken text is the same as Decode's.
func TestStreamByteFallback(t *testing.T) {
	tok := loadFile(t, "llama2")
	for _, s := range testStrings(t) {
		ids := tok.Encode(s, false)
		if got, want := streamed(t, tok, nil, ids), tok.Decode(ids, false); got != want {
			t.Fatalf("%q\nstream %q\ndecode %q", s, got, want)
		}
	}
}

// TestStreamOpen: a stream of a text is open behind the tokens whose whole text shows a broken character.
func TestStreamOpen(t *testing.T) {
	for _, name := range []string{"gpt2", "llama3", "qwen2", "llama2"} {
		tok := loadFile(t, name)
		open := 0
		for _, text := range testStrings(t) {
			if !utf8.ValidString(text) || strings.ContainsRune(text, utf8.RuneError) {
				continue
			}
			ids := tok.Encode(text, false)
			ids = ids[:min(len(ids), 80)]
			s, shown := tok.Stream(nil), ""
			for i, id := range ids {
				shown += s.Next(id)
				if got, want := s.Open(), tok.Decode(ids[:i+1], false) != shown; got != want {
					t.Fatalf("%s: %q: open %v behind token %d, %q", name, text, got, i, shown)
				} else if got {
					open++
				}
			}
		}
		if open < 20 {
			t.Errorf("%s: only %d tokens end inside a character", name, open)
		}
	}
}

func TestStreamPieces(t *testing.T) {
	id := func(tok *Tokenizer, s string) uint32 {
		t.Helper()
		n, ok := tok.ID(s)
		if !ok {
			t.Fatalf("no token %q", s)
		}
		return n
	}
	raw := func(tok *Tokenizer, b byte) uint32 { return id(tok, string(byteRunes[b])) }
	gpt2, llama2 := loadFile(t, "gpt2"), loadFile(t, "llama2")
	joined, err := Load(withParts(t, readFile(t, "llama2.json"), map[string]json.RawMessage{"decoder": json.RawMessage(
		`{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"String":"<s><s>"},"content":"<s>"},{"type":"Strip","content":"a","start":1,"stop":1}]}`)}))
	if err != nil {
		t.Fatal(err)
	}
	const bad = "\uFFFD"
	for _, c := range []struct {
		name    string
		tok     *Tokenizer
		context []uint32
		ids     []uint32
		want    []string // of each Next, then Flush
	}{
		{"characters wait for their bytes", gpt2, nil,
			[]uint32{raw(gpt2, 0xe2), raw(gpt2, 0x82), raw(gpt2, 0xac), raw(gpt2, '!')}, []string{"", "", "€", "!",
				""}},
		{"broken by a letter", gpt2, nil,
			[]uint32{raw(gpt2, 0xe2), raw(gpt2, 0x82), raw(gpt2, 'a')}, []string{"", "", bad + "a", ""}},
		{"broken by another start", gpt2, nil,
			[]uint32{raw(gpt2, 0xf0), raw(gpt2, 0x9f), raw(gpt2, 0xc3), raw(gpt2, 0xa9)}, []string{"", "", bad, "é",
				""}},
		{"never a character", gpt2, nil, []uint32{raw(gpt2, 0xff), raw(gpt2, 0xc0)}, []string{bad, bad, ""}},
		{"surrogate", gpt2, nil, []uint32{raw(gpt2, 0xed), raw(gpt2, 0xa0), raw(gpt2, 0x80)}, []string{"", bad + bad,
			bad, ""}},
		{"left open", gpt2, nil, []uint32{raw(gpt2, 'a'), raw(gpt2, 0xf0), raw(gpt2, 0x9f)},
			[]string{"a", "", "", bad}},
		{"begun in the context", gpt2, []uint32{raw(gpt2, 0xe2), raw(gpt2, 0x82)}, []uint32{raw(gpt2, 0xac)},
			[]string{"€", ""}},
		{"special tokens have text", gpt2, nil, []uint32{id(gpt2, "<|endoftext|>"), 1 << 30}, []string{"<|endoftext|>",
			"", ""}},
		{"first space goes", llama2, nil, []uint32{id(llama2, "▁the"), id(llama2, "▁the")}, []string{"the", " the",
			""}},
		{"not behind a context", llama2, []uint32{id(llama2, "<s>")}, []uint32{id(llama2, "▁the")},
			[]string{" the", ""}},
		{"byte tokens", llama2, []uint32{1}, []uint32{id(llama2, "<0xC3>"), id(llama2, "<0xA9>"), id(llama2, "<0xC3>"),
			1},
			[]string{"", "é", "", bad + "<s>", ""}},
		{"byte tokens left open", llama2, []uint32{1}, []uint32{id(llama2, "<0xF0>"), id(llama2, "<0x9F>")},
			[]string{"", "", bad + bad}},
		{"what a decoder looks for is spread over tokens", joined, nil,
			[]uint32{id(joined, "a"), id(joined, "b"), 1, 1, 1, id(joined, "a"), id(joined, "b"), id(joined, "a")},
			[]string{"", "b", "", "<s>", "", "<s>", "ab", "", ""}},
	} {
		s := c.tok.Stream(c.context)
		for i, tok := range c.ids {
			if got := s.Next(tok); got != c.want[i] {
				t.Errorf("%s: Next %d = %q, want %q", c.name, i, got, c.want[i])
			}
		}
		if got := s.Flush(); got != c.want[len(c.ids)] {
			t.Errorf("%s: Flush = %q, want %q", c.name, got, c.want[len(c.ids)])
		}
	}
}
