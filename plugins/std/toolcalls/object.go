package toolcalls

import (
	"slices"
	"strings"

	"tgi/sdk/go/params"
)

// object is the state of a JSON body: one object with the call's name and arguments.
type object struct {
	at        objectPlace
	level     int // 1 inside the object, 2 inside a wrapped one
	valueRole valueRole
	key       string
	rawKey    string
	text      []byte // a key, a name or an id being read; with its quotes
	read      int    // bytes of it
	held      []byte // arguments that came before the name
	id        string
	named     bool
	plain     bool // of a Flat body: the arguments are not the name's neighbours
	args      bool // the arguments were read
	members   int  // of a Flat body
}

type objectPlace uint8

const (
	objectFirst objectPlace = iota // after {: a key or }
	objectKey                      // after a comma
	objectInKey
	objectColon
	objectValue
	objectInside // in a value
	objectComma
)

// valueRole is what a member's value is for.
type valueRole uint8

const (
	ignoredValue valueRole = iota // nothing
	nameValue
	idValue
	argumentsValue
	encodedArguments // arguments as a string that holds JSON
	flatArgument     // one argument
	answerValue      // content
)

// maxText bounds a name, an id and a key of a call, in bytes.
const maxText = 1024

// startJSON goes to an object or an array of objects whose first byte is c.
func (p *Parser) startJSON(c byte) {
	p.take(1)
	if c == '[' {
		p.array = true
		p.step = (*Parser).elements
		return
	}
	p.startObject()
}

func (p *Parser) startObject() {
	p.object = object{level: 1, text: p.object.text[:0], held: p.object.held[:0]}
	p.step = (*Parser).inObject
}

// elements is between the objects of an array.
func (p *Parser) elements() bool {
	v := p.skipSpace()
	if v == "" {
		return false
	}
	switch {
	case v[0] == '{':
		if !p.recording {
			p.recording, p.inList = true, true
			p.name, p.tool, p.answer = "", nil, ""
		}
		p.take(1)
		p.startObject()
	case p.recording:
		p.reject(Malformed)
	case v[0] == ',':
		p.take(1)
	case v[0] == ']':
		p.take(1)
		p.close()
	default:
		p.endMarkerDue = len(p.f.Call.End) > 0
		p.afterCall()
	}
	return true
}

// inObject takes the next byte of the object, or all that is there of a value.
func (p *Parser) inObject() bool {
	o := &p.object
	v := p.view()
	if o.at == objectInside || o.at == objectInKey {
		return v != "" && p.inValue(v)
	}
	if v = p.skipSpace(); v == "" {
		return false
	}
	c := v[0]
	if o.at == objectValue {
		p.startValue(c)
		return true
	}
	switch {
	case c == '"' && (o.at == objectFirst || o.at == objectKey):
		o.at = objectInKey
		o.text, o.read = o.text[:0], 0
		p.value = newScan(p.o.Limits.Depth, p.value.stack)
		return true
	case c == ':' && o.at == objectColon:
		o.at = objectValue
	case c == ',' && o.at == objectComma:
		o.at = objectKey
	case c == '}' && (o.at == objectComma || o.at == objectFirst):
		p.take(1)
		p.closeObject()
		return true
	default:
		p.reject(Malformed)
		return true
	}
	p.take(1)
	return true
}

// startValue decides what the value after a key is for; c is its first byte.
func (p *Parser) startValue(c byte) {
	o, j := &p.object, p.f.JSON
	o.valueRole = ignoredValue
	flat := j.Flat && o.level == 2 && !o.plain
	if flat && !o.named && o.members == 0 && p.startsPlain(c) {
		flat, o.plain = false, true
	}
	switch {
	case o.level == 1 && c == '{' && slices.Contains(j.Wrap, o.key):
		p.take(1)
		o.level, o.at = 2, objectFirst
		return
	case slices.Contains(j.NameKeys, o.key) && (flat || !j.Flat) && !o.named:
		o.valueRole = nameValue
	case j.Flat && !flat && !o.named && slices.Contains(j.PlainKeys, o.key):
		o.valueRole, o.plain = nameValue, true
	case flat && p.answer == o.key && p.answer != "":
		o.valueRole = answerValue
	case flat:
		o.valueRole = flatArgument
		p.member()
	case slices.Contains(j.ArgumentKeys, o.key):
		if o.args || c != '{' && c != '"' && c != 'n' {
			p.reject(Malformed)
			return
		}
		o.args = true
		o.valueRole = argumentsValue
		switch {
		case p.answer != "":
			o.valueRole = ignoredValue
		case c == '"':
			o.valueRole = encodedArguments
		case c == 'n': // null
			o.valueRole = ignoredValue
			p.addArguments("{}")
		}
	case slices.Contains(j.IDKeys, o.key):
		o.valueRole = idValue
	}
	o.at = objectInside
	o.text, o.read = o.text[:0], 0
	p.value = newScan(p.o.Limits.Depth, p.value.stack)
}

// startsPlain says whether the first key of a wrapped object, whose value begins with c, is one of a body that is not
// Flat.
func (p *Parser) startsPlain(c byte) bool {
	j, key := p.f.JSON, p.object.key
	return slices.Contains(j.PlainKeys, key) || len(j.PlainKeys) > 0 && c == '{' && slices.Contains(j.ArgumentKeys, key)
}

