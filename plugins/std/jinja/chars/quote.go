package chars

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxQuoted bounds what Quote shows.
const maxQuoted = 64 << 10

// Quote is repr of a str, for error texts; of a long one only dots are left.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return "..."
	}
	quote := QuoteMark(s)
	b := append(make([]byte, 0, len(s)+2), quote)
	return string(append(AppendQuoted(b, s, quote), quote))
}

// QuoteMark is the quote that repr puts around s.
func QuoteMark(s string) byte {
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		return '"'
	}
	return '\''
}

// AppendQuoted appends the inside of a string literal as repr writes it between
// quotes of the given kind.
func AppendQuoted(b []byte, s string, quote byte) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\' || r == rune(quote):
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case IsPrintable(r):
			b = append(b, s[i:i+n]...)
		default:
			b = append(b, Escape(r)...)
		}
		i += n
	}
	return b
}

// ParseHex reads n hexadecimal digits at the start of s.
func ParseHex(s string, n int) (uint64, bool) {
	if len(s) < n {
		return 0, false
	}
	r, err := strconv.ParseUint(s[:n], 16, 32)
	return r, err == nil
}

// Escape is what is left of a backslash before a character beyond ASCII:
// backslashreplace makes it \\xe9, and the codec reads that as a backslash and xe9.
func Escape(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}
