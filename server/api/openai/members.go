package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"tgi/server/wire"
)

// member is one of an object, whose value stays as it was written.
type member struct {
	name  string
	value json.RawMessage
}

// members returns those of raw, a JSON object, in their order.
func members(raw []byte) []member {
	d := json.NewDecoder(bytes.NewReader(raw))
	var out []member
	for _, err := d.Token(); err == nil && d.More(); {
		var m member
		key, _ := d.Token()
		m.name, _ = key.(string)
		if err = d.Decode(&m.value); err == nil {
			out = append(out, m)
		}
	}
	return out
}

// elements returns those of raw, a JSON array.
func elements(raw []byte) []json.RawMessage {
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil
	}
	return out
}

// appendMembers writes an object.
func appendMembers(b []byte, list []member) []byte {
	b = append(b, '{')
	for i, m := range list {
		b = append(wire.AppendString(comma(b, i), m.name), ':')
		b = append(b, m.value...)
	}
	return append(b, '}')
}

// find returns the member of that name; nil if there is none.
func find(list []member, name string) *member {
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	return nil
}

// setMember gives the object a member, in place of one of that name.
func setMember(list []member, name string, value json.RawMessage) []member {
	if m := find(list, name); m != nil {
		m.value = value
		return list
	}
	return append(list, member{name, value})
}

// renamed gives the member old the name that it has elsewhere, unless another has
// that name and says something.
func renamed(list []member, old, name string) []member {
	from, to := find(list, old), find(list, name)
	switch {
	case from == nil:
	case to == nil:
		from.name = name
	case isNull(to.value):
		to.value = from.value
		return slices.DeleteFunc(list, func(m member) bool { return m.name == old })
	}
	return list
}

// isNull reports whether a value that was checked is null.
func isNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

// isText reports whether a value that was checked is a string.
func isText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
