package token

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/conformance/long"
	"tgi/runtime/llm"
)

// variants are tokenizers of every family and with every part that bears on how many bytes a token can stand for.
func variants(t *testing.T) map[string]*Tokenizer {
	out := make(map[string]*Tokenizer)
	for _, name := range families {
		out[name] = loadFile(t, name)
	}
	for _, name := range kinds(t) {
		out[name] = loadKind(t, name)
	}
	load := func(of, about string, file []byte) {
		tok, err := Load(file)
		if err != nil {
			t.Fatal(of, about, err)
		}
		out[of+" "+about] = tok
	}
	normalizer := func(of, text string) {
		parts := map[string]json.RawMessage{"normalizer": json.RawMessage(text)}
		load(of, text, withParts(t, stripless(t, of), parts))
	}
	for _, of := range []string{"gpt2", "llama2"} {
		load(of, "an added token", bytes.Replace(stripless(t, of), []byte(`"added_tokens":[`), []byte(
			`"added_tokens":[`+`{"id":0,"content":"`+written+`","single_word":false,"lstrip":false,"rstrip":false,`+
				`"normalized":true,"special":false},`), 1))
	}
	for _, fuse := range []string{"false", "true"} {
		unknown := strings.NewReplacer(`"byte_fallback":true`, `"byte_fallback":false`,
			`"fuse_unk":true`, `"fuse_unk":`+fuse)
		load("llama2", "without byte_fallback, fuse_unk "+fuse, []byte(unknown.Replace(string(stripless(t, "llama2")))))
	}
	load("gpt2", "a pre-tokenizer that removes", withParts(t, stripless(t, "gpt2"), map[string]json.RawMessage{
		"pre_tokenizer": json.RawMessage(`{"type":"Split","pattern":{"String":" "},"behavior":"Removed","invert":false}`)}))
	for _, of := range []string{"gpt2", "llama2"} {
		for _, form := range []string{"NFC", "NFD", "NFKC", "NFKD", "Lowercase"} {
			normalizer(of, `{"type":"`+form+`"}`)
		}
		normalizer(of, `{"type":"Replace","pattern":{"String":"`+written+`"},"content":" sometimes"}`)
		normalizer(of, `{"type":"Strip","strip_left":true,"strip_right":true}`)
		normalizer(of, `{"type":"Prepend","prepend":"ab"}`)
		normalizer(of, `{"type":"Replace","pattern":{"String":"the "},"content":""}`)
		normalizer(of, `{"type":"Replace","pattern":{"String":"the "},"content":"b"}`)
		normalizer(of, `{"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "}`)
		normalizer(of, `{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},`+
			`{"type":"Replace","pattern":{"String":"aaa"},"content":"e"}]}`)
	}
	return out
}

// stripless returns a file of which no added token takes the white space beside it: with such a token no number of
// bytes is too many.
func stripless(t *testing.T, name string) []byte {
	t.Helper()
	r := strings.NewReplacer(`"lstrip":true`, `"lstrip":false`, `"rstrip":true`, `"rstrip":false`)
	return []byte(r.Replace(string(readFile(t, name+".json"))))
}

// written is what a normalizer of the tests makes the longest token of, and an added token of others.
const written = "0123456789012345678901234567890123456789"

// reference is what EncodePrompt is a quicker way to.
func reference(tok *Tokenizer, s string, o llm.Encoding) []uint32 {
	if o.Data != nil {
		return tok.EncodeSpans(s, o.Data)
	}
	return tok.Encode(s, o.Special)
}

// TestEncodePrompt: whatever its tokenizer, a text that fits has the tokens that it has without a limit, and one that
// does not is refused with its number of tokens, or fewer where it says so.
func TestEncodePrompt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	texts := testStrings(t)
	for name, tok := range variants(t) {
		longest := ""
		for s := range tok.ids {
			if len(s) > len(longest) && !strings.HasPrefix(s, "<") {
				longest = s
			}
		}
		if text := tok.Decode([]uint32{tok.ids[longest]}, false); text != "" {
			longest = text
		}
		units := []string{longest, "the ", "aaa", "A", "\U0001D400\u030A\u0301", "\u1100\u1161\u11A8", " ", "\u212A",
			"\n", "x", "\U0001F9D9", written}
		for i := range len(units) + 3 {
			if r.IntN(4) > 0 && !long.Enabled() {
				continue // a quarter of the texts for each tokenizer
			}
			s := ""
			switch {
			case i < len(units): // a piece that is large enough to be measured
				s = strings.Repeat(units[i], 1+(pauseEvery+r.IntN(pauseEvery))/len(units[i]))
			case i%2 == 0:
				for range 1 + r.IntN(9) {
					s += strings.Repeat(units[r.IntN(len(units))], r.IntN(1000))
				}
			default:
				for range 1 + r.IntN(20) {
					s += texts[r.IntN(len(texts))]
				}
			}
			o := llm.Encoding{Special: r.IntN(2) == 0} // prompts with data have none added
			if r.IntN(3) == 0 {
				o.Special, o.Data = false, []Span{{Start: 0, End: len(s) / 2}}
			}
			want := reference(tok, s, o)
			for _, most := range []int{0, 1, len(want) - 1, len(want), len(want) + 1, 1 + r.IntN(4096)} {
				o.Most = max(most, 0)
				checkPrompt(t, name, tok, s, o, want)
			}
			o.Most = 0
			for _, keep := range []int{1, 7, len(want), 1 + r.IntN(4096)} {
				o.Keep = max(keep, 1)
				checkPrompt(t, name, tok, s, o, want)
			}
		}
	}
}

