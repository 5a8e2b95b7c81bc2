package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// variants are the types of a grammar, as messages list them. The first four are TGI's.
const variants = "`json`, `json_object`, `regex`, `json_schema`, `text`, `choice`, `grammar` or `structural_tag`"

// Grammar returns a Field.Read of a grammar in any of the shapes that TGI and OpenAI have for it, or null. name is the
// field's, for messages.
//
//	{"type": "json", "value": SCHEMA}, json_object likewise     TGI
//	{"type": "regex", "value": "..."}                           TGI
//	{"type": "json_schema", "value": {"schema": SCHEMA}}        TGI
//	{"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": true}}, {"type": "json_object"}, {"type": "text"}
//	{"type": "json_object", "schema": SCHEMA}                   llama.cpp, Together
//	{"type": "choice", "value": ["a", "b"]}
//	{"type": "grammar", "value": "root ::= ...", "language": "gbnf"}
//	{"type": "structural_tag", ...}                             XGrammar
//
// SCHEMA is an object, or one as the text of a string. Each may have "plugin", which compiles it in place of the first
// that knows the language, and "params" for that plugin. What the sources mean is for the plugin to say.
func Grammar(dst **generate.Grammar, name string) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		in := shape{start: *r}
		if err := in.read(r); err != nil {
			return err
		}
		g, err := in.grammar(r)
		if err != nil || g == nil {
			return err
		}
		return Hold(dst, g, name)
	}
}

// Hold makes g, which the field name asks for, the grammar of a request; it has one, which may be given twice: some
// clients send it under an old name and a new one.
func Hold(dst **generate.Grammar, g *generate.Grammar, name string) error {
	if *dst != nil && same(*dst, g) {
		return nil
	}
	if *dst != nil {
		return &generate.Invalid{Msg: fmt.Sprintf("`%s` and `%s` are both given: a request has one grammar",
			(*dst).Field,
			name), Field: name}
	}
	g.Field = name
	*dst = g
	return nil
}

// same reports whether two grammars are one.
func same(a, b *generate.Grammar) bool {
	return a.Language == b.Language && a.Plugin == b.Plugin && bytes.Equal(compact(a.Source), compact(b.Source)) &&
		bytes.Equal(compact(a.Params), compact(b.Params))
}

// compact returns a JSON text without white space, and others as they are.
func compact(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// shape is the members of a grammar.
type shape struct {
	start                  wire.Reader
	kind, plugin, language *string
	value, schema, bare    part // bare is a schema that stands beside the type
	params                 []byte
}

// part is a value and where it stands; raw is nil where it is null or not there.
type part struct {
	raw []byte
	at  wire.Reader
}

func (p *part) read(r *wire.Reader) error {
	p.at = *r
	none, err := r.Null()
	if none || err != nil {
		return err
	}
	p.raw, err = r.Raw()
	return err
}

func (s *shape) read(r *wire.Reader) error {
	return r.Object("struct GrammarType", []wire.Field{
		{Name: "type", Required: true, Read: wire.Optional(&s.kind, (*wire.Reader).String)},
		{Name: "value", Read: s.value.read},
		{Name: "json_schema", Read: s.schema.read},
		{Name: "schema", Read: s.bare.read},
		{Name: "plugin", Read: wire.Optional(&s.plugin, (*wire.Reader).String)},
		{Name: "language", Read: wire.Optional(&s.language, (*wire.Reader).String)},
		{Name: "params", Read: func(r *wire.Reader) error {
			none, err := r.Null()
			if none || err != nil {
				return err
			}
			s.params, err = r.RawObject()
			return err
		}},
	})
}

// grammar returns what the members mean; nil for text.
func (s *shape) grammar(r *wire.Reader) (*generate.Grammar, error) {
	g := &generate.Grammar{Plugin: or(s.plugin), Params: s.params, Source: Source(s.value.raw)}
	kind, given := or(s.kind), s.value.raw != nil
	if isJSON := kind == "json" || kind == "json_object" || kind == "json_schema"; isJSON && s.bare.raw != nil {
		if given || s.schema.raw != nil {
			return nil, r.Refuse("`schema` is given beside another schema, expected one of them")
		}
		g.Language, g.Source = generate.JSONSchema, Source(s.bare.raw)
		return g, nil
	}
	switch {
	case kind == "text":
		return nil, nil
	case kind == "json_object" && !given:
		g.Language = generate.JSONObject
	case kind == "structural_tag" && !given:
		g.Language = generate.StructuralTag
		raw, err := s.start.Raw()
		g.Source = raw
		return g, err
	case kind == "json_schema" && s.schema.raw != nil:
		return g, schema(g, &s.schema.at)
	case !given && kind == "json_schema":
		return nil, r.Refuse("missing field `json_schema`")
	case !given && (kind == "json" || kind == "regex" || kind == "choice" || kind == "grammar"):
		return nil, r.Refuse("missing field `value`")
	case kind == "json_schema":
		return g, schema(g, &s.value.at)
	case kind == "json", kind == "json_object":
		g.Language = generate.JSONSchema
	case kind == "regex":
		g.Language = generate.Regex
		text, err := s.value.at.String()
		g.Source = []byte(text)
		return g, err
	case kind == "choice":
		g.Language = generate.Choice
	case kind == "grammar":
		if g.Language = or(s.language); g.Language == "" && g.Plugin == "" {
			g.Language = Notation(string(g.Source))
		}
	case kind == "structural_tag":
		g.Language = generate.StructuralTag
	default:
		return nil, r.Refuse(fmt.Sprintf("unknown variant `%.32s`, expected one of %s", kind, variants))
	}
	return g, nil
}

// schema reads a schema that has a name beside it, and whether it is strict: then what can't be enforced is refused,
// and where the client says that it is not it is left out.
func schema(g *generate.Grammar, r *wire.Reader) error {
	var strict *bool
	err := r.Object("struct JsonSchema", []wire.Field{
		{Name: "schema", Required: true, Read: func(r *wire.Reader) error {
			raw, err := r.Raw()
			g.Source = Source(raw)
			return err
		}},
		{Name: "strict", Read: wire.Optional(&strict, (*wire.Reader).Bool)},
	})
	g.Language = generate.JSONSchema
	if strict != nil && g.Params == nil {
		g.Params = fmt.Appendf(nil, `{"lenient":%t}`, !*strict)
	}
	return err
}

// Source returns the text of a value that is a string, and others as they are written.
func Source(value []byte) []byte {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return value
	}
	return []byte(s)
}

func or(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Notation tells the Notation of a grammar that comes without its name, as vLLM does.
func Notation(source string) string {
	for line := range strings.Lines(source) {
		if i := strings.Index(line, "::="); i >= 0 && !strings.Contains(line[:i], "#") &&
			!strings.Contains(line[:i], "//") {
			return generate.GBNF
		}
	}
	return generate.Lark
}
