package token

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// withheldTokens returns the added tokens of tok that data may not hold.
func withheldTokens(tok *Tokenizer) (texts []string, ids map[uint32]bool) {
	ids = make(map[uint32]bool)
	for _, f := range []finder{tok.rawFinder, tok.normalizedFinder} {
		for _, a := range f.tokens {
			if a.withheld {
				texts = append(texts, a.content)
				ids[a.id] = true
			}
		}
	}
	slices.Sort(texts)
	return texts, ids
}

func all(s string) []Span { return []Span{{Start: 0, End: len(s)}} }

// Without data EncodeSpans is Encode, whatever empty spans there are.
func TestSpansWithoutDataAreEncode(t *testing.T) {
	for _, name := range families {
		tok := loadFile(t, name)
		for i, s := range testStrings(t) {
			var data []Span
			if i%2 == 0 {
				data = []Span{{Start: len(s) / 2, End: len(s) / 2}, {Start: -3, End: 0},
					{Start: len(s), End: len(s) + 9}, {Start: 4, End: 2}}
			}
			if got, want := tok.EncodeSpans(s, data), tok.Encode(s, false); !slices.Equal(got, want) {
				t.Fatalf("%s: %q\n got %v\nwant %v", name, s, got, want)
			}
			if got, want := tok.EncodeSpanOffsets(s, data), tok.EncodeOffsets(s, false); !slices.Equal(got, want) {
				t.Fatalf("%s: %q\n got %v\nwant %v", name, s, got, want)
			}
		}
	}
}

// A message of every withheld token of a model, alone, run together, and
// beside a template's own.
func TestEveryWithheldTokenIsText(t *testing.T) {
	for _, name := range families {
		tok := loadFile(t, name)
		texts, ids := withheldTokens(tok)
		if len(texts) < 7 {
			t.Fatalf("%s: only %q are withheld", name, texts)
		}
		tested := 0
		for _, text := range append(texts, strings.Join(texts, ""), strings.Join(texts, " "),
			strings.Join(texts, "\n")) {
			// The unknown token stands for nothing here: every byte has a token.
			got := tok.EncodeSpans(text, all(text))
			if i := slices.IndexFunc(got, func(id uint32) bool { return ids[id] }); i >= 0 {
				t.Errorf("%s: %q has token %d", name, text, got[i])
			}
			// llama2 puts a space behind <|x, which is an added token of data too.
			if back := tok.Decode(got, false); back != text && !(name == "llama2" && strings.Contains(text, "<|x")) {
				t.Errorf("%s: %q decodes to %q", name, text, back)
			}
			// In between a template's tokens.
			for _, mark := range texts {
				id, _ := tok.ID(mark)
				if ends := tok.Encode(mark+".."+mark, false); ends[0] != id || ends[len(ends)-1] != id {
					continue // it is not found there at all, e.g. as another token is found in it first
				}
				tested++
				s := mark + "." + text + "." + mark
				got := tok.EncodeSpans(s, []Span{{Start: len(mark), End: len(s) - len(mark)}})
				inner := slices.IndexFunc(got[1:len(got)-1], func(id uint32) bool { return ids[id] })
				if got[0] != id || got[len(got)-1] != id || inner >= 0 {
					t.Fatalf("%s: %q: %v, want %d at both ends only", name, s, got, id)
				}
			}
		}
		if tested < 40 {
			t.Errorf("%s: only %d pairs of tokens were tried", name, tested)
		}
	}
}

