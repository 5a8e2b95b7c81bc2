package explain

import (
	"reflect"
	"strings"
	"testing"
	"unicode"
)

const bad = "x\x1b]0;t\a\u009b2J\r\u202ey\u2028z\u200f\x7f\U000e0041"

// filled sets all fields, and the strings that are reached: number at of them, or all for -1, to bad. It returns
// their names.
func filled(at int, with string) (t Text, names []string) {
	var fill func(v reflect.Value, name string)
	fill = func(v reflect.Value, name string) {
		switch v.Kind() {
		case reflect.String:
			if v.SetString("a"); at < 0 || at == len(names) {
				v.SetString(with)
			}
			names = append(names, name)
		case reflect.Struct:
			for i := range v.NumField() {
				fill(v.Field(i), name+"."+v.Type().Field(i).Name)
			}
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), name)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), name)
		case reflect.Int:
			v.SetInt(1)
		case reflect.Uint32:
			v.SetUint(1)
		case reflect.Float64:
			v.SetFloat(-1)
		}
	}
	fill(reflect.ValueOf(&t).Elem(), "")
	return t, names
}

// TestNothingSteers: no string of an explanation has a terminal do something or makes a line of its own, in colours or
// without; a break of a line is one in the text alone.
func TestNothingSteers(t *testing.T) {
	_, names := filled(-1, "")
	if len(names) < 10 {
		t.Fatalf("%d strings: %q", len(names), names)
	}
	print := func(text Text, colour bool) string {
		var b strings.Builder
		if err := Print(&b, []Text{text}, Options{Colour: colour, Changes: true, Candidates: true}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	check := func(at int, kind string, accepted, colour bool) {
		benign, _ := filled(-2, "")
		hostile, _ := filled(at, bad+"\n")
		for _, x := range []*Text{&benign, &hostile} {
			if names[at] != ".Tokens.Changes.Kind" {
				x.Tokens[0].Changes[0].Kind = kind
			}
			x.Tokens[0].Draft.Accepted = accepted
		}
		lines := strings.Count(print(benign, colour), "\n")
		if names[at] == ".Tokens.Text" {
			lines++
		}
		got := print(hostile, colour)
		if n := strings.Count(got, "\n"); n != lines {
			t.Errorf("%s: %d lines, want %d: %q", names[at], n, lines, got)
		}
		for _, own := range []string{plain, dim, red, green, yellow, blue, magenta, cyan} {
			if colour {
				got = strings.ReplaceAll(got, own, "")
			}
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 {
			t.Errorf("%s: byte %d of %q", names[at], i, got)
		}
	}
	for at := range names {
		for _, kind := range []string{"mask", "plugin"} {
			for _, accepted := range []bool{false, true} {
				check(at, kind, accepted, false)
				check(at, kind, accepted, true)
			}
		}
	}
}
