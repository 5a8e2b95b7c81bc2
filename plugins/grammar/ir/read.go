package ir

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Read decodes and checks a grammar. The bytes may be changed afterwards. Errors
// wrap ErrFormat, ErrVersion or ErrLimit and say where. Time and memory are
// linear in len(b), which MaxSize bounds.
func Read(b []byte) (*Grammar, error) {
	if len(b) > MaxSize {
		return nil, tooMuch("bytes", MaxSize, len(b))
	}
	r := &reader{all: b, rest: b}
	if !r.header() {
		return nil, r.err
	}
	g := &Grammar{}
	for i, n := 0, r.count("regexes", MaxRegexes); i < n && r.err == nil; i++ {
		g.Regexes = append(g.Regexes, r.regex())
	}
	for i, n := 0, r.count("exprs", MaxExprs); i < n && r.err == nil; i++ {
		g.Exprs = append(g.Exprs, r.expr())
	}
	for i, n := 0, r.count("rules", MaxRules); i < n && r.err == nil; i++ {
		g.Rules = append(g.Rules, Definition{Name: string(r.text("name", MaxName)), Body: r.number()})
	}
	g.Start = r.number()
	if len(r.rest) > 0 {
		r.fail("%d bytes are left over behind the grammar", len(r.rest))
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := g.Check(); err != nil {
		return nil, err
	}
	return g, nil
}

// reader reads until the first error, then returns zeros.
type reader struct {
	all, rest []byte
	version   byte
	args      int
	err       error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: byte %d: "+format, append([]any{ErrFormat, len(r.all) - len(r.rest)}, args...)...)
	}
	r.rest = nil
}

func (r *reader) header() bool {
	if len(r.rest) <= len(Magic) || string(r.rest[:len(Magic)]) != Magic {
		r.fail("want %q and the version", Magic)
		return false
	}
	if r.version = r.rest[len(Magic)]; r.version != Version && r.version != Version2 {
		r.err = fmt.Errorf("%w: want %d or %d, got %d", ErrVersion, Version, Version2, r.version)
		return false
	}
	r.rest = r.rest[len(Magic)+1:]
	return true
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.fail("the grammar ends within a node")
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) number() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > math.MaxUint32 {
		r.fail("want a number below 2^32 as a base-128 varint")
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// count reads the length of a list. Each element takes at least one byte, so a false length allocates nothing.
func (r *reader) count(what string, most int) int {
	n := r.number()
	switch {
	case r.err != nil:
		return 0
	case int64(n) > int64(most):
		r.err, r.rest = tooMuch(what, most, int(n)), nil
		return 0
	case int64(n) > int64(len(r.rest)):
		r.fail("%d %s announced, %d bytes are left", n, what, len(r.rest))
		return 0
	}
	return int(n)
}

func (r *reader) text(what string, most int) []byte {
	n := r.count("bytes of a "+what, most)
	t := slices.Clone(r.rest[:n])
	r.rest = r.rest[n:]
	return t
}

// members reads the length of a list inside a node and adds it to the total.
func (r *reader) members() int {
	n := r.count("members", MaxArgs)
	if r.args += n; r.args > MaxArgs {
		r.err, r.rest = tooMuch("members of all lists", MaxArgs, r.args), nil
		return 0
	}
	return n
}

func (r *reader) list() []uint32 {
	args := make([]uint32, r.members())
	for i := range args {
		args[i] = r.number()
	}
	return args
}

func (r *reader) ranges() []Range {
	rs := make([]Range, r.members())
	for i := range rs {
		rs[i] = Range{Lo: r.number(), Hi: r.number()}
	}
	return rs
}

func (r *reader) repeat() (args []uint32, least, most uint32) {
	return []uint32{r.number()}, r.number(), r.number() - 1
}

func (r *reader) regex() Regex {
	x := Regex{Op: Op(r.byte())}
	switch x.Op {
	case Bytes, Chars:
		x.Ranges = r.ranges()
	case Literal:
		x.Text = r.text("literal", MaxLiteral)
	case Literals:
		for n := r.members(); n > 0 && r.err == nil; n-- {
			x.Texts = append(x.Texts, r.text("literal", MaxLiteral))
		}
	case Repeat:
		x.Args, x.Min, x.Max = r.repeat()
	case Not:
		x.Args = []uint32{r.number()}
	case Concat, Union, And:
		x.Args = r.list()
	default:
		r.fail("op of a regular expression is at most %d, got %d", opEnd-1, x.Op)
	}
	return x
}

func (r *reader) expr() Expr {
	x := Expr{Kind: Kind(r.byte())}
	switch x.Kind {
	case Terminal:
		x.Ref, x.Name = r.number(), string(r.text("name", MaxName))
	case Rule:
		x.Ref = r.number()
	case Seq, Choice:
		x.Args = r.list()
	case Times:
		x.Args, x.Min, x.Max = r.repeat()
	case Token:
		except := r.byte()
		if except > 1 {
			r.fail("except is 0 or 1, got %d", except)
		}
		x.Except, x.Ranges = except == 1, r.ranges()
	case TokenText:
		x.Name = string(r.text("name", MaxName))
	case Unordered:
		r.unordered(&x)
	default:
		r.fail("kind of an expression is at most %d, got %d", kindEnd-1, x.Kind)
	}
	return x
}

func (r *reader) unordered(x *Expr) {
	if r.version < Version2 {
		r.fail("kind %d of an expression takes version %d, the grammar is of version %d", x.Kind, Version2, r.version)
		return
	}
	x.Args = r.list()
	for range max(len(x.Args), 1) - 1 {
		x.Marks = append(x.Marks, Mark(r.byte()))
	}
	x.Min, x.Max = r.number(), r.number()-1
}
