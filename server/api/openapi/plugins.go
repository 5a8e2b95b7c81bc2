package openapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
		if d.Decode(&declared) != nil || declared == nil {
			return nil // this one lets everything pass
		}
		declared["type"] = "object" // whether it says so or not
		s, _ := translate(declared, true)
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
var same = []string{"title", "description", "deprecated", "enum", "required", "uniqueItems", "minimum", "maximum",
	"multipleOf", "pattern"}

// sizes are those that bound how many there are of something.
var sizes = []string{"minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"}

// unknown are keywords of JSON Schema that OpenAPI 3.0 has not.
var unknown = []string{"if", "prefixItems", "contains", "propertyNames", "dependentRequired", "dependentSchemas",
	"patternProperties"}

// never is a schema that nothing fits: nothing is both. Other software takes not and an empty schema for one that says
// nothing.
func never() map[string]any {
	return map[string]any{"allOf": []any{map[string]any{"type": "string"}, map[string]any{"type": "boolean"}}}
}

// translate writes a JSON Schema, of those keywords that a plugin may use, as a schema of OpenAPI 3.0. What that cannot
// say is left out: the result lets pass whatever the plugin does, and may be more, unless it is exact. null says that
// nothing around the schema forbids null.
func translate(schema any, null bool) (out map[string]any, exact bool) {
	switch s := schema.(type) {
	case map[string]any:
		return translateObject(s, null && admitsNull(s))
	case bool:
		if !s {
			return never(), true
		}
	}
	out = map[string]any{}
	allowNull(out, null)
	return out, true
}

// allowNull has a schema say whether null fits. That is a flag in OpenAPI 3.0, and other software takes null for what
// fits no schema without the flag, also where that has no type.
func allowNull(out map[string]any, null bool) {
	if null {
		out["nullable"] = true
	}
}

// admitsNull reports whether null fits a JSON Schema. Keywords that say something of other types do not count.
func admitsNull(schema any) bool {
	s, ok := schema.(map[string]any)
	if !ok {
		all, isBool := schema.(bool)
		return all || !isBool
	}
	isNull := func(v any) bool { return v == nil }
	if t, ok := s["type"]; ok && !slices.Contains(typesOf(t), "null") {
		return false
	}
	if list, ok := s["enum"].([]any); ok && !slices.ContainsFunc(list, isNull) {
		return false
	}
	if v, ok := s["const"]; ok && v != nil {
		return false
	}
	if v, ok := s["not"]; ok && admitsNull(v) {
		return false
	}
	if v, ok := s["if"]; ok {
		branch := "else"
		if admitsNull(v) {
			branch = "then"
		}
		if v, ok := s[branch]; ok && !admitsNull(v) {
			return false
		}
	}
	for name, fits := range map[string]func(admit, all int) bool{
		"allOf": func(admit, all int) bool { return admit == all },
		"anyOf": func(admit, _ int) bool { return admit > 0 },
		"oneOf": func(admit, _ int) bool { return admit == 1 },
	} {
		list, ok := s[name].([]any)
		admit := 0
		for _, part := range list {
			if admitsNull(part) {
				admit++
			}
		}
		if ok && !fits(admit, len(list)) {
			return false
		}
	}
	return true
}

