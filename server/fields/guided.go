package fields

import (
	"tgi/server/generate"
	"tgi/server/wire"
)

// Guided are the fields by which vLLM's clients ask for grammars, those of older versions and of
// today, and TGI's. A request has one of them, or response_format; the same in several is one.
func Guided(dst **generate.Grammar) []wire.Field {
	text := func(language string) func(*wire.Reader, *generate.Grammar) error {
		return func(r *wire.Reader, g *generate.Grammar) error {
			s, err := r.String()
			g.Language, g.Source = language, []byte(s)
			if language == "" {
				g.Language = Notation(s)
			}
			return err
		}
	}
	any := func(language string) func(*wire.Reader, *generate.Grammar) error {
		return func(r *wire.Reader, g *generate.Grammar) error {
			raw, err := r.Raw()
			g.Language, g.Source = language, Source(raw)
			return err
		}
	}
	object := func(r *wire.Reader, g *generate.Grammar) error {
		yes, err := r.Bool()
		if yes {
			g.Language = generate.JSONObject
		}
		return err
	}
	kinds := []struct {
		name string
		read func(*wire.Reader, *generate.Grammar) error
	}{
		{"json", any(generate.JSONSchema)}, {"regex", text(generate.Regex)}, {"choice", any(generate.Choice)},
		{"grammar", text("")}, {"json_object", object}, {"structural_tag", any(generate.StructuralTag)},
	}
	list := []wire.Field{{Name: "grammar", Read: Grammar(dst, "grammar")}}
	for _, k := range kinds {
		name := "guided_" + k.name
		list = append(list, wire.Field{Name: name, Read: oneOf(dst, name, k.read)})
	}
	list = append(list, wire.Field{Name: "guided_whitespace_pattern", Read: Unset("guided_whitespace_pattern")})
	return append(list, wire.Field{Name: "structured_outputs", Read: func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		compact := false
		var own *generate.Grammar
		inner := []wire.Field{
			{Name: "disable_any_whitespace", Read: Flag(&compact)},
			{Name: "whitespace_pattern", Read: Unset("structured_outputs.whitespace_pattern")},
			{Name: "disable_additional_properties", Read: Unset("structured_outputs.disable_additional_properties")},
		}
		for _, k := range kinds {
			inner = append(inner, wire.Field{Name: k.name, Read: oneOf(&own, "structured_outputs."+k.name, k.read)})
		}
		if err := r.Object("struct StructuredOutputs", inner); err != nil || own == nil {
			return err
		}
		if compact {
			own.Params = []byte(`{"whitespace":"compact"}`)
		}
		return Hold(dst, own, "structured_outputs")
	}})
}

// oneOf returns a Field.Read of a grammar that read understands, or null.
func oneOf(dst **generate.Grammar, name string,
	read func(*wire.Reader, *generate.Grammar) error) func(*wire.Reader) error {
	return func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		var g generate.Grammar
		if err := read(r, &g); err != nil || g.Language == "" {
			return err
		}
		return Hold(dst, &g, name)
	}
}
