package syntax

import (
	"slices"
	"strings"

	"tgi/plugins/std/jinja/chars"
)

// maxNesting bounds how deep expressions and statements of a source may nest.
const maxNesting = 150

// maxLinks bounds the operators in one tag, so that a long chain is refused
// when it is parsed and does not use up the stack when it runs. jinja2 ends at
// 200, where Python refuses the parentheses that it writes.
const maxLinks = 1000

// parser makes nodes of tokens, as jinja2's Parser does. After the first error
// it only sees the end of the template, so that every loop ends.
type parser struct {
	name   string
	src    string
	toks   []token
	i      int
	cur    token
	lexErr error
	err    error
	depth  int
	links  int        // operators of the tag that is read
	most   int        // operators of one tag
	tags   []string   // open statements
	ends   [][]string // tags that would close them
}

// Template is a parsed template.
type Template struct {
	// Source is the text as jinja2 sees it, with newlines unified and one final
	// newline dropped. Offsets of nodes count in it.
	Source string
	Body   []Stmt
	// Weight says how much stack the template takes when it runs, in operators: the
	// most of one tag, where a level of statements or brackets counts as four.
	Weight int
}

// Parse reads a template. name is for error texts only. The error is an *Error.
func Parse(name, source string) (*Template, error) {
	toks, src, lexErr := lex(name, source)
	p := &parser{name: name, src: src, toks: toks, lexErr: lexErr, i: -1}
	p.next()
	body := p.subparse(nil)
	if p.err != nil {
		return nil, p.err
	}
	return &Template{Source: src, Body: body, Weight: p.most}, nil
}

// eof is the end of the template, which jinja2 places at the last token.
func (p *parser) eof() token {
	return token{kind: tEOF, pos: p.cur.pos, line: max(p.cur.line, 1)}
}

func (p *parser) ok() bool { return p.err == nil }

// fail notes the first error and ends the input.
func (p *parser) fail(pos int, format string, args ...any) {
	if p.err == nil {
		p.stop(Errorf(p.name, p.src, pos, format, args...))
	}
}

func (p *parser) stop(err error) {
	p.err = err
	p.cur = p.eof()
	p.i = len(p.toks)
}

// next moves on and returns the token that was current.
func (p *parser) next() token {
	old := p.cur
	if p.err != nil {
		return old
	}
	if p.i+1 < len(p.toks) {
		p.i++
		p.cur = p.toks[p.i]
	} else if p.lexErr != nil {
		p.stop(p.lexErr)
	} else {
		p.cur = p.eof()
	}
	return old
}

// look is the token after the current one.
func (p *parser) look() token {
	if p.i+1 < len(p.toks) {
		return p.toks[p.i+1]
	}
	return p.eof()
}

func (p *parser) is(k kind) bool { return p.cur.kind == k }

func (p *parser) isName(name string) bool { return p.cur.kind == tName && p.cur.text == name }

func (p *parser) skip(k kind) bool {
	if p.cur.kind != k {
		return false
	}
	p.next()
	return true
}

