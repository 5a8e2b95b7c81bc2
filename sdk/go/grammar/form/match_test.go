package form

import (
	"errors"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for name, c := range map[string]struct {
		make    func(b *Builder) Expr
		yes, no string // texts with | between them
	}{
		"bytes": {func(b *Builder) Expr { return b.Term("", b.Bytes("acx\xff")) }, "a|b|c|x|\xff", "|d|w|ab|é"},
		"chars": {func(b *Builder) Expr { return b.Term("", b.Chars('a', 'é', '😀', '😀')) }, "a|é|😀|z",
			"|ê|A|\xc3|éa"},
		"texts":   {func(b *Builder) Expr { return b.Term("", b.Texts("if", "iffy", "")) }, "if|iffy|", "i|iff"},
		"nothing": {func(b *Builder) Expr { return b.Term("", b.Union()) }, "", "|a"},
		"regex": {func(b *Builder) Expr {
			return b.Term("", b.Concat(b.Union(b.Text("a"), b.Text("ab")), b.Text("c"), b.Concat()))
		}, "ac|abc", "a|ab|c|abbc"},
		"repeat": {func(b *Builder) Expr { return b.Term("", b.Repeat(b.Text("ab"), 2, 3)) }, "abab|ababab",
			"|ab|aba|abababab"},
		"many": {func(b *Builder) Expr { return b.Term("", b.Repeat(b.Repeat(b.Text("a"), 0, 1), 1<<30, Unbounded)) },
			"|a|aaaa", "b|ab"},
		"none": {func(b *Builder) Expr { return b.Term("", b.Repeat(b.Text("a"), 0, 0)) }, "", "a"},
		"and, not": {func(b *Builder) Expr {
			return b.Term("", b.And(b.Repeat(b.Bytes("az"), 1, 3), b.Not(b.Texts("if", "do"))))
		}, "a|of|iff", "|if|do|abcd|A"},
		"seq": {func(b *Builder) Expr { return b.Seq(b.Lit("a"), b.Opt(b.Lit("b")), b.Choice(b.Lit("c"), b.Seq())) },
			"a|ab|abc|ac", "|b|abb"},
		"times":  {func(b *Builder) Expr { return b.Times(b.Lit("ab"), 1, 2) }, "ab|abab", "|a|ababab"},
		"tokens": {func(b *Builder) Expr { return b.Seq(b.Token("<call>"), b.Lit("x")) }, "<call>x", "x|call"},
		"right recursion": {func(b *Builder) Expr {
			r := b.Declare("r")
			b.Define(r, b.Choice(b.Lit("b"), b.Seq(b.Lit("("), b.Ref(r), b.Lit(")"))))
			return b.Ref(r)
		}, "b|(b)|((b))", "(b|b)|()"},
		"left recursion": {func(b *Builder) Expr {
			r := b.Declare("r")
			b.Define(r, b.Choice(b.Lit("1"), b.Seq(b.Ref(r), b.Lit("+"), b.Ref(r)), b.Ref(r)))
			return b.Ref(r)
		}, "1|1+1|1+1+1+1", "|1+|+1|11"},
	} {
		var b Builder
		form, err := b.Encode(b.Rule("start", c.make(&b)))
		if err != nil {
			t.Fatal(name, err)
		}
		for want, texts := range map[bool]string{true: c.yes, false: c.no} {
			for text := range strings.SplitSeq(texts, "|") {
				if name == "nothing" && want {
					continue // no text is of it
				}
				if got, err := Match(form, text); got != want || err != nil {
					t.Errorf("%s: %q: %v, %v", name, text, got, err)
				}
			}
		}
		for n := range form { // what is cut short is an error, never a panic
			if _, err := Match(form[:n], "a"); !errors.Is(err, ErrForm) {
				t.Errorf("%s: %d bytes of %d: %v", name, n, len(form), err)
			}
		}
	}
}

func TestMatchFaults(t *testing.T) {
	var b Builder
	ids, err := b.Encode(b.Rule("", b.Tokens(false, 1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"tokens by id": string(ids), "version": "tgir\x02\x00\x00\x00\x00", "no rules": "tgir\x01\x00\x00\x00\x00",
		"more":        "tgir\x01\x00\x01\x02\x00\x01\x00\x00\x00x",
		"later regex": "tgir\x01\x01\x07\x00\x00\x01\x00\x00\x00", "kind of a regex": "tgir\x01\x01\x09",
		"number": "tgir\x01\xff\xff\xff\xff\xff\xff", "most": "tgir\x01\xff\xff\xff\xff\x0f",
	} {
		if _, err := Match([]byte(form), "a"); !errors.Is(err, ErrForm) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
