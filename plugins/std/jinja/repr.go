package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// textWriter writes values as Python's str and repr do.
type textWriter struct {
	sbuf
	st    *state
	depth int
}

// reprText is repr(v) for error texts and keys, cut where it grows long.
func reprText(v Value) string {
	w := &textWriter{st: &state{limits: Limits{Steps: 10_000, Memory: 64 << 10}.filled()}}
	if err := w.repr(v); err != nil {
		return "..."
	}
	return string(w.b)
}

// str writes str(v).
func (w *textWriter) str(v Value) error {
	if s, ok := v.(*Str); ok {
		if err := w.st.grow(int64(len(s.s))); err != nil {
			return err
		}
		w.sbuf.str(s)
		return nil
	}
	if _, ok := v.(*Undefined); ok {
		return nil
	}
	return w.repr(v)
}

// repr writes repr(v).
func (w *textWriter) repr(v Value) error {
	switch v := v.(type) {
	case *Str:
		if err := w.st.grow(int64(len(v.s))); err != nil {
			return err
		}
		if v.safe {
			w.text("Markup(")
		}
		w.quoted(v)
		if v.safe {
			w.text(")")
		}
		return nil
	case noneType:
		w.text("None")
	case Bool:
		if v {
			w.text("True")
		} else {
			w.text("False")
		}
	case Int:
		w.b = strconv.AppendInt(w.b, int64(v), 10)
	case *bigInt:
		return w.bigInt(v)
	case Float:
		w.text(floatRepr(float64(v)))
	case *List:
		return w.items("[", v.items, "]")
	case *Tuple:
		if len(v.items) == 1 {
			return w.items("(", v.items, ",)")
		}
		return w.items("(", v.items, ")")
	case *Dict:
		return w.dict(v)
	case *dictView:
		w.text(v.pyType() + "(")
		items := make([]Value, v.d.len())
		for i := range items {
			items[i] = v.at(i)
		}
		if err := w.items("[", items, "]"); err != nil {
			return err
		}
		w.text(")")
	case *rangeObj:
		w.text(fmt.Sprintf("range(%d, %d", v.start, v.stop))
		if v.step != 1 {
			w.text(fmt.Sprintf(", %d", v.step))
		}
		w.text(")")
	case *Namespace:
		w.text("<Namespace ")
		if err := w.dict(v.attrs); err != nil {
			return err
		}
		w.text(">")
	case *Undefined:
		w.text("Undefined")
	case *Macro:
		w.text(v.repr())
	case *selfObj:
		w.text("<TemplateReference None>")
	case *loopContext:
		n, err := v.length(w.st)
		if err != nil {
			return err
		}
		w.text(fmt.Sprintf("<LoopContext %d/%d>", v.index0+1, n))
	case *builtin:
		w.text(builtinRepr(v))
	default:
		w.text("<" + v.pyType() + " object>")
	}
	return nil
}

// builtinRepr is a function's repr without the address that Python adds.
func builtinRepr(v *builtin) string {
	if v.self != nil {
		return "<built-in method " + v.name + " of " + className(v.self) + " object>"
	}
	return "<function " + v.name + ">"
}

func (w *textWriter) bigInt(v *bigInt) error {
	if float64(v.v.BitLen())*math.Log10(2) >= 4300 && len(v.v.String()) > 4300 {
		return valueError("Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() to increase the limit")
	}
	w.text(v.v.String())
	return nil
}

func (w *textWriter) nest() error {
	if w.depth++; w.depth > maxDepth {
		return errTooDeep
	}
	return nil
}

func (w *textWriter) items(open string, items []Value, end string) error {
	if err := w.nest(); err != nil {
		return err
	}
	w.text(open)
	for i, v := range items {
		if i > 0 {
			w.text(", ")
		}
		if err := w.st.step(); err != nil {
			return err
		}
		if err := w.repr(v); err != nil {
			return err
		}
	}
	w.text(end)
	w.depth--
	return nil
}

func (w *textWriter) dict(d *Dict) error {
	if err := w.nest(); err != nil {
		return err
	}
	w.text("{")
	for i, e := range d.entries {
		if i > 0 {
			w.text(", ")
		}
		if err := w.st.step(); err != nil {
			return err
		}
		if err := w.repr(e.key); err != nil {
			return err
		}
		w.text(": ")
		if err := w.repr(e.val); err != nil {
			return err
		}
	}
	w.text("}")
	w.depth--
	return nil
}

// quoted writes a string literal as repr does.
func (w *textWriter) quoted(s *Str) {
	quote := byte('\'')
	if strings.IndexByte(s.s, '\'') >= 0 && strings.IndexByte(s.s, '"') < 0 {
		quote = '"'
	}
	w.b = append(w.b, quote)
	s.runs(func(part string, data bool) {
		lo := len(w.b)
		w.b = appendQuoted(w.b, part, quote)
		if data && len(w.b) > lo {
			w.mark(lo, len(w.b))
		}
	})
	w.b = append(w.b, quote)
}

func appendQuoted(b []byte, s string, quote byte) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\' || r == rune(quote):
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case isPrintable(r):
			b = append(b, s[i:i+n]...)
		default:
			b = append(b, escapedRune(r)...)
		}
		i += n
	}
	return b
}

// floatRepr is Python's repr of a float: the shortest text that reads back as
// the same number.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		s := strconv.FormatFloat(f, 'e', -1, 64)
		return s
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}
