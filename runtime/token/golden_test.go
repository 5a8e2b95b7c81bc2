package token

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"testing"
)

// The goldens come from testdata/make_goldens.py, which says how they are laid out.

var families = []string{"gpt2", "llama3", "qwen2", "llama2"}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unzip(t testing.TB, name string) []byte {
	t.Helper()
	return gunzip(t, readFile(t, name))
}

func gunzip(t testing.TB, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func loadFile(t testing.TB, name string) *Tokenizer {
	t.Helper()
	tok, err := Load(readFile(t, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func testStrings(t testing.TB) []string {
	t.Helper()
	var out []string
	if err := json.Unmarshal(unzip(t, "strings.gz"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// place is a golden token.
type place struct {
	id         uint32
	start, end int
}

// golden reads varints.
type golden struct{ b []byte }

func (g *golden) num() int {
	n, size := binary.Uvarint(g.b)
	g.b = g.b[size:]
	return int(n)
}

func (g *golden) encoding() []place {
	out := make([]place, g.num())
	end := 0
	for i := range out {
		id, d := g.num(), g.num()
		start := end + d/2
		if d&1 == 1 {
			start = end - (d+1)/2
		}
		end = start + g.num()
		out[i] = place{uint32(id), start, end}
	}
	return out
}

// checkEncoding compares Encode and EncodeOffsets with the golden tokens.
func checkEncoding(t *testing.T, tok *Tokenizer, s string, addSpecial bool, want []place) bool {
	t.Helper()
	pieces := tok.EncodeOffsets(s, addSpecial)
	ids := tok.Encode(s, addSpecial)
	same := len(pieces) == len(want) && len(ids) == len(want)
	chars := []rune(s)
	for i := 0; same && i < len(want); i++ {
		p := pieces[i]
		same = place{p.ID, p.Start, p.End} == want[i] && ids[i] == p.ID && p.Text == string(chars[p.Start:p.End])
	}
	if !same {
		t.Errorf("%q special=%v\n got %v\n ids %v\nwant %v", s, addSpecial, pieces, ids, want)
	}
	return same
}

func TestGoldens(t *testing.T) {
	strings := testStrings(t)
	if len(strings) < 10_000 {
		t.Fatalf("%d strings, want at least 10000", len(strings))
	}
	for _, name := range families {
		t.Run(name, func(t *testing.T) {
			tok := loadFile(t, name)
			g := golden{unzip(t, name+".gz")}
			bad, tokens := 0, 0
			for i, s := range strings {
				want := g.encoding()
				tokens += len(want)
				if !checkEncoding(t, tok, s, i%2 == 0, want) {
					if bad++; bad >= 5 {
						t.Fatal("too many differences")
					}
				}
			}
			t.Logf("%d strings, %d tokens", len(strings), tokens)
			checkDecoded(t, tok, &g)
		})
	}
}

// checkDecoded compares Decode and Stream with the golden texts.
func checkDecoded(t *testing.T, tok *Tokenizer, g *golden) {
	type sequence struct {
		ids         []uint32
		plain, skip int
	}
	seqs := make([]sequence, g.num())
	for i := range seqs {
		seqs[i].ids = make([]uint32, g.num())
		for k := range seqs[i].ids {
			seqs[i].ids[k] = uint32(g.num())
		}
		seqs[i].plain, seqs[i].skip = g.num(), g.num()
	}
	cut := func(n int) string {
		s := string(g.b[:n])
		g.b = g.b[n:]
		return s
	}
	for _, s := range seqs {
		plain, skip := cut(s.plain), cut(s.skip)
		if got := tok.Decode(s.ids, false); got != plain {
			t.Fatalf("Decode(%v, false)\n got %q\nwant %q", s.ids, got, plain)
		}
		if got := tok.Decode(s.ids, true); got != skip {
			t.Fatalf("Decode(%v, true)\n got %q\nwant %q", s.ids, got, skip)
		}
	}
	if len(g.b) != 0 {
		t.Fatalf("%d bytes left over", len(g.b))
	}
}

func TestVariants(t *testing.T) {
	strings := testStrings(t)
	count := 0
	for line := range bytes.Lines(unzip(t, "variants.gz")) {
		var v struct {
			Base    string
			Parts   map[string]json.RawMessage
			Strings []int
			Tokens  []byte
			Decoded [][2]json.RawMessage
		}
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		count++
		parts, _ := json.Marshal(v.Parts)
		t.Run(v.Base, func(t *testing.T) {
			tok, err := Load(withParts(t, readFile(t, v.Base+".json"), v.Parts))
			if err != nil {
				t.Fatalf("%s: %v", parts, err)
			}
			g := golden{v.Tokens}
			for _, i := range v.Strings {
				if !checkEncoding(t, tok, strings[i], i%2 == 0, g.encoding()) {
					t.Fatalf("%s", parts)
				}
			}
			for _, d := range v.Decoded {
				var ids []uint32
				var want string
				if json.Unmarshal(d[0], &ids) != nil || json.Unmarshal(d[1], &want) != nil {
					t.Fatal("bad golden")
				}
				if got := tok.Decode(ids, false); got != want {
					t.Fatalf("%s\nDecode(%v)\n got %q\nwant %q", parts, ids, got, want)
				}
			}
		})
	}
	t.Logf("%d variants", count)
}

// withParts puts components into a tokenizer.json; those of "model" are keys
// of the model.
func withParts(t testing.TB, file []byte, parts map[string]json.RawMessage) []byte {
	t.Helper()
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(file, &spec); err != nil {
		t.Fatal(err)
	}
	for key, value := range parts {
		if key == "model" {
			var flags map[string]json.RawMessage
			if err := json.Unmarshal(value, &flags); err != nil {
				t.Fatal(err)
			}
			value = withParts(t, spec["model"], flags)
		}
		spec[key] = value
	}
	b, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
