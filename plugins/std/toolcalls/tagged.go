package toolcalls

import (
	"slices"
	"strings"
)

// tagged is the state of a Tagged body.
type tagged struct {
	schema *schema
	seen   []string // the parameters so far
	key    string
	types  types
	stream bool   // the value is a string and told as it comes
	first  bool   // at the value's first byte
	value  []byte // a value that is converted at its end
	held   string // a newline that may be the value's last
}

// maxParameters bounds the parameters of a call that is not written in JSON.
const maxParameters = 1000

// taggedName reads the name after Call.Begin.
func (p *Parser) taggedName() bool {
	m, did := p.readUntil(p.f.nameEnd)
	if m == "" {
		return did
	}
	name := strings.Trim(string(p.head), whiteSpace)
	if name == "" && strings.Trim(m, whiteSpace) == "" { // a line break before the name
		p.take(len(m))
		return true
	}
	if slices.Contains(p.f.Tagged.NameEnd, m) {
		p.take(len(m))
	}
	if name == "" || strings.ContainsAny(name, whiteSpace) {
		p.reject(Malformed)
		return true
	}
	if p.begin(name, "") {
		p.tagged = tagged{schema: p.tool.parameters()}
		p.step = (*Parser).taggedOpen
	}
	return true
}

// taggedOpen is between parameters.
func (p *Parser) taggedOpen() bool {
	v := p.skipSpace()
	m, waiting := p.f.open.at(v, p.whole())
	switch {
	case v == "" || waiting:
		return false
	case m == "":
		p.reject(Malformed)
	case slices.Contains(p.f.Tagged.Open, m):
		p.take(len(m))
		p.head = p.head[:0]
		p.step = (*Parser).taggedKey
	default: // Call.End; or Section.End, when the model forgot it
		if len(p.tagged.seen) == 0 {
			p.arg("{")
		}
		p.arg("}")
		p.endCall()
		p.close()
	}
	return true
}

// taggedKey reads a parameter's name.
func (p *Parser) taggedKey() bool {
	m, did := p.readUntil(p.f.keyEnd)
	if m == "" {
		return did
	}
	p.take(len(m))
	x, t := &p.tagged, p.f.Tagged
	x.key = strings.Trim(string(p.head), whiteSpace)
	if x.key == "" || slices.Contains(x.seen, x.key) || len(x.seen) >= maxParameters {
		p.reject(Malformed)
		return true
	}
	var known bool
	x.types, known = x.schema.typesOf(x.key)
	switch {
	case slices.Contains(t.StringEnd, m):
		x.types = typeString
	case slices.Contains(t.JSONEnd, m):
		x.types = 0
	case !known && !t.GuessTypes:
		x.types = typeString
	}
	x.stream = x.types == typeString
	x.first, x.held = true, ""
	x.value = x.value[:0]
	p.step = (*Parser).taggedValue
	if len(t.ValueOpen) > 0 {
		p.step = (*Parser).taggedValueOpen
		return true
	}
	p.openValue()
	return true
}

// taggedValueOpen is between a parameter's name and its value.
func (p *Parser) taggedValueOpen() bool {
	v := p.skipSpace()
	m, waiting := p.f.valueOpen.at(v, p.whole())
	switch {
	case v == "" || waiting:
		return false
	case m == "":
		p.reject(Malformed)
	default:
		p.take(len(m))
		p.step = (*Parser).taggedValue
		p.openValue()
	}
	return true
}

// openValue emits the key and, for a string, the opening quote.
func (p *Parser) openValue() {
	x := &p.tagged
	lead := ", "
	if len(x.seen) == 0 {
		lead = "{"
	}
	x.seen = append(x.seen, x.key)
	p.arg(lead + quote(x.key) + ": ")
	if x.stream {
		p.arg(`"`)
	}
}

// taggedValue reads a parameter's value.
func (p *Parser) taggedValue() bool {
	x := &p.tagged
	at, m := p.f.close.find(p.view(), p.whole())
	s := p.take(at)
	if p.f.Tagged.Newlines && s != "" {
		s = x.inner(s)
	}
	p.valueText(s)
	if m == "" {
		return false
	}
	p.take(len(m))
	if x.stream {
		p.arg(`"`)
	} else {
		p.arg(convert(string(x.value), x.types, p.o.Limits.Depth))
	}
	p.step = (*Parser).taggedOpen
	return true
}

// inner drops the newline at a value's begin and holds one at the end of what there is.
func (x *tagged) inner(s string) string {
	if x.first && s[0] == '\n' {
		s = s[1:]
	}
	x.first = false
	if s == "" {
		return ""
	}
	s = x.held + s
	x.held = ""
	if s[len(s)-1] == '\n' {
		x.held = "\n"
		s = s[:len(s)-1]
	}
	return s
}

// valueText adds to the value.
func (p *Parser) valueText(s string) {
	if p.tagged.stream {
		if plain(s) {
			p.arg(s)
		} else {
			p.arg(string(quoted(nil, s)))
		}
		return
	}
	p.tagged.value = append(p.tagged.value, s...)
}
