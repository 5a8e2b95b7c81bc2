package value

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tgi/plugins/std/jinja/chars"
)

// Writer writes values as Python's str and repr do.
type Writer struct {
	Buffer
	Thread *Thread
	Depth  int
}

// Repr is repr(v) for error texts and keys, cut where it grows long.
func Repr(v Value) string {
	w := &Writer{Thread: &Thread{maxSteps: 10_000, maxMemory: 64 << 10}}
	if err := w.Repr(v); err != nil {
		return "..."
	}
	return string(w.Bytes)
}

// Str writes str(v).
func (w *Writer) Str(v Value) error {
	if s, ok := v.(*Str); ok {
		if err := w.Thread.Grow(int64(len(s.s))); err != nil {
			return err
		}
		w.Buffer.Str(s)
		return nil
	}
	if _, ok := v.(*Undefined); ok {
		return nil
	}
	return w.Repr(v)
}

// Repr writes repr(v).
func (w *Writer) Repr(v Value) error {
	switch v := v.(type) {
	case *Str:
		if err := w.Thread.Grow(int64(len(v.s))); err != nil {
			return err
		}
		if v.safe {
			w.Text("Markup(")
		}
		w.Quoted(v)
		if v.safe {
			w.Text(")")
		}
		return nil
	case NoneType:
		w.Text("None")
	case Bool:
		if v {
			w.Text("True")
		} else {
			w.Text("False")
		}
	case Int:
		w.Bytes = strconv.AppendInt(w.Bytes, int64(v), 10)
	case *BigInt:
		return w.bigInt(v)
	case Float:
		w.Text(FloatRepr(float64(v)))
	case *List:
		return w.items("[", v.Items, "]")
	case *Tuple:
		if len(v.Items) == 1 {
			return w.items("(", v.Items, ",)")
		}
		return w.items("(", v.Items, ")")
	case *Dict:
		return w.Dict(v)
	case *DictView:
		w.Text(v.Type() + "(")
		items := make([]Value, v.Dict.Len())
		for i := range items {
			items[i] = v.At(i)
		}
		if err := w.items("[", items, "]"); err != nil {
			return err
		}
		w.Text(")")
	case *Range:
		w.Text(fmt.Sprintf("range(%d, %d", v.Start, v.Stop))
		if v.Step != 1 {
			w.Text(fmt.Sprintf(", %d", v.Step))
		}
		w.Text(")")
	case *Undefined:
		w.Text("Undefined")
	case *Func:
		w.Text(builtinRepr(v))
	case Printable:
		return v.Repr(w)
	default:
		w.Text("<" + v.Type() + " object>")
	}
	return nil
}

// builtinRepr is a function's repr without the address that Python adds.
func builtinRepr(v *Func) string {
	if v.Self != nil {
		return "<built-in method " + v.Name + " of " + ClassName(v.Self) + " object>"
	}
	return "<function " + v.Name + ">"
}

func (w *Writer) bigInt(v *BigInt) error {
	if float64(v.v.BitLen())*math.Log10(2) >= 4300 && len(v.v.String()) > 4300 {
		return ValueError("Exceeds the limit (4300 digits) for integer string conversion; " +
			"use sys.set_int_max_str_digits() to increase the limit")
	}
	w.Text(v.v.String())
	return nil
}

// Nest enters one more level of a value.
func (w *Writer) Nest() error {
	if w.Depth++; w.Depth > MaxDepth {
		return errTooDeep
	}
	return nil
}

func (w *Writer) items(open string, items []Value, end string) error {
	if err := w.Nest(); err != nil {
		return err
	}
	w.Text(open)
	for i, v := range items {
		if i > 0 {
			w.Text(", ")
		}
		if err := w.Thread.Step(); err != nil {
			return err
		}
		if err := w.Repr(v); err != nil {
			return err
		}
	}
	w.Text(end)
	w.Depth--
	return nil
}

// Dict writes repr of a dict.
func (w *Writer) Dict(d *Dict) error {
	if err := w.Nest(); err != nil {
		return err
	}
	w.Text("{")
	for i, e := range d.entries {
		if i > 0 {
			w.Text(", ")
		}
		if err := w.Thread.Step(); err != nil {
			return err
		}
		if err := w.Repr(e.Key); err != nil {
			return err
		}
		w.Text(": ")
		if err := w.Repr(e.Value); err != nil {
			return err
		}
	}
	w.Text("}")
	w.Depth--
	return nil
}

// Quoted writes a string literal as repr does.
func (w *Writer) Quoted(s *Str) {
	quote := chars.QuoteMark(s.s)
	w.Bytes = append(w.Bytes, quote)
	s.Runs(func(part string, data bool) {
		lo := len(w.Bytes)
		w.Bytes = chars.AppendQuoted(w.Bytes, part, quote)
		if data && len(w.Bytes) > lo {
			w.Mark(lo, len(w.Bytes))
		}
	})
	w.Bytes = append(w.Bytes, quote)
}

// FloatRepr is Python's repr of a float: the shortest text that reads back as
// the same number.
func FloatRepr(f float64) string {
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

// Str is Python's str(v), charged.
func (th *Thread) Str(v Value) (*Str, error) {
	if s, ok := v.(*Str); ok {
		return s, nil
	}
	w := &Writer{Thread: th}
	if err := w.Str(v); err != nil {
		return nil, err
	}
	return w.Done(), nil
}
