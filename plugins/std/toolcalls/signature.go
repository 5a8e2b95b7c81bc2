package toolcalls

import (
	"slices"
	"strings"

	"tgi/sdk/go/params"
)

// signature is a tool's schema as a list of parameters, for the formats that write them one by one.
type signature struct {
	properties []property
	places     map[string]int // in properties, by name
	// the members of the schema that the properties' own refer to, each with a comma behind it
	shared string
	odd    []string // keywords that say something of the parameters together
}

// property is one parameter.
type property struct {
	name     string
	schema   string // JSON; "true" where the schema does not say
	pointer  string // to it, in the request
	required bool
	types    types
	known    bool // the schema has it among its properties
}

// together are the keywords of an object's schema that a list of parameters can't express.
var together = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const", "minProperties", "maxProperties",
	"patternProperties",
	"propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties",
}

// signature reads a tool's schema and records what a list of parameters can't express.
func (h *constraintBuilder) signature(t *offered) signature {
	s, err := readSignature(t)
	if err != nil {
		h.noteUnenforceable(t, t.pointer(), "parameters", err.Error())
		return signature{}
	}
	if h.count += len(s.properties); h.f.Tagged != nil && len(h.f.Tagged.StringEnd) > 0 {
		h.count += len(s.properties)
	}
	if h.count > maxAll {
		return signature{}
	}
	for _, k := range s.odd {
		h.noteUnenforceable(t, t.pointer()+"/"+k, k, "the format "+h.f.Name+" writes parameters one by one")
	}
	return s
}

// readSignature reads a tool's schema. The parameters come in its order, those that it only requires behind them.
func readSignature(t *offered) (s signature, err error) {
	if raw := strings.Trim(string(t.Parameters), whiteSpace); raw == "" || raw == "null" || raw == "true" {
		return s, nil
	}
	types := t.Tool.parameters()
	var required []string
	others := "true"
	r := params.Read(t.Parameters)
	for key := range r.Object() {
		switch next := r.Peek(); {
		case key == "properties" && next == '{':
			for name := range r.Object() {
				p := property{name: name, schema: string(r.Raw()), pointer: t.pointer() + "/properties/" +
					escapePointer(name)}
				p.types, p.known = types.typesOf(name)
				s.properties[s.place(name)] = p // the last of a name counts
			}
		case key == "required" && next == '[':
			for range r.Array() {
				if r.Peek() == '"' {
					required = append(required, r.String())
				} else {
					r.Skip()
				}
			}
		case key == "additionalProperties":
			others = string(r.Raw())
		case key == "$defs" || key == "definitions" || key == "$schema":
			s.shared += quote(key) + ":" + string(r.Raw()) + ","
		default:
			if slices.Contains(together, key) {
				s.odd = append(s.odd, key)
			}
			r.Skip()
		}
	}
	for _, name := range required {
		p := &s.properties[s.place(name)]
		if p.schema == "" {
			*p = property{name: name, schema: others, pointer: t.pointer() + "/additionalProperties"}
		}
		p.required = true
	}
	return s, r.Close()
}

// place is where a parameter is among the properties, a new one at the end.
func (s *signature) place(name string) int {
	i, ok := s.places[name]
	if !ok {
		if s.places == nil {
			s.places = map[string]int{}
		}
		i = len(s.properties)
		s.places[name] = i
		s.properties = append(s.properties, property{})
	}
	return i
}

// whole is the schema of one parameter with what it refers to.
func (s *signature) whole(p *property) string {
	switch raw := strings.Trim(p.schema, whiteSpace); {
	case raw[0] != '{':
		return raw
	case s.shared == "":
		return raw
	default:
		rest := strings.TrimLeft(raw[1:], whiteSpace)
		if rest == "}" {
			return "{" + strings.TrimSuffix(s.shared, ",") + "}"
		}
		return "{" + s.shared + rest
	}
}

// escapePointer is a part of a JSON pointer (RFC 6901).
func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}

// facet is a constraint of a string's schema other than its type.
type facet struct {
	plain    bool     // it can be told all of it here
	pattern  string   // "" for none
	min, max int      // of characters; max -1 for no bound
	values   []string // of enum or const, JSON; nil for none
	simple   bool     // nothing is said but types
}

// facets reads a property's schema.
func facets(schema string) facet {
	f := facet{plain: true, simple: true, max: -1}
	r := params.Read([]byte(schema))
	if r.Peek() != '{' {
		f.plain = strings.Trim(schema, whiteSpace) == "true"
		return f
	}
	for key := range r.Object() {
		next := r.Peek()
		switch {
		case key == "type", key == "title", key == "description", key == "default", key == "examples",
			key == "$comment", key == "deprecated",
			key == "readOnly", key == "writeOnly", key == "nullable":
			r.Skip()
			continue
		case (key == "anyOf" || key == "oneOf") && next == '[':
			for range r.Array() {
				if inner := facets(string(r.Raw())); !inner.simple || !inner.plain {
					f.plain = false
				}
			}
			continue
		case key == "pattern" && next == '"':
			f.pattern = r.String()
		case key == "minLength" && next == '0':
			f.min = length(r.Float())
		case key == "maxLength" && next == '0':
			f.max = length(r.Float())
		case key == "const":
			f.values = append(f.values, string(r.Raw()))
		case key == "enum" && next == '[':
			f.values = []string{}
			for range r.Array() {
				f.values = append(f.values, string(r.Raw()))
			}
		default:
			f.plain = false
			r.Skip()
		}
		f.simple = false
	}
	f.plain = f.plain && r.Close() == nil
	return f
}

// length is a number of characters, at most more than any text has.
func length(f float64) int { return int(max(0, min(f, 1<<24))) }
