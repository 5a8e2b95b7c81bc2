package tgi

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/server/api/openapi"
)

// document returns what a server with these options says of itself.
func document(t *testing.T, a *API) *openapi.Document {
	t.Helper()
	var d openapi.Document
	if err := json.Unmarshal(a.document(nil), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// checker holds JSON values against the schemas of a document.
type checker struct {
	schemas map[string]*openapi.Schema
	// loose ignores the bounds of numbers and lists.
	loose bool
}

// check returns where v, as encoding/json reads it, is not what s says. Members
// that an object's schema does not name are mistakes.
func (c checker) check(at string, s *openapi.Schema, v any) (wrong []string) {
	say := func(format string, args ...any) []string {
		return append(wrong, at+": "+fmt.Sprintf(format, args...))
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return c.check(at, c.schemas[name], v)
	}
	if v == nil && (s.Nullable || s.Type == "" && len(s.OneOf)+len(s.AnyOf)+len(s.AllOf) == 0) {
		return nil
	}
	for _, one := range s.AllOf {
		wrong = append(wrong, c.check(at, one, v)...)
	}
	if n := c.fits(s.OneOf, v); len(s.OneOf) > 0 && n != 1 {
		return say("%v fits %d of oneOf", v, n)
	}
	if n := c.fits(s.AnyOf, v); len(s.AnyOf) > 0 && n == 0 {
		return say("%v fits none of anyOf", v)
	}
	switch s.Type {
	case "":
		return wrong
	case "object":
		return append(wrong, c.object(at, s, v)...)
	case "array":
		items, ok := v.([]any)
		if !ok {
			return say("%v is no list", v)
		}
		if s.MaxItems > 0 && len(items) > s.MaxItems && !c.loose {
			wrong = say("%d items", len(items))
		}
		for i := range items {
			wrong = append(wrong, c.check(fmt.Sprintf("%s[%d]", at, i), s.Items, items[i])...)
		}
		return wrong
	case "string":
		if text, ok := v.(string); !ok || len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
			return say("%v is no string of %q", v, s.Enum)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return say("%v is no boolean", v)
		}
	case "integer", "number":
		n, ok := v.(float64)
		if !ok || s.Type == "integer" && n != math.Trunc(n) {
			return say("%v is no %s", v, s.Type)
		}
		if !c.loose && (s.Minimum != nil && (n < *s.Minimum || s.OpenMinimum && n == *s.Minimum) || s.Maximum != nil &&
			(n > *s.Maximum || s.OpenMaximum && n == *s.Maximum)) {
			return say("%v is out of bounds", n)
		}
	default:
		return say("the schema has type %q", s.Type)
	}
	return wrong
}

func (c checker) fits(options []*openapi.Schema, v any) (n int) {
	for _, s := range options {
		if len(c.check("", s, v)) == 0 {
			n++
		}
	}
	return n
}

func (c checker) object(at string, s *openapi.Schema, v any) (wrong []string) {
	members, ok := v.(map[string]any)
	if !ok {
		return []string{fmt.Sprintf("%s: %v is no object", at, v)}
	}
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			wrong = append(wrong, at+": lacks "+name)
		}
	}
	for name, m := range members {
		p := s.Properties[name]
		if p == nil {
			p = s.Additional
		}
		if p == nil {
			wrong = append(wrong, at+": has "+name)
			continue
		}
		wrong = append(wrong, c.check(at+"."+name, p, m)...)
	}
	return wrong
}

// operation returns the operation of a request, whose path may be a template's.
func operation(d *openapi.Document, method, path string) *openapi.Operation {
	for template, methods := range d.Paths {
		parts, given := strings.Split(template, "/"), strings.Split(path, "/")
		if len(parts) == len(given) {
			same := true
			for i := range parts {
				same = same && (parts[i] == given[i] || strings.HasPrefix(parts[i], "{"))
			}
			if o := methods[strings.ToLower(method)]; same && o != nil {
				return o
			}
		}
	}
	return nil
}

// replyFits returns where a reply is not what the operation says.
func replyFits(c checker, o *openapi.Operation, status int, kind string, body []byte) (wrong []string) {
	r, ok := o.Responses[fmt.Sprint(status)]
	if !ok {
		return []string{fmt.Sprintf("no response %d", status)}
	}
	if len(body) == 0 && len(r.Content) == 0 {
		return nil
	}
	kind, _, _ = strings.Cut(kind, ";")
	m, ok := r.Content[kind]
	if !ok {
		return []string{fmt.Sprintf("%d: no media type %q", status, kind)}
	}
	texts := []string{string(body)}
	if kind == "text/event-stream" {
		texts = strings.Split(strings.TrimSuffix(string(body), "\n\n"), "\n\n")
	}
	for _, text := range texts {
		schema := m.Schema
		if kind == "text/event-stream" {
			text = strings.TrimSpace(strings.TrimPrefix(text, "data:"))
			if text == "[DONE]" {
				continue
			}
			// An error after the header is an event of the same stream.
			schema = &openapi.Schema{AnyOf: []*openapi.Schema{schema, o.Responses["422"].Content[kind].Schema}}
		}
		var v any = text
		if kind != "text/plain" {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return append(wrong, err.Error())
			}
		}
		wrong = append(wrong, c.check("reply", schema, v)...)
	}
	return wrong
}
