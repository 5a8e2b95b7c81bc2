package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

var strMethods map[string]*method

func init() {
	strMethods = map[string]*method{}
	add := func(name string, min, max int, kw string, call func(st *state, s *Str, a []Value) (Value, error)) *method {
		m := &method{class: "str", name: name, min: min, max: max, slow: perCharacter[name], call: func(st *state, self Value, a []Value) (Value, error) {
			s := self.(*Str)
			v, err := call(st, s, a)
			if out, ok := v.(*Str); ok && s.safe {
				v = out.markup()
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

type addMethod func(name string, min, max int, kw string, call func(st *state, s *Str, a []Value) (Value, error)) *method

func addCases(add addMethod) {
	plain := func(name string, f func(string) string) {
		add(name, 0, 0, "", func(st *state, s *Str, _ []Value) (Value, error) {
			return s.mapRuns(f), st.grow(int64(len(s.s)))
		})
	}
	near := func(name string, f func(string) string) {
		add(name, 0, 0, "", func(st *state, s *Str, _ []Value) (Value, error) {
			return s.mixedMap(f), st.grow(int64(len(s.s)))
		})
	}
	plain("upper", upper)
	near("lower", lower)
	plain("casefold", casefold)
	plain("swapcase", swapCase)
	near("capitalize", capitalize)
	near("title", titleCase)
}

// all is Python's rule for the is... methods: every character, and at least one.
func all(s string, f func(rune) bool) bool {
	for _, r := range s {
		if !f(r) {
			return false
		}
	}
	return s != ""
}

// cased is the rule of islower and isupper: no character of the wrong case, one of the right.
func cased(s string, right func(rune) bool) bool {
	found := false
	for _, r := range s {
		switch {
		case right(r):
			found = true
		case isCased(r):
			return false
		}
	}
	return found
}

func addTests(add addMethod) {
	test := func(name string, f func(string) bool) {
		add(name, 0, 0, "", func(_ *state, s *Str, _ []Value) (Value, error) { return Bool(f(s.s)), nil })
	}
	each := func(name string, f func(rune) bool) { test(name, func(s string) bool { return all(s, f) }) }
	each("isalpha", unicode.IsLetter)
	each("isalnum", isAlnum)
	each("isdecimal", func(r rune) bool { return unicode.Is(unicode.Nd, r) })
	each("isdigit", isDigitRune)
	each("isnumeric", isNumeric)
	each("isspace", isSpace)
	test("isprintable", func(s string) bool { return s == "" || all(s, isPrintable) })
	test("isascii", func(s string) bool { return s == "" || all(s, func(r rune) bool { return r < utf8.RuneSelf }) })
	test("islower", func(s string) bool { return cased(s, isLowerRune) })
	test("isupper", func(s string) bool { return cased(s, isUpperRune) })
	test("isidentifier", isIdentifier)
	test("istitle", isTitle)
}

func isTitle(s string) bool {
	inWord, found := false, false
	for _, r := range s {
		switch {
		case isUpperRune(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			inWord, found = true, true
		case isLowerRune(r):
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