func (p *parser) skipName(name string) bool {
	if !p.isName(name) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(k kind) token {
	if p.cur.kind == k {
		return p.next()
	}
	return p.unexpected(k.String())
}

func (p *parser) expectName(name string) token {
	if p.isName(name) {
		return p.next()
	}
	return p.unexpected(name)
}

func (p *parser) unexpected(want string) token {
	if p.is(tEOF) {
		p.fail(p.cur.pos, "unexpected end of template, expected %s.", chars.Quote(want))
	} else {
		p.fail(p.cur.pos, "expected token %s, got %s", chars.Quote(want), chars.Quote(p.cur.describe()))
	}
	return p.cur
}

// line is the line of a token.
func (*parser) line(t token) Line { return Line(t.line) }

func (p *parser) enter() bool {
	p.depth++
	if p.depth > maxNesting {
		p.fail(p.cur.pos, "nested deeper than %d", maxNesting)
	}
	p.weigh()
	return p.ok()
}

func (p *parser) leave() { p.depth-- }

// weigh notes how much stack what is read here takes when it runs, in operators:
// a level of statements or brackets takes as much as a few of them.
func (p *parser) weigh() { p.most = max(p.most, p.links+4*p.depth) }

// link counts an operator of the tag that is read. Each may make the expression
// one node deeper, and evaluating it one call.
func (p *parser) link() bool {
	p.links++
	p.weigh()
	if p.links > maxLinks {
		p.fail(p.cur.pos, "more than %d operators in one tag", maxLinks)
	}
	return p.ok()
}

// subparse reads until one of the end tags, which stays current.
func (p *parser) subparse(ends []string) []Stmt {
	var body []Stmt
	var out *Output
	add := func(t token, x Expr) {
		if out == nil {
			out = &Output{Line: p.line(t)}
			body = append(body, out)
		}
		out.Parts = append(out.Parts, x)
	}
	if ends != nil {
		p.ends = append(p.ends, ends)
		defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	}
	for p.ok() && !p.is(tEOF) {
		t := p.next()
		p.links = 0
		switch t.kind {
		case tData:
			add(t, &Const{t.text})
		case tVarBegin:
			add(t, p.tuple(tupleOpts{cond: true}))
			p.expect(tVarEnd)
		case tBlockBegin:
			out = nil
			if p.is(tName) && slices.Contains(ends, p.cur.text) {
				return body
			}
			if s := p.statement(); s != nil && p.ok() {
				body = append(body, s)
			}
			p.expect(tBlockEnd)
		default:
			p.fail(t.pos, "unexpected %s", chars.Quote(t.describe()))
		}
	}
	return body
}

// statements reads the rest of an opening tag and a body up to one of ends,
// which stays current unless drop is set.
func (p *parser) statements(drop bool, ends ...string) []Stmt {
	p.skip(tColon)
	p.expect(tBlockEnd)
	body := p.subparse(ends)
	if p.ok() && p.is(tEOF) {
		p.failEnd("", p.cur.pos, append(slices.Clone(p.ends), ends))
	}
	if drop {
		p.next()
	}
	return body
}

// failEnd is jinja2's message for an unknown tag or a missing end tag.
func (p *parser) failEnd(name string, pos int, stack [][]string) {
	msg := "Unexpected end of template."
	if name != "" {
		msg = "Encountered unknown tag " + chars.Quote(name) + "."
	}
	if len(stack) > 0 {
		var quoted []string
		for _, e := range stack[len(stack)-1] {
			quoted = append(quoted, chars.Quote(e))
		}
		looking := strings.Join(quoted, " or ")
		nested := name != "" && slices.ContainsFunc(stack,
			func(ends []string) bool { return slices.Contains(ends, name) })
		if nested {
			msg += " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " +
				looking + "."
		} else {
			msg += " Jinja was looking for the following tags: " + looking + "."
		}
	}
	if n := len(p.tags); n > 0 {
		msg += " The innermost block that needs to be closed is " + chars.Quote(p.tags[n-1]) + "."
	}
	p.fail(pos, "%s", msg)
}

var statementParsers map[string]func(*parser) Stmt

func init() {
	statementParsers = map[string]func(*parser) Stmt{
		"for": (*parser).parseFor, "if": (*parser).parseIf, "set": (*parser).parseSet,
		"macro": (*parser).parseMacro, "call": (*parser).parseCallBlock, "filter": (*parser).parseFilterBlock,
		"with": (*parser).parseWith, "autoescape": (*parser).parseAutoescape, "block": (*parser).parseBlock,
		"print": (*parser).parsePrint, "break": (*parser).parseJump, "continue": (*parser).parseJump,
		"generation": (*parser).parseGeneration,
		"include":    (*parser).parseInclude, "import": (*parser).parseImport, "from": (*parser).parseFrom,
		"extends": (*parser).parseExtends,
	}
}

func (p *parser) statement() Stmt {
	t := p.cur
	if t.kind != tName {
		p.fail(t.pos, "tag name expected")
		return nil
	}
	f := statementParsers[t.text]
	if f == nil {
		p.failEnd(t.text, t.pos, p.ends)
		return nil
	}
	if !p.enter() {
		return nil
	}
	defer p.leave()
	p.tags = append(p.tags, t.text)
	s := f(p)
	p.tags = p.tags[:len(p.tags)-1]
	return s
}
