package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Plugin is one that requests may name.
type Plugin struct {
	Name string
	// About is what it says of itself.
	About string
	// Params are the JSON Schemas that its versions declare for their parameters: models may have different ones. An
	// empty one says nothing.
	Params []json.RawMessage
}

// Names of schemas.
const (
	pluginCall   = "PluginCall"
	pluginParams = "PluginParams"
)

// pluginCalls are the schemas of a plugin in a request: one form for each that may be named, which holds its parameters
// to what it declares. nil is any.
func pluginCalls(list []Plugin) map[string]*Schema {
	if len(list) == 0 {
		about := "A plugin to run in the token loop."
		if list != nil {
			about += " There is none now that may be named."
		}
		return map[string]*Schema{pluginCall: object(about, need("name", text("As GET /info lists it.")),
			may("params", orNull(anyObject("In the plugin's own terms."))))}
	}
	out := map[string]*Schema{}
	all := oneOf("A plugin to run in the token loop.")
	all.Discriminator = &Discriminator{PropertyName: "name", Mapping: map[string]string{}}
	for _, p := range list {
		form, params := pluginCall+"."+p.Name, pluginParams+"."+p.Name
		member, declared := may("params", orNull(anyObject("In the plugin's own terms."))), declaredParams(p.Params)
		if declared != nil {
			out[params] = declared
			if member = may("params", orNull(ref(params))); requires(p.Params) {
				member = need("params", ref(params))
			}
		}
		out[form] = object(p.About, need("name", words("", p.Name)), member)
		out[form].Additional = &Schema{own: false}
		all.OneOf = append(all.OneOf, ref(form))
		all.Discriminator.Mapping[p.Name] = refPrefix + form
	}
	out[pluginCall] = all
	return out
}

// requires reports whether each of the schemas names a parameter that must be given.
func requires(schemas []json.RawMessage) bool {
	return !slices.ContainsFunc(schemas, func(text json.RawMessage) bool {
		var s struct{ Required []string }
		return json.Unmarshal(text, &s) != nil || len(s.Required) == 0
	})
}

// declaredParams is what parameters are that fit one of the schemas; nil for any object.
func declaredParams(schemas []json.RawMessage) *Schema {
	var options []any
	for _, text := range schemas {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var declared map[string]any
		if d.Decode(&declared) != nil {
			return nil // this one lets everything pass
		}
		s, _ := translate(declared)
		s["type"] = "object" // whether it says so or not
		options = append(options, s)
	}
	switch len(options) {
	case 0:
		return nil
	case 1:
		return &Schema{own: options[0]}
	}
	return &Schema{own: map[string]any{"anyOf": options}}
}

// same are the keywords that mean the same in JSON Schema and in OpenAPI 3.0, or are notes for people and programs.
var same = []string{"title", "description", "default", "format", "deprecated", "enum", "required", "minProperties",
	"maxProperties", "minItems", "maxItems", "uniqueItems", "minimum", "maximum", "multipleOf", "minLength",
	"maxLength", "pattern"}

// unknown are keywords of JSON Schema that OpenAPI 3.0 has not.
var unknown = []string{"if", "prefixItems", "contains", "propertyNames", "dependentRequired", "dependentSchemas",
	"patternProperties"}

