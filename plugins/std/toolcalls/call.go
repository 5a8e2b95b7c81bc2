package toolcalls

import "slices"

// call is the state of the call being read, beside its body's own.
type call struct {
	raw       []byte // the call's source, up to Limits.Call
	recording bool   // raw is being kept: a call may be here
	inHeader  bool   // raw is a header of Channels, and not yet a call
	open      bool   // CallBegin was emitted, CallEnd not
	failed    Reason // why the call can't be used any more; its source is still being read
	inList    bool   // another call of the same list or section came before
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
	p.inList = wasSection && p.used
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
	p.recording, p.inList, p.bare, p.array = true, false, false, false
	p.origin, p.marker, p.name, p.tool, p.answer = origin, m, "", nil, ""
	p.head = p.head[:0]
	p.step = (*Parser).body
}

// recordSource adds to the source of the call, up to its limit.
func (p *Parser) recordSource(s string) {
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
		p.reject(Malformed)
	}
	return true
}

// readUntil reads a name or a header up to one of the markers, which is not consumed. Without a marker more text is
// needed, or, when it did something, the text was too long and the call is refused. What is consumed until then does
// not depend on how much of the text is there.
func (p *Parser) readUntil(set *markers) (marker string, did bool) {
	v := p.view()
	room := maxText - len(p.head)
	some := v[:min(len(v), room+maxMarker)]
	at, m := set.find(some, p.whole() && len(some) == len(v))
	if at > room {
		p.head = append(p.head, p.take(room)...)
		p.reject(Malformed)
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

// begin emits CallBegin once the name is known. It returns false if the call was rejected; the state has changed then.
func (p *Parser) begin(name, id string) bool {
	if j := p.f.JSON; j != nil && j.Answers[name] != "" && !p.object.plain && p.o.Choice.Mode == Auto {
		p.name, p.answer = name, j.Answers[name]
		p.settleSpace()
		p.recording = false // it can't be refused any more: its content is told as it comes
		p.raw = p.raw[:0]
		return true
	}
	tool := p.findTool(name)
	switch {
	case tool == nil:
		p.name = name
		p.reject(UnknownTool)
		return false
	case p.o.Choice.Single && p.index >= 0 || p.index+1 >= p.o.Limits.Calls:
		p.name = name
		p.reject(TooMany)
		return false
	}
	p.settleSpace()
	p.index++
	p.name, p.tool, p.open, p.endMarkerDue = name, tool, true, false
	p.origin = Content                          // text after a call is no reasoning any more
	if id == "" || slices.Contains(p.ids, id) { // a model may write the same one twice, and results refer to it
		id = p.f.id(p.o.Seed, p.index)
	}
	p.ids = append(p.ids, id)
	p.emitEvent(Event{Kind: CallBegin, Index: p.index, Name: name, ID: id})
	return true
}

// findTool finds a tool by name; nil if the choice does not allow it.
func (p *Parser) findTool(name string) *Tool {
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

// endCall emits CallEnd.
func (p *Parser) endCall() {
	if p.open {
		p.emitEvent(Event{Kind: CallEnd, Index: p.index})
		p.calls++
	}
	p.used = true
	p.open, p.recording = false, false
	p.raw = p.raw[:0]
	p.space = ""
}

// reject gives up a call that can't be used. In Auto, before CallBegin, its text becomes content or reasoning again.
// Otherwise the call fails when its source ends.
func (p *Parser) reject(why Reason) {
	p.inHeader = false
	if p.open || p.o.Choice.Mode != Auto && p.o.Choice.Mode != None || why == TooMany {
		p.failed = why
		p.step = (*Parser).skipRejected
		if p.end {
			p.recordSource(p.buf)
			p.buf = ""
			p.fail(why)
		}
		return
	}
	text := string(p.raw)
	p.endMarkerDue = p.inSection && p.used
	p.recording, p.inSection = false, false
	p.raw = p.raw[:0]
	if p.origin == Content {
		p.started = true
		p.beginText()
	}
	p.emitText(p.origin, text)
	switch {
	case p.f.Channels != nil:
		p.step = (*Parser).message
	case p.origin == Reasoning:
		p.step = (*Parser).reasoning
	default:
		p.step = (*Parser).content
	}
}

// skipRejected reads to the end of a rejected call.
func (p *Parser) skipRejected() bool {
	p.recording = false
	at, m := p.f.ends.find(p.buf, p.end)
	p.recordSource(p.take(at))
	if m == "" {
		return false
	}
	again := slices.Contains(p.f.Call.Begin, m) || p.f.Channels != nil && m == p.f.Channels.Start
	if !again {
		p.recordSource(m)
		p.take(len(m))
	}
	p.fail(p.failed)
	if slices.Contains(p.f.Section.End, m) {
		p.inSection = false
	}
	p.afterCall()
	return true
}

// fail emits CallFailed with its reason.
func (p *Parser) fail(why Reason) {
	index := -1
	if p.open {
		index = p.index
	} else {
		p.settleSpace()
	}
	p.emitEvent(Event{Kind: CallFailed, Index: index, Name: p.name, Reason: why, Text: string(p.raw)})
	p.open, p.recording, p.failed, p.used = false, false, "", true
	p.raw = p.raw[:0]
}

// close begins to read what closes a call.
func (p *Parser) close() {
	p.inTail = true
	p.step = (*Parser).callTail
}

// callTail reads what closes a call after its body.
func (p *Parser) callTail() bool {
	v := p.buf
	if n := len(v) - len(skipLeft(v)); n > 0 {
		p.holdSpace(Content, p.take(n))
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
		p.endMarkerDue = len(p.f.Call.End)+len(p.f.Section.End) > 0
		p.afterCall()
		return true
	}
	p.take(len(m))
	if slices.Contains(p.f.Call.End, m) || p.f.Channels != nil {
		p.space = ""
		p.endMarkerDue = !p.inSection && len(p.f.Section.End) > 0
		p.afterCall()
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