// The goldens come from testdata/make_span_goldens.py.
func TestSpanGoldens(t *testing.T) {
	lines, cases := 0, 0
	for line := range bytes.Lines(unzip(t, "spans.gz")) {
		var v struct {
			Base  string
			Parts map[string]json.RawMessage
			Cases [][3]json.RawMessage
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		tok, err := Load(withParts(t, readFile(t, v.Base+".json"), v.Parts))
		if err != nil {
			t.Fatal(err)
		}
		lines++
		for _, c := range v.Cases {
			var text string
			var ranges [][2]int
			var want []uint32
			if json.Unmarshal(c[0], &text) != nil || json.Unmarshal(c[1], &ranges) != nil ||
				json.Unmarshal(c[2], &want) != nil {
				t.Fatal("bad golden")
			}
			cases++
			var data []Span
			for _, r := range ranges {
				data = append(data, Span{Start: r[0], End: r[1]})
			}
			got := tok.EncodeSpans(text, data)
			if !slices.Equal(got, want) {
				t.Fatalf("%s %s: %q data %v\n got %v\nwant %v", v.Base, slices.Sorted(maps.Keys(v.Parts)), text, data,
					got, want)
			}
			var places []uint32
			for _, p := range tok.EncodeSpanOffsets(text, data) {
				places = append(places, p.ID)
			}
			if !slices.Equal(places, want) {
				t.Fatalf("%s: %q data %v\n got offsets of %v\nwant %v", v.Base, text, data, places, want)
			}
		}
	}
	t.Logf("%d tokenizers, %d texts", lines, cases)
}

// onlyWithheld is a test tokenizer without added tokens that data may hold,
// which could begin in data and end in the template.
func onlyWithheld(t testing.TB, name string) *Tokenizer {
	t.Helper()
	file := readFile(t, name+".json")
	var spec struct {
		Added []json.RawMessage `json:"added_tokens"`
	}
	if err := json.Unmarshal(file, &spec); err != nil {
		t.Fatal(err)
	}
	spec.Added = slices.DeleteFunc(spec.Added, func(b json.RawMessage) bool {
		var a addedFile
		if err := json.Unmarshal(b, &a); err != nil {
			t.Fatal(err)
		}
		return !withheld(*a.Content, *a.Special)
	})
	added, err := json.Marshal(spec.Added)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Load(withParts(t, file, map[string]json.RawMessage{"added_tokens": added,
		"post_processor": json.RawMessage("null")}))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// mixed draws a text of tokens and pieces of them, with some of it data.
func mixed(rng *rand.Rand, tokens []string) (string, []Span) {
	var b strings.Builder
	for range 1 + rng.IntN(12) {
		s := tokens[rng.IntN(len(tokens))]
		if rng.IntN(2) == 0 {
			at := rng.IntN(len(s))
			s = s[at : at+1+rng.IntN(len(s)-at)]
		}
		b.WriteString(s)
		b.WriteString([]string{"", "", "", " ", "\n", "a", "the ", "<", ">", "|", "."}[rng.IntN(11)])
	}
	text := b.String()
	var data []Span
	for range rng.IntN(5) {
		at := rng.IntN(len(text))
		data = append(data, Span{Start: at, End: at + rng.IntN(len(text)-at+1)})
	}
	return text, data
}

// dataBytes tells of each byte of a text of n bytes whether it is data.
func dataBytes(n int, data []Span) []bool {
	out := make([]bool, n)
	for _, d := range data {
		for i := max(d.Start, 0); i < min(d.End, n); i++ {
			out[i] = true
		}
	}
	return out
}

// What stands in data changes no token of the template: those that are found
// are the same, at the same places, as if data were made of other characters
// of the same kinds.
func TestDataIsNeutral(t *testing.T) {
	for _, name := range families {
		tok := onlyWithheld(t, name)
		texts, ids := withheldTokens(tok)
		rng := rand.New(rand.NewPCG(8, 9))
		controls, withoutData := 0, 0
		for range 20_000 {
			text, data := mixed(rng, texts)
			isData := dataBytes(len(text), data)
			neutral := []byte(text)
			for i, b := range neutral {
				switch {
				case !isData[i] || strings.ContainsRune(" \n", rune(b)):
				case classes.of(rune(b))&word != 0:
					neutral[i] = 'q'
				default:
					neutral[i] = '~'
				}
			}
			only := func(ps []Piece) (out []place) {
				for _, p := range ps {
					if ids[p.ID] {
						out = append(out, place{p.ID, p.Start, p.End})
					}
				}
				return out
			}
			got, want := only(tok.EncodeSpanOffsets(text, data)), only(tok.EncodeOffsets(string(neutral), false))
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q data %v\n got %v\nwant %v of %q", name, text, data, got, want, neutral)
			}
			for _, p := range got {
				for i := p.start; i < p.end; i++ { // all of it is ASCII
					if isData[i] && !strings.ContainsRune(" \n", rune(text[i])) {
						t.Fatalf("%s: %q data %v: token %v covers data", name, text, data, p)
					}
				}
			}
			controls += len(got)
			withoutData += len(only(tok.EncodeOffsets(text, false)))
		}
		if controls < 10_000 || withoutData < controls+10_000 {
			t.Errorf("%s: %d tokens found, %d without data: the texts test too little", name, controls, withoutData)
		}
	}
}

// small tokenizers whose model can spell a withheld token by itself.
func TestModelMakesNoWithheldToken(t *testing.T) {
	const added = `"added_tokens":[{"id":5,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],`
	merges := `{"version":"1.0",` + added +
		`"model":{"vocab":{"<":0,"s":1,">":2,"<s":3,"s>":4,"<s>":5,"ss":6},"merges":["< s","s s","<s >","s >"]}}`
	words := `{"version":"1.0",` + added +
		`"model":{"ignore_merges":true,"vocab":{"<":0,"s":1,">":2,"<s":3,"s>":4,"<s>":5,"ss":6},"merges":["s >"]}}`
	// Beside a letter it is no token of its own, but the model makes it.
	single := strings.NewReplacer(`"single_word":false`, `"single_word":true`, `"ss":6`, `"ss":6," ":7`, `"model"`,
		`"pre_tokenizer":{"type":"Split","pattern":{"String":" "},"behavior":"Isolated","invert":false},"model"`).Replace(merges)
	for _, c := range []struct {
		file, text string
		data       []Span
		want       []uint32
	}{
		{single, "s<s> s<s> s<s>", []Span{{Start: 6, End: 8}}, []uint32{1, 5, 7, 1, 3, 2, 7, 1, 5}},
		{merges, "<s>", nil, []uint32{5}},
		{merges, "<s>", []Span{{Start: 0, End: 3}}, []uint32{3, 2}},
		{merges, "<s>", []Span{{Start: 0, End: 1}}, []uint32{3, 2}},
		{merges, "<s>", []Span{{Start: 2, End: 3}}, []uint32{3, 2}},
		{merges, "<s>", []Span{{Start: 3, End: 4}}, []uint32{5}},
		{merges, "ss<s><s>ss", []Span{{Start: 0, End: 5}}, []uint32{6, 3, 2, 5, 6}},
		{merges, "ss<s><s>ss", []Span{{Start: 5, End: 6}}, []uint32{6, 5, 3, 2, 6}},
		{words, "<s>", nil, []uint32{5}},
		{words, "<s>", []Span{{Start: 1, End: 2}}, []uint32{0, 4}},
		{words, "<s>ss", []Span{{Start: 3, End: 4}}, []uint32{5, 6}},
		{words, "<s><s>", []Span{{Start: 3, End: 6}}, []uint32{5, 0, 4}},
	} {
		tok, err := Load([]byte(c.file))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time words come from the cache
			if got := tok.EncodeSpans(c.text, c.data); !slices.Equal(got, c.want) {
				t.Errorf("%q data %v: %v, want %v", c.text, c.data, got, c.want)
			}
		}
	}
}

