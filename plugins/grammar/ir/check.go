package ir

import (
	"fmt"
	"unicode/utf8"
)

// Check enforces the format's rules and limits on g; what [Read] returns has passed it. Errors wrap ErrFormat or
// ErrLimit and name the node, the field, the bound and the value.
func (g *Grammar) Check() error {
	for _, c := range []struct {
		what     string
		have, of int
	}{{"regexes", len(g.Regexes), MaxRegexes}, {"exprs", len(g.Exprs), MaxExprs}, {"rules", len(g.Rules), MaxRules}} {
		if c.have > c.of {
			return tooMuch(c.what, c.of, c.have)
		}
	}
	k := checker{g: g}
	if err := k.regexes(); err != nil {
		return err
	}
	if err := k.exprs(); err != nil {
		return err
	}
	for i, r := range g.Rules {
		if err := name(r.Name); err != nil {
			return fmt.Errorf("rules[%d].name: %w", i, err)
		}
		if int64(r.Body) >= int64(len(g.Exprs)) {
			return fmt.Errorf("rules[%d].body: %w", i, outside(r.Body, len(g.Exprs), "expression"))
		}
	}
	if int64(g.Start) >= int64(len(g.Rules)) {
		return fmt.Errorf("start: %w", outside(g.Start, len(g.Rules), "rule"))
	}
	return nil
}

type checker struct {
	g    *Grammar
	args int
	size []int // of regular expressions, as trees
}

func (k *checker) regexes() error {
	depth := make([]uint16, len(k.g.Regexes))
	k.size = make([]int, len(k.g.Regexes))
	for i := range k.g.Regexes {
		x := &k.g.Regexes[i]
		err := k.regex(x)
		if err == nil {
			depth[i], err = k.children(x.Args, i, depth)
		}
		if err == nil {
			k.size[i], err = k.unfolded(x.Args)
		}
		if err != nil {
			return fmt.Errorf("regexes[%d]: %w", i, err)
		}
	}
	return nil
}

// unfolded is the number of nodes of a node with these members, expanded to a tree.
func (k *checker) unfolded(args []uint32) (int, error) {
	n := 1
	for _, a := range args {
		if n += k.size[a]; n > MaxUnfolded {
			return 0, tooMuch("nodes, each counted as often as it is mentioned", MaxUnfolded, n)
		}
	}
	return n, nil
}

func (k *checker) regex(x *Regex) error {
	switch x.Op {
	case Bytes:
		return k.ranges(x.Ranges, 255)
	case Chars:
		return k.ranges(x.Ranges, MaxRune)
	case Literal:
		return literal(x.Text)
	case Literals:
		for j, t := range x.Texts {
			if err := literal(t); err != nil {
				return fmt.Errorf("texts[%d]: %w", j, err)
			}
		}
		return k.more(len(x.Texts))
	case Repeat:
		return times(x.Args, x.Min, x.Max)
	case And:
		if len(x.Args) == 0 {
			return fmt.Errorf("%w: an intersection has at least 1 member, this has 0", ErrFormat)
		}
	case Not:
		if len(x.Args) != 1 {
			return fmt.Errorf("%w: a complement has 1 member, this has %d", ErrFormat, len(x.Args))
		}
	case Concat, Union:
	default:
		return fmt.Errorf("%w: op is at most %d, got %d", ErrFormat, opEnd-1, x.Op)
	}
	return nil
}

func (k *checker) exprs() error {
	depth := make([]uint16, len(k.g.Exprs))
	for i := range k.g.Exprs {
		x := &k.g.Exprs[i]
		err := k.expr(x)
		if err == nil {
			depth[i], err = k.children(x.Args, i, depth)
		}
		if err != nil {
			return fmt.Errorf("exprs[%d]: %w", i, err)
		}
	}
	return nil
}

