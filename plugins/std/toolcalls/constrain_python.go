package toolcalls

import (
	"strconv"
	"strings"
)

// pythonCalls are calls between markers: a list of them, or one a line.
func (h *holder) pythonCalls() structure {
	one := h.each(h.pythonCall)
	if h.f.Bare == "[" {
		return h.pythonList()
	}
	if h.d.Choice.Single {
		return either(h.pythonList(), one)
	}
	return either(h.pythonList(), plus(seq(one, pattern("\n?"))))
}

// pythonList is a list of calls.
func (h *holder) pythonList() structure {
	all := h.each(h.pythonCall)
	if !h.d.Choice.Single {
		all = list(seq(pattern("[ \n]?"), all))
	}
	return seq(constant("["), all, constant("]"))
}

// pythonCall is a call with keyword arguments, those that it has in the schema's order.
func (h *holder) pythonCall(t *offered) structure {
	s := readSignature(t)
	for _, k := range s.odd {
		h.cannot(t, t.pointer()+"/"+k, k, "the format "+h.f.Name+" writes parameters one by one")
	}
	if !madeOf(t.Name, nameByte) {
		h.cannot(t, t.pointer(), "name", "no function of Python is called so, as the format "+h.f.Name+" wants it")
	}
	var list []structure
	var must []bool
	for i := range s.properties {
		p := &s.properties[i]
		if strings.Trim(p.schema, whiteSpace) == "false" || !madeOf(p.name, isWord) {
			if p.required {
				h.cannot(t, p.pointer, "required", "no argument of Python is called so, as the format "+h.f.Name+" wants it")
			}
			continue
		}
		list = append(list, seq(constant(p.name+"="), h.pythonValue(t, &s, p)))
		must = append(must, p.required)
	}
	return seq(constant(t.Name+"("), commas(list, must), constant(")"))
}

// madeOf says whether a name is made of some bytes alone.
func madeOf(s string, of func(byte) bool) bool {
	for i := 0; i < len(s); i++ {
		if !of(s[i]) {
			return false
		}
	}
	return s != "" && len(s) <= maxText
}

// commas is a list with a comma between its members, of which some must come.
func commas(list []structure, must []bool) structure {
	// rest[i] is what may follow a member before i: members from i on, each with its comma.
	rest := seq()
	var firsts []structure // the list may begin with member i where none before it must come
	for i := len(list) - 1; i >= 0; i-- {
		firsts = append(firsts, seq(list[i], rest))
		with := seq(pattern(", ?"), list[i])
		if must[i] {
			firsts = firsts[len(firsts)-1:]
			rest = seq(with, rest)
		} else {
			rest = seq(optional(with), rest)
		}
	}
	for _, m := range must {
		if m {
			return either(firsts...)
		}
	}
	return either(append(firsts, seq())...)
}

// pythonValue is a literal. JSON is nearly Python: only the words for booleans and none differ.
func (h *holder) pythonValue(t *offered, s *signature, p *property) structure {
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
	return structure{kind: "json_schema", text: s.whole(p), loose: !t.Strict, origin: Place{Pointer: p.pointer, Tool: t.Name}}
}