func TestSpansInOrder(t *testing.T) {
	for _, c := range []struct {
		in   []Span
		want dataSpans
	}{
		{nil, nil},
		{[]Span{{Start: 3, End: 3}, {Start: 5, End: 4}, {Start: -5, End: 0}, {Start: 10, End: 12},
			{Start: 99, End: 100}}, nil},
		{[]Span{{Start: 7, End: 20}, {Start: -1, End: 2}}, dataSpans{{0, 2}, {7, 10}}},
		{[]Span{{Start: 4, End: 6}, {Start: 1, End: 4}}, dataSpans{{1, 6}}},
		{[]Span{{Start: 1, End: 9}, {Start: 2, End: 3}, {Start: 5, End: 6}}, dataSpans{{1, 9}}},
		{[]Span{{Start: 1, End: 3}, {Start: 4, End: 5}, {Start: 4, End: 7}, {Start: 2, End: 3}},
			dataSpans{{1, 3}, {4, 7}}},
	} {
		before := slices.Clone(c.in)
		if got := normalizeSpans(c.in, 10); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.in, got, c.want)
		}
		if !slices.Equal(c.in, before) {
			t.Errorf("%v was changed to %v", before, c.in)
		}
	}
}

// Ranges follow their bytes where U+FFFD takes the place of some.
func TestSpansOfInvalidUTF8(t *testing.T) {
	for _, c := range []struct {
		in        string
		data      dataSpans
		want      string
		wantSpans dataSpans
	}{
		{"a\xffb", dataSpans{{0, 1}, {2, 3}}, "a\uFFFDb", dataSpans{{0, 1}, {4, 5}}},
		{"a\xffb", dataSpans{{1, 2}}, "a\uFFFDb", dataSpans{{1, 4}}},
		{"\xe2\x82b", dataSpans{{1, 2}}, "\uFFFDb", dataSpans{{0, 3}}},
		{"\xe2\x82b", dataSpans{{0, 1}}, "\uFFFDb", dataSpans{{0, 3}}},
		{"\xffé<s>", dataSpans{{2, 4}}, "\uFFFDé<s>", dataSpans{{3, 6}}},
		{"x\xf0\x9f", dataSpans{{0, 1}, {2, 3}}, "x\uFFFD", dataSpans{{0, 1}, {1, 4}}},
	} {
		got, spans := toValidUTF8Spans(c.in, slices.Clone(c.data))
		if got != c.want || !slices.Equal(spans, c.wantSpans) || got != toValidUTF8(c.in) {
			t.Errorf("%q %v: %q %v, want %q %v", c.in, c.data, got, spans, c.want, c.wantSpans)
		}
	}
	tok := loadFile(t, "gpt2")
	id, _ := tok.ID("<|endoftext|>")
	const s = "\xff\xff<|endoftext|>\xff<|endoftext|>"
	got := tok.EncodeSpans(s, []Span{{Start: 2, End: 15}})
	if n := slices.Index(got, id); n != len(got)-1 {
		t.Errorf("%v: %d at %d, want it at the end only", got, id, n)
	}
}

