package toolcalls

import "slices"

// call is the state of the call being read, beside its body's own.
type call struct {
	raw       []byte // the call's source, up to Limits.Call
	recording bool   // raw is being kept: a call may be here
	inHeader  bool   // raw is a header of Channels, and not yet a call
	open      bool   // CallBegin was told, CallEnd not
	failed    Reason // why the call can't be used any more; its source is still being read
	again     bool   // another call of the same list or section came before
	inTail    bool   // after a call's body, at what closes it
	bare      bool   // the call began without a marker
	marker    string // the Begin that opened it
	array     bool   // inside an array of calls
	index     int    // of the last call told; -1 before the first
	calls     int    // calls that ended
	ids       []string
	name      string
	tool      *Tool
	answer    string // the key whose value is content, for a name that is no tool

	object object
	tagged tagged
	python python
	head   []byte
	value  scan
}

// openMarker begins what may be a section or a call, at a marker.
func (p *Parser) openMarker(m string, origin Kind) {
	wasSection := p.inSection
	p.openCall(m, origin)
	p.again = wasSection && p.used
	p.take(len(m))
	if slices.Contains(p.f.Section.Begin, m) && !slices.Contains(p.f.Call.Begin, m) {
		p.inSection, p.used = true, false
		p.step = (*Parser).section
		return
	}
	p.inSection = wasSection
}

// openCall begins to keep the source of what may be a call and goes to its body.
func (p *Parser) openCall(m string, origin Kind) {
	if !p.recording {
		p.raw = p.raw[:0]
	}
	p.recording, p.again, p.bare, p.array = true, false, false, false
	p.origin, p.marker, p.name, p.tool, p.answer = origin, m, "", nil, ""
	p.head = p.head[:0]
	p.step = (*Parser).body
}

// keep adds to the call's source.
func (p *Parser) keep(s string) {
	p.raw = append(p.raw, s[:min(len(s), max(0, p.o.Limits.Call-len(p.raw)))]...)
}

// body looks at the first byte to tell which body it is.
func (p *Parser) body() bool {
	v := p.skipSpace()
	f := p.f
	switch {
	case f.Tagged != nil:
		p.tagged = tagged{}
		p.step = (*Parser).taggedName
	case v == "":
		return false
	case f.Python != nil:
		p.startPython(v[0])
	case f.JSON != nil && (v[0] == '{' || v[0] == '[' && f.Bare != "[" && !p.bare):
		p.startJSON(v[0])
	case f.Named != nil && !p.bare:
		p.step = (*Parser).named
	default:
		p.refuse(Malformed)
	}
	return true
}

// gather reads a name or a header up to one of the markers, which is not consumed. Without a marker more text is needed,
// or, when it did something, the text was too long and the call is refused. What is consumed until then does not depend
// on how much of the text is there.
func (p *Parser) gather(set *markers) (marker string, did bool) {
	v := p.view()
	room := maxText - len(p.head)
	some := v[:min(len(v), room+maxMarker)]
	at, m := set.find(some, p.whole() && len(some) == len(v))
	if at > room {
		p.head = append(p.head, p.take(room)...)
		p.refuse(Malformed)
		return "", true
	}
	p.head = append(p.head, p.take(at)...)
	return m, m != ""
}

