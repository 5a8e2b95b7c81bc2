package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// Member is one of an object, whose value stays as it was written.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns those of raw, a JSON object, in their order.
func Members(raw []byte) []Member {
	d := json.NewDecoder(bytes.NewReader(raw))
	var out []Member
	for _, err := d.Token(); err == nil && d.More(); {
		var m Member
		key, _ := d.Token()
		m.Name, _ = key.(string)
		if err = d.Decode(&m.Value); err == nil {
			out = append(out, m)
		}
	}
	return out
}

// Twice returns the first name of raw, a JSON object, that comes again, whatever its case: readers that take any case
// would take the last of them. It is "" where there is none.
func Twice(raw []byte) string {
	seen := map[string]bool{}
	for _, m := range Members(raw) {
		name := folded(m.Name)
		if seen[name] {
			return m.Name
		}
		seen[name] = true
	}
	return ""
}

// folded is a name as encoding/json compares it with those of a struct's fields: equal for names that differ in case.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// Elements returns those of raw, a JSON array.
func Elements(raw []byte) []json.RawMessage {
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil
	}
	return out
}

// AppendMembers writes an object.
func AppendMembers(b []byte, list []Member) []byte {
	b = append(b, '{')
	for i, m := range list {
		b = append(AppendString(Comma(b, i), m.Name), ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// Find returns the member of that name; nil if there is none.
func Find(list []Member, name string) *Member {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// SetMember gives the object a member, in place of one of that name.
func SetMember(list []Member, name string, value json.RawMessage) []Member {
	if m := Find(list, name); m != nil {
		m.Value = value
		return list
	}
	return append(list, Member{name, value})
}

// Renamed gives the member old the name that it has elsewhere, unless another has
// that name and says something.
func Renamed(list []Member, old, name string) []Member {
	from, to := Find(list, old), Find(list, name)
	switch {
	case from == nil:
	case to == nil:
		from.Name = name
	case IsNull(to.Value):
		to.Value = from.Value
		return slices.DeleteFunc(list, func(m Member) bool { return m.Name == old })
	}
	return list
}

// IsNull reports whether a value that was checked is null.
func IsNull(raw []byte) bool { return len(raw) > 0 && raw[0] == 'n' }

// IsText reports whether a value that was checked is a string.
func IsText(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }

// Unquoted returns the text of a JSON string; "" of anything else.
func Unquoted(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// Comma writes the comma before all but the first element.
func Comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}
