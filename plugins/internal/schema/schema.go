// Package schema checks a request's parameters against the JSON Schema that a plugin's description declares, before
// the guest is started.
//
// It owns the subset of JSON Schema that a description may use, and the texts of what is wrong; a library does the
// checking. The subset has no references, so nothing is ever loaded, and what a check may take is bounded: see maxWork.
package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"tgi/sdk/abi"
)

// maxDepth is how deep the parts of a schema may be nested.
const maxDepth = 16

// Schema is a compiled schema. It may be used from any goroutine.
type Schema struct {
	compiled *jsonschema.Schema
	names    []string
	cost     cost
}

// Names returns the parameters that the schema lists, sorted.
func (s *Schema) Names() []string { return s.names }

// What a keyword's value is.
const (
	note    = iota // text for people and forms, which checks nothing
	plain          // nothing that contains schemas
	single         // a schema
	list           // an array of schemas
	members        // an object of schemas
)

// keywords are those of drafts 7 to 2020-12 that a description may use. $ref, $defs, the dynamic ones and
// unevaluated... are not among them: see the comment of the package.
var keywords = map[string]int{
	"type": plain, "enum": plain, "const": plain,
	"properties": members, "required": plain, "additionalProperties": single, "patternProperties": members,
	"propertyNames": single, "minProperties": plain, "maxProperties": plain, "dependentRequired": plain,
	"dependentSchemas": members,
	"items":            single, "prefixItems": list, "contains": single, "minContains": plain, "maxContains": plain,
	"minItems": plain, "maxItems": plain, "uniqueItems": plain,
	"minimum": plain, "maximum": plain, "exclusiveMinimum": plain, "exclusiveMaximum": plain, "multipleOf": plain,
	"minLength": plain, "maxLength": plain, "pattern": plain,
	"allOf": list, "anyOf": list, "oneOf": list, "not": single, "if": single, "then": single, "else": single,
	"title": note, "description": note, "default": note, "examples": note, "format": note, "deprecated": note,
	"readOnly": note, "writeOnly": note, "$comment": note, "$schema": note,
}

// annotations are dropped before the library sees the schema: a $schema would have it look for another metaschema.
var annotations = []string{"$schema", "format"}

// Compile reads the schema of a description. The error says what of it can't be used, and where.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > abi.MaxSchema {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(raw), abi.MaxSchema)
	}
	value, err := read(raw, len(raw), inSchema)
	if err != nil && !errors.Is(err, errJSON) {
		return nil, err
	}
	doc, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%.80s is not a JSON object", raw)
	}
	s := &Schema{}
	if err := s.cost.restrict(doc, "#", 0); err != nil {
		return nil, err
	}
	if t, ok := doc["type"]; ok && t != "object" {
		return nil, fmt.Errorf(`#/type is %.80s: parameters are an object, so it has to be "object"`, show(t))
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	const name = "params:schema"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	if s.compiled, err = c.Compile(name); err != nil {
		return nil, errors.New(wrongSchema(err))
	}
	if p, ok := doc["properties"].(map[string]any); ok {
		s.names = slices.Sorted(maps.Keys(p))
	}
	return s, nil
}

// wrongSchema is the library's text without the name that the schema has for it.
func wrongSchema(err error) string {
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var v *jsonschema.ValidationError
		if errors.As(invalid.Err, &v) {
			leaf := first(v)
			return fmt.Sprintf("#/%s: %s", strings.Join(leaf.InstanceLocation, "/"),
				leaf.ErrorKind.LocalizedString(printer))
		}
	}
	return strings.TrimPrefix(err.Error(), "params:schema")
}

// restrict refuses what is not in the subset, drops what the library is not to see, and counts the rest.
func (c *cost) restrict(value any, at string, depth int) error {
	c.rules++
	if _, ok := value.(bool); ok && depth > 0 {
		return nil
	}
	m, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %.80s, where a schema is an object", at, show(value))
	}
	if depth > maxDepth {
		return fmt.Errorf("%.200s is nested %d deep, the limit is %d", at, depth, maxDepth)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		kind, known := keywords[key] // what begins with x- is a note
		if !known && !strings.HasPrefix(key, "x-") {
			return fmt.Errorf("%.200s: keyword %.40q is none of those that parameters may use", at, key)
		}
		if err := c.restrictKeyword(m[key], key, kind, at+"/"+key, depth); err != nil {
			return err
		}
	}
	for _, key := range annotations {
		delete(m, key)
	}
	return nil
}

func (c *cost) restrictKeyword(value any, key string, kind int, at string, depth int) error {
	if kind == plain {
		return c.add(at, key, value)
	}
	switch v := value.(type) {
	case map[string]any:
		if kind == members {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if key == "patternProperties" {
					if err := c.addPattern(at, name); err != nil {
						return err
					}
				}
				if err := c.restrict(v[name], at+"/"+name, depth+1); err != nil {
					return err
				}
			}
		}
	case []any:
		if kind == list {
			for i, part := range v {
				if err := c.restrict(part, at+"/"+strconv.Itoa(i), depth+1); err != nil {
					return err
				}
			}
		}
	}
	if kind == single {
		return c.restrict(value, at, depth+1)
	}
	return nil
}
