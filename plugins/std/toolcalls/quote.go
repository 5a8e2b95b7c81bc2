package toolcalls

import (
	"slices"
	"unicode/utf8"

	"tgi/sdk/go/params"
)

// escaped is how a control character is written inside a JSON string.
func escaped(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	const digits = "0123456789abcdef"
	return `\u00` + string([]byte{digits[c>>4], digits[c&15]})
}

// quoted appends the inside of a JSON string. Text that is not ASCII stays as it is.
func quoted(dst []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		if c < ' ' {
			dst = append(dst, escaped(c)...)
		} else {
			dst = append(dst, '\\', c)
		}
	}
	return append(dst, s[from:]...)
}

// plain says that s is the same inside a JSON string.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// quote is a JSON string.
func quote(s string) string {
	return string(append(quoted([]byte{'"'}, s), '"'))
}

// unquote is the text of a whole JSON string with its quotes.
func unquote(source []byte) (string, bool) {
	r := params.Read(source)
	s := r.String()
	if r.Close() != nil {
		return "", false
	}
	if !utf8.ValidString(s) {
		s = string([]rune(s)) // U+FFFD for each byte that is wrong, as encoding/json has it
	}
	return s, true
}

// unquoteSome decodes as much of the inside of a JSON string as is certain, and returns the rest.
func unquoteSome(source []byte) (text string, rest []byte) {
	i := 0
	for i < len(source) {
		n := 1
		if source[i] == '\\' {
			n = escapeLen(source[i:])
		}
		if n == 0 {
			break
		}
		i += n
	}
	text, _ = unquote(slices.Concat([]byte{'"'}, source[:i], []byte{'"'}))
	return text, source[i:]
}

// escapeLen is the length of the escape at the beginning of s, both halves of a surrogate pair together; 0 when it is
// not whole.
func escapeLen(s []byte) int {
	switch {
	case len(s) < 2:
		return 0
	case s[1] != 'u':
		return 2
	case len(s) < 6:
		return 0
	case s[2] != 'd' && s[2] != 'D' || s[3] < '8':
		return 6
	case len(s) > 6 && s[6] != '\\' || len(s) > 7 && s[7] != 'u':
		return 6
	case len(s) < 12:
		return 0
	}
	return 12
}
