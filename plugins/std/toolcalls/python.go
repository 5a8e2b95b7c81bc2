package toolcalls

import "slices"

// python is the state of a body of Python calls.
type python struct {
	bracket bool // the calls are a list
	key     []byte
	seen    []string
	value   pyScan
}

// startPython goes to the first call, c being the first byte of the body.
func (p *Parser) startPython(c byte) {
	p.python.bracket = c == '['
	if p.python.bracket {
		p.take(1)
	}
	p.step = (*Parser).pyName
}

func nameByte(c byte) bool { return isWord(c) || c == '.' || c == '-' }

// pyName reads a function's name up to its bracket.
func (p *Parser) pyName() bool {
	v := p.view()
	if len(p.head) == 0 {
		v = p.skipSpace()
	}
	n := 0
	for n < len(v) && nameByte(v[n]) {
		n++
	}
	p.head = append(p.head, p.take(n)...)
	switch {
	case len(p.head) > maxText:
		p.reject(Malformed)
	case n == len(v):
		return false
	case v[n] != '(' || len(p.head) == 0:
		p.reject(Malformed)
	default:
		p.take(1)
		if p.begin(string(p.head), "") {
			p.python.seen = p.python.seen[:0]
			p.step = (*Parser).pyArgument
		}
	}
	return true
}

// pyArgument is before an argument's name or the closing bracket.
func (p *Parser) pyArgument() bool {
	v := p.skipSpace()
	switch {
	case v == "":
		return false
	case v[0] == ')':
		p.take(1)
		if len(p.python.seen) == 0 {
			p.arg("{")
		}
		p.arg("}")
		p.endCall()
		p.step = (*Parser).pyNext
	case isWord(v[0]):
		p.python.key = p.python.key[:0]
		p.step = (*Parser).pyKey
	default:
		p.reject(Malformed)
	}
	return true
}

// pyKey reads an argument's name up to the equals sign. Arguments without a name are refused: which one is meant can't
// be known.
func (p *Parser) pyKey() bool {
	v := p.view()
	n := 0
	for n < len(v) && isWord(v[n]) {
		n++
	}
	x := &p.python
	x.key = append(x.key, p.take(n)...)
	if len(x.key) > maxText {
		p.reject(Malformed)
		return true
	}
	if n == len(v) {
		return false
	}
	p.step = (*Parser).pyEquals
	return true
}

func (p *Parser) pyEquals() bool {
	v := p.skipSpace()
	x := &p.python
	switch {
	case v == "":
		return false
	case v[0] != '=' || slices.Contains(x.seen, string(x.key)) || len(x.seen) >= maxParameters:
		p.reject(Malformed)
		return true
	}
	p.take(1)
	lead := ", "
	if len(x.seen) == 0 {
		lead = "{"
	}
	x.seen = append(x.seen, string(x.key))
	p.arg(lead + quote(string(x.key)) + ": ")
	x.value.reset(p.o.Limits.Depth)
	p.step = (*Parser).pyArgumentValue
	return true
}

// pyArgumentValue reads a value.
func (p *Parser) pyArgumentValue() bool {
	v := p.view()
	if v == "" {
		return false
	}
	x := &p.python
	d := more
	n := 0
	for n < len(v) && d == more {
		d = x.value.step(v[n])
		n++
	}
	if d != more && d != done {
		n--
	}
	p.take(n)
	p.arg(string(x.value.out))
	x.value.out = x.value.out[:0]
	switch d {
	case more:
	case done, before:
		p.step = (*Parser).pyComma
	case deep:
		p.reject(TooLong)
	default:
		p.reject(Malformed)
	}
	return true
}

// pyComma is after a value.
func (p *Parser) pyComma() bool {
	v := p.skipSpace()
	switch {
	case v == "":
		return false
	case v[0] == ',':
		p.take(1)
		p.step = (*Parser).pyArgument
	case v[0] == ')':
		p.step = (*Parser).pyArgument
	default:
		p.reject(Malformed)
	}
	return true
}

// pyNext is after a call: another one, or the end.
func (p *Parser) pyNext() bool {
	v := skipLeft(p.view())
	switch {
	case v == "":
		return false
	case p.python.bracket && v[0] == ',', !p.python.bracket && isWord(v[0]):
		p.skipSpace()
		if v[0] == ',' {
			p.take(1)
		}
		p.recording, p.inList = true, true
		p.name, p.tool = "", nil
		p.head = p.head[:0]
		p.step = (*Parser).pyName
	case p.python.bracket && v[0] == ']':
		p.skipSpace()
		p.take(1)
		p.close()
	default:
		p.close()
	}
	return true
}
