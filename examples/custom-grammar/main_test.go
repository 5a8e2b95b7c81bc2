package main

import (
	"testing"

	"tgi/sdk/go/grammar"
	"tgi/sdk/go/grammar/form"
)

func TestTables(t *testing.T) {
	for _, x := range []struct {
		source, params, text string
		want                 bool
	}{
		{"n int", "", "n\n0\n", true},
		{"n int", "", "n\n-12\n7\n", true},
		{"n int", "", "n\n", false},
		{"n int", "", "n\n012\n", false},
		{"n int", "", "n\n1", false},
		{"n int", `{"rows":1}`, "n\n1\n2\n", false},
		{"n int", `{"rows":2}`, "n\n1\n2\n", true},
		{" d date \n s new|done\n", "", "d,s\n2024-02-28,new\n1999-12-01,done\n", true},
		{"d date", "", "d\n2024-13-01\n", false},
		{"d date", "", "d\n2024-02-30\n", false},
		{"s new|done", "", "s\nold\n", false},
		{"a text\nb text", "", "a,b\n\"x, y\",\"say \"\"é\"\"\"\n", true},
		{"a text", "", "a\n\"say \"no\"\n", false},
		{"a text", "", "a\n\"\"\n", false},
		{"a text", "", "a\n\"two\nlines\"\n", false},
	} {
		var raw []byte
		if x.params != "" {
			raw = []byte(x.params)
		}
		c, err := compiler{10}.Compile(grammar.Request{Source: x.source, Params: raw})
		if err != nil {
			t.Fatalf("%q: %v", x.source, err)
		}
		if got, err := form.Match(c.Form, x.text); got != x.want || err != nil {
			t.Errorf("%q of %q: %v, %v", x.text, x.source, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, x := range []struct{ source, params, want string }{
		{"", "", `line 1: "" is no name of a column`},
		{"a int\n\"b int", "", `line 2: "\"b" is no name of a column`},
		{"a float", "", `line 1: column a: "float" is none of int, date, text, or choices with | between them`},
		{"a x|y,z", "", `line 1: column a: "x|y,z" is none of int, date, text, or choices with | between them`},
		{"a int", `{"rows":0}`, "rows: 0 is not from 1 to 1000"},
		{"a int", `{"row":1}`, "unknown parameter: row"},
	} {
		c := compiler{10}
		var err error
		if x.params != "" {
			err = c.Validate([]byte(x.params))
		} else {
			_, err = c.Compile(grammar.Request{Source: x.source})
		}
		if err == nil || err.Error() != x.want {
			t.Errorf("%q %s: %v, want %s", x.source, x.params, err, x.want)
		}
	}
}
