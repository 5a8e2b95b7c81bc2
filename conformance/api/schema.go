package api

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Schema is the part of JSON schema that OpenAPI documents of TGI's family use
// for replies.
type Schema struct {
	Ref      string   `json:"$ref"`
	Type     string   `json:"type"`
	Nullable bool     `json:"nullable"`
	Enum     []any    `json:"enum"`
	Minimum  *float64 `json:"minimum"`
	Maximum  *float64 `json:"maximum"`
	// OverMin and UnderMax are bounds of their own, or true to leave out those
	// above; TGI's documents have the one form and name the version of the other.
	OverMin    any                `json:"exclusiveMinimum"`
	UnderMax   any                `json:"exclusiveMaximum"`
	MultipleOf *float64           `json:"multipleOf"`
	MinLength  int                `json:"minLength"`
	MaxLength  *int               `json:"maxLength"`
	Pattern    string             `json:"pattern"`
	MinItems   int                `json:"minItems"`
	MaxItems   *int               `json:"maxItems"`
	Unique     bool               `json:"uniqueItems"`
	Items      *Schema            `json:"items"`
	MinMembers int                `json:"minProperties"`
	MaxMembers *int               `json:"maxProperties"`
	Required   []string           `json:"required"`
	Properties map[string]*Schema `json:"properties"`
	// Others is what members must be that Properties does not name; nil lets them
	// be anything.
	Others *Schema   `json:"additionalProperties"`
	OneOf  []*Schema `json:"oneOf"`
	AnyOf  []*Schema `json:"anyOf"`
	AllOf  []*Schema `json:"allOf"`
	Not    *Schema   `json:"not"`
	// Never fits nothing: the schema false.
	Never bool `json:"-"`

	pattern *regexp.Regexp // Pattern, compiled
}

// known are the keywords above, and those that do not restrict values.
var known = []string{
	"$ref", "type", "nullable", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "items", "minProperties",
	"maxProperties", "required", "properties", "additionalProperties", "oneOf", "anyOf", "allOf", "not",
	"format", "description", "title", "example", "default", "deprecated", "discriminator",
}

// UnmarshalJSON refuses keywords that would not be checked.
func (s *Schema) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "true":
		return nil
	case "false":
		s.Never = true
		return nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err != nil {
		return err
	}
	for _, name := range sorted(keys) {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, "x-") {
			return fmt.Errorf("the schema has %q, which this kit cannot check", name)
		}
	}
	type plain Schema
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	if s.Pattern == "" {
		return nil
	}
	var err error
	s.pattern, err = regexp.Compile(s.Pattern)
	return err
}

// schemas are named schemas; references mean them.
type schemas map[string]*Schema

var component = regexp.MustCompile(`^#/components/schemas/(.+)$`)

// check returns where v, whose numbers keep their text, violates s.
func (all schemas) check(at string, s *Schema, v any) []string {
	say := func(format string, args ...any) []string {
		return []string{at + ": " + fmt.Sprintf(format, args...)}
	}
	if m := component.FindStringSubmatch(s.Ref); m != nil {
		if s = all[m[1]]; s == nil {
			return say("the schema %s does not exist", m[1])
		}
		return all.check(at, s, v)
	}
	switch {
	case s.Never:
		return say("nothing may stand here, found %s", brief(v))
	case v == nil && s.Nullable:
		return nil
	}
	var wrong []string
	for _, one := range s.AllOf {
		wrong = append(wrong, all.check(at, one, v)...)
	}
	if len(s.OneOf) > 0 {
		if n, why := all.fits(at, s.OneOf, v); n != 1 {
			return say("%s fits %d of oneOf%s", brief(v), n, why)
		}
	}
	if len(s.AnyOf) > 0 {
		if n, why := all.fits(at, s.AnyOf, v); n == 0 {
			return say("%s fits none of anyOf%s", brief(v), why)
		}
	}
	if s.Not != nil && len(all.check(at, s.Not, v)) == 0 {
		return say("%s is what it may not be", brief(v))
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return isValue(e, v) }) {
		return say("%s is none of %v", brief(v), s.Enum)
	}
	if s.Type != "" && !s.isOf(v) {
		return append(wrong, say("%s is no %s", brief(v), s.Type)...)
	}
	// Keywords hold values of their type, whether the schema names it or not.
	switch v := v.(type) {
	case map[string]any:
		wrong = append(wrong, all.object(at, s, v)...)
	case []any:
		wrong = append(wrong, all.array(at, s, v)...)
	case string:
		if length := utf8.RuneCountInString(v); length < s.MinLength || s.MaxLength != nil && length > *s.MaxLength {
			wrong = append(wrong, say("%d characters are out of bounds", length)...)
		}
		if s.pattern != nil && !s.pattern.MatchString(v) {
			wrong = append(wrong, say("%s does not match %s", brief(v), s.Pattern)...)
		}
	case json.Number:
		if n := (value{v, true}).number(); s.outside(n) || s.uneven(n) {
			wrong = append(wrong, say("%v is out of bounds", n)...)
		}
	}
	return wrong
}

