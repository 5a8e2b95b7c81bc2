package syntax

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
)

// digitsLen matches (\d+_)*\d+ and gives its length.
func digitsLen(s string) int {
	n := 0
	for n < len(s) && (chars.IsASCIIDigit(s[n]) || s[n] == '_' && n > 0 && n+1 < len(s) && chars.IsASCIIDigit(s[n+1]) &&
		s[n-1] != '_') {
		n++
	}
	return n
}

// floatLen matches jinja2's float_re.
func floatLen(s string, afterDot bool) int {
	if afterDot {
		return 0
	}
	n := digitsLen(s)
	if n == 0 {
		return 0
	}
	frac := 0
	if n < len(s) && s[n] == '.' {
		if d := digitsLen(s[n+1:]); d > 0 {
			frac = d + 1
		}
	}
	exp := 0
	if i := n + frac; i < len(s) && s[i]|0x20 == 'e' {
		sign := 0
		if i+1 < len(s) && (s[i+1] == '+' || s[i+1] == '-') {
			sign = 1
		}
		if d := digitsLen(s[i+1+sign:]); d > 0 {
			exp = 1 + sign + d
		}
	}
	if frac == 0 && exp == 0 {
		return 0
	}
	return n + frac + exp
}

// integerLen matches jinja2's integer_re.
func integerLen(s string) int {
	if len(s) == 0 || !chars.IsASCIIDigit(s[0]) {
		return 0
	}
	if len(s) > 2 && s[0] == '0' {
		in := ""
		switch s[1] | 0x20 {
		case 'b':
			in = "01"
		case 'o':
			in = "01234567"
		case 'x':
			in = "0123456789abcdefABCDEF"
		}
		n := 2
		for in != "" && n < len(s) {
			if strings.IndexByte(in, s[n]) >= 0 {
				n++
			} else if s[n] == '_' && n+1 < len(s) && strings.IndexByte(in, s[n+1]) >= 0 {
				n += 2
			} else {
				break
			}
		}
		if n > 2 {
			return n
		}
	}
	n := 1
	for n < len(s) {
		next := s[n]
		step := 1
		if next == '_' && n+1 < len(s) {
			next, step = s[n+1], 2
		}
		if !chars.IsASCIIDigit(next) || s[0] == '0' && next != '0' {
			break
		}
		n += step
	}
	return n
}

// nameLen matches jinja2's name_re: word characters.
func nameLen(s string) int {
	for i, r := range s {
		if !chars.IsWord(r) && !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Other_ID_Continue) {
			return i
		}
	}
	return len(s)
}

// stringLen matches a quoted string with its quotes.
func stringLen(s string) int {
	if s[0] != '\'' && s[0] != '"' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}

// unescape decodes a string literal as Python's unicode-escape codec does after
// ascii backslashreplace. msg is the codec's complaint.
func unescape(s string) (out, msg string) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			i++
			continue
		}
		i++
		if i >= len(s) {
			return "", "\\ at end of string"
		}
		c := s[i]
		i++
		switch {
		case c == '\n':
		case strings.IndexByte(`\'"`, c) >= 0:
			b.WriteByte(c)
		case strings.IndexByte("abfnrtv", c) >= 0:
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case '0' <= c && c <= '7':
			j := i
			for j < len(s) && j < i+2 && '0' <= s[j] && s[j] <= '7' {
				j++
			}
			n, _ := strconv.ParseUint(s[i-1:j], 8, 32)
			b.WriteRune(rune(n))
			i = j
		case c == 'x' || c == 'u' || c == 'U':
			n := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			r, ok := chars.ParseHex(s[i:], n)
			if !ok {
				return "", fmt.Sprintf("truncated \\%c%s escape", c, strings.Repeat("X", n))
			}
			if r > unicode.MaxRune {
				return "", "illegal Unicode character"
			}
			b.WriteRune(rune(r))
			i += n
		case c == 'N':
			return "", "unknown Unicode character name"
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i-1:])
			b.WriteString(chars.Escape(r))
			i += n - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
