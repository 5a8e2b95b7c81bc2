package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonWriter writes values as Python's json.dumps does.
type jsonWriter struct {
	textWriter
	ascii  bool
	sort   bool
	pretty bool
	indent *Str
	comma  *Str
	colon  *Str
	level  int
}

// filterToJSON is the tojson of transformers: json.dumps without HTML escapes.
func filterToJSON(st *state, a []Value) (Value, error) {
	w := &jsonWriter{textWriter: textWriter{st: st}, comma: text(", "), colon: text(": ")}
	var err error
	if a[1] != nil {
		if w.ascii, err = truth(st, a[1]); err != nil {
			return nil, err
		}
	}
	if a[4] != nil {
		if w.sort, err = truth(st, a[4]); err != nil {
			return nil, err
		}
	}
	if err := w.setIndent(a[2]); err != nil {
		return nil, err
	}
	if a[3] != nil && a[3] != none {
		if err := w.setSeparators(a[3]); err != nil {
			return nil, err
		}
	}
	if err := w.value(a[0]); err != nil {
		return nil, err
	}
	return w.done(), nil
}

func (w *jsonWriter) setIndent(v Value) error {
	if v == nil || v == none {
		return nil
	}
	w.pretty = true
	w.comma = text(",")
	if s, ok := v.(*Str); ok {
		w.indent = s
		return nil
	}
	n, ok := smallInt(v)
	if !ok {
		return typeError("can't multiply sequence by non-int of type '%s'", className(v))
	}
	if n > 1<<16 {
		return w.st.grow(-1)
	}
	w.indent = text(strings.Repeat(" ", int(max(n, 0))))
	return nil
}

func (w *jsonWriter) setSeparators(v Value) error {
	parts, err := w.st.unpack(v, 2)
	if err != nil {
		return err
	}
	for i, p := range parts {
		s, ok := p.(*Str)
		if !ok {
			return typeError("can only concatenate str (not \"%s\") to str", className(p))
		}
		if i == 0 {
			w.comma = s
		} else {
			w.colon = s
		}
	}
	return nil
}

func (w *jsonWriter) value(v Value) error {
	if err := w.st.step(); err != nil {
		return err
	}
	switch v := v.(type) {
	case *Str:
		return w.jsonString(v)
	case noneType:
		w.text("null")
	case Bool:
		if v {
			w.text("true")
		} else {
			w.text("false")
		}
	case Int:
		return w.repr(v)
	case *bigInt:
		return w.repr(v)
	case Float:
		w.text(jsonFloat(float64(v)))
	case *List:
		return w.array(v.items)
	case *Tuple:
		return w.array(v.items)
	case *Dict:
		return w.object(v)
	default:
		return typeError("Object of type %s is not JSON serializable", v.pyType())
	}
	return nil
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatRepr(f)
}

// newline starts a line at the current level.
func (w *jsonWriter) newline() error {
	if !w.pretty {
		return nil
	}
	if err := w.st.growTimes(int64(len(w.indent.s))+1, int64(w.level)+1); err != nil {
		return err
	}
	w.text("\n")
	for range w.level {
		w.sbuf.str(w.indent)
	}
	return nil
}

// container writes n items between brackets.
func (w *jsonWriter) container(open, end string, n int, item func(i int) error) error {
	if n == 0 {
		w.text(open + end)
		return nil
	}
	if err := w.nest(); err != nil {
		return err
	}
	w.text(open)
	w.level++
	for i := range n {
		if i > 0 {
			w.sbuf.str(w.comma)
		}
		if err := w.newline(); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	w.level--
	if err := w.newline(); err != nil {
		return err
	}
	w.text(end)
	w.depth--
	return nil
}

func (w *jsonWriter) array(items []Value) error {
	return w.container("[", "]", len(items), func(i int) error { return w.value(items[i]) })
}

func (w *jsonWriter) object(d *Dict) error {
	entries := d.entries
	if w.sort {
		var err error
		if entries, err = w.sorted(entries); err != nil {
			return err
		}
	}
	return w.container("{", "}", len(entries), func(i int) error {
		if err := w.key(entries[i].key); err != nil {
			return err
		}
		w.sbuf.str(w.colon)
		return w.value(entries[i].val)
	})
}

func (w *jsonWriter) sorted(entries []entry) ([]entry, error) {
	out := slices.Clone(entries)
	var failed error
	slices.SortStableFunc(out, func(a, b entry) int {
		less, err := w.st.order(cmpLt, a.key, b.key, 0)
		if err != nil && failed == nil {
			failed = err
		}
		if less {
			return -1
		}
		more, _ := w.st.order(cmpLt, b.key, a.key, 0)
		if more {
			return 1
		}
		return 0
	})
	return out, failed
}

func (w *jsonWriter) key(k Value) error {
	switch k := k.(type) {
	case *Str:
		return w.jsonString(k)
	case noneType, Bool, Int, *bigInt, Float:
		w.text(`"`)
		if err := w.value(k); err != nil {
			return err
		}
		w.text(`"`)
		return nil
	}
	return typeError("keys must be str, int, float, bool or None, not %s", className(k))
}

func (w *jsonWriter) jsonString(s *Str) error {
	if err := w.st.grow(int64(len(s.s))); err != nil {
		return err
	}
	if err := w.st.read(s, false); err != nil {
		return err
	}
	w.text(`"`)
	if s.from != fromBoth {
		w.jsonRun(s.s, s.from == fromData)
	} else {
		s.runs(w.jsonRun)
	}
	w.text(`"`)
	return nil
}

// jsonRun writes a stretch of one origin.
func (w *jsonWriter) jsonRun(part string, data bool) {
	lo := len(w.b)
	w.b = appendJSON(w.b, part, w.ascii)
	if data && len(w.b) > lo {
		w.mark(lo, len(w.b))
	}
}

// appendJSON writes a string's characters as json.dumps does.
func appendJSON(b []byte, s string, ascii bool) []byte {
	start := 0
	for i := 0; i < len(s); {
		if n := plainLen(s[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r >= 0x7f && !ascii {
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		i += n
		start = i
		if k := strings.IndexRune("\"\\\b\f\n\r\t", r); k >= 0 {
			b = append(b, '\\', `"\bfnrt`[k])
		} else if r >= 0x10000 {
			r -= 0x10000
			b = append(b, fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))...)
		} else {
			b = append(b, fmt.Sprintf(`\u%04x`, r)...)
		}
	}
	return append(b, s[start:]...)
}

// plainLen is how many bytes at the start stand for themselves in any JSON. It
// is small because a loop in a guest costs as much as its function is long.
func plainLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}
