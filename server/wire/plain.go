package wire

import (
	"fmt"
	"strings"
)

// plainTypes are the types of serde's sentences, in plain words.
var plainTypes = map[string]string{
	"f32": "a number", "u32": "an integer from 0 to 4294967295", "u64": "an integer >= 0", "usize": "an integer >= 0",
	"i32": "an integer from -2147483648 to 2147483647", "a map": "an object", "map": "an object", "sequence": "an array",
	"a sequence": "an array", "a nonzero u32": "an integer from 1 to 4294967295",
}

// plainType returns a type, or a value, of serde's in plain words.
func plainType(s string) string {
	if as, ok := plainTypes[s]; ok {
		return as
	}
	if strings.HasPrefix(s, "struct ") {
		return "an object"
	}
	for _, kind := range []string{"integer ", "floating point ", "boolean "} {
		if value, ok := strings.CutPrefix(s, kind); ok {
			return strings.Trim(value, "`")
		}
	}
	return strings.TrimPrefix(s, "string ")
}

// Plain returns the text for clients that do not know serde's sentences: it names the member, what it must be and what
// was given.
func (e *Error) Plain() string {
	if e.Kind == ErrSyntax {
		return "the body is not JSON: " + e.Error()
	}
	name := e.Path
	if name == "" {
		name = "the body"
	} else {
		name = "`" + name + "`"
	}
	if missing, ok := strings.CutPrefix(e.Msg, "missing field `"); ok {
		path := strings.TrimSuffix(missing, "`")
		switch {
		case strings.Contains(path, "`"): // several
			return name + " lacks `" + missing
		case e.Path != "":
			path = e.Path + "." + path
		}
		return "`" + path + "` is missing"
	}
	rest, ok := strings.CutPrefix(e.Msg, "invalid type: ")
	if !ok {
		rest, ok = strings.CutPrefix(e.Msg, "invalid value: ")
	}
	given, want, cut := strings.Cut(rest, ", expected ")
	if !ok || !cut {
		return name + ": " + e.Msg
	}
	return fmt.Sprintf("%s must be %s, given %s", name, plainType(want), plainType(given))
}
