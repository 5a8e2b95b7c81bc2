package guest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxSets is how many parameters are made of a schema.
const maxSets = 24

// paramSets makes parameters of the schema in a description: its examples, all defaults, each property with a few
// values of its own beside those that must be there, and all properties together.
func paramSets(schema json.RawMessage) (sets []string) {
	var s struct {
		Properties map[string]json.RawMessage
		Required   []string
		Examples   []map[string]json.RawMessage
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	add := func(set map[string]json.RawMessage) {
		text, err := json.Marshal(set)
		if err == nil && !slices.Contains(sets, string(text)) && len(sets) < maxSets {
			sets = append(sets, string(text))
		}
	}
	for _, x := range s.Examples {
		add(x)
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	must, all, defaults := map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}
	values := map[string][]json.RawMessage{}
	for _, name := range names {
		v, usual := valuesOf(s.Properties[name])
		values[name] = v
		if usual != nil {
			defaults[name] = usual
		}
		if len(v) > 0 {
			all[name] = v[0]
		}
		if slices.Contains(s.Required, name) && len(v) > 0 {
			must[name] = v[0]
		}
	}
	for name, v := range must {
		if defaults[name] == nil {
			defaults[name] = v
		}
	}
	add(defaults)
	add(all)
	for i := range 2 { // the first value of each comes before any second one
		for _, name := range names {
			if i < len(values[name]) {
				set := maps.Clone(must)
				set[name] = values[name][i]
				add(set)
			}
		}
	}
	return sets
}

// valuesOf are values of a property, those first that are not its default.
func valuesOf(schema json.RawMessage) (list []json.RawMessage, usual json.RawMessage) {
	var s struct {
		Type             any
		Default, Const   json.RawMessage
		Examples, Enum   []json.RawMessage
		Items            json.RawMessage
		AnyOf, OneOf     []json.RawMessage
		Minimum, Maximum *float64
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil, nil
	}
	add := func(text string) { list = append(list, json.RawMessage(text)) }
	list = slices.Concat(s.Examples, s.Enum)
	if s.Const != nil {
		list = append(list, s.Const)
	}
	for _, either := range slices.Concat(s.AnyOf, s.OneOf) {
		v, _ := valuesOf(either)
		list = append(list, v...)
	}
	types := fmt.Sprint(s.Type) // a word, or several
	switch {
	case len(list) > 0:
	case strings.Contains(types, "boolean"):
		add("true")
		add("false")
	case strings.Contains(types, "integer"), strings.Contains(types, "number"):
		for _, v := range []float64{2, 1, 0.5, 0} {
			if (s.Minimum == nil || v >= *s.Minimum) && (s.Maximum == nil || v <= *s.Maximum) &&
				(v != 0.5 || !strings.Contains(types, "integer")) {
				add(strconv.FormatFloat(v, 'f', -1, 64))
			}
		}
		for _, edge := range []*float64{s.Minimum, s.Maximum} {
			if edge != nil {
				add(strconv.FormatFloat(*edge, 'f', -1, 64))
			}
		}
	case strings.Contains(types, "string"):
		add(`"a"`)
	case strings.Contains(types, "array"):
		if v, _ := valuesOf(s.Items); len(v) > 0 {
			add("[" + string(v[0]) + "]")
		} else {
			add("[]")
		}
	case strings.Contains(types, "object"):
		add("{}")
	}
	same := func(v json.RawMessage) bool { return s.Default != nil && string(v) == string(s.Default) }
	others := slices.DeleteFunc(slices.Clone(list), same)
	if s.Default != nil {
		others = append(others, s.Default)
	}
	return others, s.Default
}
