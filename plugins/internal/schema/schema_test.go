package schema

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tgi/sdk/abi"
)

const example = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,
"required":["n"],"properties":{"n":{"type":"integer","minimum":1,"maximum":64,"default":3,"x-unit":"tokens"},
"seed":{"type":"integer","minimum":0,"maximum":18446744073709551615},"words":{"type":"array","maxItems":2,
"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":4}},"mode":{"enum":["a","b"]},
"inside":{"type":"object","properties":{"at":{"type":"number","exclusiveMinimum":0.5}},"additionalProperties":false},
"either":{"anyOf":[{"type":"boolean"},{"const":"auto"}]},"id":{"type":"string","pattern":"^[a-z]+$","format":"uuid"}}}`

// TestCheck: what is wrong is said with field, bound and value.
func TestCheck(t *testing.T) {
	s, err := Compile([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{
		`{"n":1,"seed":18446744073709551615}`:                                                "",
		`{"n":3.0,"words":["a","bé"],"mode":"b","inside":{"at":0.6},"either":true,"id":"x"}`: "",
		`{}`:                               "n is missing",
		``:                                 "n is missing",
		`{"n":99}`:                         "n is 99, above the maximum, 64",
		`{"n":0}`:                          "n is 0, below the minimum, 1",
		`{"n":"x"}`:                        `n is "x", of type string: it has to be integer`,
		`{"n":1e999999}`:                   "n is 1e999999, a number out of range",
		`{"n":1,"words":["a",1e999]}`:      "words[1] is 1e999, a number out of range",
		`{"n":1,"inside":{"at":1,"at":2}}`: "inside.at is given twice",
		`{"n":99,"n":1}`:                   "n is given twice",
		`{"n":1} 2`:                        "params is not a JSON object",
		`{"n":1,"m":2}`:                    `unknown parameter "m": the plugin has either, id, inside, mode, n, seed, words`,
		`{"n":1,"words":["a","bcdef"]}`:    `words[1] is "bcdef", of 5 characters, the limit is 4`,
		`{"n":1,"words":["a","a"]}`:        `words is ["a","a"], whose elements 0 and 1 are equal`,
		`{"n":1,"words":["a","b","c"]}`:    `words is ["a","b","c"], with 3 elements, the limit is 2`,
		`{"n":1,"mode":"c"}`:               `mode is "c", not one of "a", "b"`,
		`{"n":1,"inside":{"at":0.5}}`:      "inside.at is 0.5, and has to be above 0.5",
		`{"n":1,"inside":{"x":[]}}`:        `inside has the unknown member "x"`,
		`{"n":1,"seed":1e30}`:              "seed is 1e+30, above the maximum, 18446744073709551615",
		`{"n":1,"id":"A"}`:                 `id is "A", which does not match the pattern ^[a-z]+$`,
		`{"n":1,"either":"no"}`: `either is "no", which fits none of its alternatives: either is "no", ` +
			`of type string: it has to be boolean; either is "no", and has to be "auto"`,
		`[1]`:                            "params is [1], of type array: it has to be object",
		`{"n":99,"seed":-1,"mode":"zz"}`: `mode is "zz", not one of "a", "b"`,
	} {
		for range 5 { // always the same text
			err := s.Check([]byte(params))
			if got := text(err); got != want {
				t.Fatalf("%s: %q, want %q", params, got, want)
			}
		}
	}
	var w *Wrong
	if !errors.As(s.Check([]byte(`{"n":1,"zz":2}`)), &w) || w.Unknown != "zz" {
		t.Errorf("the unknown name is %q", w.Unknown)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestCompile: a schema out of the subset is refused, with the place.
func TestCompile(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`: "", `{"type":"object","properties":{"a":true}}`: "",
		`true`:                                                         "true is not a JSON object",
		`null`:                                                         "null is not a JSON object",
		`{"type":"string"}`:                                            `#/type is "string": parameters are an object, so it has to be "object"`,
		`{"properties":{"n":{"$ref":"#"}}}`:                            `#/properties/n: keyword "$ref" is none of those that parameters may use`,
		`{"properties":{"n":{"minimun":1}}}`:                           `#/properties/n: keyword "minimun" is none of those that parameters may use`,
		`{"properties":{"n":{"minimum":"1"}}}`:                         "#/properties/n/minimum: got string, want number",
		`{"properties":{"n":{"type":"text"}}}`:                         "#/properties/n/type",
		`{"properties":{"n":{"pattern":"(?=a)"}}}`:                     "pattern",
		`{"properties":{"n":3}}`:                                       "#/properties/n is 3, where a schema is an object",
		`{"properties":{"n":{"maximum":1e9999999}}}`:                   "#/properties/n/maximum is 1e9999999, a number out of range",
		`{"allOf":[true,{"minimum":1,"minimum":2}]}`:                   "#/allOf/1/minimum is given twice",
		`{"x-a":"` + strings.Repeat("a", abi.MaxSchema) + `"}`:         "it has 16394 bytes, the limit is 16384",
		strings.Repeat(`{"not":`, 18) + "{}" + strings.Repeat("}", 18): "is nested 17 deep, the limit is 16",
	} {
		_, err := Compile([]byte(raw))
		if got := text(err); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%.80s: %q, want %q", raw, got, want)
		}
	}
}

