package syntax

import (
	"strings"
	"unicode/utf8"

	"tgi/plugins/std/jinja/chars"
)

// kind is the type of a token; operators have their own.
type kind uint8

const (
	tEOF kind = iota
	tData
	tBlockBegin
	tBlockEnd
	tVarBegin
	tVarEnd
	tName
	tString
	tInteger
	tFloat
	tAdd
	tSub
	tDiv
	tFloorDiv
	tMul
	tMod
	tPow
	tTilde
	tLBracket
	tRBracket
	tLParen
	tRParen
	tLBrace
	tRBrace
	tEq
	tNe
	tGt
	tGtEq
	tLt
	tLtEq
	tAssign
	tDot
	tColon
	tPipe
	tComma
	tSemicolon
)

// operators, longest first, as the lexer tries them.
var operators = []struct {
	text string
	kind kind
}{
	{"//", tFloorDiv}, {"**", tPow}, {"==", tEq}, {"!=", tNe}, {">=", tGtEq}, {"<=", tLtEq},
	{"+", tAdd}, {"-", tSub}, {"/", tDiv}, {"*", tMul}, {"%", tMod}, {"~", tTilde},
	{"[", tLBracket}, {"]", tRBracket}, {"(", tLParen}, {")", tRParen}, {"{", tLBrace}, {"}", tRBrace},
	{">", tGt}, {"<", tLt}, {"=", tAssign}, {".", tDot}, {":", tColon}, {"|", tPipe}, {",", tComma}, {";", tSemicolon},
}

// String names a kind as jinja2's error texts do.
func (k kind) String() string {
	for _, o := range operators {
		if o.kind == k {
			return o.text
		}
	}
	return map[kind]string{
		tEOF: "end of template", tData: "template data / text",
		tBlockBegin: "begin of statement block", tBlockEnd: "end of statement block",
		tVarBegin: "begin of print statement", tVarEnd: "end of print statement",
		tName: "name", tString: "string", tInteger: "integer", tFloat: "float",
	}[k]
}

// token is one of the parser's words. pos is its byte offset in the source.
type token struct {
	kind kind
	pos  int
	text string // data, name, decoded string, or digits
	line int
}

// describe is jinja2's describe_token.
func (t token) describe() string {
	if t.kind == tName {
		return t.text
	}
	return t.kind.String()
}

// lexer cuts a source into tokens. It follows jinja2's Lexer.tokeniter with
// trim_blocks and lstrip_blocks on.
type lexer struct {
	name      string
	src       string
	pos       int
	lineStart bool
	open      []byte // closing brackets that are due
	out       []token
}

// lex gives the tokens of source and the source as jinja2 sees it, with
// newlines unified and one final newline dropped. An error comes with the
// tokens before it: jinja2 lexes as it parses, so what the parser finds wrong
// in these comes first.
func lex(name, source string) ([]token, string, error) {
	if strings.ContainsRune(source, '\r') {
		source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	}
	source = strings.ToValidUTF8(strings.TrimSuffix(source, "\n"), "\uFFFD")
	l := &lexer{name: name, src: source, lineStart: true}
	var err error
	for l.pos < len(l.src) && err == nil {
		err = l.root()
	}
	line, pos := 1, 0
	for i := range l.out {
		t := &l.out[i]
		line += strings.Count(l.src[pos:t.pos], "\n")
		pos, t.line = t.pos, line
	}
	return l.out, source, err
}

func (l *lexer) emit(k kind, pos int, text string) {
	l.out = append(l.out, token{kind: k, pos: pos, text: text})
}

func (l *lexer) fail(pos int, format string, args ...any) error {
	return Errorf(l.name, l.src, pos, format, args...)
}

// moved sets the position and remembers whether a line starts there.
func (l *lexer) moved(to int) {
	if to > l.pos {
		l.lineStart = l.src[to-1] == '\n'
	}
	l.pos = to
}

// root reads text up to a tag, and the tag.
func (l *lexer) root() error {
	start := l.pos
	i := start
	for {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			l.data(l.src[start:], start)
			l.moved(len(l.src))
			return nil
		}
		i += j
		if c := l.src[i+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		i++
	}
	rest := i + 2
	sign := byte(0)
	if rest < len(l.src) && (l.src[rest] == '-' || l.src[rest] == '+') {
		sign = l.src[rest]
		rest++
	}
	tag := l.src[i+1]
	l.data(l.leading(l.src[start:i], sign, tag), start)
	switch tag {
	case '#':
		l.moved(rest)
		return l.comment(i)
	case '{':
		l.moved(rest)
		l.emit(tVarBegin, i, "")
		return l.code(i, tVarEnd)
	}
	if end := l.rawTag(rest); end >= 0 {
		l.moved(end)
		return l.raw()
	}
	l.moved(rest)
	l.emit(tBlockBegin, i, "")
	return l.code(i, tBlockEnd)
}

// leading strips the text before a tag as its sign and lstrip_blocks ask.
func (l *lexer) leading(text string, sign, tag byte) string {
	if sign == '-' {
		return strings.TrimRightFunc(text, chars.IsSpace)
	}
	if sign == '+' || tag == '{' {
		return text
	}
	at := strings.LastIndexByte(text, '\n') + 1
	if (at > 0 || l.lineStart) && at < len(text) && strings.TrimLeftFunc(text[at:], chars.IsSpace) == "" {
		return text[:at]
	}
	return text
}

func (l *lexer) data(text string, pos int) {
	if text != "" {
		l.emit(tData, pos, text)
	}
}

