// Package form builds and encodes the grammars that grammar plugins return:
// regular expressions over bytes, and context-free rules over them, in version 1
// of the form that plugins/grammar/ir/README.md describes. This grammar matches
// lists of five integers such as [1,22,-3,0,5]:
//
//	var b form.Builder
//	number := b.Term("number", b.Concat(b.Repeat(b.Text("-"), 0, 1), b.Repeat(b.Bytes("09"), 1, 6)))
//	more := b.Times(b.Seq(b.Lit(","), number), 4, 4)
//	start := b.Rule("start", b.Seq(b.Lit("["), number, more, b.Lit("]")))
//	compiled, err := b.Encode(start)
//
// There is no separate scanner: a text matches if there is any way to split it into
// pieces that match the rules. White space must be part of the grammar.
package form

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Unbounded is the upper bound of a repetition without one.
const Unbounded = math.MaxUint32

// Limits of a form that Encode checks. The server checks others too, which the
// README of the form lists.
const (
	// MaxName is the longest name, in bytes.
	MaxName = 256
	// MaxText is the longest text of one node, in bytes.
	MaxText = 1 << 16
	// MaxCount is the greatest bound of a repetition, apart from Unbounded.
	MaxCount = 1<<31 - 1
)

// Regex is a regular expression over bytes, made by a Builder.
type Regex struct{ index uint32 }

// Expr is an expression of the grammar, made by a Builder.
type Expr struct{ index uint32 }

// Rule is a named Expr. Others can refer to it before it is defined.
type Rule struct{ number uint32 }

// Builder builds a grammar bottom-up. The zero value is ready to use. It writes
// equal nodes once. Its values must not be used with another Builder. It keeps
// its first error, which Encode returns.
type Builder struct {
	regexes, exprs nodes
	rules          []rule
	err            error
}

type rule struct {
	name    string
	body    Expr
	defined bool
}

// nodes is the encoded list of nodes, with the index of each node by its bytes.
type nodes struct {
	bytes []byte
	index map[string]uint32
}

func (n *nodes) add(node []byte) uint32 {
	if i, ok := n.index[string(node)]; ok {
		return i
	}
	if n.index == nil {
		n.index = map[string]uint32{}
	}
	i := uint32(len(n.index))
	n.index[string(node)] = i
	n.bytes = append(n.bytes, node...)
	return i
}

// The codes of the kinds of nodes.
const (
	opBytes, opChars, opLiteral, opConcat, opUnion, opRepeat, opAnd, opNot, opLiterals = 0, 1, 2, 3, 4, 5, 6, 7, 8

	kindTerminal, kindRule, kindSeq, kindChoice, kindTimes, kindToken, kindTokenText = 0, 1, 2, 3, 4, 5, 6
)

func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}

func (b *Builder) regex(node []byte) Regex { return Regex{b.regexes.add(node)} }
func (b *Builder) expr(node []byte) Expr   { return Expr{b.exprs.add(node)} }

// Bytes matches one byte in the ranges, given as pairs of bounds: Bytes("az09") is
// [a-z0-9]. Without ranges it matches nothing.
func (b *Builder) Bytes(pairs string) Regex {
	if len(pairs)%2 != 0 {
		b.fail("bytes %q: want pairs of bounds", pairs)
		return Regex{}
	}
	node := number([]byte{opBytes}, uint32(len(pairs)/2))
	for i := 0; i < len(pairs); i++ {
		node = number(node, uint32(pairs[i]))
		if i%2 == 1 && pairs[i] < pairs[i-1] {
			b.fail("bytes %q: the bounds of a range fall", pairs)
		}
	}
	return b.regex(node)
}

// Chars matches one character in the ranges, given as pairs of bounds: Chars('a',
// 'z', 'à', 'ÿ'). It never matches surrogates.
func (b *Builder) Chars(pairs ...rune) Regex {
	if len(pairs)%2 != 0 {
		b.fail("chars %q: want pairs of bounds", string(pairs))
		return Regex{}
	}
	node := number([]byte{opChars}, uint32(len(pairs)/2))
	for i, c := range pairs {
		node = number(node, uint32(c))
		if c < 0 || c > 0x10FFFF || i%2 == 1 && c < pairs[i-1] {
			b.fail("chars: the bound U+%X is no character, or falls", uint32(c))
		}
	}
	return b.regex(node)
}

// Char matches any one character.
func (b *Builder) Char() Regex { return b.Chars(0, 0x10FFFF) }

// Text matches exactly this text, which may be empty.
func (b *Builder) Text(text string) Regex { return b.regex(b.text([]byte{opLiteral}, text, MaxText)) }

// Texts matches any of the texts.
func (b *Builder) Texts(texts ...string) Regex {
	node := number([]byte{opLiterals}, uint32(len(texts)))
	for _, t := range texts {
		node = b.text(node, t, MaxText)
	}
	return b.regex(node)
}

// Concat matches the regular expressions one after the other. Without any it matches the empty string.
func (b *Builder) Concat(parts ...Regex) Regex { return b.regex(regexes(opConcat, parts)) }

// Union matches any of the regular expressions. Without any it matches nothing.
func (b *Builder) Union(parts ...Regex) Regex { return b.regex(regexes(opUnion, parts)) }

// Repeat matches r least to most times. most may be Unbounded.
func (b *Builder) Repeat(r Regex, least, most uint32) Regex {
	return b.regex(b.bounds(number([]byte{opRepeat}, r.index), least, most))
}

