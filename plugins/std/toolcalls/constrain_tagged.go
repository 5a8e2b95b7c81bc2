package toolcalls

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// taggedCall is a call as its name and its parameters between markers, those that it has in the schema's order.
func (h *holder) taggedCall(t *offered) structure {
	x := h.f.Tagged
	s := readSignature(t)
	for _, k := range s.odd {
		h.cannot(t, t.pointer()+"/"+k, k, "the format "+h.f.Name+" writes parameters one by one")
	}
	parts := []structure{constant(t.Name)}
	if len(x.NameEnd) > 0 {
		parts = append(parts, h.marks(x.NameEnd))
	}
	for i := range s.properties {
		p := &s.properties[i]
		value, ok := h.parameter(t, &s, p)
		switch {
		case !ok && p.required:
			h.cannot(t, p.pointer, "required", "no text between the markers of the format "+h.f.Name+" is a value of it")
		case !ok:
		case p.required:
			parts = append(parts, value)
		default:
			parts = append(parts, optional(value))
		}
	}
	return seq(parts...)
}

// parameter is one parameter with its markers. Not ok: no text can be one.
func (h *holder) parameter(t *offered, s *signature, p *property) (structure, bool) {
	x := h.f.Tagged
	if strings.Trim(p.schema, whiteSpace) == "false" || !h.taggable(p.name) {
		return structure{}, false
	}
	if !p.known && !x.GuessTypes {
		p.types = typeString
	}
	end, value, ok := x.OpenEnd, structure{}, false
	switch {
	case len(x.OpenEnd) == 0 || len(x.StringEnd) > 0 && len(x.JSONEnd) > 0: // the marker says what the value is
		end, value, ok = h.told(t, s, p)
	case p.types&typeString == 0 && (p.types != 0 || p.known || x.GuessTypes):
		value, ok = h.json(t, s, p), true
	default:
		value, ok = h.raw(t, p)
	}
	if !ok {
		return structure{}, false
	}
	parts := []structure{pattern(gap), h.marks(x.Open), constant(p.name), h.marks(end)}
	if len(x.ValueOpen) > 0 {
		parts = append(parts, pattern(gap), h.marks(x.ValueOpen))
	}
	if x.Newlines {
		parts = append(parts, constant("\n"), value, constant("\n"))
	} else {
		parts = append(parts, value)
	}
	return seq(append(parts, h.marks(x.Close))...), true
}

// taggable says whether a parameter's name can stand between its markers.
func (h *holder) taggable(name string) bool {
	x := h.f.Tagged
	if name == "" || name != strings.Trim(name, whiteSpace) || len(name) > maxText {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(x.OpenEnd, x.StringEnd, x.JSONEnd), func(m string) bool { return strings.Contains(name, m) })
}

// told is the value of a parameter whose marker says whether it is a string.
func (h *holder) told(t *offered, s *signature, p *property) (end []string, value structure, ok bool) {
	x := h.f.Tagged
	f := facets(p.schema)
	if p.types == typeString && f.simple && f.plain && len(x.StringEnd) > 0 {
		return x.StringEnd, free(x.Close...), true
	}
	if len(x.JSONEnd) > 0 {
		return x.JSONEnd, h.json(t, s, p), true
	}
	value, ok = h.raw(t, p)
	return x.StringEnd, value, ok
}

// json is a value in JSON.
func (h *holder) json(t *offered, s *signature, p *property) structure {
	return structure{kind: "json_schema", text: s.whole(p), loose: !t.Strict, origin: Place{Pointer: p.pointer, Tool: t.Name}}
}

// raw is a value that may be a string, which stands there as it is. Not ok: there is none.
func (h *holder) raw(t *offered, p *property) (structure, bool) {
	f := facets(p.schema)
	any := free(h.f.Tagged.Close...)
	cannot := func(why string) (structure, bool) {
		h.cannot(t, p.pointer, "type", "the format "+h.f.Name+" writes strings as they are, "+why)
		return any, true
	}
	switch {
	case !f.plain:
		return cannot("and what else the schema says of them can't be enforced there")
	case f.values != nil:
		return h.listed(f.values, p.types)
	case f.simple:
		return any, true
	case p.types != typeString:
		return cannot("and the schema allows other values beside them")
	case f.pattern != "" && (f.min > 0 || f.max >= 0):
		return cannot("and a pattern and a length can't be enforced together there")
	case f.pattern != "":
		inner, ok := h.safePattern(f.pattern)
		if !ok {
			return cannot("and the pattern could spell what ends them")
		}
		return pattern(inner), true
	}
	return h.sized(f.min, f.max), true
}

// listed is any of some values in JSON. One that would be read as another value is left out.
func (h *holder) listed(values []string, allowed types) (structure, bool) {
	var all []structure
	for _, v := range values {
		text := strings.Trim(v, whiteSpace)
		want := text
		if s, ok := unquote([]byte(text)); ok {
			text, want = s, quote(s)
		}
		close := slices.ContainsFunc(h.f.Tagged.Close, func(m string) bool { return strings.Contains(text, m) })
		if !close && convert(text, allowed, 128) == want {
			all = append(all, constant(text))
		}
	}
	return either(all...), len(all) > 0
}

// sized is text of a number of characters. What begins the marker behind it comes only behind the fewest that there may be.
func (h *holder) sized(min, max int) structure {
	rest := free(h.f.Tagged.Close...)
	if max >= 0 {
		rest.most = max - min
	}
	if max >= 0 && max < min {
		return either() // no text
	}
	if min == 0 {
		return rest
	}
	return seq(pattern("[^"+h.firsts()+"]{"+strconv.Itoa(min)+"}"), rest)
}

// firsts are the characters that the markers behind a value begin with, inside a class.
func (h *holder) firsts() (class string) {
	for _, m := range h.f.Tagged.Close {
		r, _ := utf8.DecodeRuneInString(m)
		class += fixed(string(r))
	}
	return class
}

// safePattern is what is inside the anchors of a pattern whose texts never hold what a marker behind the value begins with. Not
// ok: it may, or it is not anchored.
func (h *holder) safePattern(p string) (inner string, ok bool) {
	inner, begins := strings.CutPrefix(p, "^")
	inner, ends := strings.CutSuffix(inner, "$")
	if !begins || !ends || strings.HasSuffix(inner, `\`) || strings.ContainsAny(inner, "^$|.") || strings.Contains(inner, "(?") {
		return "", false
	}
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' {
			if i++; i == len(inner) || !strings.ContainsRune(`wds\-/+*?()[]{}`, rune(inner[i])) {
				return "", false
			}
		}
	}
	for _, m := range h.f.Tagged.Close {
		r, _ := utf8.DecodeRuneInString(m)
		if strings.ContainsRune(inner, r) || ranges(inner, r) {
			return "", false
		}
	}
	return "(?:" + inner + ")", true
}

// ranges says whether a pattern may have a class with a range around a character.
func ranges(p string, c rune) bool {
	list := []rune(p)
	for i := 1; i+1 < len(list); i++ {
		if list[i] == '-' && list[i-1] <= c && c <= list[i+1] {
			return true
		}
	}
	return false
}
