package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"tgi/server/wire"
)

// Gone stands where something was left out of a record.
const Gone = "[redacted]"

// hiding says what is left out.
type hiding struct {
	fields [][]string // names of members, the inmost last
	names  []string   // of headers and parameters, in lower case
}

func newHiding(fields, headers []string) hiding {
	var h hiding
	for _, f := range fields {
		h.fields = append(h.fields, strings.Split(f, "."))
	}
	for _, name := range headers {
		h.names = append(h.names, strings.ToLower(name))
	}
	return h
}

// words are what names of headers and of parameters hold whose values are secrets.
var words = []string{"auth", "key", "token", "secret", "cookie", "password", "signature", "credential"}

// notSecret are names that hold such a word and no secret.
var notSecret = []string{"x-prompt-tokens", "x-generated-tokens", "x-time-per-token", "x-compute-tokens",
	"access-control-allow-headers"}

// secret reports whether a field of a header or of a query holds a key.
func (h hiding) secret(name string) bool {
	name = strings.ToLower(name)
	if slices.Contains(h.names, name) {
		return true
	}
	return !slices.Contains(notSecret, name) &&
		slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
}

// json returns JSON without the values of fields, and whether there were any. Without fields it stays as it is written.
// It takes one pass, however deep it is nested.
func (h hiding) json(b []byte) (json.RawMessage, bool) {
	if len(h.fields) == 0 {
		return slices.Clone(b), false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	out, hid := make([]byte, 0, len(b)), false
	var path []string // the name of the last member of each object that is open; "" of a list
	var counts []int  // of what is in each
	var objects []bool
	named := false // a name was read, and its value comes
	for {
		t, err := d.Token()
		if err != nil { // the end: it is valid
			return out, hid
		}
		top := len(objects) - 1
		if end, ok := t.(json.Delim); ok && (end == '}' || end == ']') {
			out = append(out, byte(end))
			path, counts, objects = path[:top], counts[:top], objects[:top]
			named = false
			continue
		}
		if top >= 0 && !named {
			out = wire.Comma(out, counts[top])
			counts[top]++
		}
		if name, ok := t.(string); ok && top >= 0 && objects[top] && !named {
			path[top], named = name, true
			if out = append(wire.AppendString(out, name), ':'); h.hides(path) {
				var skipped json.RawMessage
				_ = d.Decode(&skipped) // valid
				out, hid, named = append(out, quoted(Gone)...), true, false
			}
			continue
		}
		named = false
		switch v := t.(type) {
		case json.Delim:
			out = append(out, byte(v))
			path, counts, objects = append(path, ""), append(counts, 0), append(objects, v == '{')
		case string:
			out = wire.AppendString(out, v)
		case json.Number:
			out = append(out, v...)
		case bool:
			out = strconv.AppendBool(out, v)
		default:
			out = append(out, "null"...)
		}
	}
}

// hides reports whether the member at path is left out: a field is the end of a path; the elements of a list lie where
// the list does.
func (h hiding) hides(path []string) bool {
	return slices.ContainsFunc(h.fields, func(f []string) bool {
		k := len(f) - 1
		for i := len(path) - 1; i >= 0 && k >= 0; i-- {
			if path[i] == "" {
				continue
			}
			if path[i] != f[k] {
				return false
			}
			k--
		}
		return k < 0
	})
}