// And matches what all the regular expressions match. It needs at least one.
func (b *Builder) And(parts ...Regex) Regex {
	if len(parts) == 0 {
		b.fail("and: want at least one regular expression")
	}
	return b.regex(regexes(opAnd, parts))
}

// Not matches every byte string that r does not match, even invalid UTF-8. Use And
// to limit it.
func (b *Builder) Not(r Regex) Regex { return b.regex(number([]byte{opNot}, r.index)) }

// Term makes an expression of a regular expression. The name is used in error texts
// and may be empty.
func (b *Builder) Term(name string, r Regex) Expr {
	return b.expr(b.text(number([]byte{kindTerminal}, r.index), name, MaxName))
}

// Lit matches exactly this text.
func (b *Builder) Lit(text string) Expr { return b.Term("", b.Text(text)) }

// Seq matches the expressions one after the other. Without any it matches the empty text.
func (b *Builder) Seq(parts ...Expr) Expr { return b.expr(exprs(kindSeq, parts)) }

// Choice matches any of the expressions. Without any it matches nothing.
func (b *Builder) Choice(parts ...Expr) Expr { return b.expr(exprs(kindChoice, parts)) }

// Times matches e least to most times. most may be Unbounded.
func (b *Builder) Times(e Expr, least, most uint32) Expr {
	return b.expr(b.bounds(number([]byte{kindTimes}, e.index), least, most))
}

// Opt matches e or the empty text.
func (b *Builder) Opt(e Expr) Expr { return b.Times(e, 0, 1) }

// Token matches the single token with this text, special or not, such as <tool_call>.
// If the vocabulary has no such token, the server refuses the grammar.
func (b *Builder) Token(spelt string) Expr {
	return b.expr(b.text([]byte{kindTokenText}, spelt, MaxName))
}

// Tokens matches one token in the ranges of ids, given as pairs of bounds. With except
// it matches any token outside them, apart from special tokens and those that end a text.
func (b *Builder) Tokens(except bool, pairs ...uint32) Expr {
	node := []byte{kindToken, 0}
	if except {
		node[1] = 1
	}
	if len(pairs)%2 != 0 {
		b.fail("tokens %v: want pairs of bounds", pairs)
		return Expr{}
	}
	node = number(node, uint32(len(pairs)/2))
	for i, id := range pairs {
		node = number(node, id)
		if i%2 == 1 && id < pairs[i-1] {
			b.fail("tokens %v: the bounds of a range fall", pairs)
		}
	}
	return b.expr(node)
}

// Declare makes a rule whose body Define sets later, so that rules can be recursive.
func (b *Builder) Declare(name string) Rule {
	if len(name) > MaxName {
		b.fail("a name of %d bytes: want at most %d", len(name), MaxName)
	}
	b.rules = append(b.rules, rule{name: name})
	return Rule{uint32(len(b.rules) - 1)}
}

// Define sets the body of a declared rule. Call it once for each.
func (b *Builder) Define(r Rule, body Expr) {
	if to := &b.rules[r.number]; to.defined {
		b.fail("rule %q is defined twice", to.name)
	} else {
		to.body, to.defined = body, true
	}
}

// Rule declares and defines a rule.
func (b *Builder) Rule(name string, body Expr) Rule {
	r := b.Declare(name)
	b.Define(r, body)
	return r
}

// Ref matches what the rule matches.
func (b *Builder) Ref(r Rule) Expr { return b.expr(number([]byte{kindRule}, r.number)) }

// Encode returns the encoded grammar, which matches what the rule start matches. The
// error is the first one of the Builder.
func (b *Builder) Encode(start Rule) ([]byte, error) {
	for _, r := range b.rules {
		if !r.defined {
			b.fail("rule %q is declared and not defined", r.name)
		}
	}
	if len(b.rules) == 0 {
		b.fail("a grammar without rules")
	}
	if b.err != nil {
		return nil, b.err
	}
	out := []byte("tgir\x01")
	out = append(number(out, uint32(len(b.regexes.index))), b.regexes.bytes...)
	out = append(number(out, uint32(len(b.exprs.index))), b.exprs.bytes...)
	out = number(out, uint32(len(b.rules)))
	for _, r := range b.rules {
		out = number(b.text(out, r.name, MaxName), r.body.index)
	}
	return number(out, start.number), nil
}

func number(to []byte, n uint32) []byte { return binary.AppendUvarint(to, uint64(n)) }

func (b *Builder) text(to []byte, text string, most int) []byte {
	if len(text) > most {
		b.fail("a text of %d bytes: want at most %d", len(text), most)
	}
	return append(number(to, uint32(len(text))), text...)
}

// bounds writes the bounds. The upper one is written plus one, and as 0 if there is none.
func (b *Builder) bounds(to []byte, least, most uint32) []byte {
	if least > MaxCount || most > MaxCount && most != Unbounded || most < least {
		b.fail("repeat %d to %d times: want bounds that do not fall, of at most %d", least, most, MaxCount)
	}
	return number(number(to, least), most+1)
}

func regexes(op byte, list []Regex) []byte {
	node := number([]byte{op}, uint32(len(list)))
	for _, r := range list {
		node = number(node, r.index)
	}
	return node
}

func exprs(kind byte, list []Expr) []byte {
	node := number([]byte{kind}, uint32(len(list)))
	for _, e := range list {
		node = number(node, e.index)
	}
	return node
}
