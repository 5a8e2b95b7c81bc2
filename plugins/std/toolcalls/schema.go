package toolcalls

import (
	"math"
	"strings"

	"tgi/sdk/go/params"
)

// types is a set of JSON types. None means that the schema does not say.
type types uint8

const (
	typeNull types = 1 << iota
	typeBool
	typeInteger
	typeNumber
	typeObject
	typeArray
	typeString
)

// schema is what is read of a JSON schema.
type schema struct {
	named      types // by "type"
	values     types // of "enum" and "const"
	any        []*schema
	ref        string
	nullable   bool
	properties map[string]*schema
	defs       map[string]*schema // by the reference that means them
}

// parameters reads a tool's schema. One that can't be read says nothing.
func (t *Tool) parameters() *schema {
	if t == nil || len(t.Parameters) == 0 {
		return new(schema)
	}
	r := params.Read(t.Parameters)
	s := readSchema(r)
	if r.Close() != nil {
		return new(schema)
	}
	return s
}

// readSchema reads a schema; true, false and whatever else is no object say nothing about types, and so does a keyword
// whose value has the wrong type.
func readSchema(r *params.Reader) *schema {
	s := new(schema)
	if r.Peek() != '{' {
		r.Skip()
		return s
	}
	for key := range r.Object() {
		switch next := r.Peek(); {
		case key == "type" && next == '"':
			s.named = typeNamed(r.String())
		case key == "type" && next == '[':
			for range r.Array() {
				s.named |= namedOrNone(r)
			}
		case key == "const":
			s.values |= typeOfValue(r)
		case key == "enum" && next == '[':
			for range r.Array() {
				s.values |= typeOfValue(r)
			}
		case (key == "anyOf" || key == "oneOf" || key == "allOf") && next == '[':
			for range r.Array() {
				s.any = append(s.any, readSchema(r))
			}
		case key == "$ref" && next == '"':
			s.ref = r.String()
		case key == "nullable" && (next == 't' || next == 'f'):
			s.nullable = r.Bool()
		case key == "properties" && next == '{':
			s.properties = readSchemas(r, "", s.properties)
		case (key == "$defs" || key == "definitions") && next == '{':
			s.defs = readSchemas(r, "#/"+key+"/", s.defs)
		default:
			r.Skip()
		}
	}
	return s
}

func readSchemas(r *params.Reader, prefix string, to map[string]*schema) map[string]*schema {
	if to == nil {
		to = map[string]*schema{}
	}
	for name := range r.Object() {
		to[prefix+name] = readSchema(r)
	}
	return to
}

func namedOrNone(r *params.Reader) types {
	if r.Peek() == '"' {
		return typeNamed(r.String())
	}
	r.Skip()
	return 0
}

// typeOfValue passes over a value.
func typeOfValue(r *params.Reader) types {
	switch r.Peek() {
	case '"':
		r.Skip()
		return typeString
	case '0':
		if v := r.Float(); v == math.Trunc(v) && math.Abs(v) < 1<<63 {
			return typeInteger
		}
		return typeNumber
	case '[':
		r.Skip()
		return typeArray
	case 't', 'f':
		r.Skip()
		return typeBool
	case 'n':
		r.Skip()
		return typeNull
	}
	r.Skip()
	return typeObject
}

func typeNamed(name string) types {
	switch name {
	case "null":
		return typeNull
	case "boolean":
		return typeBool
	case "integer":
		return typeInteger
	case "number":
		return typeNumber
	case "object":
		return typeObject
	case "array":
		return typeArray
	case "string":
		return typeString
	}
	return 0
}

// typesOf is what the schema says of a parameter; known is false when it does not name it.
func (s *schema) typesOf(name string) (t types, known bool) {
	property, known := s.properties[name]
	if !known {
		return 0, false
	}
	return property.types(s, 8), true
}

// types collects what types a schema allows. Depth bounds references and nesting.
func (s *schema) types(root *schema, depth int) types {
	if depth == 0 {
		return 0
	}
	t := s.named
	if t == 0 {
		t = s.values
	}
	for _, x := range s.any {
		t |= x.types(root, depth-1)
	}
	if strings.HasPrefix(s.ref, "#/") {
		if d, ok := root.defs[s.ref]; ok {
			t |= d.types(root, depth-1)
		}
	}
	if s.nullable && t != 0 {
		t |= typeNull
	}
	return t
}
