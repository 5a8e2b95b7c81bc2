package toolcalls

import (
	"strconv"
	"strings"

	"tgi/sdk/go/params"
)

// id is what a model may write for a call's id.
const id = `[0-9A-Za-z_\-]{1,64}`

// object is a call as a JSON object: the name first, then the arguments.
func (h *constraintBuilder) object(t *offered) *structure {
	j := h.f.JSON
	names, args := j.NameKeys, j.ArgumentKeys
	if j.Flat {
		names = j.PlainKeys
	}
	if len(names) == 0 || len(args) == 0 {
		return h.flat(t)
	}
	ids := ""
	if len(j.IDKeys) > 0 {
		ids = `"` + alternatives(j.IDKeys) + `"` + spaces + ":" + spaces + `"` + id + `"`
	}
	head := `\{` + spaces
	if ids != "" {
		head += "(?:" + ids + spaces + "," + spaces + ")?"
	}
	head += `"` + alternatives(names) + `"` + spaces + ":" + spaces + quoteRegex(quote(t.Name)) + spaces + "," +
		spaces +
		`"` + alternatives(args) + `"` + spaces + ":" + spaces
	tail := spaces
	if ids != "" {
		tail += "(?:," + spaces + ids + spaces + ")?"
	}
	return seq(pattern(head), h.arguments(t), pattern(tail+`\}`))
}

// flat is a call whose arguments are the name's neighbours, as in {"function": {"_name": ..., ...}}: an object that has
// the name as its first member.
func (h *constraintBuilder) flat(t *offered) *structure {
	j := h.f.JSON
	key := j.NameKeys[0]
	schema, ok := withName(h.parameters(t), key, t.Name)
	if !ok {
		h.noteUnenforceable(t, t.pointer()+"/properties", "properties",
			"the format "+h.f.Name+" has the tool's name at "+strconv.Quote(key)+", beside the arguments")
		schema = `{"type":"object","properties":{` + quote(key) + `:{"const":` + quote(t.Name) + `}},"required":[` +
			quote(key) + `]}`
	}
	body := &structure{kind: "json_schema", text: schema, loose: !t.Strict,
		origin: Place{Pointer: t.pointer(), Tool: t.Name}}
	return seq(pattern(`\{`+spaces+`"`+alternatives(j.Wrap)+`"`+spaces+":"+spaces), body, pattern(spaces+`\}`))
}

// withName adds a property to a schema of an object, as the first one. Not ok: it has one of that name, or refers to
// itself.
func withName(schema, key, name string) (out string, ok bool) {
	ok = !strings.Contains(schema, `"#"`)
	properties, required := quote(key)+":{\"const\":"+quote(name)+"}", quote(key)
	r := params.Read([]byte(schema))
	for k := range r.Object() {
		switch {
		case k == "properties" && r.Peek() == '{':
			for p := range r.Object() {
				properties += "," + quote(p) + ":" + string(r.Raw())
				ok = ok && p != key
			}
		case k == "required" && r.Peek() == '[':
			for range r.Array() {
				required += "," + string(r.Raw())
			}
		default:
			out += "," + quote(k) + ":" + string(r.Raw())
		}
	}
	return `{"properties":{` + properties + `},"required":[` + required + `]` + out + "}", ok && r.Close() == nil
}

// alternatives is a regular expression for any of some keys, inside their quotes.
func alternatives(keys []string) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = quoteRegex(string(quoted(nil, k)))
	}
	if len(all) == 1 {
		return all[0]
	}
	return "(?:" + strings.Join(all, "|") + ")"
}

// namedCall is a call as its name and then its arguments.
func (h *constraintBuilder) namedCall(t *offered) *structure {
	n := h.f.Named
	name := quoteRegex(n.Prefix + t.Name)
	if n.Index != "" {
		name += quoteRegex(n.Index) + "[0-9]{1,3}"
	}
	parts := []*structure{pattern(name)}
	if n.ID != "" {
		parts = append(parts, optional(seq(h.marker(n.ID), pattern(id))))
	}
	if len(n.Separators) > 0 {
		parts = append(parts, h.anyMarker(n.Separators))
	}
	parts = append(parts, pattern(gap), h.arguments(t))
	if len(n.After) > 0 {
		parts = append(parts, pattern(gap), h.anyMarker(n.After))
	}
	return seq(parts...)
}

// arguments are those of a tool as a JSON object.
func (h *constraintBuilder) arguments(t *offered) *structure {
	return &structure{kind: "json_schema", text: h.parameters(t), loose: !t.Strict,
		origin: Place{Pointer: t.pointer(), Tool: t.Name}}
}

// parameters is the schema of a tool's arguments, which are always an object. A function without parameters takes none.
func (h *constraintBuilder) parameters(t *offered) string {
	const none = `{"type":"object","properties":{},"additionalProperties":false}`
	raw := strings.Trim(string(t.Parameters), whiteSpace)
	switch {
	case raw == "" || raw == "null":
		return none
	case raw[0] != '{':
		if raw != "true" {
			h.noteUnenforceable(t, t.pointer(), "parameters", "no object fits it")
		}
		return `{"type":"object"}`
	}
	kind := ""
	r := params.Read([]byte(raw))
	for key := range r.Object() {
		if v := string(r.Raw()); key == "type" {
			kind = v
		}
	}
	switch err := r.Close(); {
	case err != nil:
		h.noteUnenforceable(t, t.pointer(), "parameters", err.Error())
		return `{"type":"object"}`
	case kind == `"object"`:
		return raw
	case kind == "":
		return withType(raw)
	case strings.Contains(kind, `"object"`): // one of several
		return withType(without(raw, "type"))
	}
	h.noteUnenforceable(t, t.pointer()+"/type", "type", "arguments are an object, the schema wants "+kind)
	return `{"type":"object"}`
}

// without is an object without one of its members.
func without(raw, name string) string {
	out := "{"
	r := params.Read([]byte(raw))
	for key := range r.Object() {
		if v := r.Raw(); key != name {
			if len(out) > 1 {
				out += ","
			}
			out += quote(key) + ":" + string(v)
		}
	}
	return out + "}"
}

// withType adds the type to a schema that is an object without one.
func withType(raw string) string {
	rest := strings.TrimLeft(raw[1:], whiteSpace)
	if rest == "}" {
		return `{"type":"object"}`
	}
	return `{"type":"object",` + rest
}
