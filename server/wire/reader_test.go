package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

type sample struct {
	inputs string
	temp   *float32
	topK   *int32
	best   *uint64
	newTok *uint32
	sample bool
	stop   []string
}

func decodeSample(body string) (sample, error) {
	var s sample
	err := Decode([]byte(body), func(r *Reader) error {
		return r.Object("struct GenerateRequest", []Field{
			{Name: "inputs", Required: true, Read: Into(&s.inputs, (*Reader).String)},
			{Name: "parameters", Read: func(r *Reader) error {
				return r.Object("struct GenerateParameters", []Field{
					{Name: "temperature", Read: Optional(&s.temp, (*Reader).Float32)},
					{Name: "top_k", Read: Optional(&s.topK, (*Reader).Int32)},
					{Name: "best_of", Read: Optional(&s.best, (*Reader).Usize)},
					{Name: "max_new_tokens", Read: Optional(&s.newTok, (*Reader).Uint32)},
					{Name: "do_sample", Read: Into(&s.sample, (*Reader).Bool)},
					{Name: "stop", Read: Into(&s.stop, (*Reader).Strings)},
				})
			}},
		})
	})
	return s, err
}

func TestRefusals(t *testing.T) {
	const p = `{"inputs":"a","parameters":`
	for _, c := range []struct {
		body, want string
		syntax     bool
	}{
		{``, "EOF while parsing a value at line 1 column 0", true},
		{`{}`, "missing field `inputs` at line 1 column 2", false},
		{"{\n \"x\": 1\n}", "missing field `inputs` at line 3 column 1", false},
		{`[]`, "invalid type: sequence, expected struct GenerateRequest at line 1 column 0", false},
		{`"x"`, `invalid type: string "x", expected struct GenerateRequest at line 1 column 3`, false},
		{`{"inputs":5}`, "inputs: invalid type: integer `5`, expected a string at line 1 column 11", false},
		{`{"inputs":null}`, "inputs: invalid type: null, expected a string at line 1 column 14", false},
		{`{"inputs":["a"]}`, "inputs: invalid type: sequence, expected a string at line 1 column 10", false},
		{`{"inputs":"a","inputs":"b"}`, "duplicate field `inputs` at line 1 column 22", false},
		{p + `null}`, "parameters: invalid type: null, expected struct GenerateParameters at line 1 column 31", false},
		{p + `{"temperature":"hot"}}`,
			`parameters.temperature: invalid type: string "hot", expected f32 at line 1 column 47`, false},
		{p + `{"temperature":1e39}}`,
			"parameters.temperature: invalid value: floating point `1e39`, expected f32 at line 1 column 46", false},
		{p + `{"temperature":1e999}}`, "parameters.temperature: number out of range at line 1 column 47", true},
		{p + `{"temperature":NaN}}`, "parameters.temperature: expected value at line 1 column 43", true},
		{p + `{"max_new_tokens":-1}}`,
			"parameters.max_new_tokens: invalid value: integer `-1`, expected u32 at line 1 column 47", false},
		{p + `{"max_new_tokens":4294967296}}`,
			"parameters.max_new_tokens: invalid value: integer `4294967296`, expected u32 at line 1 column 55", false},
		{p + `{"max_new_tokens":1.0}}`,
			"parameters.max_new_tokens: invalid type: floating point `1.0`, expected u32 at line 1 column 48", false},
		{p + `{"best_of":-1}}`, "parameters.best_of: invalid value: integer `-1`, expected usize at line 1 column 40",
			false},
		{p + `{"best_of":18446744073709551616}}`,
			"parameters.best_of: invalid type: floating point `1.8446744073709552e19`, expected usize at line 1 column 58", false},
		{p + `{"top_k":2147483648}}`,
			"parameters.top_k: invalid value: integer `2147483648`, expected i32 at line 1 column 46", false},
		{p + `{"do_sample":null}}`, "parameters.do_sample: invalid type: null, expected a boolean at line 1 column 44",
			false},
		{p + `{"do_sample":1}}`,
			"parameters.do_sample: invalid type: integer `1`, expected a boolean at line 1 column 41", false},
		{p + `{"stop":"x"}}`, `parameters.stop: invalid type: string "x", expected a sequence at line 1 column 38`,
			false},
		{p + `{"stop":["x",true]}}`,
			"parameters.stop[1]: invalid type: boolean `true`, expected a string at line 1 column 44", false},
		{`{"inputs":"a"`, "EOF while parsing an object at line 1 column 13", true},
		{`{"inputs":"a`, "inputs: EOF while parsing a string at line 1 column 12", true},
		{`{"inputs":"a",}`, "trailing comma at line 1 column 15", true},
		{`{"inputs" "a"}`, "expected `:` at line 1 column 11", true},
		{`{"inputs":"a" "b":1}`, "expected `,` or `}` at line 1 column 15", true},
		{`{inputs:1}`, "key must be a string at line 1 column 2", true},
		{`{"inputs":"a"} x`, "trailing characters at line 1 column 16", true},
		{`{"inputs":"a","x":[1 2]}`, "x: expected `,` or `]` at line 1 column 22", true},
		{`{"inputs":"a","x":[1,]}`, "x: trailing comma at line 1 column 22", true},
		{`{"inputs":"a","x":tru}`, "x: expected ident at line 1 column 22", true},
		{`{"inputs":"a","x":01}`, "x: invalid number at line 1 column 20", true},
		{`{"inputs":"a","x":-}`, "x: invalid number at line 1 column 20", true},
		{`{"inputs":"a","x":1.}`, "x: invalid number at line 1 column 21", true},
		{`{"inputs":"a","x":1e+}`, "x: invalid number at line 1 column 22", true},
		{`{"inputs":"a","x":1`, "EOF while parsing an object at line 1 column 19", true},
		{`{"inputs":"\x"}`, "inputs: invalid escape at line 1 column 13", true},
		{`{"inputs":"\ud800"}`, "inputs: unexpected end of hex escape at line 1 column 18", true},
		{`{"inputs":"\udc00"}`, "inputs: lone leading surrogate in hex escape at line 1 column 17", true},
		{`{"inputs":"\ud800\u0041"}`, "inputs: lone leading surrogate in hex escape at line 1 column 23", true},
		{`{"inputs":"\u12`, "inputs: EOF while parsing a string at line 1 column 15", true},
		{`{"inputs":"` + "a\nb" + `"}`,
			`inputs: control character (\u0000-\u001F) found while parsing a string at line 2 column 0`, true},
		{`{"inputs":"` + "\xff" + `"}`, "inputs: invalid unicode code point at line 1 column 12", true},
	} {
		_, err := decodeSample(c.body)
		e, ok := err.(*Error)
		if !ok {
			t.Errorf("%s: got %v, want an *Error", c.body, err)
			continue
		}
		if e.Error() != c.want || (e.Kind == ErrSyntax) != c.syntax {
			t.Errorf("%s\n got %s (%v)\nwant %s (syntax %v)", c.body, e, e.Kind, c.want, c.syntax)
		}
	}
}

