package jinja

import (
	"strings"
	"unicode"
)

// isSpace is str.isspace for one character.
func isSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r >= 9 && r <= 13 || r >= 28 && r <= 32
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	}
	return r == 0x1680 || r >= 0x2000 && r <= 0x200a || r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f || r == 0x3000
}

// isLineEnd tells where str.splitlines splits.
func isLineEnd(r rune) bool {
	return r >= 10 && r <= 13 || r >= 28 && r <= 30 || r == 0x85 || r == 0x2028 || r == 0x2029
}

func isPrintable(r rune) bool { return unicode.IsPrint(r) }

// isWord is \w of Python's re.
func isWord(r rune) bool { return r == '_' || isAlnum(r) }

func isAlnum(r rune) bool { return unicode.IsLetter(r) || isNumeric(r) }

// isNumeric is str.isnumeric for one character.
func isNumeric(r rune) bool {
	return unicode.IsNumber(r) || strings.ContainsRune("一二三四五六七八九十百千万億兆〇零壹贰叁肆伍陆柒捌玖拾佰仟两", r)
}

// isDigitRune is str.isdigit for one character.
func isDigitRune(r rune) bool {
	switch {
	case unicode.Is(unicode.Nd, r):
		return true
	case r == 0xb2 || r == 0xb3 || r == 0xb9 || r == 0x2070 || r == 0x24ea || r == 0x24ff:
		return true
	}
	for _, d := range [][2]rune{{0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247c}, {0x2488, 0x2490}, {0x24f5, 0x24fd}, {0x2776, 0x277e}, {0x2780, 0x2788}, {0x278a, 0x2792}} {
		if r >= d[0] && r <= d[1] {
			return true
		}
	}
	return false
}

func isLowerRune(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

func isUpperRune(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

func isCased(r rune) bool { return isLowerRune(r) || isUpperRune(r) || unicode.IsTitle(r) }

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

func upper(s string) string { return mapCase(s, upperLong, unicode.ToUpper) }

// titleRune is one character as it begins a word.
func titleRune(r rune) string {
	if m, ok := titleLong[r]; ok {
		return m
	}
	return string(unicode.ToTitle(r))
}

func casefold(s string) string {
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

// lower is str.lower: a capital sigma at the end of a word becomes a final one.
func lower(s string) string {
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
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:\u00b7\u2019", r)
}

func finalSigma(rs []rune, i int) bool {
	j := i - 1
	for j >= 0 && caseIgnorable(rs[j]) {
		j--
	}
	if j < 0 || !isCased(rs[j]) {
		return false
	}
	for j = i + 1; j < len(rs) && caseIgnorable(rs[j]); j++ {
	}
	return j == len(rs) || !isCased(rs[j])
}

func capitalize(s string) string {
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

// titleCase is str.title: the first cased character after one that is not.
func titleCase(s string) string {
	var b strings.Builder
	inWord := false
	rs := []rune(s)
	for i, r := range rs {
		if inWord {
			b.WriteString(lowerAt(rs, i))
		} else {
			b.WriteString(titleRune(r))
		}
		inWord = isCased(r)
	}
	return b.String()
}

func swapCase(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		switch {
		case isUpperRune(r):
			b.WriteString(lowerAt(rs, i))
		case isLowerRune(r):
			b.WriteString(upper(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// mixedMap applies a function that looks at neighbours. A string of mixed
// origin is mapped whole; where lengths stay, the marks stay with them, and
// otherwise all of it counts as data.
func (x *Str) mixedMap(f func(string) string) *Str {
	s := f(x.s)
	if x.from != fromBoth {
		return &Str{s: s, from: x.from}
	}
	if len(s) == len(x.s) {
		return &Str{s: s, from: fromBoth, marks: x.marks}
	}
	return &Str{s: s, from: fromData}
}
