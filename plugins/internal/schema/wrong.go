package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Wrong says what is wrong with parameters.
type Wrong struct {
	Text    string // field, bound and value
	Unknown string // the parameter that the schema does not have, "" for another error
}

// Error implements error.
func (w *Wrong) Error() string { return w.Text }

var printer = message.NewPrinter(language.English)

// maxShown is how many bytes of a value an error shows.
const maxShown = 80

// Check checks the JSON object of a request's parameters; nothing means {}. The error is a *Wrong.
func (s *Schema) Check(params []byte) error {
	if len(params) == 0 {
		params = []byte("{}")
	}
	if most := s.cost.bytes(); most > 0 && len(params) > most {
		return &Wrong{Text: fmt.Sprintf("params has %d bytes: the patterns of the plugin's schema let it have %d",
			len(params), most)}
	}
	value, err := read(params, s.cost.values(), inParams)
	switch {
	case errors.Is(err, errTooMany):
		return &Wrong{Text: fmt.Sprintf("params has more than %d names and values, which the %d rules of the plugin's "+
			"schema let it have", s.cost.values(), s.cost.rules)}
	case errors.Is(err, errJSON):
		return &Wrong{Text: "params is not a JSON object"}
	case err != nil:
		return &Wrong{Text: err.Error()}
	}
	err = s.compiled.Validate(value)
	var v *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &v):
		return s.wrong(first(v), value, false)
	}
	return &Wrong{Text: err.Error()}
}

// first returns of the mistakes the one whose place comes first. Objects are checked in no order, and the same request
// is to get the same text. Alternatives that all failed are one mistake.
func first(v *jsonschema.ValidationError) *jsonschema.ValidationError {
	switch v.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return v
	}
	if len(v.Causes) == 0 {
		return v
	}
	best := first(v.Causes[0])
	for _, c := range v.Causes[1:] {
		if next := first(c); cmp.Or(slices.Compare(next.InstanceLocation, best.InstanceLocation),
			slices.Compare(next.ErrorKind.KeywordPath(), best.ErrorKind.KeywordPath())) < 0 {
			best = next
		}
	}
	return best
}

// wrong says what a mistake is; inner that it is in an alternative.
func (s *Schema) wrong(v *jsonschema.ValidationError, whole any, inner bool) *Wrong {
	path, value := locate(whole, v.InstanceLocation)
	switch k := v.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		name := k.Properties[0]
		if path != "" {
			return &Wrong{Text: fmt.Sprintf("%s has the unknown member %q", path, cut(name))}
		}
		if len(s.names) == 0 {
			return &Wrong{Text: fmt.Sprintf("unknown parameter %q: the plugin has none", cut(name)), Unknown: name}
		}
		return &Wrong{Text: fmt.Sprintf("unknown parameter %q: the plugin has %s", cut(name), strings.Join(s.names, ", ")),
			Unknown: name}
	case *kind.Required:
		if path != "" {
			path += "."
		}
		return &Wrong{Text: path + slices.Min(k.Missing) + " is missing"}
	}
	return &Wrong{Text: fmt.Sprintf("%s is %s, %s", cmp.Or(path, "params"), show(value), s.reason(v, whole, inner))}
}

// reason says which rule a value breaks.
func (s *Schema) reason(v *jsonschema.ValidationError, whole any, inner bool) string {
	switch k := v.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("of type %s: it has to be %s", k.Got, strings.Join(k.Want, " or "))
	case *kind.Enum:
		var all []string
		for _, w := range k.Want {
			all = append(all, show(w))
		}
		return "not one of " + cut(strings.Join(all, ", "))
	case *kind.Const:
		return "and has to be " + show(k.Want)
	case *kind.Minimum:
		return "below the minimum, " + number(k.Want)
	case *kind.Maximum:
		return "above the maximum, " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "and has to be above " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "and has to be below " + number(k.Want)
	case *kind.MultipleOf:
		return "not a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("of %d characters, the least is %d", k.Got, k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("of %d characters, the limit is %d", k.Got, k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("with %d elements, the least is %d", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("with %d elements, the limit is %d", k.Got, k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("with %d members, the least is %d", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("with %d members, the limit is %d", k.Got, k.Want)
	case *kind.Pattern:
		return "which does not match the pattern " + cut(k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("whose elements %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.AnyOf:
		return s.alternatives(v, whole, inner)
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "which fits more than one of its alternatives"
		}
		return s.alternatives(v, whole, inner)
	}
	return "which breaks the rule: " + cut(v.ErrorKind.LocalizedString(printer))
}

// alternatives says why a value fits none of them, except where they are in another: the texts would grow with each.
func (s *Schema) alternatives(v *jsonschema.ValidationError, whole any, inner bool) string {
	if inner {
		return "which fits none of its alternatives"
	}
	var all []string
	for _, c := range v.Causes[:min(len(v.Causes), 4)] {
		all = append(all, s.wrong(first(c), whole, true).Text)
	}
	return "which fits none of its alternatives: " + strings.Join(all, "; ")
}

// locate returns a place in the form that people write, and what is there.
func locate(value any, at []string) (path string, found any) {
	for _, token := range at {
		switch v := value.(type) {
		case map[string]any:
			if path != "" {
				path += "."
			}
			path += cut(token)
			value = v[token]
		case []any:
			path += "[" + token + "]"
			if i, err := strconv.Atoi(token); err == nil && i < len(v) {
				value = v[i]
			}
		}
	}
	return path, value
}

// show writes a value as JSON, short.
func show(value any) string {
	switch v := value.(type) {
	case string:
		value = cut(v)
	case []any:
		value = v[:min(len(v), maxShown)]
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "?"
	}
	return cut(strings.TrimSuffix(b.String(), "\n"))
}

// cut shortens a text to whole characters.
func cut(text string) string {
	if len(text) <= maxShown {
		return text
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return cut(r.Num().String())
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
