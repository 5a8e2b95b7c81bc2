package toolcalls

import (
	"slices"
	"strings"
)

// start is where reasoning or a bare call may begin: at the beginning, and after reasoning or a call.
func (p *Parser) start() bool {
	v := p.buf
	n := len(v) - len(strings.TrimLeft(v, whiteSpace+p.separators()))
	if n > 0 {
		p.holdSpace(Content, p.take(n))
		return true
	}
	if v == "" {
		return false
	}
	m, waiting := p.f.atStart.at(v, p.end)
	switch {
	case waiting:
		return false
	case m != "":
		return p.onMarker(m)
	case strings.IndexByte(p.f.Bare, v[0]) >= 0 && !p.started && p.callsAllowed():
		p.openCall("", Content)
		p.bare = true
		return true
	}
	p.started = true
	p.beginText()
	p.step = (*Parser).content
	return true
}

// separators are the bytes that may stand between bare calls.
func (p *Parser) separators() string {
	if p.calls > 0 && !p.started && p.f.JSON != nil {
		return p.f.JSON.Separators
	}
	return ""
}

// beginText emits the white space held back where text follows.
func (p *Parser) beginText() {
	if p.dropSpace {
		p.space = ""
	}
	p.flushSpace(Content)
}

// content reads the answer's text.
func (p *Parser) content() bool {
	at, m := p.f.inText.find(p.buf, p.end)
	p.emitText(Content, p.take(at))
	if m == "" {
		return false
	}
	return p.onMarker(m)
}

// reasoning reads the text of the model's reasoning.
func (p *Parser) reasoning() bool {
	set := p.f.inReasoning
	at, m := set.find(p.buf, p.end)
	p.emitText(Reasoning, p.take(at))
	switch {
	case m == "":
		return false
	case slices.Contains(p.f.Reasoning.End, m):
		p.take(len(m))
		p.leaveReasoning()
	case !p.callsAllowed():
		p.emitText(Reasoning, p.take(len(m)))
	default:
		p.openMarker(m, Reasoning)
	}
	return true
}

// repeatedReasoning begins a message whose prompt opened the reasoning: a model may repeat the opening marker.
func (p *Parser) repeatedReasoning() bool {
	if n := len(p.buf) - len(strings.TrimLeft(p.buf, whiteSpace)); n > 0 {
		p.take(n)
	}
	m, waiting := p.f.thinkBegin.at(p.buf, p.end)
	if waiting {
		return false
	}
	p.take(len(m))
	p.step = (*Parser).reasoning
	return true
}

// onMarker handles a marker at the beginning of the buffer, outside reasoning and calls.
func (p *Parser) onMarker(m string) bool {
	f := p.f
	switch {
	case slices.Contains(f.thinkBegin.list, m) && !p.started:
		p.take(len(m))
		p.space = ""
		p.enterReasoning()
	case !p.started && p.calls == 0 && p.f.Reasoning != nil && slices.Contains(p.f.Reasoning.End, m):
		p.take(len(m)) // the end of reasoning that the prompt closed, or never opened
		p.leaveReasoning()
	case p.endMarkerDue && (slices.Contains(f.Call.End, m) || slices.Contains(f.Section.End, m)):
		p.take(len(m))
		p.endMarkerDue = slices.Contains(f.Call.End, m) && !slices.Contains(f.Section.End, m) && len(f.Section.End) > 0
	case slices.Contains(f.Drop, m):
		p.take(len(m))
	case (slices.Contains(f.Section.Begin, m) || slices.Contains(f.Call.Begin, m)) && p.callsAllowed():
		p.openMarker(m, Content)
	case slices.Contains(f.Fence.Begin, m) && !p.started && p.callsAllowed():
		p.openMarker(m, Content)
		p.bare = true
	default:
		p.started = true
		p.beginText()
		p.emitText(Content, p.take(len(m)))
		p.step = (*Parser).content
	}
	return true
}

func (p *Parser) enterReasoning() {
	p.origin = Reasoning
	p.dropSpace = true
	p.step = (*Parser).reasoning
}

func (p *Parser) leaveReasoning() {
	p.space, p.spaceFull = "", false
	p.origin = Content
	p.started = false
	p.dropSpace = true
	p.step = (*Parser).start
}

// section is between the calls of a section.
func (p *Parser) section() bool {
	v := p.view()
	if n := len(v) - len(strings.TrimLeft(v, whiteSpace)); n > 0 {
		s := p.take(n)
		if !p.recording {
			p.holdSpace(Content, s)
		}
		return true
	}
	m, waiting := p.f.inSection.at(v, p.whole())
	switch {
	case v == "" || waiting:
		return false
	case slices.Contains(p.f.Section.End, m) && p.used:
		p.take(len(m))
		p.space = "" // between calls it is layout
		p.inSection = false
		p.afterCall()
	case slices.Contains(p.f.Call.Begin, m):
		if p.used {
			p.space = ""
		}
		p.openMarker(m, p.origin)
	case p.used:
		p.inSection = false
		p.endMarkerDue = true
		p.afterCall()
	default:
		p.reject(Malformed)
	}
	return true
}

// afterCall continues after a call, a section, or a part of a message.
func (p *Parser) afterCall() {
	p.inTail = false
	if p.inSection {
		p.step = (*Parser).section
		return
	}
	p.origin = Content
	p.started = false
	p.dropSpace = !p.f.KeepSpace
	p.step = (*Parser).start
	if p.f.Channels != nil {
		p.step = (*Parser).header
	}
}
