package pylib

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
)

// filterWordwrap is jinja2's wordwrap: Python's textwrap.wrap for each line.
func filterWordwrap(th *value.Thread, a []value.Value) (value.Value, error) {
	s, ok := a[0].(*value.Str)
	if !ok {
		if u, undef := a[0].(*value.Undefined); undef {
			return nil, u.Err()
		}
		return nil, value.Raise("AttributeError", "'%s' object has no attribute 'splitlines'", value.ClassName(a[0]))
	}
	w := wrapper{width: 79}
	var err error
	if w.long, err = flagArg(th, a[2], true); err != nil {
		return nil, err
	}
	if w.hyphens, err = flagArg(th, a[4], true); err != nil {
		return nil, err
	}
	if a[1] != nil {
		n, err := intArg(a[1])
		if err != nil {
			return nil, value.TypeError("'<=' not supported between instances of '%s' and 'int'", value.ClassName(a[1]))
		}
		w.width = int(min(n, 1<<30))
	}
	between := value.Text("\n")
	if a[3] != nil && a[3] != value.None {
		if between, ok = a[3].(*value.Str); !ok {
			return nil, value.Raise("AttributeError", "'%s' object has no attribute 'join'", value.ClassName(a[3]))
		}
	}
	var out []value.Value
	for _, line := range splitLines(s, false) {
		wrapped, err := w.wrap(th, line.(*value.Str))
		if err != nil {
			return nil, err
		}
		joined, err := joinStrs(th, between, wrapped)
		if err != nil {
			return nil, err
		}
		out = append(out, joined)
	}
	return joinStrs(th, between, out)
}

// wrapper is textwrap.TextWrapper with drop_whitespace alone.
type wrapper struct {
	width         int
	long, hyphens bool
}

// piece is a part of a text that wrapping does not divide: its bytes, and how many
// characters they are.
type piece struct{ lo, hi, n int }

// wrap makes lines of at most width characters, as TextWrapper._wrap_chunks. A
// line is a stretch of the text, without white space at its ends.
func (w wrapper) wrap(th *value.Thread, s *value.Str) (lines []value.Value, err error) {
	if err := th.Grow(8 * int64(len(s.String()))); err != nil {
		return nil, err
	}
	rest := w.split(s.String())
	if err := th.Work(2*len(rest) + len(s.String())>>3); err != nil {
		return nil, err
	}
	if w.width <= 0 {
		return nil, value.ValueError("invalid width %d (must be > 0)", w.width)
	}
	blank := func(p piece) bool { return strings.TrimFunc(s.String()[p.lo:p.hi], chars.IsSpace) == "" }
	for len(rest) > 0 {
		if blank(rest[0]) && len(lines) > 0 {
			rest = rest[1:]
		}
		var line []piece
		n := 0
		for len(rest) > 0 && n+rest[0].n <= w.width {
			n += rest[0].n
			line = append(line, rest[0])
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].n > w.width {
			switch {
			case w.long:
				var head piece
				head, rest[0] = w.divide(s.String(), rest[0], w.width-n)
				line = append(line, head)
			case len(line) == 0:
				line = append(line, rest[0])
				rest = rest[1:]
			}
		}
		if len(line) > 0 && blank(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if len(line) == 0 {
			continue
		}
		if err := th.Work(8 + len(line) + s.Spans()>>3); err != nil {
			return nil, err
		}
		lines = append(lines, s.Sub(line[0].lo, line[len(line)-1].hi))
	}
	return lines, nil
}

// divide takes room characters of a piece that is longer than a line, or fewer up
// to a hyphen.
func (w wrapper) divide(s string, p piece, room int) (head, rest piece) {
	end := p.lo
	for range room {
		_, n := utf8.DecodeRuneInString(s[end:])
		end += n
	}
	if w.hyphens {
		if i := strings.LastIndexByte(s[p.lo:end], '-'); i > 0 && strings.Trim(s[p.lo:p.lo+i], "-") != "" {
			end = p.lo + i + 1
		}
	}
	taken := utf8.RuneCountInString(s[p.lo:end])
	return piece{p.lo, end, taken}, piece{end, p.hi, p.n - taken}
}

// split is TextWrapper._split: words with their punctuation, white space, dashes
// between words, and words divided at hyphens.
func (w wrapper) split(s string) (pieces []piece) {
	runes := []rune(s)
	at := 0
	for i := 0; i < len(runes); {
		j := w.chunk(runes, i)
		n := 0
		for _, r := range runes[i:j] {
			n += utf8.RuneLen(r)
		}
		pieces = append(pieces, piece{at, at + n, j - i})
		i, at = j, at+n
	}
	return pieces
}

// chunk is the end of the chunk that begins at i, as TextWrapper.wordsep_re finds
// it, or wordsep_simple_re where hyphens divide nothing.
func (w wrapper) chunk(s []rune, i int) int {
	j := i
	for j < len(s) && isWrapSpace(s[j]) {
		j++
	}
	if j > i {
		return j
	}
	if w.hyphens && i > 0 && isWrapPunct(s[i-1]) {
		if end := dashes(s, i); end > 0 {
			return end
		}
	}
	for j = i + 1; j < len(s) && !isWrapSpace(s[j]); j++ {
		if !w.hyphens {
			continue
		}
		if s[j] == '-' && hyphenated(s, j) {
			return j + 1
		}
		if isWrapPunct(s[j-1]) && dashes(s, j) > 0 {
			return j
		}
	}
	return j
}

// dashes is the end of two or more dashes in front of a word at i, or 0.
func dashes(s []rune, i int) int {
	j := i
	for j < len(s) && s[j] == '-' {
		j++
	}
	if j-i >= 2 && j < len(s) && isWordRune(s[j]) {
		return j
	}
	return 0
}

// hyphenated says whether a word may be divided behind the hyphen at j.
func hyphenated(s []rune, j int) bool {
	letter := func(i int) bool { return i >= 0 && i < len(s) && isWordRune(s[i]) && !unicode.IsDigit(s[i]) }
	before := letter(j-2) && letter(j-1) || letter(j-3) && s[j-2] == '-' && isWrapPunct(s[j-1])
	after := letter(j+1) && (letter(j+2) || j+2 < len(s) && s[j+2] == '-' && letter(j+3))
	return before && after
}

func isWrapSpace(r rune) bool { return r == ' ' || r >= 9 && r <= 13 }

func isWrapPunct(r rune) bool { return isWordRune(r) || strings.ContainsRune("!\"'&.,?", r) }

// isWordRune is \w of Python's re.
func isWordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }
