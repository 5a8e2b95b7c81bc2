package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// filterWordwrap is jinja2's wordwrap: Python's textwrap.wrap for each line.
func filterWordwrap(st *state, a []Value) (Value, error) {
	s, ok := a[0].(*Str)
	if !ok {
		if u, undef := a[0].(*Undefined); undef {
			return nil, u.err()
		}
		return nil, raise("AttributeError", "'%s' object has no attribute 'splitlines'", className(a[0]))
	}
	w := wrapper{width: 79}
	var err error
	if w.long, err = st.flag(a[2], true); err != nil {
		return nil, err
	}
	if w.hyphens, err = st.flag(a[4], true); err != nil {
		return nil, err
	}
	if a[1] != nil {
		n, err := intArg(a[1])
		if err != nil {
			return nil, typeError("'<=' not supported between instances of '%s' and 'int'", className(a[1]))
		}
		w.width = int(min(n, 1<<30))
	}
	between := text("\n")
	if a[3] != nil && a[3] != none {
		if between, ok = a[3].(*Str); !ok {
			return nil, raise("AttributeError", "'%s' object has no attribute 'join'", className(a[3]))
		}
	}
	var out []Value
	for _, line := range s.lines(false) {
		wrapped, err := w.wrap(st, line.(*Str))
		if err != nil {
			return nil, err
		}
		joined, err := st.join(between, wrapped)
		if err != nil {
			return nil, err
		}
		out = append(out, joined)
	}
	return st.join(between, out)
}

// wrapper is textwrap.TextWrapper with drop_whitespace alone.
type wrapper struct {
	width         int
	long, hyphens bool
}

// wrap makes lines of at most width characters, as TextWrapper._wrap_chunks.
func (w wrapper) wrap(st *state, s *Str) (lines []Value, err error) {
	if err := st.grow(4 * int64(len(s.s))); err != nil {
		return nil, err
	}
	chunks := w.split(s)
	if w.width <= 0 {
		return nil, valueError("invalid width %d (must be > 0)", w.width)
	}
	for len(chunks) > 0 {
		if isBlank(chunks[0]) && len(lines) > 0 {
			chunks = chunks[1:]
		}
		var line []*Str
		n := 0
		for len(chunks) > 0 && n+chunks[0].count() <= w.width {
			n += chunks[0].count()
			line = append(line, chunks[0])
			chunks = chunks[1:]
		}
		if len(chunks) > 0 && chunks[0].count() > w.width {
			head, rest := w.divide(chunks[0], w.width-n, len(line) == 0)
			if head != nil {
				line = append(line, head)
			}
			if chunks[0] = rest; rest == nil {
				chunks = chunks[1:]
			}
		}
		if len(line) > 0 && isBlank(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if len(line) == 0 {
			continue
		}
		var b sbuf
		for _, c := range line {
			b.str(c)
		}
		if err := st.growItems(len(line)); err != nil {
			return nil, err
		}
		lines = append(lines, b.done())
	}
	return lines, nil
}

// divide takes what fits of a chunk that is longer than a line; head is nil where
// the line ends before it, and rest where all was taken.
func (w wrapper) divide(chunk *Str, room int, first bool) (head, rest *Str) {
	switch {
	case !w.long && first:
		return chunk, nil
	case !w.long:
		return nil, chunk
	}
	end := chunk.byteAt(room)
	if w.hyphens {
		if i := strings.LastIndexByte(chunk.s[:end], '-'); i > 0 && strings.Trim(chunk.s[:i], "-") != "" {
			end = i + 1
		}
	}
	return chunk.sub(0, end), chunk.sub(end, len(chunk.s))
}

func isBlank(s *Str) bool { return strings.TrimFunc(s.s, isSpace) == "" }

// split is TextWrapper._split: words with their punctuation, white space, dashes
// between words, and words divided at hyphens.
func (w wrapper) split(s *Str) (chunks []*Str) {
	runes := []rune(s.s)
	at := 0
	for i := 0; i < len(runes); {
		j := w.chunk(runes, i)
		n := 0
		for _, r := range runes[i:j] {
			n += utf8.RuneLen(r)
		}
		chunks = append(chunks, s.sub(at, at+n))
		i, at = j, at+n
	}
	return chunks
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
