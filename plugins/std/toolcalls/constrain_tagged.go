package toolcalls

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// taggedCall is a call as its name and its parameters between markers, in the schema's order.
func (h *constraintBuilder) taggedCall(t *offered) *structure {
	x := h.f.Tagged
	s := h.signature(t)
	parts := []*structure{constant(t.Name)}
	if len(x.NameEnd) > 0 {
		parts = append(parts, h.anyMarker(x.NameEnd))
	}
	for i := range s.properties {
		p := &s.properties[i]
		value, ok := h.parameter(t, &s, p)
		switch {
		case !ok && p.required:
			h.noteUnenforceable(t, p.pointer, "required",
				"no text between the markers of the format "+h.f.Name+" is a value of it")
		case !ok:
		case p.required:
			parts = append(parts, value)
		default:
			parts = append(parts, optional(value))
		}
	}
	return seq(parts...)
}

// parameter is one parameter with its markers. ok is false where no text fits.
func (h *constraintBuilder) parameter(t *offered, s *signature, p *property) (*structure, bool) {
	x := h.f.Tagged
	if strings.Trim(p.schema, whiteSpace) == "false" || !h.taggable(p.name) {
		return nil, false
	}
	if !p.known && !x.GuessTypes {
		p.types = typeString
	}
	head := []*structure{pattern(gap), h.anyMarker(x.Open), constant(p.name)}
	switch {
	case len(x.OpenEnd) == 0 || len(x.StringEnd) > 0 && len(x.JSONEnd) > 0: // the marker says what the value is
		return seq(append(head, h.typedParameter(t, s, p))...), true
	case p.types&typeString == 0 && p.types != 0:
		return seq(append(head, h.parameterValue(x.OpenEnd, h.json(t, p, s.whole(p))))...), true
	case p.types == 0 && (p.known || x.GuessTypes): // it may be a string
		return seq(append(head, h.parameterValue(x.OpenEnd,
			h.json(t, p, schemaWithout(s.whole(p), h.closingMarkers()))))...), true
	}
	value, why := h.rawString(p)
	if why != "" {
		h.noteUnenforceable(t, p.pointer, "type", "the format "+h.f.Name+" writes strings as they are, "+why)
		value = anyText(x.Close...)
	}
	return seq(append(head, h.parameterValue(x.OpenEnd, value))...), value.kind != "or" || len(value.parts) > 0
}

// parameterValue is a value with the marker before it and the one that closes it.
func (h *constraintBuilder) parameterValue(end []string, value *structure) *structure {
	x := h.f.Tagged
	parts := []*structure{h.anyMarker(end)}
	if len(x.ValueOpen) > 0 {
		parts = append(parts, pattern(gap), h.anyMarker(x.ValueOpen))
	}
	if x.Newlines {
		parts = append(parts, constant("\n"), value, constant("\n"))
	} else {
		parts = append(parts, value)
	}
	return seq(append(parts, h.anyMarker(x.Close))...)
}

// taggable says whether a parameter's name can stand between its markers.
func (h *constraintBuilder) taggable(name string) bool {
	x := h.f.Tagged
	if name == "" || name != strings.Trim(name, whiteSpace) || len(name) > maxText {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(x.OpenEnd, x.StringEnd, x.JSONEnd),
		func(m string) bool { return strings.Contains(name, m) })
}

// typedParameter is the value of a parameter whose marker says whether it is a string. A string is written as text that
// does not contain the closing marker, or else as JSON without that marker.
func (h *constraintBuilder) typedParameter(t *offered, s *signature, p *property) *structure {
	x := h.f.Tagged
	if p.types&typeString == 0 && p.types != 0 {
		return h.parameterValue(x.JSONEnd, h.json(t, p, s.whole(p)))
	}
	text := *p
	text.types = typeString
	value, why := h.rawString(&text)
	if f := facets(p.schema); p.types == typeString && why == "" && (value.kind != "or" || len(value.parts) > 0) {
		return h.parameterValue(x.StringEnd, value)
	} else if p.types != typeString && f.plain && f.simple {
		return either(h.parameterValue(x.StringEnd, anyText(x.Close...)),
			h.parameterValue(x.JSONEnd, h.json(t, p, schemaWithout(s.whole(p), `{"type":"string"}`))))
	}
	return h.parameterValue(x.JSONEnd, h.json(t, p, schemaWithout(s.whole(p), h.closingMarkers())))
}

// closingMarkers is a schema of the strings that contain the closing marker of a value.
func (h *constraintBuilder) closingMarkers() string {
	var all []string
	for _, m := range h.f.Tagged.Close {
		all = append(all, quoteRegex(m))
	}
	return `{"type":"string","pattern":` + quote(strings.Join(all, "|")) + `}`
}

// schemaWithout is a schema that excludes the values of another.
func schemaWithout(schema, other string) string {
	if raw := strings.Trim(schema, whiteSpace); raw[0] == '{' && !strings.Contains(raw, `"not"`) {
		rest := strings.TrimLeft(raw[1:], whiteSpace)
		if rest == "}" {
			return `{"not":` + other + `}`
		}
		return `{"not":` + other + "," + rest
	}
	return schema
}

// json is a value in JSON.
func (h *constraintBuilder) json(t *offered, p *property, schema string) *structure {
	return &structure{kind: "json_schema", text: schema, loose: !t.Strict,
		origin: Place{Pointer: p.pointer, Tool: t.Name}}
}

// rawString is a value that may be a string, written without quotes; an empty alternative where no text fits. why says
// why the format can't enforce it.
func (h *constraintBuilder) rawString(p *property) (value *structure, why string) {
	f := facets(p.schema)
	switch {
	case !f.plain:
		return value, "and what else the schema says of them can't be enforced there"
	case f.values != nil:
		return h.enumValues(f.values, p.types), ""
	case f.simple:
		return anyText(h.f.Tagged.Close...), ""
	case p.types != typeString:
		return value, "and the schema allows other values beside them"
	case f.pattern != "" && (f.min > 0 || f.max >= 0):
		return value, "and a pattern and a length can't be enforced together there"
	case f.pattern != "":
		inner, ok := h.safePattern(f.pattern)
		if !ok {
			return value, "and the pattern could spell what ends them"
		}
		return pattern(inner), ""
	}
	return h.textOfLength(f.min, f.max), ""
}

// enumValues is any of the listed values, as JSON. Values that would be parsed as a different value are left out.
func (h *constraintBuilder) enumValues(values []string, allowed types) *structure {
	var all []*structure
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
	return either(all...)
}

// textOfLength is text with a bounded number of characters. The first characters of the marker after it are allowed
// only after the minimum number.
func (h *constraintBuilder) textOfLength(min, max int) *structure {
	rest := anyText(h.f.Tagged.Close...)
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

// firsts are the first characters of the markers after a value, as a character class.
func (h *constraintBuilder) firsts() (class string) {
	for _, m := range h.f.Tagged.Close {
		r, _ := utf8.DecodeRuneInString(m)
		class += quoteRegex(string(r))
	}
	return class
}

// safePattern is the part between the anchors of a pattern whose texts never contain the first character of a marker
// after the value. Not ok: they may, or it is not anchored.
func (h *constraintBuilder) safePattern(p string) (inner string, ok bool) {
	inner, begins := strings.CutPrefix(p, "^")
	inner, ends := strings.CutSuffix(inner, "$")
	if !begins || !ends || strings.HasSuffix(inner, `\`) || strings.ContainsAny(inner, "^$|.") ||
		strings.Contains(inner, "(?") {
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