func checkPrompt(t *testing.T, name string, tok *Tokenizer, s string, o llm.Encoding, want []uint32) {
	t.Helper()
	got, err := tok.EncodePrompt(s, o)
	about := fmt.Sprintf("%s: %.40q of %d bytes, most %d, keep %d", name, s, len(s), o.Most, o.Keep)
	if err != nil {
		t.Fatal(about, err)
	}
	if o.Most > 0 && len(want) > o.Most {
		wrong := got.Count != len(want)
		if got.AtLeast {
			wrong = got.Count <= o.Most || got.Count > len(want)
		}
		if wrong || got.Tokens != nil {
			t.Fatalf("%s: %d tokens (at least: %v), want %d", about, got.Count, got.AtLeast, len(want))
		}
		return
	}
	tail := want
	if o.Keep > 0 {
		tail = want[max(0, len(want)-o.Keep):]
	}
	if got.AtLeast || got.Count != len(want) || !slices.Equal(got.Tokens, tail) {
		t.Fatalf("%s: %d tokens of %d (at least: %v), want the last %d of %d", about, len(got.Tokens), got.Count,
			got.AtLeast, len(tail), len(want))
	}
}

// TestEncodePromptStops: a text that is far too long is not encoded, whatever it is made of, and the work of one of
// which the end alone is wanted can be ended at any time.
func TestEncodePromptStops(t *testing.T) {
	const size, most = 2 << 20, 1024
	for _, name := range families {
		tok, err := Load(stripless(t, name))
		if err != nil {
			t.Fatal(err)
		}
		for what, unit := range map[string]string{"words": "each word of it — or nearly so ", "letters": "a",
			"blanks": " ", "characters": "é", "marks": "e\u0301\u0323"} {
			s := strings.Repeat(unit, size/len(unit))
			if _, err := tok.EncodePrompt(s, llm.Encoding{Most: most}); err != nil { // what is made once
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := tok.EncodePrompt(s, llm.Encoding{Most: most})
			runtime.ReadMemStats(&after)
			if err != nil || got.Count <= most || got.Tokens != nil {
				t.Errorf("%s: %s: %d tokens, %v", name, what, got.Count, err)
			}
			allocated := after.TotalAlloc - before.TotalAlloc
			if allocated > size/8 {
				t.Errorf("%s: to refuse %d bytes of %s took %d bytes", name, len(s), what, allocated)
			}
		}
		enough := errors.New("enough")
		pauses := 0
		words := strings.Repeat("each word of it — or nearly so ", size/33)
		_, err = tok.EncodePrompt(words, llm.Encoding{Keep: 10, Pause: func() error {
			if pauses++; pauses == 3 {
				return enough
			}
			return nil
		}})
		if !errors.Is(err, enough) || pauses != 3 {
			t.Errorf("%s: an encoding that was ended says %v after %d pauses", name, err, pauses)
		}
	}
}

// TestShrink: no character becomes shorter than a normalizer says, and a composed one is of no more characters.
func TestShrink(t *testing.T) {
	check := func(name string, n normalizer, s string) {
		if to := n.normalize(original(s)).s; len(s) > len(to)*n.shrink() {
			t.Errorf("%s: %q of %d bytes becomes %q of %d, want at most %d times fewer", name, s, len(s), to, len(to),
				n.shrink())
		}
	}
	largest := make(map[rune]string) // the longest character that stands for one
	end := rune(0x30000)             // planes 3 to 16 have ideographs, tags and nothing else that is assigned
	if long.Enabled() {
		end = utf8.MaxRune + 1
	}
	for r := range end {
		if !utf8.ValidRune(r) {
			continue
		}
		check("Lowercase", lowercase{}, string(r))
		for name, f := range forms {
			check(name, f, string(r))
		}
		if d := []rune(forms["NFKD"].normalize(original(string(r))).s); len(d) == 1 &&
			utf8.RuneLen(r) >= len(largest[d[0]]) {
			largest[d[0]] = string(r)
		}
	}
	for r := range end {
		s := ""
		for _, part := range forms["NFD"].normalize(original(string(r))).s {
			s += largest[part]
		}
		check("NFKC", forms["NFKC"], s)
	}
}
