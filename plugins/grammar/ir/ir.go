// Package ir is the form, versions 1 and 2, in which a grammar guest hands a grammar to
// the host: regular expressions over bytes, and context-free rules over them. It
// owns the types, the encoding, and the checks of form and size; what a grammar
// means and how the encoding looks is told in README.md beside it. It imports
// only the standard library.
//
// Nodes lie in two flat lists and refer to earlier nodes of their list by index,
// so a grammar is read and written without recursion, and shared parts are
// written once. Only rules may be recursive: they are referred to by number.
package ir

import "errors"

// Versions of the form. The second has Unordered beside what the first has; a grammar is
// written in the lowest that has what it needs.
const (
	Version  = 1
	Version2 = 2
)

// Magic are the first bytes of an encoded grammar, followed by its version as one byte.
const Magic = "tgir"

// Limits that [Read] and [Grammar.Check] hold a grammar to.
const (
	// MaxSize is the most bytes an encoded grammar has.
	MaxSize = 16 << 20
	// MaxRegexes is the most regular-expression nodes.
	MaxRegexes = 1 << 20
	// MaxExprs is the most expression nodes.
	MaxExprs = 1 << 20
	// MaxRules is the most rules.
	MaxRules = 1 << 17
	// MaxArgs is the most members of all lists of nodes, ranges and texts together.
	MaxArgs = 1 << 22
	// MaxDepth is how many nodes may lie on a path from a rule's or a terminal's
	// root to a leaf. A list counts one, however long it is; a rule's name ends the
	// path.
	MaxDepth = 1000
	// MaxUnfolded is how many nodes a regular expression is when
	// what it shares is counted as often as it is mentioned.
	MaxUnfolded = 1 << 22
	// MaxCount is the largest bound of a counted repeat.
	MaxCount = 1<<31 - 1
	// MaxLiteral is the most bytes of one literal text.
	MaxLiteral = 1 << 16
	// MaxName is the most bytes of a name.
	MaxName = 256
	// MaxMembers is the most members of one Unordered.
	MaxMembers = 4096
	// MaxRune is the largest code point.
	MaxRune = 0x10FFFF
)

// Unbounded as Max of a repeat means that it has no upper bound.
const Unbounded = ^uint32(0)

// Errors of reading and checking, wrapped with what is wrong and where.
var (
	// ErrFormat: the bytes are not an encoded grammar, or a node breaks a rule.
	ErrFormat = errors.New("malformed grammar")
	// ErrVersion: the grammar is of a version that this host does not read.
	ErrVersion = errors.New("unknown version of the grammar form")
	// ErrLimit: something is larger than its limit allows.
	ErrLimit = errors.New("grammar limit exceeded")
)

// Op says what a regular expression is made of.
type Op uint8

// Kinds of regular expressions. Each stands for a set of byte strings.
const (
	// Bytes is one byte out of Ranges (bounds 0 to 255); no range: nothing at all matches.
	Bytes Op = iota
	// Chars is one character out of Ranges, as UTF-8. Surrogates in a range are left out.
	Chars
	// Literal is Text itself; the empty text is allowed.
	Literal
	// Concat is its Args one after the other; none: the empty string.
	Concat
	// Union is any of its Args; none: nothing at all matches.
	Union
	// Repeat is Args[0] at least Min and at most Max times.
	Repeat
	// And is what all of its Args match; at least one.
	And
	// Not is every byte string that Args[0] does not match. It is not confined to
	// UTF-8: intersect it with what is to remain.
	Not
	// Literals is any of Texts: an enumeration, kept as a tree of prefixes.
	Literals
	opEnd
)

// Range is an inclusive range of bytes, code points or token ids.
type Range struct{ Lo, Hi uint32 }

// Regex is a node of the list of regular expressions.
type Regex struct {
	Op     Op
	Ranges []Range  // Bytes, Chars
	Text   []byte   // Literal
	Texts  [][]byte // Literals
	Args   []uint32 // Concat, Union, Repeat, And, Not: indices below the node's own
	// Min and Max are Repeat's bounds; Max may be Unbounded.
	Min, Max uint32
}

// Kind says what an expression is made of.
type Kind uint8

// Kinds of expressions. Each stands for a set of texts, which are sequences of
// bytes and single tokens.
const (
	// Terminal is a text that the regular expression Ref matches. Name may be empty.
	Terminal Kind = iota
	// Rule is what the rule Ref stands for.
	Rule
	// Seq is its Args one after the other; none: the empty text.
	Seq
	// Choice is any of its Args; none: nothing at all matches.
	Choice
	// Times is Args[0] at least Min and at most Max times.
	Times
	// Token is one token whose id is in Ranges, or in none of them where Except
	// is set; then special tokens and those that end a text are left out too.
	Token
	// TokenText is the one token that is spelt Name, special or not.
	TokenText
	// Unordered is members, Args[1:], in any order, with Args[0] between two of them: at
	// least Min different ones, at most Max in all. Each comes once at most, or as Marks
	// say. No member's text is empty. Version 2.
	Unordered
	kindEnd
)

// Mark says how often a member of an Unordered comes; 0 is at most once.
type Mark uint8

// Marks of members; they may be combined.
const (
	// Required: it comes at least once.
	Required Mark = 1 << iota
	// Repeats: it may come again.
	Repeats
	markEnd
)

// Expr is a node of the list of expressions.
type Expr struct {
	Kind Kind
	Ref  uint32   // Terminal: index of a regular expression; Rule: number of a rule
	Name string   // Terminal: for error texts; TokenText: the token's text
	Args []uint32 // Seq, Choice, Times, Unordered: indices below the node's own
	// Min and Max are the bounds of Times and Unordered; Max may be Unbounded.
	Min, Max uint32
	Marks    []Mark  // Unordered: one for each of Args[1:]
	Ranges   []Range // Token
	Except   bool    // Token
}

// Definition is a rule.
type Definition struct {
	Name string // for error texts; need not be unique, may be empty
	Body uint32 // index of an expression
}

// Grammar is a grammar in the host's hands. Rules[Start] is what a whole text is.
type Grammar struct {
	Regexes []Regex
	Exprs   []Expr
	Rules   []Definition
	Start   uint32
}