// TestCost: a hostile schema and hostile parameters take little: both are bounded before the library sees them.
func TestCost(t *testing.T) {
	const heavy = `(a?){1000}`
	for raw, want := range map[string]string{
		`{"properties":{"s":{"pattern":"` + strings.Repeat(heavy, 20) + `"}}}`: "the limit is 10000",
		`{"patternProperties":{"` + strings.Repeat(heavy, 20) + `":{}}}`:       "the limit is 10000",
		`{"properties":{"s":{"pattern":"((a{1,10}){1,10}){1,10}[^ab]{500}"}}}`: "",
	} {
		if _, err := Compile([]byte(raw)); (want == "") != (err == nil) || !strings.Contains(text(err), want) {
			t.Errorf("%.60s: %v, want %q", raw, err, want)
		}
	}
	all := `{"type":"null"}`
	for range maxDepth - 2 {
		all = `{"anyOf":[` + all + `,{"type":"null"}]}`
	}
	for _, c := range []struct{ schema, params, want string }{
		{`{"properties":{"s":{"pattern":"^` + strings.Repeat(heavy, 2) + `$"}}}`,
			`{"s":"` + strings.Repeat("a", 1<<17) + `b"}`,
			"params has 131081 bytes: the patterns of the plugin's schema let it have "},
		{`{"properties":{"words":{"items":{"type":"string"}}}}`, `{"words":[1` + strings.Repeat(",1", 1<<20) + `]}`,
			"params has more than 262144 names and values, which the 4 rules of the plugin's schema let it have"},
		{`{"properties":{"a":` + all + `}}`, `{"a":"` + strings.Repeat("a", 500) + `"}`,
			"fits none of its alternatives"},
	} {
		s, err := Compile([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		if got := text(s.Check([]byte(c.params))); !strings.Contains(got, c.want) || len(got) > 1000 {
			t.Errorf("%.60s: %d bytes %.300q, want %q", c.schema, len(got), got, c.want)
		}
	}
}

// FuzzCheck: no parameters crash the check, and what they cost is bounded by their size.
func FuzzCheck(f *testing.F) {
	s, err := Compile([]byte(example))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"n":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}"))
	f.Add([]byte(`{"n":1e308,"seed":-1e-308,"words":[1e308,1e308]}`))
	f.Fuzz(func(t *testing.T, params []byte) {
		begin := time.Now()
		if got := text(s.Check(params)); len(got) > 2000 {
			t.Errorf("the text has %d bytes", len(got))
		}
		if d := time.Since(begin); d > time.Minute {
			t.Errorf("%d bytes took %v", len(params), d)
		}
	})
}
