// Package irtest builds grammars for tests.
package irtest

import "tgi/plugins/grammar/ir"

// Builder builds a grammar node by node. Its methods return indices of regular expressions, expressions or rules. The
// zero value is ready to use.
type Builder struct {
	// G is the grammar so far. Set its Start at the end.
	G ir.Grammar
}

func (b *Builder) regex(x ir.Regex) uint32 {
	b.G.Regexes = append(b.G.Regexes, x)
	return uint32(len(b.G.Regexes) - 1)
}

func (b *Builder) expr(x ir.Expr) uint32 {
	b.G.Exprs = append(b.G.Exprs, x)
	return uint32(len(b.G.Exprs) - 1)
}

// Bytes is one byte of the ranges, given as pairs of bounds: Bytes("az09") is [a-z0-9].
func (b *Builder) Bytes(pairs string) uint32 {
	var rs []ir.Range
	for i := 0; i+1 < len(pairs); i += 2 {
		rs = append(rs, ir.Range{Lo: uint32(pairs[i]), Hi: uint32(pairs[i+1])})
	}
	return b.regex(ir.Regex{Op: ir.Bytes, Ranges: rs})
}

// Chars is one character of the ranges.
func (b *Builder) Chars(rs ...ir.Range) uint32 { return b.regex(ir.Regex{Op: ir.Chars, Ranges: rs}) }

// Lit is a text.
func (b *Builder) Lit(text string) uint32 {
	return b.regex(ir.Regex{Op: ir.Literal, Text: []byte(text)})
}

// Lits is any of the texts.
func (b *Builder) Lits(texts ...string) uint32 {
	x := ir.Regex{Op: ir.Literals}
	for _, t := range texts {
		x.Texts = append(x.Texts, []byte(t))
	}
	return b.regex(x)
}

// Concat is regular expressions in sequence.
func (b *Builder) Concat(args ...uint32) uint32 { return b.regex(ir.Regex{Op: ir.Concat, Args: args}) }

// Union is any of the regular expressions.
func (b *Builder) Union(args ...uint32) uint32 { return b.regex(ir.Regex{Op: ir.Union, Args: args}) }

// Repeat is a regular expression least to most times; most may be Unbounded.
func (b *Builder) Repeat(arg, least, most uint32) uint32 {
	return b.regex(ir.Regex{Op: ir.Repeat, Args: []uint32{arg}, Min: least, Max: most})
}

// And is the intersection of regular expressions.
func (b *Builder) And(args ...uint32) uint32 { return b.regex(ir.Regex{Op: ir.And, Args: args}) }

// Not is the complement of a regular expression.
func (b *Builder) Not(arg uint32) uint32 { return b.regex(ir.Regex{Op: ir.Not, Args: []uint32{arg}}) }

// Term makes a terminal expression of a regular expression.
func (b *Builder) Term(regex uint32) uint32 { return b.expr(ir.Expr{Kind: ir.Terminal, Ref: regex}) }

// Text is Term(Lit(text)).
func (b *Builder) Text(text string) uint32 { return b.Term(b.Lit(text)) }

// Rule refers to a rule.
func (b *Builder) Rule(rule uint32) uint32 { return b.expr(ir.Expr{Kind: ir.Rule, Ref: rule}) }

// Seq is expressions in sequence.
func (b *Builder) Seq(args ...uint32) uint32 { return b.expr(ir.Expr{Kind: ir.Seq, Args: args}) }

// Choice is any of the expressions.
func (b *Builder) Choice(args ...uint32) uint32 { return b.expr(ir.Expr{Kind: ir.Choice, Args: args}) }

// Times is an expression least to most times; most may be Unbounded.
func (b *Builder) Times(arg, least, most uint32) uint32 {
	return b.expr(ir.Expr{Kind: ir.Times, Args: []uint32{arg}, Min: least, Max: most})
}

// Unordered is members in any order with a separator between them: at least so many distinct ones, at most so many in
// total, which may be Unbounded. Each member has a mark.
func (b *Builder) Unordered(separator uint32, members []uint32, marks []ir.Mark, least, most uint32) uint32 {
	args := append([]uint32{separator}, members...)
	return b.expr(ir.Expr{Kind: ir.Unordered, Args: args, Marks: marks, Min: least, Max: most})
}

// Token is one token of the ranges of ids, or none of them.
func (b *Builder) Token(except bool, rs ...ir.Range) uint32 {
	return b.expr(ir.Expr{Kind: ir.Token, Except: except, Ranges: rs})
}

// TokenText is the token with this spelling.
func (b *Builder) TokenText(text string) uint32 {
	return b.expr(ir.Expr{Kind: ir.TokenText, Name: text})
}

// Declare adds a rule whose body Define sets later.
func (b *Builder) Declare(name string) uint32 {
	b.G.Rules = append(b.G.Rules, ir.Definition{Name: name})
	return uint32(len(b.G.Rules) - 1)
}

// Define sets the body of a declared rule.
func (b *Builder) Define(rule, body uint32) { b.G.Rules[rule].Body = body }
