// Package ir is the intermediate representation, versions 1 and 2, of the grammars that plugins hand to the host:
// regular expressions over bytes, and context-free rules over them. It owns the types, the encoding, and the checks of
// format and size; README.md in this folder defines the meaning of a grammar and its encoding. It imports only the
// standard library.
//
// Nodes are in two flat lists and refer to earlier nodes of their list by index, so a grammar is read and written
// without recursion, and shared parts are written once. Only rules may be recursive: they are referred to by number.
package ir

import "errors"

// Versions of the format. The second adds Unordered; a grammar is written in the lowest version that supports it.
const (
	Version  = 1
	Version2 = 2
)

// Magic are the first bytes of an encoded grammar, followed by its version as one byte.
const Magic = "tgir"

// Limits that [Read] and [Grammar.Check] enforce.
const (
	// MaxSize is the maximum size of an encoded grammar in bytes.
	MaxSize = 16 << 20
	// MaxRegexes is the maximum number of regular-expression nodes.
	MaxRegexes = 1 << 20
	// MaxExprs is the maximum number of expression nodes.
	MaxExprs = 1 << 20
	// MaxRules is the maximum number of rules.
	MaxRules = 1 << 17
	// MaxArgs is the maximum number of members of all lists of nodes, ranges and texts together.
	MaxArgs = 1 << 22
	// MaxDepth is how many nodes may lie on a path from a rule's or a terminal's
	// root to a leaf. A list counts one, however long it is; a rule's name ends the
	// path.
	MaxDepth = 1000
	// MaxUnfolded is the maximum number of nodes of a regular expression, counting shared parts once per reference.
	MaxUnfolded = 1 << 22
	// MaxCount is the largest bound of a counted repeat.
	MaxCount = 1<<31 - 1
	// MaxLiteral is the maximum length of one literal text in bytes.
	MaxLiteral = 1 << 16
	// MaxName is the maximum length of a name in bytes.
	MaxName = 256
	// MaxMembers is the maximum number of members of one Unordered.
	MaxMembers = 4096
	// MaxRune is the largest code point.
	MaxRune = 0x10FFFF
)

// Unbounded as Max of a repeat means that it has no upper bound.
const Unbounded = ^uint32(0)

// Errors of reading and checking, wrapped with the details.
var (
	// ErrFormat: the bytes are not an encoded grammar, or a node breaks a rule.
	ErrFormat = errors.New("malformed grammar")
	// ErrVersion: this host does not support the grammar's version.
	ErrVersion = errors.New("unknown version of the grammar form")
	// ErrLimit: something is larger than its limit allows.
	ErrLimit = errors.New("grammar limit exceeded")
)

// Op is the kind of a regular expression.
type Op uint8

// Kinds of regular expressions. Each stands for a set of byte strings.
const (
	// Bytes is one byte of Ranges (bounds 0 to 255); without ranges nothing matches.
	Bytes Op = iota
	// Chars is one character of Ranges, as UTF-8. Surrogates in a range are ignored.
	Chars
	// Literal is Text itself; the empty text is allowed.
	Literal
	// Concat is its Args in sequence; none: the empty string.
	Concat
	// Union is any of its Args; without Args nothing matches.
	Union
	// Repeat is Args[0] at least Min and at most Max times.
	Repeat
	// And is the intersection of its Args, of which there is at least one.
	And
	// Not is every byte string that Args[0] does not match. It is not limited to UTF-8: intersect it with the texts to
	// keep.
	Not
	// Literals is any of Texts: an enumeration, kept as a prefix tree.
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

// Kind is the kind of an expression.
type Kind uint8

// Kinds of expressions. Each stands for a set of texts, which are sequences of
// bytes and single tokens.
const (
	// Terminal is a text that the regular expression Ref matches. Name may be empty.
	Terminal Kind = iota
	// Rule is a text of the rule Ref.
	Rule
	// Seq is its Args in sequence; none: the empty text.
	Seq
	// Choice is any of its Args; without Args nothing matches.
	Choice
	// Times is Args[0] at least Min and at most Max times.
	Times
	// Token is one token whose id is in Ranges or, if Except is set, in none of them; Except also excludes special
	// tokens and those that end a text.
	Token
	// TokenText is the token with the spelling Name, special or not.
	TokenText
	// Unordered is members, Args[1:], in any order, separated by Args[0]: at least Min distinct ones, at most Max in
	// total. Each comes at most once, unless Marks say otherwise. No member matches the empty text. Version 2.
	Unordered
	kindEnd
)

// Mark says how often a member of an Unordered may come; 0 is at most once.
type Mark uint8

// Marks of members; they may be combined.
const (
	// Required: the member comes at least once.
	Required Mark = 1 << iota
	// Repeats: the member may come more than once.
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

// Grammar is a decoded grammar. A complete text is one of Rules[Start].
type Grammar struct {
	Regexes []Regex
	Exprs   []Expr
	Rules   []Definition
	Start   uint32
}
