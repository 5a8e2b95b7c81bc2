package toolcalls

import (
	"math"
	"strconv"
	"strings"
)

// Tool is one that the model may call.
type Tool struct {
	Name       string
	Parameters []byte // a JSON schema of an object; a Parser reads it for the types of values
	Strict     bool   // arguments are to fit the schema, whatever it takes: see Format.Constraint
}

// convert writes text as a value of one of the types, the narrowest that fits: null, boolean, number, object or array,
// string. Text that fits none is a string: the tool's own checks say more than a lost call. Without types the text is
// JSON if it can be.
func convert(text string, t types, depth int) string {
	word := strings.Trim(text, whiteSpace)
	switch lower := strings.ToLower(word); {
	case t == typeString:
		return quote(text)
	case (lower == "null" || lower == "none") && (t&typeNull != 0 || t&typeString == 0 && t != 0):
		return "null"
	case t&typeBool != 0 && (lower == "true" || lower == "false"):
		return lower
	}
	if t&(typeInteger|typeNumber) != 0 {
		if n, ok := number(word); ok {
			return n
		}
	}
	if word != "" {
		isObject := word[0] == '{' && t&typeObject != 0
		isArray := (word[0] == '[' || word[0] == '(') && t&typeArray != 0
		if t == 0 || isObject || isArray {
			if isOneValue(word, depth) {
				return word
			}
		}
		if isObject || isArray {
			if s, ok := pythonToJSON(word, depth); ok {
				return s
			}
		}
	}
	return quote(text)
}

// isOneValue says whether text is one JSON value and nothing else, not nested deeper than depth.
func isOneValue(text string, depth int) bool {
	s := newScan(depth, nil)
	for i := 0; i < len(text); i++ {
		switch s.step(text[i]) {
		case more:
		case done:
			return i == len(text)-1
		default:
			return false
		}
	}
	return s.step(' ') == before
}

// number is how a number that a model wrote is written in JSON.
func number(s string) (string, bool) {
	if isOneValue(s, 1) && (s[0] == '-' || isDigit(s[0])) {
		return s, true
	}
	t := strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", "")
	if t == "" || strings.Trim(t, "0123456789abcdefABCDEFxXoO+-.") != "" {
		return "", false
	}
	if n, err := strconv.ParseInt(t, 0, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), true
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || f-f != 0 {
		return "", false
	}
	form := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) { // as JavaScript and encoding/json write it
		form = 'e'
	}
	text := strconv.FormatFloat(f, form, -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text, true
}
