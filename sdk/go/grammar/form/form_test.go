package form

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// TestWorkedExample: the bytes are those that the README of the form shows for start: "a" [0-9]{2,}.
func TestWorkedExample(t *testing.T) {
	var b Builder
	start := b.Rule("start", b.Seq(b.Lit("a"), b.Term("num", b.Repeat(b.Bytes("09"), 2, Unbounded))))
	got, err := b.Encode(start)
	const want = "7467697201" + "03" + "020161" + "00013039" + "05010200" + "03" + "000000" + "0002036e756d" +
		"02020001" + "01" + "057374617274" + "02" + "00"
	if err != nil || hex.EncodeToString(got) != want {
		t.Errorf("got %x, %v\nwant %s", got, err, want)
	}
}

// Everything uses every node once; the SDK in Rust builds the same.
func everything(b *Builder) Rule {
	list := b.Declare("list")
	word := b.And(b.Repeat(b.Chars('a', 'z', 'à', 'ÿ'), 1, 9), b.Not(b.Texts("if", "")))
	item := b.Choice(b.Term("word", word), b.Term("", b.Union(b.Text("€"), b.Concat(b.Bytes("09AF"), b.Char()))),
		b.Ref(list))
	b.Define(list, b.Seq(b.Lit("("), b.Times(item, 2, 300), b.Opt(b.Token("<tool>")), b.Tokens(true, 5, 70, 200, 200),
		b.Lit("(")))
	return b.Rule("", b.Times(b.Ref(list), 0, Unbounded))
}

// golden is encoded by the host's own writer: server/host tests that.
const golden = "../../../testdata/forms/everything.hex"

func TestEverything(t *testing.T) {
	var b Builder
	got, err := b.Encode(everything(&b))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(golden)
	if err != nil || hex.EncodeToString(got) != strings.TrimSpace(string(want)) {
		t.Errorf("got  %x, %v\nwant %s", got, err, want)
	}
}

func TestMistakes(t *testing.T) {
	long := strings.Repeat("x", MaxName+1)
	for want, make := range map[string]func(b *Builder) Expr{
		`bytes "abc": want pairs of bounds`: func(b *Builder) Expr {
			return b.Term("", b.Bytes("abc"))
		},
		`bytes "za": the bounds of a range fall`: func(b *Builder) Expr {
			return b.Term("", b.Bytes("za"))
		},
		`chars "a": want pairs of bounds`: func(b *Builder) Expr {
			return b.Term("", b.Chars('a'))
		},
		"chars: the bound U+110000 is no character, or falls": func(b *Builder) Expr {
			return b.Term("", b.Chars('a', 0x110000))
		},
		"repeat 2 to 1 times: want bounds that do not fall, of at most 2147483647": func(b *Builder) Expr {
			return b.Times(b.Lit("a"), 2, 1)
		},
		"and: want at least one regular expression": func(b *Builder) Expr {
			return b.Term("", b.And())
		},
		"tokens [1]: want pairs of bounds": func(b *Builder) Expr {
			return b.Tokens(false, 1)
		},
		"tokens [2 1]: the bounds of a range fall": func(b *Builder) Expr {
			return b.Tokens(false, 2, 1)
		},
		"a text of 257 bytes: want at most 256": func(b *Builder) Expr {
			return b.Term(long, b.Text(""))
		},
		"a text of 65537 bytes: want at most 65536": func(b *Builder) Expr {
			return b.Lit(strings.Repeat("x", MaxText+1))
		},
		"a name of 257 bytes: want at most 256": func(b *Builder) Expr {
			return b.Ref(b.Rule(long, b.Lit("a")))
		},
		`rule "a" is declared and not defined`: func(b *Builder) Expr {
			return b.Ref(b.Declare("a"))
		},
		`rule "a" is defined twice`: func(b *Builder) Expr {
			r := b.Rule("a", b.Lit("a"))
			b.Define(r, b.Lit("b"))
			return b.Ref(r)
		},
	} {
		var b Builder
		e := make(&b)
		if form, err := b.Encode(b.Rule("start", e)); err == nil || err.Error() != want || form != nil {
			t.Errorf("got %x, %v, want %s", form, err, want)
		}
	}
	var b Builder
	if _, err := b.Encode(Rule{}); err == nil || err.Error() != "a grammar without rules" {
		t.Errorf("got %v", err)
	}
}

// TestShared: equal nodes are written once.
func TestShared(t *testing.T) {
	var b Builder
	if x, y := b.Seq(b.Lit("ab"), b.Lit("c")), b.Seq(b.Lit("ab"), b.Lit("c")); x != y || len(b.exprs.index) != 3 ||
		len(b.regexes.index) != 2 {
		t.Errorf("%v and %v, %d expressions", x, y, len(b.exprs.index))
	}
}