// member begins an argument of a Flat body.
func (p *Parser) member() {
	o := &p.object
	lead := ", "
	if o.members == 0 {
		lead = "{"
	}
	o.members++
	p.addArguments(lead + o.rawKey + ": ")
}

// addArguments takes a part of the arguments: emitted, or held until the name is known.
func (p *Parser) addArguments(s string) {
	switch {
	case p.open:
		p.arg(s)
	case p.answer == "":
		p.object.held = append(p.object.held, s...)
	}
}

// pass scans the value at the beginning of v and gives its source on, control characters in strings escaped. It
// returns how much of v it read.
func (p *Parser) pass(v string, to func(string)) (int, verdict) {
	from := 0
	for i := 0; i < len(v); i++ {
		switch d := p.value.step(v[i]); d {
		case more:
		case escapeByte:
			to(v[from:i])
			to(escaped(v[i]))
			from = i + 1
		case done:
			to(v[from : i+1])
			return i + 1, d
		default:
			to(v[from:i])
			return i, d
		}
	}
	to(v[from:])
	return len(v), more
}

// inValue reads on in a key or a value.
func (p *Parser) inValue(v string) bool {
	o := &p.object
	short := o.at == objectInKey || o.valueRole == nameValue || o.valueRole == idValue
	if short {
		v = v[:min(len(v), maxText+1-o.read)]
	}
	to := func(string) {}
	switch {
	case o.at == objectInKey || o.valueRole == nameValue || o.valueRole == idValue || o.valueRole == encodedArguments ||
		o.valueRole == answerValue:
		to = func(s string) { o.text = append(o.text, s...) }
	case o.valueRole == argumentsValue || o.valueRole == flatArgument:
		to = p.addArguments
	}
	n, d := p.pass(v, to)
	p.take(n)
	o.read += n
	if o.valueRole == answerValue && o.at == objectInside {
		p.emitAnswer(d)
	}
	switch {
	case d == deep:
		p.reject(TooLong)
	case d == wrong || short && o.read > maxText:
		p.reject(Malformed)
	case d == more:
		return true
	case o.at == objectInKey:
		p.endKey()
	default:
		p.endValue()
	}
	return true
}

// emitAnswer emits the part that has arrived of a string that is content.
func (p *Parser) emitAnswer(d verdict) {
	o := &p.object
	source := o.text
	if len(source) > 0 && o.members == 0 { // the opening quote
		if source[0] != '"' {
			p.reject(Malformed)
			return
		}
		source = source[1:]
		o.members = 1
	}
	if d == done {
		source = source[:len(source)-1]
	}
	text, rest := unquoteSome(source)
	if d == done {
		rest = nil
	}
	o.text = append(o.text[:0], rest...)
	p.started = true
	p.emitText(Content, text)
}

func (p *Parser) endKey() {
	o, j := &p.object, p.f.JSON
	key, ok := unquote(o.text)
	o.key, o.rawKey = key, string(o.text)
	o.at = objectColon
	known := slices.Contains(j.NameKeys, key) || slices.Contains(j.ArgumentKeys, key) ||
		slices.Contains(j.IDKeys, key) ||
		slices.Contains(j.Wrap, key) || slices.Contains(j.PlainKeys, key) || key == "type"
	// An answer may itself be a JSON object. It is told at once when its first key can't be a call's.
	if !ok || p.bare && !known && o.level == 1 && !o.named && !o.args {
		p.reject(Malformed)
	}
}

func (p *Parser) endValue() {
	o := &p.object
	o.at = objectComma
	switch o.valueRole {
	case nameValue:
		name, ok := unquote(o.text)
		if !ok || name == "" {
			p.reject(Malformed)
			return
		}
		o.named = true
		if !p.begin(name, o.id) {
			return
		}
		if p.answer != "" {
			p.emitHeldAnswer()
			return
		}
		p.arg(string(o.held))
		o.held = o.held[:0]
	case idValue:
		o.id = string(o.text)
		if id, ok := unquote(o.text); ok {
			o.id = id
		}
	case encodedArguments:
		inner, ok := unquote(o.text)
		inner = strings.Trim(inner, whiteSpace)
		if inner == "" {
			inner = "{}"
		}
		if !ok || inner[0] != '{' || !isOneValue(inner, p.o.Limits.Depth) {
			p.reject(Malformed)
			return
		}
		p.addArguments(inner)
	}
}

// emitHeldAnswer emits the content of an answer whose members came before its name.
func (p *Parser) emitHeldAnswer() {
	o := &p.object
	if len(o.held) > 0 {
		text := ""
		r := params.Read(append(o.held, '}'))
		for key := range r.Object() {
			if key == p.answer && r.Peek() == '"' {
				text = r.String()
			} else {
				r.Skip()
			}
		}
		if r.Close() == nil {
			p.started = true
			p.emitText(Content, text)
		}
	}
	o.held = o.held[:0]
	o.members = 0
}

// closeObject is after a closing brace.
func (p *Parser) closeObject() {
	o, j := &p.object, p.f.JSON
	if o.level == 2 {
		o.level, o.at = 1, objectComma
		if j.Flat && !o.plain {
			o.args = true
			if o.members == 0 {
				p.addArguments("{")
			}
			p.addArguments("}")
		}
		return
	}
	if !o.named {
		p.reject(Malformed)
		return
	}
	if !o.args {
		p.addArguments("{}")
	}
	p.endCall()
	p.answer = ""
	if p.array {
		p.step = (*Parser).elements
		return
	}
	p.close()
}
