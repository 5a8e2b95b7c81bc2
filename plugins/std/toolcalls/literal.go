package toolcalls

import (
	"strconv"
	"unicode/utf8"
)

// pyScan turns one Python literal into JSON, byte by byte: strings, numbers, True, False, None, lists, tuples, and
// dicts with string keys. Sets, bytes, f-strings, joined strings and expressions are wrong. JSON's words are taken too.
type pyScan struct {
	out   []byte // JSON that the caller has not taken yet
	stack []byte // the open brackets
	comma []bool // a comma was seen, for each open bracket
	depth int
	at    pyPlace
	token []byte // of a number or a word
	quote byte
	long  bool // a string between three quotes
	run   int  // quotes in a row
	esc   []byte
	key   bool // the string is a key
}

type pyPlace uint8

const (
	pyValue pyPlace = iota
	pyFirst         // after an opening bracket
	pyAfter         // after a value inside brackets
	pyColon
	pyToken
	pyQuotes // after the first quote of a string
	pyString
	pyEscape
)

// maxToken bounds a number or word, in bytes.
const maxToken = 400

func (s *pyScan) reset(depth int) {
	*s = pyScan{out: s.out[:0], stack: s.stack[:0], comma: s.comma[:0], token: s.token[:0], depth: depth}
}

// step takes a byte. Done and before are said at the end of the whole literal.
func (s *pyScan) step(c byte) verdict {
	switch s.at {
	case pyToken:
		return s.inToken(c)
	case pyQuotes:
		return s.quotes(c)
	case pyString:
		return s.text(c)
	case pyEscape:
		return s.escape(c)
	}
	if isSpace(c) {
		return more
	}
	switch s.at {
	case pyFirst:
		if c == closing(s.top()) {
			return s.pop(c)
		}
		return s.begin(c)
	case pyValue:
		if n := len(s.stack); n > 0 && c == closing(s.top()) && s.comma[n-1] && s.key == (s.top() == '{') {
			return s.pop(c)
		}
		return s.begin(c)
	case pyColon:
		if c != ':' {
			return wrong
		}
		s.out = append(s.out, ':', ' ')
		s.at, s.key = pyValue, false
		return more
	}
	switch c { // after a value
	case ',':
		s.comma[len(s.comma)-1] = true
		s.at, s.key = pyValue, s.top() == '{'
		return more
	case closing(s.top()):
		return s.pop(c)
	}
	return wrong
}

func (s *pyScan) top() byte { return s.stack[len(s.stack)-1] }

func closing(c byte) byte {
	switch c {
	case '[':
		return ']'
	case '(':
		return ')'
	}
	return '}'
}

// begin is the first byte of a value or a key.
func (s *pyScan) begin(c byte) verdict {
	n := len(s.stack)
	if s.key && c != '\'' && c != '"' {
		return wrong
	}
	if n > 0 && s.at == pyValue && s.comma[n-1] && (s.top() != '{' || s.key) {
		s.out = append(s.out, ',', ' ')
	}
	switch {
	case c == '\'' || c == '"':
		s.quote, s.run, s.at = c, 1, pyQuotes
		s.out = append(s.out, '"')
	case c == '[' || c == '(' || c == '{':
		if n >= s.depth {
			return deep
		}
		s.stack, s.comma = append(s.stack, c), append(s.comma, false)
		s.at, s.key = pyFirst, c == '{'
		if c == '(' {
			c = '['
		}
		s.out = append(s.out, c)
	case isWord(c) || c == '-' || c == '+' || c == '.':
		s.token = append(s.token[:0], c)
		s.at = pyToken
	default:
		return wrong
	}
	return more
}

