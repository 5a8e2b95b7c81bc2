package token

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// kinds are the tokenizers of testdata/make_kinds.py.
func kinds(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/kinds/*.json.gz")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d kinds: %v", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json.gz")
	}
	return files
}

// kindGolden is what the reference does with strings and with ids.
type kindGolden struct {
	strings []string
	tokens  [][]int // id, start, end, ...
	decoded []struct {
		ids         []uint32
		plain, skip string
	}
}

func readKind(t testing.TB, data []byte) (g kindGolden) {
	t.Helper()
	var rows [][3]json.RawMessage
	for i, to := range []any{&g.strings, &g.tokens, &rows} {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		if data = rest; json.Unmarshal(line, to) != nil {
			t.Fatalf("line %d is broken", i+1)
		}
	}
	for _, row := range rows {
		var d struct {
			ids         []uint32
			plain, skip string
		}
		for i, to := range []any{&d.ids, &d.plain, &d.skip} {
			if err := json.Unmarshal(row[i], to); err != nil {
				t.Fatal(err)
			}
		}
		g.decoded = append(g.decoded, d)
	}
	return g
}

func loadKind(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Load(unzip(t, "kinds/"+name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestKinds compares tokens, offsets and decoding with the reference's, of the strings in testdata or of those in the
// folder that TOKEN_KINDS names.
func TestKinds(t *testing.T) {
	for _, name := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			tok := loadKind(t, name)
			packed := readFile(t, "kinds/"+name+".gz")
			if dir := os.Getenv("TOKEN_KINDS"); dir != "" {
				var err error
				if packed, err = os.ReadFile(filepath.Join(dir, name+".gz")); err != nil {
					t.Fatal(err)
				}
			}
			g := readKind(t, gunzip(t, packed))
			if len(g.strings) < 300 || len(g.decoded) < 80 {
				t.Fatalf("%d strings, %d decoded", len(g.strings), len(g.decoded))
			}
			bad := 0
			for i, s := range g.strings {
				want := make([]place, 0, len(g.tokens[i])/3)
				for p := range slices.Chunk(g.tokens[i], 3) {
					want = append(want, place{uint32(p[0]), p[1], p[2]})
				}
				if plain := tok.Encode(s, false); !slices.Equal(tok.EncodeSpans(s, nil), plain) {
					t.Errorf("%q: without data %v, want %v", s, tok.EncodeSpans(s, nil), plain)
				}
				if !checkEncoding(t, tok, s, i%2 == 0, want) {
					if bad++; bad >= 5 {
						t.Fatal("too many differences")
					}
				}
			}
			for _, d := range g.decoded {
				for skip, want := range map[bool]string{false: d.plain, true: d.skip} {
					if got := tok.Decode(d.ids, skip); got != want {
						t.Fatalf("Decode(%v, %v)\n got %q\nwant %q", d.ids, skip, got, want)
					}
				}
			}
			t.Logf("%d strings, %d decoded", len(g.strings), len(g.decoded))
		})
	}
}

// TestKindsStream: the pieces of a stream are those of the whole text, however it is divided into context and output;
// with byte tokens, where these are characters.
func TestKindsStream(t *testing.T) {
	for _, name := range kinds(t) {
		tok := loadKind(t, name)
		rng := rand.New(rand.NewPCG(5, 6))
		for _, d := range readKind(t, unzip(t, "kinds/"+name+".gz")).decoded {
			got := streamed(t, tok, nil, d.ids)
			if strings.Contains(d.plain, "\uFFFD") && strings.HasPrefix(name, "pieces") {
				continue // a stream shows characters before it can know that their run is broken
			}
			if got != d.plain {
				t.Fatalf("%s: %v\nstream %q\ndecode %q", name, d.ids, got, d.plain)
			}
			cut := rng.IntN(len(d.ids) + 1)
			head := tok.Stream(nil)
			var before strings.Builder
			for _, id := range d.ids[:cut] {
				before.WriteString(head.Next(id))
			}
			if got := before.String() + streamed(t, tok, d.ids[:cut], d.ids[cut:]); got != d.plain {
				t.Fatalf("%s: %v cut at %d\nstream %q\ndecode %q", name, d.ids, cut, got, d.plain)
			}
		}
	}
}

// TestKindsBytes: the bytes of tokens in the middle of a text are what decoding adds there.
func TestKindsBytes(t *testing.T) {
	for _, name := range kinds(t) {
		if name == "rules" {
			continue // its decoder leaves out tokens that are repeated
		}
		tok := loadKind(t, name)
		for _, d := range readKind(t, unzip(t, "kinds/"+name+".gz")).decoded {
			if !utf8.ValidString(d.plain) || strings.Contains(d.plain, "\uFFFD") || len(d.ids) < 3 {
				continue
			}
			var b []byte
			for _, id := range d.ids[1:] {
				own, _ := tok.Bytes(id)
				b = append(b, own...)
			}
			// The last token may lack a space.
			if got := strings.TrimRight(string(b), " "); !strings.HasSuffix(strings.TrimRight(d.plain, " "), got) {
				t.Fatalf("%s: %v\nbytes  %q\ndecode %q", name, d.ids, got, d.plain)
			}
		}
	}
}

// TestKindsWithhold: what a request says never becomes one of the model's own tokens.
func TestKindsWithhold(t *testing.T) {
	for _, name := range kinds(t) {
		tok := loadKind(t, name)
		texts, ids := withheldTokens(tok)
		// Without byte tokens a text may be unknown as any other.
		unk, tested := tok.Encode("\U000107fe", false), 0
		for _, s := range append(texts, strings.Join(texts, ""), "a"+strings.Join(texts, "b"),
			strings.Join(texts, " ")) {
			for i, id := range tok.EncodeSpans(s, all(s)) {
				if ids[id] && (!slices.Contains(unk, id) || strings.HasPrefix(name, "pieces")) {
					t.Errorf("%s: %q: token %d is %d", name, s, i, id)
				}
			}
			tested += len(tok.EncodeSpans(s, nil))
		}
		if tested == 0 {
			t.Errorf("%s: nothing is withheld", name)
		}
	}
}

// TestKindsLong: the time of a text grows with its length, however few words it has.
func TestKindsLong(t *testing.T) {
	const size = 256 << 10
	for _, name := range kinds(t) {
		tok := loadKind(t, name)
		for _, of := range []string{"a", "▁", "é", "\u0301", "🙂", "a ", "क्"} {
			s := strings.Repeat(of, size/len(of))
			start := time.Now()
			n := len(tok.Encode(s, false))
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: %d bytes of %q, %d tokens, took %v", name, len(s), of, n, took)
			} else {
				t.Logf("%s: %q %d tokens %v", name, of, n, took)
			}
		}
	}
}

// TestCircle: a trie that leads back to itself costs no more than one that does not.
func TestCircle(t *testing.T) {
	// The root is at 0, its child for "a" at 97, and that is its own child.
	units := make([]uint32, 256)
	units[0], units['a'] = 0, 'a'|'a'<<10
	b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(units)))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint32(b, u)
	}
	m, err := newCharsmap(b)
	if err != nil {
		t.Fatal(err)
	}
	n := &sentencePiece{rules: m, space: mark}
	s := strings.Repeat("a", 512<<10)
	start := time.Now()
	if got := n.normalize(original(s)).s; got != s {
		t.Errorf("%d bytes became %d", len(s), len(got))
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// FuzzCharsmap: whatever a map says, a text comes out that is UTF-8 and not longer than the map allows.
func FuzzCharsmap(f *testing.F) {
	tok := loadKind(f, "rules")
	for _, n := range tok.normalizer {
		if m, ok := n.(*charsmap); ok {
			b := binary.LittleEndian.AppendUint32(nil, uint32(4*len(m.units)))
			for _, u := range m.units {
				b = binary.LittleEndian.AppendUint32(b, u)
			}
			f.Add(append(b, m.replacements...), "xé\u0301क्\u0301\r\n")
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, s string) {
		m, err := newCharsmap(b)
		if err != nil || m.longest > maxGrowth {
			return
		}
		s = toValidUTF8(s)
		x := m.normalize(original(s))
		if !utf8.ValidString(x.s) || len(x.s) > len(s)*max(1, m.longest) {
			t.Fatalf("%q became %q", s, x.s)
		}
		for i := range x.s {
			if o := x.origin(i, i+1); o.start < 0 || o.end > len(s) || o.start > o.end {
				t.Fatalf("byte %d of %q is from %v", i, x.s, o)
			}
		}
	})
}
