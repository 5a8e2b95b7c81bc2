package toolcalls

// verdict is what a byte did to a value being scanned.
type verdict uint8

const (
	more       verdict = iota
	done               // the byte was the value's last
	before             // the value ended before the byte
	escapeByte         // the byte is a control character inside a string: JSON wants it escaped
	wrong              // the byte can't stand here
	deep               // nested deeper than allowed
)

// scan checks one JSON value byte by byte (RFC 8259). It holds the open brackets only.
type scan struct {
	stack []byte // the open brackets: { or [
	depth int    // limit of len(stack)
	at    place
	word  string // what is left of true, false or null
	hex   int    // digits left of \uXXXX
	key   bool   // the string is a key
}

// place is where in the grammar a scan stands.
type place uint8

const (
	atValue  place = iota
	atFirst        // after [: a value or ]
	atKey          // after a comma in an object
	atMember       // after {: a key or }
	atColon
	atComma // after a value inside brackets
	inString
	inEscape
	inHex
	inWord
	inMinus // after the sign
	inZero  // after a leading zero
	inDigits
	inPoint // after the point: a digit must come
	inFraction
	inE // after e: a sign or a digit
	inESign
	inExponent
)

func newScan(depth int, stack []byte) scan { return scan{stack: stack[:0], depth: depth} }

func (s *scan) step(c byte) verdict {
	switch s.at {
	case inString:
		return s.inText(c)
	case inEscape:
		return s.escape(c)
	case inHex:
		if !isHex(c) {
			return wrong
		}
		if s.hex--; s.hex == 0 {
			s.at = inString
		}
		return more
	case inWord:
		if c != s.word[0] {
			return wrong
		}
		if s.word = s.word[1:]; s.word == "" {
			return s.ended()
		}
		return more
	}
	if s.at >= inMinus {
		return s.number(c)
	}
	if isSpace(c) {
		return more
	}
	return s.structure(c)
}

// structure is a byte between values.
func (s *scan) structure(c byte) verdict {
	switch s.at {
	case atFirst:
		if c == ']' {
			return s.pop()
		}
		return s.begin(c)
	case atValue:
		return s.begin(c)
	case atMember, atKey:
		if c == '}' && s.at == atMember {
			return s.pop()
		}
		if c != '"' {
			return wrong
		}
		s.at, s.key = inString, true
		return more
	case atColon:
		if c != ':' {
			return wrong
		}
		s.at = atValue
		return more
	}
	open := s.stack[len(s.stack)-1]
	switch {
	case c == ',' && open == '{':
		s.at = atKey
	case c == ',':
		s.at = atValue
	case c == '}' && open == '{', c == ']' && open == '[':
		return s.pop()
	default:
		return wrong
	}
	return more
}

// begin is the first byte of a value.
func (s *scan) begin(c byte) verdict {
	switch {
	case c == '{' || c == '[':
		if len(s.stack) >= s.depth {
			return deep
		}
		s.stack = append(s.stack, c)
		s.at = atFirst
		if c == '{' {
			s.at = atMember
		}
	case c == '"':
		s.at, s.key = inString, false
	case c == 't':
		s.at, s.word = inWord, "rue"
	case c == 'f':
		s.at, s.word = inWord, "alse"
	case c == 'n':
		s.at, s.word = inWord, "ull"
	case c == '-':
		s.at = inMinus
	case c == '0':
		s.at = inZero
	case isDigit(c):
		s.at = inDigits
	default:
		return wrong
	}
	return more
}

func (s *scan) pop() verdict {
	s.stack = s.stack[:len(s.stack)-1]
	return s.ended()
}

// ended is after a value's last byte.
func (s *scan) ended() verdict {
	s.at = atComma
	if len(s.stack) == 0 {
		return done
	}
	return more
}

func (s *scan) inText(c byte) verdict {
	switch {
	case c == '"' && s.key:
		s.at = atColon
	case c == '"':
		return s.ended()
	case c == '\\':
		s.at = inEscape
	case c < ' ':
		return escapeByte
	}
	return more
}

func (s *scan) escape(c byte) verdict {
	switch c {
	case 'u':
		s.at, s.hex = inHex, 4
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at = inString
	default:
		return wrong
	}
	return more
}

// number is a byte inside or after a number.
func (s *scan) number(c byte) verdict {
	digit := isDigit(c)
	switch s.at {
	case inMinus:
		switch {
		case c == '0':
			s.at = inZero
		case digit:
			s.at = inDigits
		default:
			return wrong
		}
		return more
	case inPoint, inE, inESign:
		switch {
		case digit && s.at == inPoint:
			s.at = inFraction
		case digit:
			s.at = inExponent
		case s.at == inE && (c == '+' || c == '-'):
			s.at = inESign
		default:
			return wrong
		}
		return more
	}
	switch {
	case digit && s.at != inZero:
		return more
	case c == '.' && (s.at == inZero || s.at == inDigits):
		s.at = inPoint
		return more
	case (c == 'e' || c == 'E') && s.at != inExponent:
		s.at = inE
		return more
	case digit:
		return wrong
	}
	s.at = atComma
	if len(s.stack) == 0 {
		return before
	}
	return s.step(c)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
