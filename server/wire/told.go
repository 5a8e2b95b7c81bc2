package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Told returns an error of encoding/json in the words of whoever wrote the text, which know no types of Go: such as
// "receipt.seed: want a whole number, given an array". Other errors stay.
func Told(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		given := kind.Value
		switch number, isNumber := strings.CutPrefix(given, "number "); {
		case isNumber:
			given = number
		case given == "bool":
			given = "true or false"
		case given == "array" || given == "object":
			given = "an " + given
		default:
			given = "a " + given
		}
		text := fmt.Sprintf("want %s, given %s", kindOf(kind.Type), given)
		if kind.Field != "" { // untagged members are matched whatever their case is
			text = strings.ToLower(kind.Field) + ": " + text
		}
		return errors.New(text)
	case errors.Is(err, io.ErrUnexpectedEOF),
		errors.As(err, &syntax) && syntax.Error() == "unexpected end of JSON input":
		return errors.New("it is no JSON: it ends too early")
	case syntax != nil:
		return fmt.Errorf("it is no JSON: %w at byte %d", syntax, syntax.Offset)
	case err != nil:
		if text, is := strings.CutPrefix(err.Error(), "json: unknown field "); is {
			return fmt.Errorf("member %s is unknown", text)
		}
	}
	return err
}

// kindOf names what JSON has for a type.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number from 0 to 2^%d-1", t.Bits())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "another value"
}

// Kind names what a JSON text is, with its article, by its first byte: "an object", "null". It is "nothing" where there
// is none.
func Kind(text []byte) string {
	text = []byte(strings.TrimSpace(string(text[:min(len(text), 4096)])))
	if len(text) == 0 {
		return "nothing"
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}
