package toolset

import (
	"encoding/json"
	"strings"
)

// Whole returns arguments as a JSON object: themselves where they are one, else the members that are complete in what
// the end of a text left of them. It is for APIs whose calls have an object; clients make the same of the pieces that a
// stream brings.
func Whole(arguments string) string {
	if text := strings.TrimSpace(arguments); strings.HasPrefix(text, "{") && json.Valid([]byte(text)) {
		return arguments
	}
	if out := arguments[:complete(arguments)] + "}"; json.Valid([]byte(out)) {
		return out
	}
	return "{}"
}

// complete returns where the last complete member of the object ends that s begins with; that of a number or a word is
// complete where a comma follows it.
func complete(s string) int {
	end, depth := 0, 0
	text, escaped, value := false, false, false
	for i := range len(s) {
		c := s[i]
		switch {
		case escaped:
			escaped = false
			continue
		case text && c == '\\':
			escaped = true
			continue
		case c == '"':
			if text = !text; text {
				continue
			}
		case text:
			continue
		case c == '{', c == '[':
			depth++
			continue
		case c == '}', c == ']':
			depth--
		case c == ':' && depth == 1:
			value = true
			continue
		case c == ',' && depth == 1 && value:
			value, end = false, i
			continue
		default:
			continue
		}
		if depth == 1 && value {
			end = i + 1
		}
	}
	return end
}
