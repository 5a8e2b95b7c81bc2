package toolcalls

import (
	"strconv"
	"strings"
)

// pythonCalls are calls between markers: a list of them, or one a line.
func (h *constraintBuilder) pythonCalls() *structure {
	one := h.python()
	switch {
	case h.f.Bare == "[":
		return h.pythonList(one)
	case h.d.Choice.Single:
		return either(h.pythonList(one), one)
	}
	return either(h.pythonList(one), plus(seq(one, pattern("\\n?"))))
}

// python is a call of any of the tools, made once.
func (h *constraintBuilder) python() *structure {
	if h.pyCall == nil {
		h.pyCall = once(h.anyTool(h.pythonCall))
	}
	return h.pyCall
}

// pythonList is a list of calls.
func (h *constraintBuilder) pythonList(all *structure) *structure {
	if !h.d.Choice.Single {
		all = list(seq(pattern("[ \n]?"), all))
	}
	return seq(constant("["), all, constant("]"))
}

// pythonCall is a call with keyword arguments: the required ones, then some of the others, in the schema's order.
func (h *constraintBuilder) pythonCall(t *offered) *structure {
	s := h.signature(t)
	if !consistsOf(t.Name, nameByte) {
		h.noteUnenforceable(t, t.pointer(), "name",
			"no function of Python is called so, as the format "+h.f.Name+" wants it")
	}
	var must, may []*structure
	for i := range s.properties {
		p := &s.properties[i]
		if strings.Trim(p.schema, whiteSpace) == "false" || !consistsOf(p.name, isWord) {
			if p.required {
				h.noteUnenforceable(t, p.pointer, "required",
					"no argument of Python is called so, as the format "+h.f.Name+" wants it")
			}
			continue
		}
		argument := once(seq(constant(p.name+"="), h.pythonValue(t, &s, p)))
		if p.required {
			must = append(must, argument)
		} else {
			may = append(may, argument)
		}
	}
	parts := []*structure{constant(t.Name + "(")}
	for i, x := range must {
		if i > 0 {
			parts = append(parts, pattern(comma))
		}
		parts = append(parts, x)
	}
	first := 0 // of may that come without a comma in front
	if len(must) == 0 {
		first = min(len(may), maxFirst)
	}
	var rest []*structure
	for _, x := range may[first:] {
		rest = append(rest, optional(seq(pattern(comma), x)))
	}
	if first > 0 {
		rest = []*structure{optional(seq(atLeastOne(may[:first]), seq(rest...)))}
	}
	return seq(append(append(parts, rest...), constant(")"))...)
}

// maxFirst bounds the arguments that a call without a required one may begin with: the grammar has each of them several
// times.
const maxFirst = 8

// comma is between arguments.
const comma = ", ?"

// consistsOf says whether a name is made of some bytes alone.
func consistsOf(s string, of func(byte) bool) bool {
	for i := 0; i < len(s); i++ {
		if !of(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxText
}

// atLeastOne is at least one of a list, in its order, separated by commas. Halving the list keeps the grammar small:
// some of the first half and perhaps of the second, or only of the second.
func atLeastOne(list []*structure) *structure {
	if len(list) < 2 {
		return seq(list...)
	}
	half := len(list) / 2
	first, second := atLeastOne(list[:half]), once(atLeastOne(list[half:])) // which stands in two places
	return either(seq(first, optional(seq(pattern(comma), second))), second)
}

// pythonValue is a literal. JSON is nearly Python: only the words for booleans and none differ.
func (h *constraintBuilder) pythonValue(t *offered, s *signature, p *property) *structure {
	f := facets(p.schema)
	if f.plain && f.values == nil && f.pattern == "" {
		switch {
		case p.types == typeBool:
			return pattern("True|False")
		case p.types == typeNull:
			return constant("None")
		case p.types == typeString && f.max >= 0 && f.max < f.min:
			return either()
		case p.types == typeString:
			most := ""
			if f.max >= 0 {
				most = strconv.Itoa(f.max)
			}
			return pattern(`"(?:[^"\\\x00-\x1f]|\\["\\nrt]){` + strconv.Itoa(f.min) + "," + most + `}"`)
		}
	}
	return &structure{kind: "json_schema", text: s.whole(p), loose: !t.Strict,
		origin: Place{Pointer: p.pointer, Tool: t.Name}}
}