func TestDepth(t *testing.T) {
	nest := func(n int) error {
		_, err := decodeSample(`{"inputs":"a","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`)
		return err
	}
	if err := nest(126); err != nil {
		t.Errorf("127 levels: %v", err)
	}
	if err := nest(127); err == nil || !strings.Contains(err.Error(), "recursion limit exceeded") {
		t.Errorf("128 levels: got %v", err)
	}
	if err := nest(1_000_000); err == nil {
		t.Error("a million levels were accepted")
	}
}

func TestAccepted(t *testing.T) {
	s, err := decodeSample(" \t\n{\"unknown\":{\"a\":[1,-2.5e3,null,{}]},\"inputs\":\"\\u00e9\\ud83d\\ude00\\n\\/\",\"parameters\":" +
		`{"temperature":null,"top_k":-7,"best_of":3,"max_new_tokens":0,"do_sample":true,"stop":["x","y"]}} `)
	if err != nil {
		t.Fatal(err)
	}
	if s.inputs != "é😀\n/" || s.temp != nil || *s.topK != -7 || *s.best != 3 || *s.newTok != 0 || !s.sample ||
		len(s.stop) != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestStrictObject(t *testing.T) {
	var n uint64
	fields := []Field{{Name: "a", Read: Into(&n, (*Reader).Uint64)}, {Name: "b", Read: (*Reader).Skip},
		{Name: "c", Read: (*Reader).Skip}}
	for _, c := range []struct {
		fields int
		body   string
		want   string
	}{
		{3, `{"a":1,"b":[]}`, ""},
		{3, `{}`, ""},
		{1, `{"a":1,"b":[]}`, "unknown field `b`, expected `a` at line 1 column 10"},
		{2, `{"d":1}`, "unknown field `d`, expected `a` or `b` at line 1 column 4"},
		{3, `{"d" 1`, "unknown field `d`, expected one of `a`, `b`, `c` at line 1 column 4"},
		{3, `{"a":1,"a":2}`, "duplicate field `a` at line 1 column 10"},
		{1, `{"x` + strings.Repeat("é", 50) + `":1}`, "unknown field `x" + strings.Repeat("é", 31) +
			"…`, expected `a` at line 1 column 104"},
	} {
		err := Decode([]byte(c.body), func(r *Reader) error { return r.StrictObject("struct S", fields[:c.fields]) })
		if err == nil != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.body, err, c.want)
		}
	}
}

