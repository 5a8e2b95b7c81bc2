package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// value is a JSON value, or nothing where a path led nowhere.
type value struct {
	any
	there bool
}

// parse reads one JSON value. Numbers keep their text.
func parse(b []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return value{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return value{}, fmt.Errorf("something follows the value")
	}
	return value{v, true}, nil
}

// at follows a path of names and indices; a missing step leads to nothing.
func (v value) at(path ...any) value {
	for _, step := range path {
		switch at := v.any.(type) {
		case map[string]any:
			name, _ := step.(string)
			v.any, v.there = at[name]
		case []any:
			i, ok := step.(int)
			if ok && i < 0 {
				i += len(at)
			}
			if !ok || i < 0 || i >= len(at) {
				return value{}
			}
			v.any = at[i]
		default:
			return value{}
		}
		if !v.there {
			return value{}
		}
	}
	return v
}

// null says that the value is there and null.
func (v value) null() bool { return v.there && v.any == nil }

// text returns a string, or nothing.
func (v value) text() string {
	s, _ := v.any.(string)
	return s
}

func (v value) isText() bool {
	_, ok := v.any.(string)
	return ok
}

func (v value) isTrue() bool { return v.any == true }

// number returns a number, or NaN.
func (v value) number() float64 {
	n, _ := v.any.(json.Number)
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// isNumber says that the value is one.
func (v value) isNumber() bool {
	_, ok := v.any.(json.Number)
	return ok
}

// list returns the elements of an array.
func (v value) list() []value {
	items, _ := v.any.([]any)
	out := make([]value, len(items))
	for i := range items {
		out[i] = value{items[i], true}
	}
	return out
}

// String is for messages: JSON, or a dash for nothing.
func (v value) String() string {
	if !v.there {
		return "-"
	}
	if s, ok := v.any.(string); ok {
		return s
	}
	b, err := json.Marshal(v.any)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// texts joins the texts of the tokens at path in each of all, without special tokens.
func texts(all []value, path ...any) string {
	var b strings.Builder
	for _, t := range all {
		t = t.at(path...)
		if !t.at("special").isTrue() {
			b.WriteString(t.at("text").text())
		}
	}
	return b.String()
}

// encode writes a string as JSON.
func encode(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // strings are never refused
	}
	return string(b)
}
