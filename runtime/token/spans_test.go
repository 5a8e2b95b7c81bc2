package token

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// withheldTokens returns the added tokens of tok that data may not hold.
func withheldTokens(tok *Tokenizer) (texts []string, ids map[uint32]bool) {
	ids = make(map[uint32]bool)
	for _, f := range []finder{tok.early, tok.late} {
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

func all(s string) []Span { return []Span{{0, len(s)}} }

// Without data EncodeSpans is Encode, whatever empty spans there are.
func TestSpansWithoutDataAreEncode(t *testing.T) {
	for _, name := range families {
		tok := loadFile(t, name)
		for i, s := range testStrings(t) {
			var data []Span
			if i%2 == 0 {
				data = []Span{{len(s) / 2, len(s) / 2}, {-3, 0}, {len(s), len(s) + 9}, {4, 2}}
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
		for _, text := range append(texts, strings.Join(texts, ""), strings.Join(texts, " "), strings.Join(texts, "\n")) {
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
				got := tok.EncodeSpans(s, []Span{{len(mark), len(s) - len(mark)}})
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
			if json.Unmarshal(c[0], &text) != nil || json.Unmarshal(c[1], &ranges) != nil || json.Unmarshal(c[2], &want) != nil {
				t.Fatal("bad golden")
			}
			cases++
			var data []Span
			for _, r := range ranges {
				data = append(data, Span{r[0], r[1]})
			}
			got := tok.EncodeSpans(text, data)
			if !slices.Equal(got, want) {
				t.Fatalf("%s %s: %q data %v\n got %v\nwant %v", v.Base, slices.Sorted(maps.Keys(v.Parts)), text, data, got, want)
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
