package pylib

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/value"
)

// jsonWriter writes values as Python's json.dumps does.
type jsonWriter struct {
	value.Writer
	ascii  bool
	sort   bool
	pretty bool
	indent *value.Str
	comma  *value.Str
	colon  *value.Str
	level  int
}

// ToJSON writes v as the filter tojson does without arguments.
func ToJSON(th *value.Thread, v value.Value) (*value.Str, error) {
	w := newJSONWriter(th)
	if err := w.value(v); err != nil {
		return nil, err
	}
	return w.Done(), nil
}

func newJSONWriter(th *value.Thread) *jsonWriter {
	return &jsonWriter{Writer: value.Writer{Thread: th}, comma: value.Text(", "), colon: value.Text(": ")}
}

// filterToJSON is the tojson of transformers: json.dumps without HTML escapes.
func filterToJSON(th *value.Thread, a []value.Value) (value.Value, error) {
	w := newJSONWriter(th)
	var err error
	if a[1] != nil {
		if w.ascii, err = th.Truth(a[1]); err != nil {
			return nil, err
		}
	}
	if a[4] != nil {
		if w.sort, err = th.Truth(a[4]); err != nil {
			return nil, err
		}
	}
	if err := w.setIndent(a[2]); err != nil {
		return nil, err
	}
	if a[3] != nil && a[3] != value.None {
		if err := w.setSeparators(a[3]); err != nil {
			return nil, err
		}
	}
	if err := w.value(a[0]); err != nil {
		return nil, err
	}
	return w.Done(), nil
}

func (w *jsonWriter) setIndent(v value.Value) error {
	if v == nil || v == value.None {
		return nil
	}
	w.pretty = true
	w.comma = value.Text(",")
	if s, ok := v.(*value.Str); ok {
		w.indent = s
		return nil
	}
	n, ok := value.AsInt64(v)
	if !ok {
		return value.TypeError("can't multiply sequence by non-int of type '%s'", value.ClassName(v))
	}
	if n > 1<<16 {
		return w.Thread.Grow(-1)
	}
	w.indent = value.Text(strings.Repeat(" ", int(max(n, 0))))
	return nil
}

func (w *jsonWriter) setSeparators(v value.Value) error {
	parts, err := w.Thread.Unpack(v, 2)
	if err != nil {
		return err
	}
	for i, p := range parts {
		s, ok := p.(*value.Str)
		if !ok {
			return value.TypeError("can only concatenate str (not \"%s\") to str", value.ClassName(p))
		}
		if i == 0 {
			w.comma = s
		} else {
			w.colon = s
		}
	}
	return nil
}

func (w *jsonWriter) value(v value.Value) error {
	if err := w.Thread.Step(); err != nil {
		return err
	}
	switch v := v.(type) {
	case *value.Str:
		return w.jsonString(v)
	case value.NoneType:
		w.Text("null")
	case value.Bool:
		if v {
			w.Text("true")
		} else {
			w.Text("false")
		}
	case value.Int:
		return w.Repr(v)
	case *value.BigInt:
		return w.Repr(v)
	case value.Float:
		w.Text(jsonFloat(float64(v)))
	case *value.List:
		return w.array(v.Items)
	case *value.Tuple:
		return w.array(v.Items)
	case *value.Dict:
		return w.object(v)
	default:
		return value.TypeError("Object of type %s is not JSON serializable", v.Type())
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
	return value.FloatRepr(f)
}

// newline starts a line at the current level.
func (w *jsonWriter) newline() error {
	if !w.pretty {
		return nil
	}
	if err := w.Thread.GrowTimes(int64(len(w.indent.String()))+1, int64(w.level)+1); err != nil {
		return err
	}
	w.Text("\n")
	for range w.level {
		w.Buffer.Str(w.indent)
	}
	return nil
}

// container writes n items between brackets.
func (w *jsonWriter) container(open, end string, n int, item func(i int) error) error {
	if n == 0 {
		w.Text(open + end)
		return nil
	}
	if err := w.Nest(); err != nil {
		return err
	}
	w.Text(open)
	w.level++
	for i := range n {
		if i > 0 {
			w.Buffer.Str(w.comma)
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
	w.Text(end)
	w.Depth--
	return nil
}

func (w *jsonWriter) array(items []value.Value) error {
	return w.container("[", "]", len(items), func(i int) error { return w.value(items[i]) })
}

func (w *jsonWriter) object(d *value.Dict) error {
	entries := d.Entries()
	if w.sort {
		var err error
		if entries, err = w.sorted(entries); err != nil {
			return err
		}
	}
	return w.container("{", "}", len(entries), func(i int) error {
		if err := w.key(entries[i].Key); err != nil {
			return err
		}
		w.Buffer.Str(w.colon)
		return w.value(entries[i].Value)
	})
}

func (w *jsonWriter) sorted(entries []value.Entry) ([]value.Entry, error) {
	out := slices.Clone(entries)
	var failed error
	slices.SortStableFunc(out, func(a, b value.Entry) int {
		less, err := w.Thread.Order(value.Lt, a.Key, b.Key, 0)
		if err != nil && failed == nil {
			failed = err
		}
		if less {
			return -1
		}
		more, _ := w.Thread.Order(value.Lt, b.Key, a.Key, 0)
		if more {
			return 1
		}
		return 0
	})
	return out, failed
}

func (w *jsonWriter) key(k value.Value) error {
	switch k := k.(type) {
	case *value.Str:
		return w.jsonString(k)
	case value.NoneType, value.Bool, value.Int, *value.BigInt, value.Float:
		w.Text(`"`)
		if err := w.value(k); err != nil {
			return err
		}
		w.Text(`"`)
		return nil
	}
	return value.TypeError("keys must be str, int, float, bool or None, not %s", value.ClassName(k))
}

func (w *jsonWriter) jsonString(s *value.Str) error {
	if err := w.Thread.Grow(int64(len(s.String()))); err != nil {
		return err
	}
	if err := w.Thread.Read(s, false); err != nil {
		return err
	}
	w.Text(`"`)
	if s.From() != value.FromBoth {
		w.jsonRun(s.String(), s.From() == value.FromData)
	} else {
		s.Runs(w.jsonRun)
	}
	w.Text(`"`)
	return nil
}

// jsonRun writes a run of bytes of one origin.
func (w *jsonWriter) jsonRun(part string, data bool) {
	lo := len(w.Bytes)
	w.Bytes = appendJSON(w.Bytes, part, w.ascii)
	if data && len(w.Bytes) > lo {
		w.Mark(lo, len(w.Bytes))
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

// plainLen is the number of bytes at the start that JSON never escapes. The function
// is small because the cost of a loop in a guest grows with its function's size.
func plainLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}