// comment skips to the end of a comment that began at pos.
func (l *lexer) comment(pos int) error {
	if l.pos >= len(l.src) {
		return nil // jinja2 accepts a comment that the text ends in
	}
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return l.fail(pos, "Missing end of comment tag")
	}
	minus := i > 0 && l.src[l.pos+i-1] == '-'
	plus := i > 0 && l.src[l.pos+i-1] == '+'
	l.moved(l.afterTag(l.pos+i+2, minus, plus))
	return nil
}

// afterTag is where the text goes on after a tag's end at i.
func (l *lexer) afterTag(i int, minus, plus bool) int {
	if minus {
		return len(l.src) - len(strings.TrimLeftFunc(l.src[i:], chars.IsSpace))
	}
	if !plus && i < len(l.src) && l.src[i] == '\n' {
		return i + 1
	}
	return i
}

func (l *lexer) skipSpace(i int) int {
	return len(l.src) - len(strings.TrimLeftFunc(l.src[i:], chars.IsSpace))
}

// rawTag matches the rest of a raw tag at i and gives its end, or -1.
func (l *lexer) rawTag(i int) int {
	i = l.skipSpace(i)
	if !strings.HasPrefix(l.src[i:], "raw") {
		return -1
	}
	i = l.skipSpace(i + 3)
	switch {
	case strings.HasPrefix(l.src[i:], "-%}"):
		return l.skipSpace(i + 3)
	case strings.HasPrefix(l.src[i:], "%}"):
		return i + 2
	}
	return -1
}

// raw reads verbatim text up to endraw.
func (l *lexer) raw() error {
	if l.pos >= len(l.src) {
		return nil // as for comments
	}
	for at := l.pos; ; at++ {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			return l.fail(l.pos, "Missing end of raw directive")
		}
		at += i
		j, sign := at+2, byte(0)
		if j < len(l.src) && (l.src[j] == '-' || l.src[j] == '+') {
			sign = l.src[j]
			j++
		}
		if j = l.skipSpace(j); !strings.HasPrefix(l.src[j:], "endraw") {
			continue
		}
		j = l.skipSpace(j + len("endraw"))
		minus, plus := strings.HasPrefix(l.src[j:], "-%}"), strings.HasPrefix(l.src[j:], "+%}")
		if minus || plus {
			j++
		}
		if !strings.HasPrefix(l.src[j:], "%}") {
			continue
		}
		l.data(l.leading(l.src[l.pos:at], sign, '%'), l.pos)
		l.moved(l.afterTag(j+2, minus, plus))
		return nil
	}
}

// code reads the inside of a tag up to its end, which is end.
func (l *lexer) code(pos int, end kind) error {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		if len(l.open) == 0 {
			if n, minus, plus := tagEnd(rest, end); n > 0 {
				l.emit(end, l.pos, "")
				if end == tVarEnd && !minus {
					l.moved(l.pos + n)
				} else {
					l.moved(l.afterTag(l.pos+n, minus, plus))
				}
				return nil
			}
		}
		if r, _ := utf8.DecodeRuneInString(rest); chars.IsSpace(r) {
			l.moved(l.skipSpace(l.pos))
			continue
		}
		if err := l.word(rest); err != nil {
			return err
		}
	}
	return nil
}

// tagEnd matches the end of a tag: its length without what follows it, and its sign.
func tagEnd(s string, end kind) (n int, minus, plus bool) {
	mark := "%}"
	if end == tVarEnd {
		mark = "}}"
	}
	switch {
	case strings.HasPrefix(s, mark):
		return 2, false, false
	case s[0] == '-' && strings.HasPrefix(s[1:], mark):
		return 3, true, false
	case s[0] == '+' && end == tBlockEnd && strings.HasPrefix(s[1:], mark):
		return 3, false, true
	}
	return 0, false, false
}

// word reads one token of an expression at the start of rest.
func (l *lexer) word(rest string) error {
	at := l.pos
	if n := floatLen(rest, at > 0 && l.src[at-1] == '.'); n > 0 {
		l.emit(tFloat, at, strings.ReplaceAll(rest[:n], "_", ""))
		l.moved(at + n)
		return nil
	}
	if n := integerLen(rest); n > 0 {
		l.emit(tInteger, at, strings.ReplaceAll(rest[:n], "_", ""))
		l.moved(at + n)
		return nil
	}
	if n := nameLen(rest); n > 0 {
		if !chars.IsIdentifier(rest[:n]) {
			return l.fail(at, "Invalid character in identifier")
		}
		l.emit(tName, at, rest[:n])
		l.moved(at + n)
		return nil
	}
	if n := stringLen(rest); n > 0 {
		s, msg := unescape(rest[1 : n-1])
		if msg != "" {
			return l.fail(at, "%s", msg)
		}
		l.emit(tString, at, s)
		l.moved(at + n)
		return nil
	}
	for _, o := range operators {
		if strings.HasPrefix(rest, o.text) {
			if err := l.balance(o.text); err != nil {
				return err
			}
			l.emit(o.kind, at, o.text)
			l.moved(at + len(o.text))
			return nil
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return l.fail(at, "unexpected char %s at %d", chars.Quote(string(r)), utf8.RuneCountInString(l.src[:at]))
}

// balance tracks open brackets: a tag ends only where none is open.
func (l *lexer) balance(op string) error {
	switch op {
	case "(":
		l.open = append(l.open, ')')
	case "[":
		l.open = append(l.open, ']')
	case "{":
		l.open = append(l.open, '}')
	case ")", "]", "}":
		n := len(l.open)
		if n == 0 {
			return l.fail(l.pos, "unexpected '%s'", op)
		}
		due := l.open[n-1]
		l.open = l.open[:n-1]
		if due != op[0] {
			return l.fail(l.pos, "unexpected '%s', expected '%c'", op, due)
		}
	}
	return nil
}
