package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxNesting is how deep parameters may be nested.
const maxNesting = 1000

// errJSON: it is not JSON. Whoever reads parameters of a request has said so before.
var errJSON = errors.New("is not JSON")

// reader decodes JSON for the library: numbers as int64, uint64 or float64, since it computes with exact fractions and
// would write 1e999999 out. It stops at what is too much and at a member that comes twice, of which the guest might
// read the other one.
type reader struct {
	d    *json.Decoder
	left int      // values that may come
	path []string // of the value that is read
	// at writes the path.
	at func(path []string) string
}

// read decodes a text of at most so many values. Names of members are values. at writes the place of a mistake.
func read(text []byte, most int, at func(path []string) string) (any, error) {
	r := &reader{d: json.NewDecoder(bytes.NewReader(text)), left: most, at: at}
	r.d.UseNumber()
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	if _, err := r.d.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return v, nil
}

// errTooMany: there are more values than may come.
var errTooMany = errors.New("has too many values")

func (r *reader) value() (any, error) {
	if r.left--; r.left < 0 {
		return nil, errTooMany
	}
	t, err := r.d.Token()
	if err != nil {
		return nil, errJSON
	}
	switch t := t.(type) {
	case json.Number:
		return r.number(t.String())
	case json.Delim:
		if len(r.path) == maxNesting {
			return nil, fmt.Errorf("%s is nested more than %d deep", r.place(), maxNesting)
		}
		if t == '{' {
			return r.object()
		}
		return r.array()
	}
	return t, nil
}

func (r *reader) object() (any, error) {
	m := map[string]any{}
	for r.d.More() {
		t, err := r.d.Token()
		if err != nil {
			return nil, errJSON
		}
		name := t.(string) // else Token has an error
		if r.left--; r.left < 0 {
			return nil, errTooMany
		}
		r.path = append(r.path, "/"+cut(name))
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%s is given twice", r.place())
		}
		if m[name], err = r.value(); err != nil {
			return nil, err
		}
		r.path = r.path[:len(r.path)-1]
	}
	return m, r.end()
}

func (r *reader) array() (any, error) {
	a := []any{}
	for r.d.More() {
		r.path = append(r.path, strconv.Itoa(len(a)))
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		a, r.path = append(a, v), r.path[:len(r.path)-1]
	}
	return a, r.end()
}

// end reads the bracket that ends an object or array.
func (r *reader) end() error {
	if _, err := r.d.Token(); err != nil {
		return errJSON
	}
	return nil
}

func (r *reader) number(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is %s, a number out of range", r.place(), cut(text))
	}
	return f, nil
}

// place is where the value is.
func (r *reader) place() string {
	text := r.at(r.path)
	if len(text) > maxPlace {
		text = text[:maxPlace] + "..."
	}
	return text
}

// inParams is a place in parameters, in the form that people write.
func inParams(path []string) string {
	var text strings.Builder
	for _, part := range path {
		name, member := strings.CutPrefix(part, "/")
		switch {
		case !member:
			part = "[" + part + "]"
		case text.Len() > 0:
			part = "." + name
		default:
			part = name
		}
		text.WriteString(part)
	}
	return cmp.Or(text.String(), "params")
}

// inSchema is a place in a schema, as schemas refer to each other.
func inSchema(path []string) string {
	text := "#"
	for _, part := range path {
		text += "/" + strings.TrimPrefix(part, "/")
	}
	return text
}

// maxPlace is how many bytes of a place an error shows.
const maxPlace = 400