// translate writes a JSON Schema, of those keywords that a plugin may use, as a schema of OpenAPI 3.0. What that cannot
// say is left out: the result lets pass whatever the plugin does, and may be more, unless it is exact.
func translate(schema any) (out map[string]any, exact bool) {
	switch s := schema.(type) {
	case map[string]any:
		return translateObject(s)
	case bool:
		if !s {
			return map[string]any{"allOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "boolean"}}},
				true // nothing is both; other software takes not and an empty schema for one that says nothing
		}
	}
	return map[string]any{}, true
}

func translateObject(s map[string]any) (out map[string]any, exact bool) {
	out, exact = map[string]any{}, true
	for key, value := range s {
		if slices.Contains(same, key) || strings.HasPrefix(key, "x-") {
			out[key] = value
		}
		exact = exact && !slices.Contains(unknown, key)
	}
	if value, ok := s["const"]; ok {
		out["enum"] = []any{value}
	}
	if list, ok := s["examples"].([]any); ok && len(list) > 0 {
		out["example"] = list[0]
	}
	inner := func(value any) map[string]any {
		part, whole := translate(value)
		exact = exact && whole
		return part
	}
	bound(out, s, "exclusiveMinimum", "minimum", func(open, closed float64) bool { return open >= closed })
	bound(out, s, "exclusiveMaximum", "maximum", func(open, closed float64) bool { return open <= closed })
	translateMembers(out, s, inner)
	if value, ok := s["items"]; ok && s["prefixItems"] == nil { // which say what the first ones are
		out["items"] = inner(value)
	}
	var all []any // of these each counts
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, ok := s[name].([]any)
		if !ok {
			continue
		}
		before := exact
		exact = true
		parts := make([]any, len(list))
		for i := range list {
			parts[i] = inner(list[i])
		}
		if name == "oneOf" && !exact {
			name = "anyOf" // what lets more pass may fit two
		}
		exact = exact && before
		all = append(all, map[string]any{name: parts})
	}
	if value, ok := s["not"]; ok {
		if part, whole := translate(value); whole {
			out["not"] = part
		} else {
			exact = false // what lets more pass would forbid more
		}
	}
	if kinds := translateType(out, s["type"]); kinds != nil {
		all = append(all, map[string]any{"anyOf": kinds})
	}
	if len(all) == 1 {
		for name, parts := range all[0].(map[string]any) {
			out[name] = parts
		}
	} else if len(all) > 1 {
		out["allOf"] = all
	}
	return out, exact
}

// bound writes an exclusive bound, a number of its own in JSON Schema and a flag of the other bound in OpenAPI 3.0.
// counts says that it says as much as the other one.
func bound(out, s map[string]any, open, closed string, counts func(open, closed float64) bool) {
	n, ok := s[open].(json.Number)
	if !ok {
		return
	}
	if m, ok := s[closed].(json.Number); ok {
		x, _ := n.Float64()
		y, _ := m.Float64()
		if !counts(x, y) {
			return
		}
	}
	out[closed], out[open] = n, true
}

// translateMembers writes what an object's members are.
func translateMembers(out, s map[string]any, inner func(any) map[string]any) {
	if members, ok := s["properties"].(map[string]any); ok {
		parts := map[string]any{}
		for name, value := range members {
			parts[name] = inner(value)
		}
		out["properties"] = parts
	}
	switch value := s["additionalProperties"].(type) {
	case nil:
	case bool:
		if s["patternProperties"] == nil { // which are additional ones here
			out["additionalProperties"] = value
		}
	default:
		if part := inner(value); s["patternProperties"] == nil {
			out["additionalProperties"] = part
		}
	}
}

// translateType writes the type: null is a flag in OpenAPI 3.0, and there is one type of each schema. It returns the
// alternatives where there are several.
func translateType(out map[string]any, value any) (kinds []any) {
	var names []string
	switch t := value.(type) {
	case string:
		names = []string{t}
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				names = append(names, name)
			}
		}
	}
	null := slices.Contains(names, "null")
	names = slices.DeleteFunc(names, func(name string) bool { return name == "null" })
	one := func(to map[string]any, name string) map[string]any {
		to["type"] = name
		if null {
			to["nullable"] = true
		}
		if name == "array" && to["items"] == nil { // which an array must have
			to["items"] = map[string]any{}
		}
		return to
	}
	switch {
	case len(names) == 1:
		one(out, names[0])
	case len(names) > 1:
		for _, name := range names {
			kinds = append(kinds, one(map[string]any{}, name))
		}
	case null:
		one(out, "string")
		out["enum"] = []any{nil}
	}
	return kinds
}