// isOf reports whether v has the type of s. A type that does not exist has no values.
func (s *Schema) isOf(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return s.Type == "object"
	case []any:
		return s.Type == "array"
	case string:
		return s.Type == "string"
	case bool:
		return s.Type == "boolean"
	case json.Number:
		n := (value{v, true}).number()
		return !math.IsNaN(n) && (s.Type == "number" || s.Type == "integer" && n == math.Trunc(n))
	}
	return false
}

func (all schemas) array(at string, s *Schema, items []any) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, at+": "+fmt.Sprintf(format, args...))
	}
	if s.MaxItems != nil && len(items) > *s.MaxItems {
		say("%d items, at most %d", len(items), *s.MaxItems)
	}
	if len(items) < s.MinItems {
		say("%d items, at least %d", len(items), s.MinItems)
	}
	if s.Unique && repeats(items) {
		say("%s has an item twice", brief(items))
	}
	for i := range items {
		if s.Items != nil {
			wrong = append(wrong, all.check(fmt.Sprintf("%s[%d]", at, i), s.Items, items[i])...)
		}
	}
	return wrong
}

// isValue reports whether v, whose numbers keep their text, is what a schema names.
func isValue(named, v any) bool {
	if n, ok := v.(json.Number); ok {
		return named == (value{n, true}).number()
	}
	text := func(x any) string { return value{[]any{x}, true}.String() } // in a list, so that texts have quotes
	return text(named) == text(v)
}

// repeats says that a value is among items twice.
func repeats(items []any) bool {
	seen := map[string]bool{}
	for _, item := range items {
		text := value{[]any{item}, true}.String() // in a list, so that texts have quotes
		if seen[text] {
			return true
		}
		seen[text] = true
	}
	return false
}

// uneven says that n is no multiple of what it has to be one of, but for rounding.
func (s *Schema) uneven(n float64) bool {
	if s.MultipleOf == nil || *s.MultipleOf <= 0 {
		return false
	}
	times := n / *s.MultipleOf
	return math.Abs(times-math.Round(times)) > 1e-9*max(1, math.Abs(times))
}

// outside says that n is beyond the schema's bounds.
func (s *Schema) outside(n float64) bool {
	low, openLow := bound(s.Minimum, s.OverMin)
	high, openHigh := bound(s.Maximum, s.UnderMax)
	return low != nil && (n < *low || openLow && n == *low) || high != nil && (n > *high || openHigh && n == *high)
}

// bound returns a bound, and whether it is exclusive.
func bound(closed *float64, open any) (at *float64, isOpen bool) {
	switch o := open.(type) {
	case float64:
		return &o, true
	case bool:
		return closed, o
	}
	return closed, false
}

// fits counts the options that v fits, and says why it does not fit the one that
// it comes closest to.
func (all schemas) fits(at string, options []*Schema, v any) (n int, why string) {
	least := -1
	for _, s := range options {
		wrong := all.check(at, s, v)
		if len(wrong) == 0 {
			n++
		} else if least < 0 || len(wrong) < least {
			least, why = len(wrong), ": "+wrong[0]
		}
	}
	return n, why
}

func (all schemas) object(at string, s *Schema, members map[string]any) (wrong []string) {
	if n := len(members); n < s.MinMembers || s.MaxMembers != nil && n > *s.MaxMembers {
		wrong = append(wrong, fmt.Sprintf("%s: %d members are out of bounds", at, n))
	}
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			wrong = append(wrong, at+" lacks "+name)
		}
	}
	for _, name := range sorted(members) {
		one := s.Properties[name]
		if one == nil {
			one = s.Others
		}
		if one != nil {
			wrong = append(wrong, all.check(at+"."+name, one, members[name])...)
		}
	}
	return wrong
}

func brief(v any) string {
	s := value{v, true}.String()
	if _, ok := v.(string); ok {
		s = encode(s)
	}
	return shorten(strings.TrimSpace(s), 80)
}
