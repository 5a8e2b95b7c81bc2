package jinja

import (
	"strconv"
	"strings"
)

// formatMethod is str.format or str.format_map as the sandbox wraps it.
func formatMethod(s *Str, name string) Value {
	return &builtin{name: name, self: s, call: func(st *state, a args) (Value, error) {
		if name == "format_map" {
			if len(a.kw) > 0 {
				return nil, typeError("format_map() takes no keyword arguments")
			}
			if len(a.pos) != 1 {
				return nil, typeError("format_map() takes exactly one argument (%d given)", len(a.pos))
			}
			mapping := a.pos[0]
			a = args{}
			if err := a.addKw(mapping); err != nil {
				return nil, err
			}
		}
		f := &formatter{st: st, a: a}
		w, err := f.format(s, 2)
		if err != nil {
			return nil, err
		}
		return w, st.grow(int64(len(w.s)))
	}}
}

// formatter is string.Formatter.
type formatter struct {
	st   *state
	a    args
	auto int
	mode byte // 'a' automatic numbering, 'm' manual
}

func (f *formatter) format(s *Str, depth int) (*Str, error) {
	if depth < 0 {
		return nil, valueError("Max string recursion exceeded")
	}
	var w sbuf
	for i := 0; i < len(s.s); {
		c := s.s[i]
		if c != '{' && c != '}' {
			n := strings.IndexAny(s.s[i:], "{}")
			if n < 0 {
				n = len(s.s) - i
			}
			w.sub(s, i, i+n)
			i += n
			continue
		}
		if i+1 < len(s.s) && s.s[i+1] == c {
			w.sub(s, i, i+1)
			i += 2
			continue
		}
		if c == '}' {
			return nil, valueError("Single '}' encountered in format string")
		}
		end := fieldEnd(s.s, i+1)
		if end < 0 {
			if i+1 == len(s.s) {
				return nil, valueError("Single '{' encountered in format string")
			}
			return nil, valueError("expected '}' before end of string")
		}
		out, err := f.field(s, i+1, end, depth)
		if err != nil {
			return nil, err
		}
		w.str(out)
		i = end + 1
	}
	return w.done(), nil
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

func (f *formatter) field(s *Str, lo, hi int, depth int) (*Str, error) {
	body := s.s[lo:hi]
	name, conv, spec := body, byte(0), emptyStr
	inBracket := false
scan:
	for i := range len(body) {
		switch c := body[i]; {
		case c == '[':
			inBracket = true
		case c == ']':
			inBracket = false
		case c == '{' && !inBracket:
			return nil, valueError("unexpected '{' in field name")
		case c == ':' && !inBracket:
			name, spec = body[:i], s.sub(lo+i+1, hi)
			break scan
		case c == '!' && !inBracket:
			name = body[:i]
			if i+1 >= len(body) {
				return nil, valueError("end of string while looking for conversion specifier")
			}
			conv = body[i+1]
			if i+2 < len(body) {
				if body[i+2] != ':' {
					return nil, valueError("expected ':' after conversion specifier")
				}
				spec = s.sub(lo+i+3, hi)
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
	if strings.ContainsAny(spec.s, "{}") {
		if spec, err = f.format(spec, depth-1); err != nil {
			return nil, err
		}
	}
	return f.st.formatValue(v, spec.s)
}

func (f *formatter) convert(v Value, conv byte) (Value, error) {
	w := &textWriter{st: f.st}
	switch conv {
	case 0:
		return v, nil
	case 's':
		return f.st.str(v)
	case 'r', 'a':
		if err := w.repr(v); err != nil {
			return nil, err
		}
		if conv == 'a' {
			return w.done().mapRuns(asciiEscape), nil
		}
		return w.done(), nil
	}
	return nil, valueError("Unknown conversion specifier %c", conv)
}

// value looks a field name up: first part, then .attr and [item].
func (f *formatter) value(name string) (Value, error) {
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
				return nil, valueError("Empty attribute in format string")
			}
			v, err = f.st.getattr(v, text(rest[1:1+n]))
			rest = rest[1+n:]
		} else {
			n := strings.IndexByte(rest, ']')
			if n < 0 {
				return nil, valueError("Missing ']' in format string")
			}
			if n == 1 {
				return nil, valueError("Empty attribute in format string")
			}
			var key Value = text(rest[1:n])
			if i, err := strconv.ParseInt(rest[1:n], 10, 64); err == nil && all(rest[1:n], isDigitRune) {
				key = Int(i)
			}
			v, err = f.st.getitem(v, key)
			if rest = rest[n+1:]; rest != "" && rest[0] != '.' && rest[0] != '[' {
				return nil, valueError("Only '.' or '[' may follow ']' in format field specifier")
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (f *formatter) first(name string) (Value, error) {
	i := int64(-1)
	if name == "" {
		if f.mode == 'm' {
			return nil, valueError("cannot switch from manual field specification to automatic field numbering")
		}
		f.mode = 'a'
		i = int64(f.auto)
		f.auto++
	} else if n, err := strconv.ParseInt(name, 10, 64); err == nil && all(name, isDigitRune) {
		if f.mode == 'a' {
			return nil, valueError("cannot switch from manual field specification to automatic field numbering")
		}
		f.mode = 'm'
		i = n
	}
	if i >= 0 {
		if i >= int64(len(f.a.pos)) {
			return nil, raise("IndexError", "tuple index out of range")
		}
		return f.a.pos[i], nil
	}
	for _, k := range f.a.kw {
		if k.name.s == name {
			return k.val, nil
		}
	}
	return nil, raise("KeyError", "%s", reprText(text(name)))
}