// translateObject translates a schema that null fits or does not. Where it does not, it fits none of the parts either:
// some software asks these alone.
func translateObject(s map[string]any, null bool) (out map[string]any, exact bool) {
	out, exact = map[string]any{}, true
	allowNull(out, null)
	for key, value := range s {
		if slices.Contains(same, key) || strings.HasPrefix(key, "x-") {
			out[key] = value
		}
		exact = exact && !slices.Contains(unknown, key)
	}
	if format, ok := s["format"]; ok {
		out["x-format"] = format // a note for people: plugins do not check it, and other software does
	}
	if list, ok := s["enum"].([]any); ok && len(list) == 0 {
		return never(), true
	}
	// A document is not valid whose defaults and examples do not fit.
	fits := fitsOwn(s)
	if value, ok := s["default"]; ok && fits(value) {
		out["default"] = value
	}
	list, _ := s["examples"].([]any)
	if i := slices.IndexFunc(list[:min(len(list), maxExamples)], fits); i >= 0 {
		out["example"] = list[i]
	}
	bound(out, s, "exclusiveMinimum", "minimum", func(open, closed float64) bool { return open >= closed })
	bound(out, s, "exclusiveMaximum", "maximum", func(open, closed float64) bool { return open <= closed })
	exact = translateCounts(out, s) && exact
	child := func(value any) map[string]any {
		part, whole := translate(value, true)
		exact = exact && whole
		return part
	}
	translateMembers(out, s, child)
	if value, ok := s["items"]; ok && s["prefixItems"] == nil { // which say what the first ones are
		out["items"] = child(value)
	}
	var all []any // of these each counts
	if value, ok := s["const"]; ok {
		constant := map[string]any{"enum": []any{value}}
		if allowNull(constant, null); s["enum"] == nil {
			out["enum"] = constant["enum"]
		} else {
			all = append(all, constant)
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, ok := s[name].([]any)
		if !ok {
			continue
		}
		parts, whole := make([]any, len(list)), true
		for i := range list {
			part, partWhole := translate(list[i], null)
			parts[i], whole = part, whole && partWhole
		}
		if name == "oneOf" && !whole {
			name = "anyOf" // what lets more pass may fit two
		}
		exact = exact && whole
		all = append(all, map[string]any{name: parts})
	}
	if value, ok := s["not"]; ok {
		if part, whole := translate(value, true); whole {
			out["not"] = part
		} else {
			exact = false // what lets more pass would forbid more
		}
	}
	types := typesOf(s["type"])
	if len(types) == 1 && types[0] == "null" {
		if !null {
			return never(), true
		}
		out["type"], out["enum"] = "string", []any{nil}
	} else if kinds := translateTypes(out, types, null); kinds != nil {
		all = append(all, map[string]any{"anyOf": kinds})
	}
	join(out, all, null)
	return out, exact
}

// maxExamples bounds the examples of a schema that are tried: the first that fits is shown.
const maxExamples = 8

// fitsOwn returns what reports whether a value fits the JSON Schema that has it as a note. The schema is compiled when
// there is a value, and once.
func fitsOwn(schema map[string]any) func(value any) bool {
	compiled := sync.OnceValues(func() (*jsonschema.Schema, error) {
		const name = "params:schema"
		own := maps.Clone(schema)
		delete(own, "$schema") // which the library would look for
		c := jsonschema.NewCompiler()
		c.UseLoader(jsonschema.SchemeURLLoader{})
		if err := c.AddResource(name, own); err != nil {
			return nil, err
		}
		return c.Compile(name)
	})
	return func(value any) bool {
		s, err := compiled()
		return err == nil && s.Validate(value) == nil
	}
}

// join adds schemas to out of which each counts: one by its keywords, unless out has them.
func join(out map[string]any, all []any, null bool) {
	if len(all) == 1 {
		alone := all[0].(map[string]any)
		clash := false
		for key := range alone {
			clash = clash || key != "nullable" && out[key] != nil
		}
		if !clash {
			maps.Copy(out, alone)
			return
		}
	}
	if len(all) > 0 {
		for _, part := range all {
			allowNull(part.(map[string]any), null)
		}
		out["allOf"] = all
	}
}

// translateCounts writes the bounds of numbers of things, and reports whether it could. JSON Schema takes 2.0 for 2.
func translateCounts(out, s map[string]any) (exact bool) {
	exact = true
	for _, key := range sizes {
		n, ok := s[key].(json.Number)
		if !ok {
			continue
		}
		if x, err := n.Float64(); err == nil && x >= 0 && x < 1<<53 && x == math.Trunc(x) {
			out[key] = uint64(x)
		} else {
			exact = false
		}
	}
	return exact
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

// typesOf lists the types of a schema.
func typesOf(value any) (names []string) {
	switch t := value.(type) {
	case string:
		return []string{t}
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

// translateTypes writes the types but null: there is one of each schema in OpenAPI 3.0. It returns the alternatives
// where there are several.
func translateTypes(out map[string]any, names []string, null bool) (kinds []any) {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "null" })
	one := func(to map[string]any, name string) map[string]any {
		to["type"] = name
		if allowNull(to, null); name == "array" && to["items"] == nil { // which an array must have
			to["items"] = map[string]any{"nullable": true}
		}
		return to
	}
	if len(names) == 1 {
		one(out, names[0])
		return nil
	}
	for _, name := range names {
		kinds = append(kinds, one(map[string]any{}, name))
	}
	return kinds
}
