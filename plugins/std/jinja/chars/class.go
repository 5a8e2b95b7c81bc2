package chars

import (
	"strings"
	"unicode"
)

// IsSpace is str.isspace for one character.
func IsSpace(r rune) bool {
	switch {
	case r <= ' ':
		return r >= 9 && r <= 13 || r >= 28 && r <= 32
	case r < 0x1680:
		return r == 0x85 || r == 0xa0
	}
	return r == 0x1680 || r >= 0x2000 && r <= 0x200a || r == 0x2028 || r == 0x2029 || r == 0x202f || r == 0x205f ||
		r == 0x3000
}

// IsLineEnd tells where str.splitlines splits.
func IsLineEnd(r rune) bool {
	return r >= 10 && r <= 13 || r >= 28 && r <= 30 || r == 0x85 || r == 0x2028 || r == 0x2029
}

// IsPrintable is str.isprintable for one character.
func IsPrintable(r rune) bool { return unicode.IsPrint(r) }

// IsWord is \w of Python's re.
func IsWord(r rune) bool { return r == '_' || IsAlnum(r) }

// IsAlnum is str.isalnum for one character.
func IsAlnum(r rune) bool { return unicode.IsLetter(r) || IsNumeric(r) }

// IsNumeric is str.isnumeric for one character.
func IsNumeric(r rune) bool {
	return unicode.IsNumber(r) || strings.ContainsRune("一二三四五六七八九十百千万億兆〇零壹贰叁肆伍陆柒捌玖拾佰仟两", r)
}

// IsDigit is str.isdigit for one character.
func IsDigit(r rune) bool {
	switch {
	case unicode.Is(unicode.Nd, r):
		return true
	case r == 0xb2 || r == 0xb3 || r == 0xb9 || r == 0x2070 || r == 0x24ea || r == 0x24ff:
		return true
	}
	for _, d := range [][2]rune{{0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247c},
		{0x2488, 0x2490}, {0x24f5, 0x24fd}, {0x2776, 0x277e}, {0x2780, 0x2788}, {0x278a, 0x2792}} {
		if r >= d[0] && r <= d[1] {
			return true
		}
	}
	return false
}

// IsLower reports whether r is lower case, as str.islower asks.
func IsLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

// IsUpper reports whether r is upper case, as str.isupper asks.
func IsUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

// IsCased reports whether r has a case.
func IsCased(r rune) bool { return IsLower(r) || IsUpper(r) || unicode.IsTitle(r) }

// IsASCIIDigit tells the ten digits of source text and JSON.
func IsASCIIDigit(c byte) bool { return '0' <= c && c <= '9' }

// IsIdentifier is str.isidentifier.
func IsIdentifier(s string) bool {
	for i, r := range s {
		start := r == '_' || unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Other_ID_Start)
		if !start && (i == 0 || !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc,
			unicode.Other_ID_Continue)) {
			return false
		}
	}
	return s != ""
}

// All is the rule of str's is... methods: every character, and at least one.
func All(s string, f func(rune) bool) bool {
	for _, r := range s {
		if !f(r) {
			return false
		}
	}
	return s != ""
}
