package wire

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Only quotes, backslashes and control
// characters are escaped; bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			ch, n := utf8.DecodeRuneInString(s[i:])
			if ch == utf8.RuneError && n == 1 {
				b = append(append(b, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		i++
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i-1]...)
		start = i
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, s[start:]...), '"')
}

// AppendFloat32 appends the shortest decimal that reads back as f, always with
// a point or an exponent: -0.34, 0.0, 1e-7. NaN and infinities become null.
func AppendFloat32(b []byte, f float32) []byte { return appendFloat(b, float64(f), 32) }

// AppendFloat64 is AppendFloat32 for a float64.
func AppendFloat64(b []byte, f float64) []byte { return appendFloat(b, f, 64) }

// appendFloat lays the shortest digits out as Rust's ryu does. The number is
// 0.d1d2d3… times ten to the point: 1 to 13 (16 for 64 bits) digits before the
// point and up to 5 (4) zeros after it are written out, the rest has an exponent.
func appendFloat(b []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	if f == 0 {
		if math.Signbit(f) {
			b = append(b, '-')
		}
		return append(b, "0.0"...)
	}
	most, least := 13, -6
	if bits == 64 {
		most, least = 16, -5
	}
	var room [32]byte
	sci := strconv.AppendFloat(room[:0], f, 'e', -1, bits)
	exp := exponent(sci)
	if point := exp + 1; point > least && point <= most {
		n := len(b)
		b = strconv.AppendFloat(b, f, 'f', -1, bits)
		for _, c := range b[n:] {
			if c == '.' {
				return b
			}
		}
		return append(b, ".0"...)
	}
	for i, c := range sci {
		if c == 'e' {
			b = append(append(b, sci[:i]...), 'e')
			break
		}
	}
	return strconv.AppendInt(b, int64(exp), 10)
}

// exponent returns the exponent of a number in strconv's 'e' format.
func exponent(sci []byte) int {
	i := len(sci) - 1
	for sci[i] != 'e' {
		i--
	}
	n, _ := strconv.Atoi(string(sci[i+1:]))
	return n
}

// AppendInt appends the member name of an object, with n as its value.
func AppendInt(b []byte, name string, n int) []byte {
	b = append(append(append(b, '"'), name...), `":`...)
	return strconv.AppendInt(b, int64(n), 10)
}
