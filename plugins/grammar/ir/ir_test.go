package ir_test

import (
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// sample has every kind of node.
func sample() *ir.Grammar {
	var b irtest.Builder
	digit := b.Bytes("09")
	char := b.Chars(ir.Range{Lo: 'a', Hi: 0x10FFFF})
	word := b.And(b.Repeat(char, 1, 1000), b.Not(b.Lits("true", "false")))
	text := b.Union(b.Concat(b.Lit("é"), b.Repeat(digit, 2, ir.Unbounded)), word)
	r, s := b.Declare("start"), b.Declare("")
	b.Define(s, b.Choice(b.Token(true, ir.Range{Lo: 3, Hi: 9}), b.TokenText("<tool>"), b.Seq()))
	b.Define(r, b.Seq(b.Term(text), b.Times(b.Rule(s), 0, 7), b.Times(b.Rule(r), 1, ir.Unbounded)))
	b.G.Start = r
	return &b.G
}

func TestReadGivesWhatWasWritten(t *testing.T) {
	want := sample()
	got, err := ir.Read(want.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if again := got.Append(nil); !slices.Equal(again, want.Append(nil)) {
		t.Errorf("decoded and encoded again it is\n% x, want\n% x", again, want.Append(nil))
	}
	if !reflect.DeepEqual(got.Rules, want.Rules) || !reflect.DeepEqual(got.Regexes[3].Texts, want.Regexes[3].Texts) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestWorkedExample checks README.md's example against the encoding.
func TestWorkedExample(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "{2,}`:\n\n```\n")
	block, _, _ := strings.Cut(rest, "```")
	var digits string
	for line := range strings.Lines(block) {
		hexes := regexp.MustCompile(`^ *((?:[0-9a-f]{2} )*[0-9a-f]{2})(?:  |$)`).FindStringSubmatch(strings.TrimRight(line, "\n"))
		digits += strings.ReplaceAll(hexes[1], " ", "")
	}
	want, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	var b irtest.Builder
	a, d := b.Lit("a"), b.Bytes("09")
	n := b.Repeat(d, 2, ir.Unbounded)
	x := b.Term(a)
	y := b.Term(n)
	b.G.Exprs[y].Name = "num"
	b.Define(b.Declare("start"), b.Seq(x, y))
	if got := b.G.Append(nil); !slices.Equal(got, want) {
		t.Errorf("the builder writes\n% x, README.md says\n% x", got, want)
	}
	if _, err := ir.Read(want); err != nil {
		t.Error(err)
	}
}

// unordered is a grammar of an unordered list of two members.
func unordered(marks []ir.Mark, least, most uint32) []byte {
	var b irtest.Builder
	x := b.Text("a")
	b.Define(b.Declare("r"), b.Unordered(b.Text(","), []uint32{x, x}, marks, least, most))
	return b.G.Append(nil)
}

// TestVersions checks that a grammar has version 1 unless it contains an unordered list, and that both versions are
// read.
func TestVersions(t *testing.T) {
	for version, b := range map[byte][]byte{1: sample().Append(nil), 2: unordered([]ir.Mark{ir.Required, ir.Repeats}, 1,
		ir.Unbounded)} {
		if b[len(ir.Magic)] != version {
			t.Errorf("version %d, want %d", b[len(ir.Magic)], version)
		}
		g, err := ir.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(g.Append(nil), b) {
			t.Errorf("version %d: encoded again it differs", version)
		}
	}
}

// TestReadRefuses breaks one rule at a time.
func TestReadRefuses(t *testing.T) {
	deep := func() *ir.Grammar {
		var b irtest.Builder
		x := b.Text("a")
		for range ir.MaxDepth {
			x = b.Seq(x)
		}
		b.Define(b.Declare("r"), x)
		return &b.G
	}()
	with := func(change func(*ir.Grammar)) []byte {
		g := sample()
		change(g)
		return g.Append(nil)
	}
	good := sample().Append(nil)
	cases := []struct {
		name string
		in   []byte
		want error
		text string
	}{
		{"empty", nil, ir.ErrFormat, `"tgir"`},
		{"version", []byte("tgir\x03"), ir.ErrVersion, "want 1 or 2, got 3"},
		{"cut", good[:len(good)-3], ir.ErrFormat, "byte"},
		{"left over", append(slices.Clone(good), 0), ir.ErrFormat, "1 bytes are left over"},
		{"op", []byte("tgir\x01\x01\x09\x00\x00\x00\x00"), ir.ErrFormat, "at most 8, got 9"},
		{"kind", []byte("tgir\x01\x00\x01\x08\x00\x00\x00"), ir.ErrFormat, "at most 7, got 8"},
		{"unordered in version 1", []byte("tgir\x01\x00\x01\x07\x00\x00\x00"), ir.ErrFormat,
			"takes version 2, the grammar is of version 1"},
		{"no separator", []byte("tgir\x02\x00\x01\x07\x00\x00\x00\x00\x00"), ir.ErrFormat,
			"separator of an unordered list is missing"},
		{"mark", unordered([]ir.Mark{0, 4}, 0, 2), ir.ErrFormat,
			"marks[1]: malformed grammar: a mark is at most 3, got 4"},
		{"marks", unordered([]ir.Mark{0}, 0, 2), ir.ErrFormat, ""},
		{"too few members", unordered([]ir.Mark{0, 1}, 3, 4), ir.ErrFormat,
			"of 2 members, 1 of them required, cannot have 3 to 4 of them"},
		{"too many required", unordered([]ir.Mark{1, 1}, 0, 1), ir.ErrFormat,
			"of 2 members, 2 of them required, cannot have 0 to 1 of them"},
		{"announced", []byte("tgir\x01\xff\xff\x03"), ir.ErrFormat, "announced"},
		{"regexes", []byte("tgir\x01\xff\xff\xff\x03"), ir.ErrLimit, "regexes: at most 1048576, got 8388607"},
		{"number", []byte("tgir\x01\xff\xff\xff\xff\x7f"), ir.ErrFormat, "2^32"},
		{"depth", deep.Append(nil), ir.ErrLimit, "depth: at most 1000, got 1001"},
		{"forward", with(func(g *ir.Grammar) { g.Exprs[3].Args = []uint32{9} }), ir.ErrFormat, "exprs[3]: args[0]"},
		{"rule", with(func(g *ir.Grammar) { g.Exprs[len(g.Exprs)-2].Args = []uint32{99} }), ir.ErrFormat, "got 99"},
		{"min above max", with(func(g *ir.Grammar) { g.Regexes[2].Min = 1001 }), ir.ErrFormat, "1001 and 1000"},
		{"max", with(func(g *ir.Grammar) { g.Regexes[2].Max = 1 << 31 }), ir.ErrLimit,
			"max: at most 2147483647, got 2147483648"},
		{"byte range", with(func(g *ir.Grammar) { g.Regexes[0].Ranges[0].Hi = 256 }), ir.ErrFormat,
			"regexes[0]: ranges[0]"},
		{"and of none", with(func(g *ir.Grammar) { g.Regexes[5].Args = nil }), ir.ErrFormat, "regexes[5]"},
		{"literal", with(func(g *ir.Grammar) { g.Regexes[6].Text = make([]byte, ir.MaxLiteral+1) }), ir.ErrLimit,
			"65536, got 65537"},
		{"name", with(func(g *ir.Grammar) { g.Rules[0].Name = "\xff" }), ir.ErrFormat, "rules[0].name"},
		{"long name", with(func(g *ir.Grammar) { g.Rules[0].Name = strings.Repeat("a", 257) }), ir.ErrLimit,
			"256, got 257"},
		{"body", with(func(g *ir.Grammar) { g.Rules[1].Body = 1000 }), ir.ErrFormat, "rules[1].body"},
		{"start", with(func(g *ir.Grammar) { g.Start = 2 }), ir.ErrFormat, "start"},
		{"no rules", []byte("tgir\x01\x00\x00\x00\x00"), ir.ErrFormat, "start"},
		{"token text", with(func(g *ir.Grammar) { g.Exprs[1].Name = "" }), ir.ErrFormat, "exprs[1]"},
		{"too large", make([]byte, ir.MaxSize+1), ir.ErrLimit, "bytes: at most"},
	}
	for _, c := range cases {
		_, err := ir.Read(c.in)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		} else if !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %q does not say %q", c.name, err, c.text)
		}
	}
}

// FuzzRead checks that Read returns for any bytes, and that what it accepts survives encoding and decoding unchanged.
func FuzzRead(f *testing.F) {
	f.Add(sample().Append(nil))
	f.Add(unordered([]ir.Mark{ir.Required, ir.Repeats}, 1, 5))
	f.Add([]byte("tgir\x01\x01\x02\x01a\x01\x00\x00\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ir.Read(b)
		if err != nil {
			return
		}
		w := g.Append(nil)
		h, err := ir.Read(w)
		if err != nil {
			t.Fatalf("encoded again it is refused: %v", err)
		}
		if !slices.Equal(h.Append(nil), w) {
			t.Fatal("encoded again it differs")
		}
	})
}
