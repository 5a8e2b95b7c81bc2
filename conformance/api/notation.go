package api

import (
	"fmt"
	"strings"
)

// The kit's own description of replies is written in a notation of one line a
// type:
//
//	Name = {field type, field? type, ...}   an object; ? may be left out, ... lets others in
//	[type]   type|null   "a"|"b"   string uint number bool any   Name
//
// Objects without the dots take no other members.

// notation reads types.
type notation struct {
	text string
	all  schemas
}

// readTypes returns the types that text describes. Text is part of this package:
// a mistake in it is ours.
func readTypes(text string) schemas {
	all := schemas{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			continue
		}
		n := &notation{text: rest, all: all}
		all[name] = n.union()
		if n.text != "" {
			n.broken("the end")
		}
	}
	return all
}

func (n *notation) broken(want string) {
	panic(fmt.Sprintf("BUG: a type goes on with %q, want %s", n.text, want))
}

// take removes a mark.
func (n *notation) take(mark string) bool {
	rest, ok := strings.CutPrefix(strings.TrimSpace(n.text), mark)
	if ok {
		n.text = strings.TrimSpace(rest)
	}
	return ok
}

// word removes a name.
func (n *notation) word() string {
	end := strings.IndexFunc(n.text, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	if end < 0 {
		end = len(n.text)
	}
	w := n.text[:end]
	n.text = n.text[end:]
	if w == "" {
		n.broken("a name")
	}
	return w
}

func (n *notation) union() *Schema {
	first := n.one()
	options, null := []*Schema{first}, false
	for n.take("|") {
		if n.take("null") {
			null = true
			continue
		}
		options = append(options, n.one())
	}
	switch {
	case len(options) > 1 && first.Enum != nil:
		for _, o := range options[1:] {
			first.Enum = append(first.Enum, o.Enum...)
		}
	case len(options) > 1:
		first = &Schema{AnyOf: options}
	case null && first.Ref != "":
		first = &Schema{AllOf: options}
	}
	first.Nullable = null
	return first
}

func (n *notation) one() *Schema {
	switch {
	case n.take("["):
		s := &Schema{Type: "array", Items: n.union()}
		if !n.take("]") {
			n.broken("]")
		}
		return s
	case n.take("{"):
		return n.object()
	case n.take(`"`):
		text, rest, _ := strings.Cut(n.text, `"`)
		n.text = rest
		return &Schema{Type: "string", Enum: []any{text}}
	}
	switch w := n.word(); w {
	case "string", "number":
		return &Schema{Type: w}
	case "bool":
		return &Schema{Type: "boolean"}
	case "uint":
		return &Schema{Type: "integer", Minimum: new(float64)}
	case "any":
		return &Schema{}
	default:
		if n.all[w] == nil {
			n.broken("a type, " + w + " is none")
		}
		return &Schema{Ref: "#/components/schemas/" + w}
	}
}

func (n *notation) object() *Schema {
	s := &Schema{Type: "object", Properties: map[string]*Schema{}, Others: &Schema{Never: true}}
	for !n.take("}") {
		if n.take("...") {
			s.Others = nil
			continue
		}
		name := n.word()
		if !n.take("?") {
			s.Required = append(s.Required, name)
		}
		n.text = strings.TrimSpace(n.text)
		s.Properties[name] = n.union()
		n.take(",")
	}
	return s
}
