package ir

import (
	"encoding/binary"
	"slices"
)

// Append appends the encoded g to b. It checks nothing: see [Grammar.Check].
func (g *Grammar) Append(b []byte) []byte {
	b = append(append(b, Magic...), g.version())
	b = number(b, len(g.Regexes))
	for i := range g.Regexes {
		b = g.Regexes[i].append(b)
	}
	b = number(b, len(g.Exprs))
	for i := range g.Exprs {
		b = g.Exprs[i].append(b)
	}
	b = number(b, len(g.Rules))
	for _, r := range g.Rules {
		b = number(text(b, r.Name), r.Body)
	}
	return number(b, g.Start)
}

// version is the lowest version that supports everything in g.
func (g *Grammar) version() byte {
	if slices.ContainsFunc(g.Exprs, func(x Expr) bool { return x.Kind == Unordered }) {
		return Version2
	}
	return Version
}

func (x *Regex) append(b []byte) []byte {
	b = append(b, byte(x.Op))
	switch x.Op {
	case Bytes, Chars:
		return ranges(b, x.Ranges)
	case Literal:
		return text(b, x.Text)
	case Literals:
		b = number(b, len(x.Texts))
		for _, t := range x.Texts {
			b = text(b, t)
		}
		return b
	case Repeat:
		return repeat(b, x.Args[0], x.Min, x.Max)
	case Not:
		return number(b, x.Args[0])
	default:
		return list(b, x.Args)
	}
}

func (x *Expr) append(b []byte) []byte {
	b = append(b, byte(x.Kind))
	switch x.Kind {
	case Terminal:
		return text(number(b, x.Ref), x.Name)
	case Rule:
		return number(b, x.Ref)
	case Times:
		return repeat(b, x.Args[0], x.Min, x.Max)
	case Unordered:
		b = list(b, x.Args)
		for _, m := range x.Marks {
			b = append(b, byte(m))
		}
		return number(number(b, x.Min), x.Max+1)
	case Token:
		if x.Except {
			return ranges(append(b, 1), x.Ranges)
		}
		return ranges(append(b, 0), x.Ranges)
	case TokenText:
		return text(b, x.Name)
	default:
		return list(b, x.Args)
	}
}

func number[N int | uint32](b []byte, n N) []byte { return binary.AppendUvarint(b, uint64(n)) }

func text[T string | []byte](b []byte, t T) []byte { return append(number(b, len(t)), t...) }

func list(b []byte, args []uint32) []byte {
	b = number(b, len(args))
	for _, a := range args {
		b = number(b, a)
	}
	return b
}

func ranges(b []byte, rs []Range) []byte {
	b = number(b, len(rs))
	for _, r := range rs {
		b = number(number(b, r.Lo), r.Hi)
	}
	return b
}

// repeat writes the upper bound plus one; 0 means unbounded.
func repeat(b []byte, arg, least, most uint32) []byte {
	return number(number(number(b, arg), least), most+1)
}