func (k *checker) expr(x *Expr) error {
	switch x.Kind {
	case Terminal:
		if int64(x.Ref) >= int64(len(k.g.Regexes)) {
			return fmt.Errorf("ref: %w", outside(x.Ref, len(k.g.Regexes), "regular expression"))
		}
		return name(x.Name)
	case Rule:
		if int64(x.Ref) >= int64(len(k.g.Rules)) {
			return fmt.Errorf("ref: %w", outside(x.Ref, len(k.g.Rules), "rule"))
		}
	case Seq, Choice:
	case Times:
		return times(x.Args, x.Min, x.Max)
	case Unordered:
		return unordered(x)
	case Token:
		return k.ranges(x.Ranges, MaxCount)
	case TokenText:
		if x.Name == "" {
			return fmt.Errorf("%w: the text of a token is empty", ErrFormat)
		}
		return name(x.Name)
	default:
		return fmt.Errorf("%w: kind is at most %d, got %d", ErrFormat, kindEnd-1, x.Kind)
	}
	return nil
}

// children checks the members of node i and gives its depth.
func (k *checker) children(args []uint32, i int, depth []uint16) (uint16, error) {
	deep := uint16(0)
	for j, a := range args {
		if int64(a) >= int64(i) {
			return 0, fmt.Errorf("args[%d]: %w: a member is below its node's index %d, got %d", j, ErrFormat, i, a)
		}
		deep = max(deep, depth[a])
	}
	if deep >= MaxDepth {
		return 0, tooMuch("depth", MaxDepth, int(deep)+1)
	}
	return deep + 1, k.more(len(args))
}

func (k *checker) ranges(rs []Range, most uint32) error {
	for j, r := range rs {
		if r.Lo > r.Hi || r.Hi > most {
			return fmt.Errorf("ranges[%d]: %w: want lo <= hi <= %d, got %d and %d", j, ErrFormat, most, r.Lo, r.Hi)
		}
	}
	return k.more(len(rs))
}

func (k *checker) more(n int) error {
	if k.args += n; k.args > MaxArgs {
		return tooMuch("members of all lists", MaxArgs, k.args)
	}
	return nil
}

func times(args []uint32, least, most uint32) error {
	switch {
	case len(args) != 1:
		return fmt.Errorf("%w: a repeat has 1 member, this has %d", ErrFormat, len(args))
	case least > MaxCount:
		return tooMuch("min", MaxCount, int(least))
	case most == Unbounded:
		return nil
	case most > MaxCount:
		return tooMuch("max", MaxCount, int(most))
	case least > most:
		return fmt.Errorf("%w: min is at most max, got %d and %d", ErrFormat, least, most)
	}
	return nil
}

func unordered(x *Expr) error {
	n := len(x.Args) - 1
	switch {
	case n < 0:
		return fmt.Errorf("%w: the separator of an unordered list is missing", ErrFormat)
	case n > MaxMembers:
		return tooMuch("members of an unordered list", MaxMembers, n)
	case len(x.Marks) != n:
		return fmt.Errorf("%w: an unordered list has a mark for each of its %d members, this has %d", ErrFormat, n,
			len(x.Marks))
	}
	required := 0
	for i, m := range x.Marks {
		if m >= markEnd {
			return fmt.Errorf("marks[%d]: %w: a mark is at most %d, got %d", i, ErrFormat, markEnd-1, m)
		}
		if m&Required != 0 {
			required++
		}
	}
	if err := times(x.Args[:1], x.Min, x.Max); err != nil {
		return err
	}
	if int64(required) > int64(x.Max) || int64(x.Min) > int64(n) {
		return fmt.Errorf("%w: an unordered list of %d members, %d of them required, cannot have %d to %d of them",
			ErrFormat, n, required, x.Min, x.Max)
	}
	return nil
}

func literal(t []byte) error {
	if len(t) > MaxLiteral {
		return tooMuch("bytes of a literal", MaxLiteral, len(t))
	}
	return nil
}

func name(s string) error {
	if len(s) > MaxName {
		return tooMuch("bytes of a name", MaxName, len(s))
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: the name %q is not UTF-8", ErrFormat, s)
	}
	return nil
}

func tooMuch(what string, bound, value int) error {
	return fmt.Errorf("%w: %s: at most %d, got %d", ErrLimit, what, bound, value)
}

func outside(index uint32, n int, what string) error {
	return fmt.Errorf("%w: there are %d of kind %s, got index %d", ErrFormat, n, what, index)
}