// skipSpace consumes white space inside a call and returns the view after it.
func (p *Parser) skipSpace() string {
	v := p.view()
	n := 0
	for n < len(v) && isSpace(v[n]) {
		n++
	}
	p.take(n)
	return v[n:]
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// begin tells the call when its name is known. False: the call was refused, and the state is another one.
func (p *Parser) begin(name, id string) bool {
	if j := p.f.JSON; j != nil && j.Answers[name] != "" && !p.object.plain && p.o.Choice.Mode == Auto {
		p.name, p.answer = name, j.Answers[name]
		p.settle()
		p.recording = false // it can't be refused any more: its content is told as it comes
		p.raw = p.raw[:0]
		return true
	}
	tool := p.offered(name)
	switch {
	case tool == nil:
		p.name = name
		p.refuse(UnknownTool)
		return false
	case p.o.Choice.Single && p.index >= 0 || p.index+1 >= p.o.Limits.Calls:
		p.name = name
		p.refuse(TooMany)
		return false
	}
	p.settle()
	p.index++
	p.name, p.tool, p.open, p.owed = name, tool, true, false
	p.origin = Content                          // text after a call is no reasoning any more
	if id == "" || slices.Contains(p.ids, id) { // a model may write the same one twice, and results refer to it
		id = p.f.id(p.o.Seed, p.index)
	}
	p.ids = append(p.ids, id)
	p.tell(Event{Kind: CallBegin, Index: p.index, Name: name, ID: id})
	return true
}

// offered is the tool of that name, if the choice allows it.
func (p *Parser) offered(name string) *Tool {
	if p.o.Choice.Mode == Exact && name != p.o.Choice.Name {
		return nil
	}
	for i := range p.o.Tools {
		if p.o.Tools[i].Name == name {
			return &p.o.Tools[i]
		}
	}
	return nil
}

// arg adds to the arguments of the open call.
func (p *Parser) arg(s string) { p.emit(Arguments, p.index, s) }

// endCall tells that the call is complete.
func (p *Parser) endCall() {
	if p.open {
		p.tell(Event{Kind: CallEnd, Index: p.index})
		p.calls++
	}
	p.used = true
	p.open, p.recording = false, false
	p.raw = p.raw[:0]
	p.space = ""
}

// refuse says that what was taken for a call can't be used. Before CallBegin, in Auto, its text is what it was before:
// content or reasoning. Otherwise the call fails when its source ends.
func (p *Parser) refuse(why Reason) {
	p.inHeader = false
	if p.open || p.o.Choice.Mode != Auto && p.o.Choice.Mode != None || why == TooMany {
		p.failed = why
		p.step = (*Parser).broken
		if p.end {
			p.keep(p.buf)
			p.buf = ""
			p.fail(why)
		}
		return
	}
	text := string(p.raw)
	p.owed = p.inSection && p.used
	p.recording, p.inSection = false, false
	p.raw = p.raw[:0]
	if p.origin == Content {
		p.started = true
		p.owedText()
	}
	p.say(p.origin, text)
	switch {
	case p.f.Channels != nil:
		p.step = (*Parser).message
	case p.origin == Reasoning:
		p.step = (*Parser).reasoning
	default:
		p.step = (*Parser).content
	}
}

// broken reads on to the end of a call that can't be used.
func (p *Parser) broken() bool {
	p.recording = false
	at, m := p.f.ends.find(p.buf, p.end)
	p.keep(p.take(at))
	if m == "" {
		return false
	}
	again := slices.Contains(p.f.Call.Begin, m) || p.f.Channels != nil && m == p.f.Channels.Start
	if !again {
		p.keep(m)
		p.take(len(m))
	}
	p.fail(p.failed)
	if slices.Contains(p.f.Section.End, m) {
		p.inSection = false
	}
	p.rest()
	return true
}

// fail tells that the call can't be used and why.
func (p *Parser) fail(why Reason) {
	index := -1
	if p.open {
		index = p.index
	} else {
		p.settle()
	}
	p.tell(Event{Kind: CallFailed, Index: index, Name: p.name, Reason: why, Text: string(p.raw)})
	p.open, p.recording, p.failed, p.used = false, false, "", true
	p.raw = p.raw[:0]
}

// close goes to what closes a call, after its body.
func (p *Parser) close() {
	p.inTail = true
	p.step = (*Parser).tail
}

// tail is after a call's body: what closes the call.
func (p *Parser) tail() bool {
	v := p.buf
	if n := len(v) - len(skipLeft(v)); n > 0 {
		p.hold(Content, p.take(n))
		return true
	}
	if v == "" && !p.end {
		return false
	}
	m, waiting := p.f.afterCall.at(v, p.end)
	switch {
	case waiting:
		return false
	case m == "":
		p.owed = len(p.f.Call.End)+len(p.f.Section.End) > 0
		p.rest()
		return true
	}
	p.take(len(m))
	if slices.Contains(p.f.Call.End, m) || p.f.Channels != nil {
		p.space = ""
		p.owed = !p.inSection && len(p.f.Section.End) > 0
		p.rest()
	}
	return true
}

func skipLeft(s string) string {
	n := 0
	for n < len(s) && isSpace(s[n]) {
		n++
	}
	return s[n:]
}
