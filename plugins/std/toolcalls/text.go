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
		p.hold(Content, p.take(n))
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
		return p.meet(m)
	case strings.IndexByte(p.f.Bare, v[0]) >= 0 && !p.started && p.looks():
		p.openCall("", Content)
		p.bare = true
		return true
	}
	p.started = true
	p.owedText()
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

// owedText tells the white space held back at a place where text follows.
func (p *Parser) owedText() {
	if p.dropSpace {
		p.space = ""
	}
	p.release(Content)
}

// content is the answer's text.
func (p *Parser) content() bool {
	at, m := p.f.inText.find(p.buf, p.end)
	p.say(Content, p.take(at))
	if m == "" {
		return false
	}
	return p.meet(m)
}

// reasoning is the text that the model thinks.
func (p *Parser) reasoning() bool {
	set := p.f.inReasoning
	at, m := set.find(p.buf, p.end)
	p.say(Reasoning, p.take(at))
	switch {
	case m == "":
		return false
	case slices.Contains(p.f.Reasoning.End, m):
		p.take(len(m))
		p.leaveReasoning()
	case !p.looks():
		p.say(Reasoning, p.take(len(m)))
	default:
		p.openMarker(m, Reasoning)
	}
	return true
}

// thinkAgain is the beginning of a message whose prompt opened the reasoning: a model may open it once more.
func (p *Parser) thinkAgain() bool {
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

// meet acts on a marker that stands at the beginning of the buffer, outside of reasoning and calls.
func (p *Parser) meet(m string) bool {
	f := p.f
	switch {
	case slices.Contains(f.thinkBegin.list, m) && !p.started:
		p.take(len(m))
		p.space = ""
		p.enterReasoning()
	case !p.started && p.calls == 0 && p.f.Reasoning != nil && slices.Contains(p.f.Reasoning.End, m):
		p.take(len(m)) // the end of reasoning that the prompt closed, or never opened
		p.leaveReasoning()
	case p.owed && (slices.Contains(f.Call.End, m) || slices.Contains(f.Section.End, m)):
		p.take(len(m))
		p.owed = slices.Contains(f.Call.End, m) && !slices.Contains(f.Section.End, m) && len(f.Section.End) > 0
	case slices.Contains(f.Drop, m):
		p.take(len(m))
	case (slices.Contains(f.Section.Begin, m) || slices.Contains(f.Call.Begin, m)) && p.looks():
		p.openMarker(m, Content)
	case slices.Contains(f.Fence.Begin, m) && !p.started && p.looks():
		p.openMarker(m, Content)
		p.bare = true
	default:
		p.started = true
		p.owedText()
		p.say(Content, p.take(len(m)))
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
			p.hold(Content, s)
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
		p.rest()
	case slices.Contains(p.f.Call.Begin, m):
		if p.used {
			p.space = ""
		}
		p.openMarker(m, p.origin)
	case p.used:
		p.inSection = false
		p.owed = true
		p.rest()
	default:
		p.refuse(Malformed)
	}
	return true
}

// rest goes on after a call, a section, or a message's part.
func (p *Parser) rest() {
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
