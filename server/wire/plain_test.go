package wire

import (
	"errors"
	"testing"
)

// TestPlain: texts without serde's words name the member, what it must be and what was given.
func TestPlain(t *testing.T) {
	var s string
	var n uint64
	var f float32
	read := func(r *Reader) error {
		return r.Object("struct Thing", []Field{
			{Name: "s", Read: Into(&s, (*Reader).String)}, {Name: "n", Read: Into(&n, (*Reader).Usize)},
			{Name: "f", Read: Into(&f, (*Reader).Float32)},
			{Name: "list", Read: func(r *Reader) error {
				return r.Array(func(int) error {
					return r.Object("struct Part", []Field{{Name: "must", Required: true, Read: (*Reader).Skip}})
				})
			}},
		})
	}
	for body, want := range map[string]string{
		`{"s":5}`:                  "`s` must be a string, given 5",
		`{"s":{}}`:                 "`s` must be a string, given an object",
		`{"s":null}`:               "`s` must be a string, given null",
		`{"n":-1}`:                 "`n` must be an integer >= 0, given -1",
		`{"n":1.5}`:                "`n` must be an integer >= 0, given 1.5",
		`{"n":"a"}`:                "`n` must be an integer >= 0, given \"a\"",
		`{"f":true}`:               "`f` must be a number, given true",
		`{"list":{}}`:              "`list` must be an array, given an object",
		`{"list":[1]}`:             "`list[0]` must be an object, given 1",
		`{"list":[{"must":1},{}]}`: "`list[1].must` is missing",
		`[]`:                       "the body must be an object, given an array",
		`{"s":"a","s":"b"}`:        "the body: duplicate field `s`",
		`{"s"`:                     "the body is not JSON: EOF while parsing an object at line 1 column 4",
	} {
		var e *Error
		if err := Decode([]byte(body), read); !errors.As(err, &e) || e.Plain() != want {
			t.Errorf("%s: %v\nwant %s", body, err, want)
			if e != nil {
				t.Error(e.Plain())
			}
		}
	}
}
