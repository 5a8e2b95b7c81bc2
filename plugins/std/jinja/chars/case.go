package chars

import (
	"strings"
	"unicode"
)

// mapCase maps each character by its long form or else by f.
func mapCase(s string, long map[rune]string, f func(rune) rune) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if m, ok := long[r]; ok && r >= 0x80 {
			b.WriteString(m)
		} else {
			b.WriteRune(f(r))
		}
	}
	return b.String()
}

// Upper is str.upper.
func Upper(s string) string { return mapCase(s, upperLong, unicode.ToUpper) }

// titleRune is one character as it begins a word.
func titleRune(r rune) string {
	if m, ok := titleLong[r]; ok {
		return m
	}
	return string(unicode.ToTitle(r))
}

// Casefold is str.casefold.
func Casefold(s string) string {
	return mapCase(s, foldLong, func(r rune) rune {
		switch {
		case r == 0x3c2: // final sigma
			return 0x3c3
		case r == 0xb5:
			return 0x3bc
		case r == 0x17f:
			return 's'
		case r >= 0x13f8 && r <= 0x13fd, r >= 0x13a0 && r <= 0x13f5:
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	})
}

// Lower is str.lower: a capital sigma at the end of a word becomes a final one.
func Lower(s string) string {
	if !strings.ContainsAny(s, "Σİ") {
		return mapCase(s, nil, unicode.ToLower)
	}
	rs := []rune(s)
	var b strings.Builder
	for i := range rs {
		b.WriteString(lowerAt(rs, i))
	}
	return b.String()
}

// lowerAt is character i in lower case, which depends on its neighbours.
func lowerAt(rs []rune, i int) string {
	switch r := rs[i]; {
	case r == 'İ':
		return "i\u0307"
	case r == 'Σ' && finalSigma(rs, i):
		return "ς"
	}
	return string(unicode.ToLower(rs[i]))
}

// caseIgnorable approximates the Unicode property.
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) ||
		strings.ContainsRune("'.:\u00b7\u2019", r)
}

func finalSigma(rs []rune, i int) bool {
	j := i - 1
	for j >= 0 && caseIgnorable(rs[j]) {
		j--
	}
	if j < 0 || !IsCased(rs[j]) {
		return false
	}
	for j = i + 1; j < len(rs) && caseIgnorable(rs[j]); j++ {
	}
	return j == len(rs) || !IsCased(rs[j])
}

// Capitalize is str.capitalize.
func Capitalize(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		if i == 0 {
			b.WriteString(titleRune(r))
		} else {
			b.WriteString(lowerAt(rs, i))
		}
	}
	return b.String()
}

// Title is str.title: the first cased character after one that is not.
func Title(s string) string {
	var b strings.Builder
	inWord := false
	rs := []rune(s)
	for i, r := range rs {
		if inWord {
			b.WriteString(lowerAt(rs, i))
		} else {
			b.WriteString(titleRune(r))
		}
		inWord = IsCased(r)
	}
	return b.String()
}

// SwapCase is str.swapcase.
func SwapCase(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		switch {
		case IsUpper(r):
			b.WriteString(lowerAt(rs, i))
		case IsLower(r):
			b.WriteString(Upper(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
