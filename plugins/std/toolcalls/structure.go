package toolcalls

import (
	"strconv"
	"strings"
)

// structure is a part of a structural tag, XGrammar's form of a grammar for text with structured parts. The zero value
// of what a kind does not use is left out.
type structure struct {
	// as the form has it: const_string, regex, any_text, json_schema, token, sequence, or, star, plus, optional,
	// tags_with_separator
	kind   string
	text   string // of const_string, regex, token; the schema's JSON
	parts  []*structure
	not    []string  // what any_text never spells
	most   int       // characters of any_text, -1 for no bound
	loose  bool      // of json_schema: leave out what can't be enforced
	whole  bool      // of regex: anchors are its ends
	syntax string    // of grammar: gbnf or lark
	origin Place     // of json_schema, a whole regex and grammar: where in the request it comes from
	shared *fragment // of shared, a kind of our own: what stands in several places
}

// Place says what a place of a Constraint's source comes from: JSON pointers into source and request, and a tool's
// name.
type Place struct{ At, Pointer, Tool string }

// fragment is the JSON of a structure, with its places from where it stands.
type fragment struct {
	json   []byte
	places []Place
}

// once is a structure that may stand in several places: it is written once, and copied.
func once(s *structure) *structure {
	w := writer{b: make([]byte, 0, 256)}
	w.write(s, "")
	return &structure{kind: "shared", shared: &fragment{w.b, w.places}}
}

func constant(text string) *structure { return &structure{kind: "const_string", text: text} }
func pattern(regex string) *structure {
	if regex == gap {
		return &gaps
	}
	return &structure{kind: "regex", text: regex}
}
func anyText(not ...string) *structure { return &structure{kind: "any_text", not: not, most: -1} }
func star(s *structure) *structure     { return &structure{kind: "star", parts: []*structure{s}} }
func plus(s *structure) *structure     { return &structure{kind: "plus", parts: []*structure{s}} }
func list(s *structure) *structure {
	return &structure{kind: "tags_with_separator", parts: []*structure{s}}
}                                       // with commas
func optional(s *structure) *structure  { return &structure{kind: "optional", parts: []*structure{s}} }
func either(l ...*structure) *structure { return several("or", l) }
func seq(l ...*structure) *structure    { return several("sequence", l) }

// gaps is the pattern that stands everywhere.
var gaps = structure{kind: "regex", text: gap}

// several combines structures into one. A single one is returned as it is, nested ones of the same kind are flattened,
// and adjacent texts are joined.
func several(kind string, list []*structure) *structure {
	flat := make([]*structure, 0, len(list)+4)
	for _, s := range list {
		parts := s.parts
		if s.kind != kind {
			parts = []*structure{s}
		}
		for _, p := range parts {
			if n := len(flat); kind == "sequence" && p.kind == "const_string" && n > 0 && flat[n-1].kind == p.kind {
				flat[n-1] = constant(flat[n-1].text + p.text)
				continue
			}
			flat = append(flat, p)
		}
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return &structure{kind: kind, parts: flat}
}

// quoteRegex is a regular expression for a text.
func quoteRegex(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(`\.^$|()[]{}*+?/-`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// writer writes a structure as JSON and records the positions of the schemas.
type writer struct {
	b      []byte
	places []Place
}

func (w *writer) text(s string) { w.b = quoted(append(w.b, '"'), s); w.b = append(w.b, '"') }

func (w *writer) member(name string) {
	w.b = append(w.b, ',')
	w.text(name)
	w.b = append(w.b, ':')
}

// place notes what the place at of the source comes from.
func (w *writer) place(s *structure, at string) {
	p := s.origin
	p.At = at
	w.places = append(w.places, p)
}

// write appends s, which stands at a JSON pointer of the source.
func (w *writer) write(s *structure, at string) {
	if s.shared != nil {
		w.b = append(w.b, s.shared.json...)
		for _, p := range s.shared.places {
			p.At = at + p.At
			w.places = append(w.places, p)
		}
		return
	}
	w.b = append(w.b, `{"type":`...)
	w.text(s.kind)
	switch s.kind {
	case "const_string":
		w.member("value")
		w.text(s.text)
	case "regex":
		w.member("pattern")
		w.text(s.text)
		if s.whole {
			w.b = append(w.b, `,"whole":true`...)
			w.place(s, at)
		}
	case "grammar":
		w.member("grammar")
		w.text(s.text)
		w.member("syntax")
		w.text(s.syntax)
		w.place(s, at)
	case "token":
		w.member("token")
		w.text(s.text)
	case "json_schema":
		w.member("json_schema")
		w.b = append(w.b, s.text...)
		if s.loose {
			w.b = append(w.b, `,"lenient":true`...)
		}
		w.place(s, at+"/json_schema")
	case "any_text":
		if s.most >= 0 {
			w.b = strconv.AppendInt(append(w.b, `,"max_chars":`...), int64(s.most), 10)
		}
		if len(s.not) > 0 {
			w.member("excludes")
			for i, t := range s.not {
				w.b = append(w.b, "[,"[min(i, 1)])
				w.text(t)
			}
			w.b = append(w.b, ']')
		}
	case "star", "plus", "optional":
		w.member("content")
		w.write(s.parts[0], at+"/content")
	case "tags_with_separator":
		w.b = append(w.b,
			`,"separator":",","at_least_one":true,"tags":[{"type":"tag","begin":"","end":"","content":`...)
		w.write(s.parts[0], at+"/tags/0/content")
		w.b = append(w.b, "}]"...)
	default:
		w.member("elements")
		w.b = append(w.b, '[')
		for i := range s.parts {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.write(s.parts[i], at+"/elements/"+strconv.Itoa(i))
		}
		w.b = append(w.b, ']')
	}
	w.b = append(w.b, '}')
}
