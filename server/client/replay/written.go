package replay

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"tgi/server/wire"
)

// written is a text, or the object that it is the text of: arguments of calls are either, as the API and, in TGI's
// chat, its version have it.
type written json.RawMessage

// UnmarshalJSON takes these and null.
func (w *written) UnmarshalJSON(data []byte) error {
	*w = slices.Clone(data)
	return only[string](data, "a string", "an object")
}

// object is an object as it is written.
type object json.RawMessage

// UnmarshalJSON takes one and null.
func (o *object) UnmarshalJSON(data []byte) error {
	*o = slices.Clone(data)
	return only[struct{}](data, "an object")
}

// only returns an error that wants a T, where a value is of no kind of a list and not null. The decoder adds the field.
func only[T any](data []byte, kinds ...string) error {
	given := wire.Kind(data)
	if given == "null" || slices.Contains(kinds, given) {
		return nil
	}
	_, value, _ := strings.Cut(given, " ") // without the article
	if given == "true or false" {
		value = "bool"
	}
	return &json.UnmarshalTypeError{Value: value, Type: reflect.TypeFor[T]()}
}
