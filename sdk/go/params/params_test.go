package params_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/sdk/go/params"
)

// value reads anything into what encoding/json would make of it.
func value(r *params.Reader) any {
	switch r.Peek() {
	case '{':
		m := map[string]any{}
		for key := range r.Object() {
			m[key] = value(r)
		}
		return m
	case '[':
		list := []any{}
		for range r.Array() {
			list = append(list, value(r))
		}
		return list
	case '"':
		return r.String()
	case '0':
		return r.Float()
	case 'n':
		r.Skip()
		return nil
	}
	return r.Bool()
}

func TestReader(t *testing.T) {
	for in, want := range map[string]string{
		``: "want true or false in JSON", `{`: "JSON ends too early", `[`: "JSON ends too early",
		`{} x`: "something follows the JSON value",
		`[1,]`: "want true or false in JSON", `[1 2]`: "want a comma in JSON", `{"a" 1}`: "want a colon in JSON",
		`{1:2}`:    "want a JSON string",
		`{"a":1,}`: "want a JSON string", `"a`: "a JSON string has no end", `"a\`: "a JSON string has no end",
		"\"\n\"": "a control character in a JSON string",
		`"\q"`:   "a bad escape in a JSON string", `"\u12"`: "a bad escape in a JSON string",
		`"\u12g4"`: "a bad escape in a JSON string",
		`01`:       "a bad JSON number", `-`: "a bad JSON number", `1.`: "a bad JSON number", `1e`: "a bad JSON number",
		`1e+`: "a bad JSON number",
		`nul`: "want null in JSON", `tru`: "want true or false in JSON", `fals`: "want true or false in JSON",
		strings.Repeat("[", 65): "JSON is nested deeper than 64",
	} {
		r := params.Read([]byte(in))
		value(r)
		if err := r.Close(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
	r := params.Read([]byte(` [1e400, "\ud83d\ude00\ud83d\u0041\udc00x"] `))
	want := []any{math.Inf(1), "😀\ufffdA\ufffdx"}
	if got := value(r); !reflect.DeepEqual(got, want) || r.Close() != nil {
		t.Errorf("got %q (%v), want %q", got, r.Err(), want)
	}
}

func TestUint(t *testing.T) {
	for in, ok := range map[string]bool{"0": true, "4294967295": true, "1e3": true, "-1": false, "4294967296": false,
		"0.5": false, "1e400": false} {
		r := params.Read([]byte(in))
		if r.Uint(); (r.Close() == nil) != ok {
			t.Errorf("%s: %v", in, r.Err())
		}
	}
}

// FuzzReader compares with encoding/json on everything within the depth limit.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e-3,"x\u00e9\n",true,false,null,{}],"b":{"c":[]}}`, `[]`, `"\ud83d\ude00"`,
		`0`, `{"a":1,"a":2}`, `nul`, `[1,]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) {
			return // encoding/json replaces such bytes, the reader keeps them
		}
		var want any
		wantErr := json.Unmarshal(b, &want)
		r := params.Read(b)
		got := value(r)
		err := r.Close()
		if err != nil && (wantErr == nil && !strings.Contains(err.Error(), "deeper")) {
			t.Fatalf("%q: %v, encoding/json accepts it", b, err)
		}
		if err == nil && wantErr != nil && !strings.Contains(wantErr.Error(), "into Go value") {
			t.Fatalf("%q accepted, encoding/json says %v", b, wantErr)
		}
		if err == nil && wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q read as %#v, encoding/json as %#v", b, got, want)
		}
	})
}

// TestRaw: values come as they stand, whatever they hold, and null is told from others.
func TestRaw(t *testing.T) {
	r := params.Read([]byte(` { "a" : {"x": [1, "}\"", null]} , "b":null,"c": 1e5, "d" : "\u00e9" }`))
	got := map[string]string{}
	for key := range r.Object() {
		if !r.Null() {
			got[key] = string(r.Raw())
		}
	}
	want := map[string]string{"a": `{"x": [1, "}\"", null]}`, "c": "1e5", "d": `"\u00e9"`}
	if err := r.Close(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v\nwant %v", got, err, want)
	}
	for _, bad := range []string{``, `{"a":}`, `[1,]`, `nul`, `"\x"`} {
		if r := params.Read([]byte(bad)); r.Raw() != nil || r.Close() == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