func isWord(c byte) bool {
	return isDigit(c) || c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// pop closes a bracket. One value in round brackets without a comma is no tuple: it is refused.
func (s *pyScan) pop(c byte) verdict {
	n := len(s.stack) - 1
	if c == ')' && s.at == pyAfter && !s.comma[n] {
		return wrong
	}
	if c == ')' {
		c = ']'
	}
	s.out = append(s.out, c)
	s.stack, s.comma = s.stack[:n], s.comma[:n]
	return s.ended()
}

func (s *pyScan) ended() verdict {
	s.at, s.key = pyAfter, false
	if len(s.stack) == 0 {
		return done
	}
	return more
}

// inToken reads a number or a word, which ends before the first byte that is no part of it.
func (s *pyScan) inToken(c byte) verdict {
	last := s.token[len(s.token)-1]
	if isWord(c) || c == '.' || (c == '+' || c == '-') && (last == 'e' || last == 'E') {
		if len(s.token) >= maxToken {
			return wrong
		}
		s.token = append(s.token, c)
		return more
	}
	switch word := string(s.token); word {
	case "True", "true":
		s.out = append(s.out, "true"...)
	case "False", "false":
		s.out = append(s.out, "false"...)
	case "None", "null":
		s.out = append(s.out, "null"...)
	default:
		n, ok := number(word)
		if !ok {
			return wrong
		}
		s.out = append(s.out, n...)
	}
	s.at = pyAfter
	if len(s.stack) == 0 {
		return before
	}
	return s.step(c)
}

// quotes is after a string's first quote: it tells ”, a string, and a string between three quotes apart.
func (s *pyScan) quotes(c byte) verdict {
	switch {
	case c == s.quote && s.run == 1:
		s.run = 2
		return more
	case c == s.quote:
		s.long, s.run, s.at = true, 0, pyString
		return more
	case s.run == 2: // an empty string
		if s.endString() == done {
			return before
		}
		return s.step(c)
	}
	s.long, s.run, s.at = false, 0, pyString
	return s.text(c)
}

func (s *pyScan) endString() verdict {
	s.out = append(s.out, '"')
	if s.key {
		s.at = pyColon
		return more
	}
	return s.ended()
}

func (s *pyScan) text(c byte) verdict {
	switch {
	case c == s.quote && !s.long:
		return s.endString()
	case c == s.quote:
		if s.run++; s.run == 3 {
			return s.endString()
		}
		return more
	}
	for ; s.run > 0; s.run-- { // quotes that did not end it
		s.out = quoted(s.out, string(s.quote))
	}
	switch {
	case c == '\\':
		s.at, s.esc = pyEscape, s.esc[:0]
	case c == '\n' && !s.long:
		s.out = append(s.out, escaped(c)...) // Python would not have it; its meaning is plain
	case c < utf8.RuneSelf:
		s.out = quoted(s.out, string(rune(c)))
	default:
		s.out = append(s.out, c)
	}
	return more
}

// escape is after a backslash (Python's reference, "Escape sequences"). What is no escape stands for itself.
func (s *pyScan) escape(c byte) verdict {
	s.esc = append(s.esc, c)
	if len(s.esc) == 1 {
		const from, to = "\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v"
		for i := range len(from) {
			if c == from[i] {
				s.out = quoted(s.out, string(to[i]))
				s.at = pyString
				return more
			}
		}
		switch {
		case c == '\n':
			s.at = pyString
		case c == 'x' || c == 'u' || c == 'U':
		case c >= '0' && c <= '7':
			return wrong // octal: no model is known to write it
		default:
			s.out = append(s.out, '\\', '\\')
			s.at = pyString
			return s.text(c)
		}
		return more
	}
	if !isHex(c) {
		return wrong
	}
	if len(s.esc)-1 == map[byte]int{'x': 2, 'u': 4, 'U': 8}[s.esc[0]] {
		n, err := strconv.ParseUint(string(s.esc[1:]), 16, 32)
		if err != nil || n > utf8.MaxRune {
			return wrong
		}
		s.out = quoted(s.out, string(rune(n)))
		s.at = pyString
	}
	return more
}

// pythonToJSON is a whole Python literal as JSON.
func pythonToJSON(text string, depth int) (string, bool) {
	var s pyScan
	s.reset(depth)
	for i := 0; i < len(text); i++ {
		switch s.step(text[i]) {
		case more:
		case done:
			return string(s.out), i == len(text)-1
		default:
			return "", false
		}
	}
	return string(s.out), s.step(' ') == before
}
