package toolcalls

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Tool is one that the model may call.
type Tool struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // a JSON schema of an object; read for the types of values
}

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
	Type       any               `json:"type"`
	Enum       []any             `json:"enum"`
	Const      any               `json:"const"`
	AnyOf      []schema          `json:"anyOf"`
	OneOf      []schema          `json:"oneOf"`
	AllOf      []schema          `json:"allOf"`
	Ref        string            `json:"$ref"`
	Nullable   bool              `json:"nullable"`
	Properties map[string]schema `json:"properties"`
	Defs       map[string]schema `json:"$defs"`
	Definition map[string]schema `json:"definitions"`
}

// UnmarshalJSON reads a schema; true, false and whatever else is no object say nothing about types.
func (s *schema) UnmarshalJSON(data []byte) error {
	type plain schema
	var t plain
	if json.Unmarshal(data, &t) == nil {
		*s = schema(t)
	}
	return nil
}

// parameters reads a tool's schema. One that can't be read says nothing.
func (t *Tool) parameters() *schema {
	s := new(schema)
	if t != nil && len(t.Parameters) > 0 && json.Unmarshal(t.Parameters, s) != nil {
		return new(schema)
	}
	return s
}

// typesOf is what the schema says of a parameter; known is false when it does not name it.
func (s *schema) typesOf(name string) (t types, known bool) {
	property, known := s.Properties[name]
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
	var t types
	switch v := s.Type.(type) {
	case string:
		t |= typeNamed(v)
	case []any:
		for _, x := range v {
			name, _ := x.(string)
			t |= typeNamed(name)
		}
	}
	if t == 0 {
		for _, v := range s.Enum {
			t |= typeOf(v)
		}
		if s.Const != nil {
			t |= typeOf(s.Const)
		}
	}
	for _, list := range [][]schema{s.AnyOf, s.OneOf, s.AllOf} {
		for i := range list {
			t |= list[i].types(root, depth-1)
		}
	}
	if s.Ref != "" {
		if d, ok := root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]; ok {
			t |= d.types(root, depth-1)
		} else if d, ok := root.Definition[strings.TrimPrefix(s.Ref, "#/definitions/")]; ok {
			t |= d.types(root, depth-1)
		}
	}
	if s.Nullable && t != 0 {
		t |= typeNull
	}
	return t
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

func typeOf(v any) types {
	switch x := v.(type) {
	case nil:
		return typeNull
	case bool:
		return typeBool
	case float64:
		if x == float64(int64(x)) {
			return typeInteger
		}
		return typeNumber
	case string:
		return typeString
	case []any:
		return typeArray
	}
	return typeObject
}

// convert writes text as a value of one of the types, the narrowest that fits: null, boolean, number, object or array,
// string. Text that fits none is a string: the tool's own checks say more than a lost call. Without types the text is
// JSON if it can be.
func convert(text string, t types, depth int) string {
	word := strings.Trim(text, whiteSpace)
	switch lower := strings.ToLower(word); {
	case t == typeString:
		return quote(text)
	case (lower == "null" || lower == "none") && (t&typeNull != 0 || t&typeString == 0 && t != 0):
		return "null"
	case t&typeBool != 0 && (lower == "true" || lower == "false"):
		return lower
	}
	if t&(typeInteger|typeNumber) != 0 {
		if n, ok := number(word); ok {
			return n
		}
	}
	if word != "" {
		isObject := word[0] == '{' && t&typeObject != 0
		isArray := (word[0] == '[' || word[0] == '(') && t&typeArray != 0
		if t == 0 || isObject || isArray {
			if one(word, depth) {
				return word
			}
		}
		if isObject || isArray {
			if s, ok := literal(word, depth); ok {
				return s
			}
		}
	}
	return quote(text)
}

// one says whether text is one JSON value and nothing else, not nested deeper than depth.
func one(text string, depth int) bool {
	s := newScan(depth, nil)
	for i := 0; i < len(text); i++ {
		switch s.step(text[i]) {
		case more:
		case done:
			return i == len(text)-1
		default:
			return false
		}
	}
	return s.step(' ') == before
}

// number is how a number that a model wrote is written in JSON.
func number(s string) (string, bool) {
	if one(s, 1) && (s[0] == '-' || isDigit(s[0])) {
		return s, true
	}
	t := strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", "")
	if t == "" || strings.Trim(t, "0123456789abcdefABCDEFxXoO+-.") != "" {
		return "", false
	}
	if n, err := strconv.ParseInt(t, 0, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || f-f != 0 {
		return "", false
	}
	b, err := json.Marshal(f)
	if !strings.ContainsAny(string(b), ".e") {
		b = append(b, ".0"...)
	}
	return string(b), err == nil
}
