package dispatch

import (
	"bytes"

	"tgi/server/wire"
)

// member is what names the model at the top of a body.
const member = "model"

// Name returns the text of the first member "model" at the top of a JSON object; ""
// where there is none, or it is not a text. It looks no further than that member and
// steps over what is in its way: whether the rest is JSON is for the decoder to say,
// which reads it anyway. Clients that put the name first, as most do, pay nothing for
// a long prompt behind it.
func Name(body []byte) string {
	s := scanner{body: body}
	if !s.take('{') {
		return ""
	}
	for {
		key := s.text()
		if key == nil || !s.take(':') {
			return ""
		}
		if isMember(key) {
			name, _ := unquote(s.text())
			return name
		}
		if !s.skip() || !s.take(',') {
			return ""
		}
	}
}

// isMember says whether a quoted key is member, however it is spelled.
func isMember(quoted []byte) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == member
	}
	key, ok := unquote(quoted)
	return ok && key == member
}

// unquote returns the text that a JSON string stands for.
func unquote(quoted []byte) (text string, ok bool) {
	err := wire.Decode(quoted, wire.Into(&text, (*wire.Reader).String))
	if err != nil {
		return "", false
	}
	return text, true
}

// scanner steps over JSON. Its methods return nothing, or false, where the text is not
// what they step over; they notice no other fault.
type scanner struct {
	body []byte
	at   int
}

// next passes white space and returns the byte behind it, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.body); s.at++ {
		switch c := s.body[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take passes one mark.
func (s *scanner) take(mark byte) bool {
	if s.next() != mark {
		return false
	}
	s.at++
	return true
}

// text passes a string and returns it with its quotes.
func (s *scanner) text() []byte {
	if s.next() != '"' {
		return nil
	}
	from := s.at
	for s.at++; ; s.at++ {
		n := bytes.IndexByte(s.body[s.at:], '"')
		if n < 0 {
			return nil
		}
		s.at += n
		// Behind an odd number of backslashes it is a character of the text.
		escapes := s.at
		for s.body[escapes-1] == '\\' {
			escapes--
		}
		if (s.at-escapes)%2 == 0 {
			s.at++
			return s.body[from:s.at]
		}
	}
}

// skip passes a value.
func (s *scanner) skip() bool {
	switch s.next() {
	case '"':
		return s.text() != nil
	case '{', '[':
		return s.nested()
	}
	for ; s.at < len(s.body); s.at++ {
		switch s.body[s.at] {
		case ',', '}', ']', ' ', '\t', '\r', '\n':
			return true
		}
	}
	return false
}

// marks are the bytes that nested looks at.
var marks = [256]bool{'{': true, '[': true, '}': true, ']': true, '"': true}

// nested passes an object or an array with all that is in it.
func (s *scanner) nested() bool {
	for depth := 0; ; {
		rest := s.body[s.at:]
		n := 0
		for n < len(rest) && !marks[rest[n]] {
			n++
		}
		s.at += n
		if n == len(rest) {
			return false
		}
		switch rest[n] {
		case '"':
			if s.text() == nil {
				return false
			}
			continue
		case '{', '[':
			depth++
		default:
			depth--
		}
		s.at++
		if depth == 0 {
			return true
		}
	}
}
