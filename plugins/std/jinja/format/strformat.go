package format

import (
	"strconv"
	"strings"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// Lookup returns the attributes and items that replacement fields name.
type Lookup struct {
	Attr func(th *value.Thread, v value.Value, name *value.Str) (value.Value, error)
	Item func(th *value.Thread, v, key value.Value) (value.Value, error)
}

// Fields is str.format: it fills the replacement fields of s from a.
func Fields(th *value.Thread, s *value.Str, a value.Args, look Lookup) (*value.Str, error) {
	f := &formatter{th: th, a: a, look: look}
	out, err := f.format(s, 2)
	if err != nil {
		return nil, err
	}
	return out, th.Grow(int64(len(out.String())))
}

// formatter is string.Formatter.
type formatter struct {
	th   *value.Thread
	a    value.Args
	look Lookup
	auto int
	mode byte // 'a' automatic numbering, 'm' manual
}

func (f *formatter) format(s *value.Str, depth int) (*value.Str, error) {
	if depth < 0 {
		return nil, value.ValueError("Max string recursion exceeded")
	}
	var w value.Buffer
	for i := 0; i < len(s.String()); {
		c := s.String()[i]
		if c != '{' && c != '}' {
			n := strings.IndexAny(s.String()[i:], "{}")
			if n < 0 {
				n = len(s.String()) - i
			}
			w.Sub(s, i, i+n)
			i += n
			continue
		}
		if i+1 < len(s.String()) && s.String()[i+1] == c {
			w.Sub(s, i, i+1)
			i += 2
			continue
		}
		if c == '}' {
			return nil, value.ValueError("Single '}' encountered in format string")
		}
		end := fieldEnd(s.String(), i+1)
		if end < 0 {
			if i+1 == len(s.String()) {
				return nil, value.ValueError("Single '{' encountered in format string")
			}
			return nil, value.ValueError("expected '}' before end of string")
		}
		out, err := f.field(s, i+1, end, depth)
		if err != nil {
			return nil, err
		}
		w.Str(out)
		i = end + 1
	}
	return w.Done(), nil
}

// fieldEnd finds the brace that closes a field.
func fieldEnd(s string, i int) int {
	open, bracket := 1, false
	for ; i < len(s); i++ {
		switch s[i] {
		case '[':
			bracket = open == 1 && !bracket || bracket
		case ']':
			bracket = false
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

func (f *formatter) field(s *value.Str, lo, hi int, depth int) (*value.Str, error) {
	body := s.String()[lo:hi]
	name, conv, spec := body, byte(0), value.Empty
	inBracket := false
scan:
	for i := range len(body) {
		switch c := body[i]; {
		case c == '[':
			inBracket = true
		case c == ']':
			inBracket = false
		case c == '{' && !inBracket:
			return nil, value.ValueError("unexpected '{' in field name")
		case c == ':' && !inBracket:
			name, spec = body[:i], s.Sub(lo+i+1, hi)
			break scan
		case c == '!' && !inBracket:
			name = body[:i]
			if i+1 >= len(body) {
				return nil, value.ValueError("end of string while looking for conversion specifier")
			}
			conv = body[i+1]
			if i+2 < len(body) {
				if body[i+2] != ':' {
					return nil, value.ValueError("expected ':' after conversion specifier")
				}
				spec = s.Sub(lo+i+3, hi)
			}
			break scan
		}
	}
	v, err := f.value(name)
	if err != nil {
		return nil, err
	}
	if v, err = f.convert(v, conv); err != nil {
		return nil, err
	}
	if strings.ContainsAny(spec.String(), "{}") {
		if spec, err = f.format(spec, depth-1); err != nil {
			return nil, err
		}
	}
	return formatValue(f.th, v, spec.String())
}

func (f *formatter) convert(v value.Value, conv byte) (value.Value, error) {
	w := &value.Writer{Thread: f.th}
	switch conv {
	case 0:
		return v, nil
	case 's':
		return f.th.Str(v)
	case 'r', 'a':
		if err := w.Repr(v); err != nil {
			return nil, err
		}
		if conv == 'a' {
			return w.Done().MapRuns(asciiEscape), nil
		}
		return w.Done(), nil
	}
	return nil, value.ValueError("Unknown conversion specifier %c", conv)
}

// value looks a field name up: first part, then .attr and [item].
func (f *formatter) value(name string) (value.Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.first(name[:end])
	if err != nil {
		return nil, err
	}
	for rest := name[end:]; rest != ""; {
		if rest[0] == '.' {
			n := strings.IndexAny(rest[1:], ".[")
			if n < 0 {
				n = len(rest) - 1
			}
			if n == 0 {
				return nil, value.ValueError("Empty attribute in format string")
			}
			v, err = f.look.Attr(f.th, v, value.Text(rest[1:1+n]))
			rest = rest[1+n:]
		} else {
			n := strings.IndexByte(rest, ']')
			if n < 0 {
				return nil, value.ValueError("Missing ']' in format string")
			}
			if n == 1 {
				return nil, value.ValueError("Empty attribute in format string")
			}
			var key value.Value = value.Text(rest[1:n])
			if i, err := strconv.ParseInt(rest[1:n], 10, 64); err == nil && chars.All(rest[1:n], chars.IsDigit) {
				key = value.Int(i)
			}
			v, err = f.look.Item(f.th, v, key)
			if rest = rest[n+1:]; rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, value.ValueError("Only '.' or '[' may follow ']' in format field specifier")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (f *formatter) first(name string) (value.Value, error) {
	i := int64(-1)
	if name == "" {
		if f.mode == 'm' {
			return nil, value.ValueError("cannot switch from manual field specification to automatic field numbering")
		}
		f.mode = 'a'
		i = int64(f.auto)
		f.auto++
	} else if n, err := strconv.ParseInt(name, 10, 64); err == nil && chars.All(name, chars.IsDigit) {
		if f.mode == 'a' {
			return nil, value.ValueError("cannot switch from manual field specification to automatic field numbering")
		}
		f.mode = 'm'
		i = n
	}
	if i >= 0 {
		if i >= int64(len(f.a.Pos)) {
			return nil, value.Raise("IndexError", "tuple index out of range")
		}
		return f.a.Pos[i], nil
	}
	for _, k := range f.a.Keywords {
		if k.Name.String() == name {
			return k.Value, nil
		}
	}
	return nil, value.Raise("KeyError", "%s", chars.Quote(name))
}
