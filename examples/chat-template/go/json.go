package main

import (
	"strings"

	"tgi/sdk/go/params"
)

// spaced writes JSON as Python's json.dumps does and the model was trained on:
// {"a": [1, 2]}. Numbers stay as they are.
func spaced(raw []byte) string {
	return string(appendValue(nil, params.Read(raw)))
}

func appendValue(b []byte, r *params.Reader) []byte {
	switch r.Peek() {
	case '{':
		b = append(b, '{')
		for key := range r.Object() {
			b = appendString(separated(b, '{'), key)
			b = appendValue(append(b, ": "...), r)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for range r.Array() {
			b = appendValue(separated(b, '['), r)
		}
		return append(b, ']')
	case '"':
		return appendString(b, r.String())
	}
	return append(b, r.Raw()...)
}

// separated adds a comma unless the list has just been opened.
func separated(b []byte, open byte) []byte {
	if b[len(b)-1] == open {
		return b
	}
	return append(b, ", "...)
}

func appendString(b []byte, s string) []byte {
	const hex, special, letters = "0123456789abcdef", "\"\\\b\f\n\r\t", `"\bfnrt`
	b = append(b, '"')
	for i := range len(s) {
		c := s[i]
		if at := strings.IndexByte(special, c); at >= 0 {
			b = append(b, '\\', letters[at])
		} else if c < 0x20 {
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return append(b, '"')
}