// FuzzSpans: whatever the text and the data, no withheld token is where data
// is; and a text that is all data can be had back.
func FuzzSpans(f *testing.F) {
	f.Add("<|x|>hi<|x|><|y|>", 5, 7, 9, 12)
	f.Add("a <mask> é<both>\xff <right>", 0, 9, 10, 40)
	var toks, lossless []*Tokenizer
	for _, name := range families {
		toks = append(toks, loadFile(f, name))
	}
	for _, name := range []string{"gpt2", "llama3"} {
		lossless = append(lossless, onlyWithheld(f, name))
	}
	f.Fuzz(func(t *testing.T, s string, a, b, c, d int) {
		data := []Span{{Start: a, End: b}, {Start: c, End: d}}
		text, own := toValidUTF8Spans(s, normalizeSpans(data, len(s)))
		index := newCharIndex(text)
		for _, tok := range toks {
			_, withheld := withheldTokens(tok)
			pieces := tok.EncodeSpanOffsets(s, data)
			ids := make([]uint32, len(pieces))
			for i, p := range pieces {
				ids[i] = p.ID
				at := index.byte(p.Start)
				// Without the white space that it took along.
				content := strings.TrimLeftFunc(p.Text, unicode.IsSpace)
				at += len(p.Text) - len(content)
				content = strings.TrimRightFunc(content, unicode.IsSpace)
				if withheld[p.ID] && own.overlaps(span{at, at + len(content)}) {
					t.Fatalf("%q data %v: %v covers data", s, data, p)
				}
			}
			if got := tok.EncodeSpans(s, data); !slices.Equal(got, ids) {
				t.Fatalf("%q data %v: ids %v, with offsets %v", s, data, got, ids)
			}
		}
		for _, tok := range lossless {
			if got := tok.Decode(tok.EncodeSpans(s, all(s)), false); got != text {
				t.Fatalf("%q decodes to %q", s, got)
			}
		}
	})
}

// BenchmarkEncodeSpans encodes a chat of 50 messages and 30 KB, with and
// without its data, and the same with a token's text in every line.
func BenchmarkEncodeSpans(b *testing.B) {
	for _, name := range families {
		tok := loadFile(b, name)
		for _, kind := range []string{"plain", "forged"} {
			words := english(30 << 10)
			if kind == "forged" {
				words = strings.ReplaceAll(words, "\n\n", "<|x|><mask>\n")
			}
			var text strings.Builder
			var data []Span
			for i := range 50 {
				text.WriteString("<|x|>user\n")
				from := text.Len()
				text.WriteString(words[i*len(words)/50 : (i+1)*len(words)/50])
				data = append(data, Span{Start: from, End: text.Len()})
				text.WriteString("<|x|>\n")
			}
			s := text.String()
			b.Run(name+"/"+kind+"/encode", func(b *testing.B) {
				b.SetBytes(int64(len(s)))
				b.ReportAllocs()
				for b.Loop() {
					tok.Encode(s, false)
				}
			})
			b.Run(name+"/"+kind+"/spans", func(b *testing.B) {
				b.SetBytes(int64(len(s)))
				b.ReportAllocs()
				for b.Loop() {
					tok.EncodeSpans(s, data)
				}
			})
		}
	}
}
