// Package schema checks a request's parameters against the JSON Schema that a plugin's description declares, before
// the guest is started.
//
// It owns the subset of JSON Schema that a description may use, and the texts of what is wrong; a library does the
// checking. The subset has no references: the work is bounded by the size of the schema times that of the parameters,
// and nothing is ever loaded.
package schema

import (
	"bytes"
	"encoding/json"
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
}

// Names returns the parameters that the schema lists, sorted.
func (s *Schema) Names() []string { return s.names }

// What a keyword's value is.
const (
	plain   = iota // nothing that contains schemas
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
	// these are for people and forms, and check nothing
	"title": plain, "description": plain, "default": plain, "examples": plain, "format": plain, "deprecated": plain,
	"readOnly": plain, "writeOnly": plain, "$comment": plain, "$schema": plain,
}

// annotations are dropped before the library sees the schema: a $schema would have it look for another metaschema.
var annotations = []string{"$schema", "format"}

// Compile reads the schema of a description. The error says what of it can't be used, and where.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > abi.MaxSchema {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(raw), abi.MaxSchema)
	}
	var doc map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil || doc == nil {
		return nil, fmt.Errorf("%.80s is not a JSON object", raw)
	}
	if err := restrict(doc, "#", 0); err != nil {
		return nil, err
	}
	if t, ok := doc["type"]; ok && t != "object" {
		return nil, fmt.Errorf(`#/type is %.80s: parameters are an object, so it has to be "object"`, show(t))
	}
	narrowed, err := narrow(doc)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	const name = "params:schema"
	if err := c.AddResource(name, narrowed); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, errors.New(wrongSchema(err))
	}
	s := &Schema{compiled: compiled}
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

// restrict refuses what is not in the subset, and drops what the library is not to see.
func restrict(value any, at string, depth int) error {
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
		kind, known := keywords[key]
		if !known && !strings.HasPrefix(key, "x-") {
			return fmt.Errorf("%.200s: keyword %.40q is none of those that parameters may use", at, key)
		}
		if err := restrictKeyword(m[key], kind, at+"/"+key, depth); err != nil {
			return err
		}
	}
	for _, key := range annotations {
		delete(m, key)
	}
	return nil
}

func restrictKeyword(value any, kind int, at string, depth int) error {
	switch v := value.(type) {
	case map[string]any:
		if kind == members {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if err := restrict(v[name], at+"/"+name, depth+1); err != nil {
					return err
				}
			}
		}
	case []any:
		if kind == list {
			for i, part := range v {
				if err := restrict(part, at+"/"+strconv.Itoa(i), depth+1); err != nil {
					return err
				}
			}
		}
	}
	if kind == single {
		return restrict(value, at, depth+1)
	}
	return nil
}

// narrow returns a decoded value with its numbers as int64, uint64 or float64: the library computes with exact
// fractions, and would write 1e999999 out.
func narrow(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("number %.40s is out of range", v)
		}
		return f, nil
	case []any:
		for i := range v {
			var err error
			if v[i], err = narrow(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			var err error
			if v[k], err = narrow(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}
