package toolcalls

import (
	"slices"
	"strings"
)

// named reads a name, and an id where there is one, up to the arguments.
func (p *Parser) named() bool {
	m, did := p.readUntil(p.f.nameEnd)
	if m == "" {
		return did
	}
	if slices.Contains(p.f.Named.Separators, m) {
		p.take(len(m))
	}
	name, id := p.f.Named.split(string(p.head))
	if name == "" {
		p.reject(Malformed)
		return true
	}
	if p.begin(name, id) {
		p.step = (*Parser).arguments
	}
	return true
}

// split returns the name and the id before the arguments; the name is empty if there is none.
func (n *Named) split(head string) (name, id string) {
	name = strings.Trim(head, whiteSpace)
	if n.ID != "" {
		name, id, _ = strings.Cut(name, n.ID)
		name, id = strings.TrimRight(name, whiteSpace), strings.Trim(id, whiteSpace)
	}
	if n.WholeID {
		id = name
	}
	name = strings.TrimPrefix(name, n.Prefix)
	if n.Index != "" {
		if i := strings.LastIndex(name, n.Index); i >= 0 && strings.Trim(name[i+len(n.Index):], "0123456789") == "" {
			name = name[:i]
		}
	}
	return name, id
}

// arguments is before the arguments of a call whose name is known.
func (p *Parser) arguments() bool {
	v := p.skipSpace()
	if v == "" {
		return false
	}
	if v[0] == '{' {
		p.value = newScan(p.o.Limits.Depth, p.value.stack)
		p.step = (*Parser).passArguments
		return true
	}
	m, waiting := p.f.afterCall.at(v, p.whole())
	switch {
	case waiting:
		return false
	case m == "":
		p.reject(Malformed)
	default:
		p.arg("{}")
		p.endCall()
		p.close()
	}
	return true
}

// passArguments emits the arguments as they are.
func (p *Parser) passArguments() bool {
	v := p.view()
	if v == "" {
		return false
	}
	n, d := p.pass(v, p.arg)
	p.take(n)
	switch d {
	case more:
	case done:
		p.endCall()
		p.close()
	case deep:
		p.reject(TooLong)
	default:
		p.reject(Malformed)
	}
	return true
}
