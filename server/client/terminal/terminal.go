// Package terminal makes texts of others safe to print: what a model, a server or a file says could otherwise move the
// cursor, turn the direction of writing around, or pass for a line of the program.
package terminal

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns text on one line, without what a terminal would obey: controls, format characters such as U+202E, line
// and paragraph separators, private and unassigned characters are written as Go escapes them, \x1b or \u202e. Bytes
// that are no UTF-8 become U+FFFD.
func Line(text string) string { return escaped(text, "", goEscape) }

// Text is Line but for line breaks and tabs, which stay.
func Text(text string) string { return escaped(text, "\n\t", goEscape) }

// Cut returns the beginning of text, at most so many bytes, and no part of a character.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for at := most; at > most-utf8.UTFMax && at >= 0; at-- { // further back it is no UTF-8
		if utf8.RuneStart(text[at]) {
			return text[:at]
		}
	}
	return text[:most]
}

// JSON does the same to an encoded JSON text, whose values stay what they are.
func JSON(text string) string { return escaped(text, "\n\t", jsonEscape) }

// Count says how many there are of a thing whose plural has an s.
func Count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}

// escaped writes what is neither graphic nor one of keep by escape.
func escaped(text, keep string, escape func(r rune) string) string {
	obeyed := func(r rune) bool { return !unicode.IsGraphic(r) && !strings.ContainsRune(keep, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, obeyed) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if obeyed(r) {
			b.WriteString(escape(r))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func goEscape(r rune) string {
	if quoted := strconv.QuoteRuneToASCII(r); r != utf8.RuneError {
		return quoted[1 : len(quoted)-1]
	}
	return string(r)
}

// jsonEscape is as RFC 8259, section 7, has it: in UTF-16.
func jsonEscape(r rune) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune{r}) {
		b.WriteString(`\u`)
		b.WriteString(strconv.FormatUint(1<<16|uint64(unit), 16)[1:])
	}
	return b.String()
}
