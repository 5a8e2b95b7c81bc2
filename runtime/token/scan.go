package token

import "unicode/utf8"

// A scanner is a hand-written matcher of a well-known pattern: it returns the end of the match
// at byte i of the valid UTF-8 string s, i < len(s). These patterns match at every position
// and never match the empty string.
type scanner func(s string, i int) int

// The patterns of the model families, letter for letter.
const (
	patternGPT2  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternLlama = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var scanners = map[string]scanner{
	patternGPT2:  scanGPT2,
	patternLlama: func(s string, i int) int { return scanLlama(s, i, 3) },
	patternQwen:  func(s string, i int) int { return scanLlama(s, i, 1) },
}

// classAt returns the classes of the character at s[i:] and its length; zero
// and 0 at the end.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return classes.pages[0][b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classes.of(r), n
}

// run returns the end of the longest run of characters at s[i:] that have a
// class of want.
func run(s string, i int, want class) int {
	for {
		c, n := classAt(s, i)
		if n == 0 || c&want == 0 {
			return i
		}
		i += n
	}
}

// runOther returns the end of the longest run of [^\s\p{L}\p{N}] at s[i:].
func runOther(s string, i int) int {
	for {
		c, n := classAt(s, i)
		if n == 0 || c&(letter|number|space) != 0 {
			return i
		}
		i += n
	}
}

// runNewlines returns the end of [\r\n]* at s[i:].
func runNewlines(s string, i int) int {
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// spaces matches \s+(?!\S)|\s+ at s[i:], which starts with a space: the run,
// less its last character when something follows and more than one is there.
func spaces(s string, i int) int {
	end := run(s, i, space)
	if end == len(s) {
		return end
	}
	_, n := utf8.DecodeLastRuneInString(s[i:end])
	if end-n > i {
		return end - n
	}
	return end
}

// contraction returns the end of a contraction's letters at s[i:], which
// follow an apostrophe, and i when there is none. With fold they match in any
// case, the long s among them.
func contraction(s string, i int, fold bool) int {
	if i >= len(s) {
		return i
	}
	if fold && i+1 < len(s) && s[i:i+2] == "ſ" {
		return i + 2
	}
	low := func(k int) byte {
		if k >= len(s) {
			return 0
		}
		if b := s[k]; fold && 'A' <= b && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return s[k]
	}
	switch low(i) {
	case 's', 't', 'm', 'd':
		return i + 1
	case 'r', 'v':
		if low(i+1) == 'e' {
			return i + 2
		}
	case 'l':
		if low(i+1) == 'l' {
			return i + 2
		}
	}
	return i
}

// scanGPT2 matches patternGPT2.
func scanGPT2(s string, i int) int {
	if s[i] == '\'' {
		if end := contraction(s, i+1, false); end > i+1 {
			return end
		}
	}
	at := i
	if s[i] == ' ' {
		at++
	}
	switch c, n := classAt(s, at); {
	case n == 0 || c&space != 0:
		return spaces(s, i)
	case c&letter != 0:
		return run(s, at+n, letter)
	case c&number != 0:
		return run(s, at+n, number)
	default:
		return runOther(s, at+n)
	}
}

// scanLlama matches patternLlama (digits 3) and patternQwen (digits 1).
func scanLlama(s string, i, digits int) int {
	if s[i] == '\'' {
		if end := contraction(s, i+1, true); end > i+1 {
			return end
		}
	}
	c, n := classAt(s, i)
	if c&letter != 0 {
		return run(s, i+n, letter)
	}
	if c&number != 0 {
		for end := i + n; ; end += n {
			if digits--; digits == 0 {
				return end
			}
			if c, n = classAt(s, end); n == 0 || c&number == 0 {
				return end
			}
		}
	}
	if s[i] != '\r' && s[i] != '\n' {
		if next, m := classAt(s, i+n); next&letter != 0 {
			return run(s, i+n+m, letter)
		}
	}
	at := i
	if s[i] == ' ' {
		at++
	}
	if end := runOther(s, at); end > at {
		return runNewlines(s, end)
	}
	// \s*[\r\n]+ ends after the last line break of the white space.
	all := run(s, i, space)
	for end := all; end > i; end-- {
		if b := s[end-1]; b == '\r' || b == '\n' {
			return end
		}
	}
	return spaces(s, i)
}
