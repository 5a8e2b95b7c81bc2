package fields

import (
	"fmt"
	"slices"

	"tgi/server/generate"
	"tgi/server/wire"
)

// requestMembers are the variables of a template that the request itself has.
var requestMembers = []string{"messages", "tools", "add_generation_prompt"}

// Template are the fields by which a conversation speaks to the model's template.
func Template(c *generate.Conversation) []wire.Field {
	return []wire.Field{
		{Name: "documents", Read: func(r *wire.Reader) error { return documents(r, c) }},
		{Name: "chat_template", Read: func(r *wire.Reader) error { return template(r, c) }},
		{Name: "chat_template_kwargs", Read: func(r *wire.Reader) error { return kwargs(r, c) }},
	}
}

// SetVariable gives the template a variable, unless the request names it in chat_template_kwargs. value is JSON.
func SetVariable(c *generate.Conversation, name string, value []byte) {
	list := wire.Members(c.Kwargs)
	if wire.Find(list, name) == nil {
		list = append(list, wire.Member{Name: name, Value: value})
	}
	c.Kwargs = wire.AppendMembers(nil, list)
}

// documents reads a list of objects, or null, and keeps it as it was written. Some
// clients have no place for it but chat_template_kwargs.
func documents(r *wire.Reader, c *generate.Conversation) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	out := []byte{'['}
	err := r.Array(func(i int) error {
		raw, err := r.RawObject()
		out = append(wire.Comma(out, i), raw...)
		return err
	})
	if err != nil {
		return err
	}
	if c.Documents != nil {
		return &generate.Invalid{Msg: "`documents` and `chat_template_kwargs.documents` must not both be given",
			Field: "documents"}
	}
	if len(out) > 1 {
		c.Documents = append(out, ']')
	}
	return nil
}

// template reads the name of one of the model's templates, or null. A template of
// the client's own is refused: what runs on the server is the operator's.
func template(r *wire.Reader, c *generate.Conversation) error {
	var name *string
	if err := wire.Optional(&name, (*wire.Reader).String)(r); err != nil || name == nil {
		return err
	}
	if !IsName(*name, MaxName) {
		return &generate.Invalid{
			Msg: fmt.Sprintf("`chat_template` takes the name of one of the model's templates; another template is "+
				"installed as a plugin of kind template. Given: %.64q", *name),
			Field: "chat_template",
		}
	}
	c.Template = *name
	return nil
}

// kwargs keeps the template's variables as they were written, except documents,
// which are the request's wherever they stand.
func kwargs(r *wire.Reader, c *generate.Conversation) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	inner := *r
	raw, err := r.RawObject()
	if err != nil {
		return err
	}
	c.Kwargs = raw
	list := wire.Members(raw)
	for _, m := range list {
		if slices.Contains(requestMembers, m.Name) {
			return &generate.Invalid{Field: "chat_template_kwargs", Msg: "`chat_template_kwargs` must not hold `" +
				m.Name + "`, which is a member of the request itself"}
		}
	}
	if wire.Find(list, "documents") == nil {
		return nil
	}
	list = slices.DeleteFunc(list, func(m wire.Member) bool { return m.Name == "documents" })
	c.Kwargs = wire.AppendMembers(nil, list)
	read := func(r *wire.Reader) error { return documents(r, c) }
	return inner.Object("a map", []wire.Field{{Name: "documents", Read: read}})
}

// MaxName is the greatest length of names of tools and templates, as OpenAI has it for tools.
const MaxName = 64

// IsName reports whether s may name a tool or a template: at most so many letters, digits and a few marks.
func IsName(s string, most int) bool {
	for _, c := range s {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return s != "" && len(s) <= most
}