func TestRawObject(t *testing.T) {
	for _, c := range []struct{ body, want, err string }{
		{` {"a": [1, {"b" : "}"}]} `, `{"a": [1, {"b" : "}"}]}`, ""},
		{`{}`, `{}`, ""},
		{`[]`, "", "invalid type: sequence, expected a map at line 1 column 0"},
		{`null`, "", "invalid type: null, expected a map at line 1 column 4"},
		{``, "", "EOF while parsing a value at line 1 column 0"},
		{`{"a":1`, "", "EOF while parsing an object at line 1 column 6"},
		{`{"a":"` + "\xff" + `"}`, "", "invalid unicode code point at line 1 column 7"},
		{strings.Repeat(`{"a":`, 200), "", "recursion limit exceeded at line 1 column 636"},
	} {
		var got []byte
		err := Decode([]byte(c.body), Into(&got, (*Reader).RawObject))
		if err == nil != (c.err == "") || err != nil && err.Error() != c.err || err == nil && string(got) != c.want {
			t.Errorf("%s\n got %s, %v\nwant %s%s", c.body, got, err, c.want, c.err)
		}
	}
	var any []byte
	if err := Decode([]byte(` [1, "x"] `), Into(&any, (*Reader).Raw)); err != nil || string(any) != `[1, "x"]` {
		t.Errorf("got %q, %v", any, err)
	}
	if err := Decode([]byte(` [1, `), Into(&any, (*Reader).Raw)); !errors.Is(err, ErrSyntax) {
		t.Errorf("half an array: %v", err)
	}
	body := []byte(`[{"a":1},{}]`)
	var all [][]byte
	if err := Decode(body, func(r *Reader) error {
		return r.Array(func(int) error {
			b, err := r.RawObject()
			all = append(all, b)
			return err
		})
	}); err != nil {
		t.Fatal(err)
	}
	if _ = append(all[0], "xx"...); string(all[1]) != "{}" {
		t.Errorf("appending to one object changed the next: %s", all[1])
	}
}

func TestAppendFloat32(t *testing.T) {
	for _, c := range []struct {
		f    float32
		want string
	}{
		{0, "0.0"}, {float32(math.Copysign(0, -1)), "-0.0"}, {-1.25, "-1.25"}, {-0.34, "-0.34"},
		{-5.4453125, "-5.4453125"},
		{-2, "-2.0"}, {0.00001, "0.00001"}, {0.000001, "0.000001"}, {-0.00000015, "-1.5e-7"}, {1e12, "1000000000000.0"},
		{1e13, "1e13"},
		{math.MaxFloat32, "3.4028235e38"}, {float32(math.NaN()), "null"}, {float32(math.Inf(-1)), "null"},
	} {
		if got := string(AppendFloat32(nil, c.f)); got != c.want {
			t.Errorf("%g: got %s, want %s", c.f, got, c.want)
		}
	}
	if got := string(AppendFloat64(nil, 1e15)); got != "1000000000000000.0" {
		t.Errorf("1e15 as float64: got %s", got)
	}
}

func TestAppendString(t *testing.T) {
	in := "a\"\\/<>&\u2028é\b\f\n\r\t\x00\x1f\x7f\xffz"
	want := `"a\"\\/<>&` + "\u2028é" + `\b\f\n\r\t\u0000\u001f` + "\x7f\uFFFDz\""
	if got := string(AppendString(nil, in)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"inputs":"a","parameters":{"stop":["x"],"temperature":0.5}}`,
		`{"inputs":"\ud800`, `[[[`, `-`, `1e`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s, err := decodeSample(body)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("%q: %T is not an *Error", body, err)
			}
			return
		}
		again := string(AppendString([]byte(`{"inputs":`), s.inputs)) + "}"
		if got, err := decodeSample(again); err != nil || got.inputs != s.inputs {
			t.Fatalf("%q does not survive writing and reading: %q, %v", s.inputs, got.inputs, err)
		}
	})
}

// TestLongPath: an error shows both ends of a long way to its place: keys are the client's.
func TestLongPath(t *testing.T) {
	for _, key := range []string{strings.Repeat("words", 2000), strings.Repeat("é", 2001)} {
		read := func(r *Reader) error { return r.Object("struct T", nil) }
		got := Decode([]byte(`{"a`+key+`z":tru}`), read).Error()
		if !strings.HasPrefix(got, "a"+key[:90]) || !strings.Contains(got, "…") ||
			!strings.Contains(got, "z: expected ident") || len(got) > 300 || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
}

// TestSkipTexts: a text that is skipped is checked as one that is read.
func TestSkipTexts(t *testing.T) {
	for _, body := range []string{`"a"`, `""`, `"\n"`, `"a\u00e9b\\"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\x"`,
		"\"a\xff\"", "\"a\xff\\n\"", "\"a\nb\"", `"a`, `"a\`, `"a\u12`} {
		read := func(f func(*Reader) error) string {
			return fmt.Sprint(Decode([]byte(body), f))
		}
		want := read(func(r *Reader) error { _, err := r.String(); return err })
		if got := read((*Reader).Skip); got != want {
			t.Errorf("%s: skipped %s, read %s", body, got, want)
		}
	}
}
