package pylib

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

var strMethods map[string]*method

func init() {
	strMethods = map[string]*method{}
	add := func(name string, min, max int, kw string, call strMethod) *method {
		m := &method{class: "str", name: name, min: min, max: max, perCharacter: perCharacterNames[name],
			call: func(th *value.Thread, self value.Value, a []value.Value) (value.Value, error) {
				s := self.(*value.Str)
				v, err := call(th, s, a)
				if out, ok := v.(*value.Str); ok && s.Safe() {
					v = out.Markup()
				}
				return v, err
			}}
		if kw != "" {
			m.kw = strings.Fields(kw)
		}
		strMethods[name] = m
		return m
	}
	addCases(add)
	addTests(add)
	addSearches(add)
	addSplits(add)
	addPads(add)
}

// addMethod declares a method of strings; kw lists the parameters that may be given by name.
type addMethod func(name string, min, max int, kw string, call strMethod) *method

type strMethod func(th *value.Thread, s *value.Str, a []value.Value) (value.Value, error)

func addCases(add addMethod) {
	plain := func(name string, f func(string) string) {
		add(name, 0, 0, "", func(th *value.Thread, s *value.Str, _ []value.Value) (value.Value, error) {
			return s.MapRuns(f), th.Grow(int64(len(s.String())))
		})
	}
	near := func(name string, f func(string) string) {
		add(name, 0, 0, "", func(th *value.Thread, s *value.Str, _ []value.Value) (value.Value, error) {
			return s.MapWhole(f), th.Grow(int64(len(s.String())))
		})
	}
	plain("upper", chars.Upper)
	near("lower", chars.Lower)
	plain("casefold", chars.Casefold)
	plain("swapcase", chars.SwapCase)
	near("capitalize", chars.Capitalize)
	near("title", chars.Title)
}

// cased is the rule of islower and isupper: no character of the wrong case, one of the right.
func cased(s string, right func(rune) bool) bool {
	found := false
	for _, r := range s {
		switch {
		case right(r):
			found = true
		case chars.IsCased(r):
			return false
		}
	}
	return found
}

func addTests(add addMethod) {
	test := func(name string, f func(string) bool) {
		add(name, 0, 0, "", func(_ *value.Thread, s *value.Str, _ []value.Value) (value.Value, error) {
			return value.Bool(f(s.String())), nil
		})
	}
	each := func(name string, f func(rune) bool) { test(name, func(s string) bool { return chars.All(s, f) }) }
	each("isalpha", unicode.IsLetter)
	each("isalnum", chars.IsAlnum)
	each("isdecimal", func(r rune) bool { return unicode.Is(unicode.Nd, r) })
	each("isdigit", chars.IsDigit)
	each("isnumeric", chars.IsNumeric)
	each("isspace", chars.IsSpace)
	test("isprintable", func(s string) bool { return s == "" || chars.All(s, chars.IsPrintable) })
	ascii := func(r rune) bool { return r < utf8.RuneSelf }
	test("isascii", func(s string) bool { return s == "" || chars.All(s, ascii) })
	test("islower", func(s string) bool { return cased(s, chars.IsLower) })
	test("isupper", func(s string) bool { return cased(s, chars.IsUpper) })
	test("isidentifier", chars.IsIdentifier)
	test("istitle", isTitle)
}

func isTitle(s string) bool {
	inWord, found := false, false
	for _, r := range s {
		switch {
		case chars.IsUpper(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			inWord, found = true, true
		case chars.IsLower(r):
			if !inWord {
				return false
			}
			found = true
		default:
			inWord = false
		}
	}
	return found
}
